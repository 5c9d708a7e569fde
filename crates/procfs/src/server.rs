//! Answers what is asked of the tree.

use crate::ahead::Ahead;
use crate::contents::{self, Contents, Looker, What as Found};
use crate::crew::Crew;
use crate::directories::Directories;
use crate::ghosts::{Ghost, Ghosts};
use crate::guide::Guide;
use crate::inodes::{Inode, Inodes, Told};
use crate::machines::{Machines, RENEWED_US};
use crate::names::{is_directory, is_guarded, is_link, Place};
use crate::natives::Natives;
use crate::passes::Passes;
use crate::whole::Whole;
use kern::clock::monotonic_us;
use kern::fuse::tree::{Asked, Named, Shown, Tree, What, ROOT};
use kern::proc::PROC;
use std::sync::{Arc, PoisonError, RwLockReadGuard};
use vocab::errno::{EACCES, ENOENT, ESRCH};
use vocab::Pid;

/// For how long a name is what it is that is so as long as its ghost is, in microseconds.
const FOREVER_US: u64 = 1_000_000_000_000;
/// What a link's length is said to be.
const LINK_SIZE: u64 = 64;

type Result<T> = std::result::Result<T, i32>;

/// What all threads that serve share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) tree: Arc<Tree>,
    pub(crate) ghosts: Arc<Ghosts>,
    pub(crate) machines: Arc<Machines>,
    pub(crate) crew: Arc<Crew>,
    pub(crate) guide: Arc<Guide>,
    /// Processes are for their users and those of this group, as they are in /proc without ghosts (hidepid, proc(5)).
    pub(crate) hidden_from_all_but: Option<u32>,
    /// Of a view that is all of /proc.
    natives: Option<Natives>,
    pub(crate) whole: Whole,
    inodes: Inodes,
    passes: Passes,
    open: Directories,
    pub(crate) ahead: Arc<Ahead>,
}

impl Server {
    pub(crate) fn new(
        tree: Arc<Tree>,
        ghosts: Arc<Ghosts>,
        machines: Arc<Machines>,
        crew: Arc<Crew>,
        hidden_from_all_but: Option<u32>,
        natives: Option<Natives>,
        ahead: Ahead,
    ) -> Server {
        let (inodes, passes, open) = (Inodes::default(), Passes::default(), Directories::default());
        let (guide, whole, ahead) = (Arc::default(), Whole::default(), Arc::new(ahead));
        Server { tree, ghosts, machines, crew, guide, hidden_from_all_but, natives, whole, inodes, passes, open, ahead }
    }

    /// Serves until the tree is not mounted any more, as one thread of several.
    pub(crate) fn serve(&self, thread: usize) {
        crate::run_first();
        self.guide.joins();
        let mut room = Tree::room();
        self.crew.begin();
        while let Ok(asked) = self.tree.next_request(&mut room) {
            let unique = asked.unique;
            self.crew.takes(thread);
            if self.ahead.whom().is_none() || self.ahead.is(asked.pid) {
                self.guide.sees(asked.pid);
            }
            let been = self.ahead.has_been(asked.pid);
            if let Err(errno) = self.answer(asked) {
                self.tree.fail(unique, errno);
            }
            if let Some(pid) = been {
                self.store(pid);
            }
            self.crew.is_done(thread);
            self.crew.go_on();
        }
    }

    /// A ghost is not as it was: neither this nor the kernel takes for true any longer what was told. `other`: what is guarded is another user's, perhaps.
    /// Not for a thread that serves.
    pub(crate) fn outdate(&self, pid: Pid, other: bool) {
        let all = if other { self.inodes.of(pid) } else { self.inodes.common(pid) };
        for inode in all {
            if !inode.is_current() {
                self.tree.remove(inode.parent, &inode.name());
            }
            self.forget(&inode);
        }
    }

    /// What was told of it counts no longer.
    fn forget(&self, inode: &Inode) {
        if let Some(told) = inode.told().as_mut() {
            told.until_us = 0;
        }
        self.tree.outdate(inode.number);
    }

    /// What is kept of what nobody needs any more is forgotten.
    pub(crate) fn purge(&self) {
        self.inodes.purge(monotonic_us());
        self.machines.purge();
    }

    fn answer(&self, asked: Asked) -> Result<()> {
        let unique = asked.unique;
        if self.whole.is_asked(&asked) {
            if let Some(names) = self.whole.answer(&asked, &self.tree, &self.machines)? {
                self.tree.opened(unique, self.open.add(names));
            }
            return Ok(());
        }
        match &asked.what {
            What::Nothing => {}
            What::Forget(nodes) => nodes.iter().for_each(|(node, times)| self.inodes.forget(*node, *times)),
            What::CloseDirectory { handle } => {
                self.open.close(*handle);
            }
            What::Lookup(name) => match self.look_up(&asked, name)? {
                Some(shown) => self.tree.found(unique, &shown),
                None => self.tree.nothing(unique, FOREVER_US),
            },
            What::Attributes if asked.node == ROOT => {
                let kept_us = FOREVER_US;
                self.tree.attributes(unique, &Shown { node: ROOT, mode: 0o040_555, kept_us, ..Shown::default() });
            }
            What::Attributes => match self.natives.as_ref().and_then(|natives| natives.show(asked.node)) {
                Some(link) => self.tree.attributes(unique, &link),
                None => self.tree.attributes(unique, &self.show(&*self.inode(&asked)?, &asked)?),
            },
            What::Link => match self.natives.as_ref().and_then(|natives| natives.target(asked.node)) {
                Some(to) => self.tree.data(unique, &to),
                None => self.tree.data(unique, &self.link(&*self.inode(&asked)?, &asked)?),
            },
            What::OpenDirectory => {
                // What is in it for that one is not always the same.
                let names = if self.ahead.is(asked.pid) { Vec::new() } else { self.names(&asked)? };
                self.tree.opened(unique, self.open.add(names));
            }
            What::Names { handle, from, room, whole } => {
                let ahead = self.ahead.is(asked.pid);
                // It is to let go of one that has ended.
                let process = (ahead && asked.node != ROOT).then(|| self.inode(&asked)).transpose()?;
                let names = match &process {
                    Some(_) => Arc::new(self.ahead.names()),
                    None if ahead => Arc::new(self.ahead.directories()),
                    None => self.open.names(*handle),
                };
                let known = |one: &Named| if ahead { self.look_up(&asked, &one.name).ok().flatten() } else { None };
                if let Some(process) = process {
                    self.ahead.is_in(process.ghost.pid);
                }
                self.tree.names(unique, &names, (*from, *room, *whole), known);
            }
            What::Read { from, most } => {
                let text = self.read(&*self.inode(&asked)?, &asked)?;
                let from = usize::try_from(*from).unwrap_or(usize::MAX).min(text.len());
                self.tree.data(unique, &text[from..text.len().min(from.saturating_add(*most))]);
            }
            What::Write { data } => self.write(&*self.inode(&asked)?, &asked, data)?,
        }
        Ok(())
    }

    /// What the kernel has just been told of these files of a process it is to have read too, so that nobody need ask for it.
    fn store(&self, pid: Pid) {
        let names = self.ahead.names();
        // The kernel waits for who reads a file, whom another thread is to answer.
        let _waits = self.crew.waits();
        for inode in self.inodes.files(pid, names.iter().map(|one| &one.name[..])) {
            // Nothing else is told of it meanwhile, or what the kernel has of two texts would be mixed.
            let Ok(_alone) = inode.changes.try_write() else { continue };
            let told = inode.told().clone();
            let Some(Told { text: Some(text), time_ns, .. }) = told else { continue };
            if inode.is_current() && inode.has(time_ns) != time_ns {
                self.tree.store(inode.number, &text);
            }
        }
    }

    /// The node of this process's directory; 0: the kernel knows none.
    pub(crate) fn node_of(&self, pid: Pid) -> u64 {
        self.inodes.directory(pid).map_or(0, |directory| directory.number)
    }

    /// `None`: there is no such name, and never will be.
    fn look_up(&self, asked: &Asked, name: &[u8]) -> Result<Option<Shown>> {
        if asked.node == ROOT {
            let pid = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok()).map(Pid);
            let pid = pid.filter(|pid| name == pid.to_string().as_bytes());
            let Some(ghost) = pid.and_then(|pid| self.ghosts.get(pid)) else {
                let native = self.natives.as_ref().and_then(|natives| natives.look_up(name));
                return native.map(Some).ok_or(ENOENT);
            };
            let inode = self.inodes.look_up(ROOT, name, &ghost, Some(Place::Process), self.mode_of_process());
            // Whoever binds it wants to know no more, but whoever looks into it then does.
            return Ok(Some(self.shown(asked, &inode)?));
        }
        let directory = self.inode(asked)?;
        let (ghost, place) = (&directory.ghost, directory.place.ok_or(ENOENT)?);
        let path = match &directory.path[..] {
            [] => name.to_vec(),
            before => [before, b"/", name].concat(),
        };
        let (mode, found) = match place.mode(name) {
            Some(mode) => (mode, None),
            None if place.numbered() => self.numbered(asked, &directory, place, &path, name)?,
            None => return Ok(None),
        };
        if is_guarded(mode) {
            // If it is another one's by now, what is made for it is to be so from the beginning.
            contents::owner(&self.machines, ghost, self.looker(asked, ghost));
        }
        let below = is_directory(mode).then(|| place.below(name)).flatten();
        let inode = self.inodes.look_up(directory.number, &path, ghost, below, mode);
        if let Some(Contents { what: Found::Text(text), uid, gid, until_us, .. }) = found {
            let mut told = inode.told();
            *told = Some(Told::now(text, (uid, gid), until_us, told.as_ref()));
        }
        let shown = self.shown(asked, &inode)?;
        let name_us = match () {
            () if place.numbered() => 0,
            // It may be another one's next.
            () if is_guarded(mode) => shown.kept_us,
            () => FOREVER_US,
        };
        Ok(Some(Shown { name_us, ..shown }))
    }

    /// What has just been looked up.
    fn shown(&self, asked: &Asked, inode: &Inode) -> Result<Shown> {
        self.show(inode, asked).inspect_err(|_| self.inodes.forget(inode.number, 1))
    }

    fn mode_of_process(&self) -> u32 {
        if self.hidden_from_all_but.is_some() {
            0o040_550
        } else {
            0o040_555
        }
    }

    /// The mode of a thread or descriptor, and what is in it, if that was found too.
    fn numbered(
        &self,
        asked: &Asked,
        directory: &Inode,
        place: Place,
        path: &[u8],
        name: &[u8],
    ) -> Result<(u32, Option<Contents>)> {
        if !name.iter().all(u8::is_ascii_digit) || name.is_empty() {
            return Err(ENOENT);
        }
        if place == Place::Tasks && name == directory.ghost.pid.to_string().as_bytes() {
            return Ok((0o040_555, None));
        }
        self.may_look_into(directory, asked)?;
        let found = self.contents(asked, &directory.ghost, path)?;
        // Natively the directory guards them; here each does it, since it may be open already when the directory is closed to its user.
        let mode = if place == Place::Infos { 0o100_400 } else { found.mode };
        Ok((mode, Some(found)))
    }

    /// Are the names in this directory for who asks?
    fn may_look_into(&self, directory: &Inode, asked: &Asked) -> Result<()> {
        if !is_guarded(directory.mode) || asked.uid == 0 || asked.pid == directory.ghost.pid {
            return Ok(());
        }
        let (uid, ..) = contents::owner(&self.machines, &directory.ghost, self.looker(asked, &directory.ghost));
        match may(asked, uid) && directory.is_current() {
            true => Ok(()),
            false => Err(EACCES),
        }
    }

    fn looker(&self, asked: &Asked, ghost: &Ghost) -> Looker {
        let now = monotonic_us();
        let pass = match self.ahead.is(asked.pid) {
            // It looks for him, and goes ahead of one after the other without a pause.
            true => self.passes.of(self.ahead.whom().unwrap_or(Pid::NONE), now),
            false => self.passes.looks(asked.pid, ghost.pid, || self.ghosts.place(ghost.pid), now),
        };
        Looker { uid: asked.uid, pass }
    }

    /// What it is, and how large.
    fn show(&self, inode: &Inode, asked: &Asked) -> Result<Shown> {
        let mut shown = Shown { node: inode.number, mode: inode.mode, time_ns: inode.made_ns, ..Shown::default() };
        if is_directory(inode.mode) && !is_guarded(inode.mode) || inode.place == Some(Place::Process) {
            let looker = self.looker(asked, &inode.ghost);
            (shown.uid, shown.gid) = contents::owner_of_process(&self.machines, &inode.ghost, looker)?;
            if let Some(gid) = self.hidden_from_all_but.filter(|_| inode.place == Some(Place::Process)) {
                shown.gid = gid;
            }
            // Its owner is the ghost's, and when that changes it is told of ([`Server::outdate`]).
            let told_of = inode.place == Some(Place::Process) && !inode.ghost.apart;
            let all_the_time = told_of && self.machines.fresh_us != 0;
            shown.kept_us = if all_the_time { FOREVER_US } else { self.machines.fresh_us };
            return Ok(shown);
        }
        let looker = self.looker(asked, &inode.ghost);
        if is_guarded(inode.mode) {
            let (mut uid, mut gid, until_us) = contents::owner(&self.machines, &inode.ghost, looker);
            if is_for_root(inode) {
                (uid, gid) = (0, 0);
            }
            (shown.uid, shown.gid, shown.kept_us) = (uid, gid, until_us.saturating_sub(monotonic_us()));
            if is_link(inode.mode) {
                shown.size = LINK_SIZE;
            }
            if is_link(inode.mode) || is_directory(inode.mode) {
                return self.current(inode).map(|()| shown);
            }
            if !may(asked, uid) {
                // As others were told who may read it.
                if let Some(told) = inode.told().as_ref() {
                    (shown.size, shown.time_ns) = (told.length, told.time_ns);
                }
                shown.kept_us = 0;
                return self.current(inode).map(|()| shown);
            }
        }
        let told = self.text(inode, asked, false)?;
        shown.kept_us = told.until_us.saturating_sub(monotonic_us());
        if !is_for_root(inode) {
            (shown.uid, shown.gid) = (told.uid, told.gid);
        }
        (shown.size, shown.time_ns) = (told.length, told.time_ns);
        Ok(shown)
    }

    /// What is in a file. `as_told`: as the kernel was told last, which is what it reads.
    fn text(&self, inode: &Inode, asked: &Asked, as_told: bool) -> Result<Told> {
        let before = inode.told().clone();
        let counts = |told: &Told, us| told.text.is_some() && (as_told || told.until_us > monotonic_us() + us);
        // Who is followed would have to ask himself for what runs out behind who goes ahead.
        let enough_us = if self.ahead.is(asked.pid) { RENEWED_US } else { 0 };
        if let Some(told) = before.as_ref().filter(|told| counts(told, enough_us)) {
            return Ok(told.clone());
        }
        let is_fresh = before.as_ref().is_some_and(|told| counts(told, 0));
        // Nor is it told anew while what was told is stored ([`Server::store`]), for which this may have to be read.
        let _changes = (!as_told).then(|| self.changes(inode));
        let found = match self.contents(asked, &inode.ghost, &inode.path) {
            Ok(found) => found,
            // As it was; but one that is not there any more is not.
            Err(errno) => {
                let old = before.filter(|told| !matches!(errno, ESRCH | ENOENT) && told.text.is_some());
                return self.current(inode).and_then(|()| old.ok_or(errno));
            }
        };
        if !is_fresh {
            self.ahead.renews(asked.pid);
        }
        self.current(inode)?;
        let Contents { what: Found::Text(text), uid, gid, until_us, .. } = found else { return Err(ENOENT) };
        let mut told = inode.told();
        let now = Told::now(text, (uid, gid), until_us, told.as_ref());
        Ok(told.insert(now).clone())
    }

    /// What is in it is found out until what is returned is dropped.
    fn changes<'i>(&self, inode: &'i Inode) -> RwLockReadGuard<'i, ()> {
        inode.changes.try_read().unwrap_or_else(|_| {
            // Who stores may wait for a read of it, which somebody is to answer.
            let _waits = self.crew.waits();
            inode.changes.read().unwrap_or_else(PoisonError::into_inner)
        })
    }

    /// It may have become another one's meanwhile.
    fn current(&self, inode: &Inode) -> Result<()> {
        if inode.is_current() {
            Ok(())
        } else {
            Err(ESRCH)
        }
    }

    fn read(&self, inode: &Inode, asked: &Asked) -> Result<Arc<Vec<u8>>> {
        let told = self.text(inode, asked, true)?;
        let uid = if is_for_root(inode) { 0 } else { told.uid };
        match !is_guarded(inode.mode) || may(asked, uid) {
            true => {
                inode.has(told.time_ns);
                told.text.ok_or(ENOENT)
            }
            false => Err(EACCES),
        }
    }

    fn link(&self, inode: &Inode, asked: &Asked) -> Result<Vec<u8>> {
        let told = inode.told().clone().filter(|told| told.until_us > monotonic_us());
        let (to, uid) = match told {
            // It has just been looked up.
            Some(Told { text: Some(text), uid, .. }) => (text.to_vec(), uid),
            _ => match self.contents(asked, &inode.ghost, &inode.path)? {
                Contents { what: Found::Text(to), uid, .. } => (to, uid),
                Contents { what: Found::Names(_), .. } => return Err(ENOENT),
            },
        };
        self.current(inode)?;
        match may(asked, uid) || asked.pid == inode.ghost.pid {
            true => Ok(to),
            false => Err(EACCES),
        }
    }

    fn names(&self, asked: &Asked) -> Result<Vec<Named>> {
        if asked.node == ROOT {
            // Who goes through all directories finds the ghosts in /proc, unless this is it.
            let Some(natives) = &self.natives else { return Ok(Vec::new()) };
            return Ok(natives.names(&self.ghosts.pids()));
        }
        let inode = self.inode(asked)?;
        let place = inode.place.ok_or(ENOENT)?;
        if !place.numbered() {
            return Ok(place.names().map(|(name, mode)| Named { name: name.into(), mode }).collect());
        }
        self.may_look_into(&inode, asked)?;
        let found = self.contents(asked, &inode.ghost, &inode.path)?;
        self.current(&inode)?;
        match found.what {
            Found::Names(_) if is_guarded(inode.mode) && !may(asked, found.uid) && asked.pid != inode.ghost.pid => {
                Err(EACCES)
            }
            Found::Names(names) => Ok(names),
            Found::Text(_) => Err(ENOENT),
        }
    }

    fn write(&self, inode: &Inode, asked: &Asked, data: &[u8]) -> Result<()> {
        match &inode.path[..] {
            // A ghost that dumps core says what is to be in it (core(5)).
            b"coredump_filter" if asked.pid == inode.ghost.pid => {
                let to = format!("{PROC}/{}/coredump_filter", inode.ghost.pid);
                std::fs::write(to, data).map_err(|e| e.raw_os_error().unwrap_or(EACCES))?;
            }
            path if is_written(path) => {
                contents::write(&self.machines, &inode.ghost, path, data, asked)?;
                self.tree.written(asked.unique, data.len() as u32);
                // The kernel waits for who reads or writes one of them, whom another thread is to answer.
                let _waits = self.crew.waits();
                let all = self.inodes.of(inode.ghost.pid);
                all.iter().filter(|one| is_written(&one.path)).for_each(|one| self.forget(one));
                return Ok(());
            }
            _ => return Err(EACCES),
        }
        self.tree.written(asked.unique, data.len() as u32);
        Ok(())
    }

    /// A ghost that looks for its own descriptors finds those.
    fn contents(&self, asked: &Asked, ghost: &Ghost, path: &[u8]) -> Result<Contents> {
        match asked.pid == ghost.pid && path.starts_with(b"fd") {
            true => contents::own(ghost, path),
            false => contents::contents(&self.machines, ghost, path, self.looker(asked, ghost)),
        }
    }

    /// Of what is asked, if it is not another one's by now.
    fn inode(&self, asked: &Asked) -> Result<Arc<Inode>> {
        let inode = self.inodes.get(asked.node).ok_or(ENOENT)?;
        self.current(&inode)?;
        match &asked.what {
            What::Lookup(name) if inode.place == Some(Place::Process) => {
                self.ahead.sees(asked.pid, inode.ghost.pid, name);
            }
            What::Attributes | What::Read { .. } if inode.is_of_process() => {
                self.ahead.sees(asked.pid, inode.ghost.pid, &inode.path);
            }
            _ => {}
        }
        Ok(inode)
    }
}

/// Of where a process is in the kernel its owner is told nothing either.
fn is_for_root(inode: &Inode) -> bool {
    inode.path.split(|byte| *byte == b'/').next_back() == Some(b"stack")
}

/// Is it for the node to write?
fn is_written(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next() == Some(b"oom_score_adj")
}

/// May who asks read what is only for the owner?
fn may(asked: &Asked, uid: u32) -> bool {
    asked.uid == 0 || asked.uid == uid
}
