//! What is shown of a ghost to who asks for it: names, attributes, texts, and where links lead.

use crate::contents::{self, Contents, What as Found};
use crate::ghosts::Ghost;
use crate::inodes::{Inode, Told};
use crate::machines::RENEWED_US;
use crate::names::{is_directory, is_guarded, is_link, Place, FOREVER_US};
use crate::server::Server;
use kern::clock::monotonic_us;
use kern::fuse::tree::{Asked, Named, Shown, ROOT};
use kern::proc::PROC;
use std::sync::{Arc, PoisonError, RwLockReadGuard};
use vocab::errno::{EACCES, ENOENT, ESRCH};
use vocab::Pid;

/// What a link's length is said to be.
const LINK_SIZE: u64 = 64;

type Result<T> = std::result::Result<T, i32>;

impl Server {
    /// `None`: there is no such name, and never will be.
    pub(crate) fn look_up(&self, asked: &Asked, name: &[u8]) -> Result<Option<Shown>> {
        if asked.node == ROOT {
            let pid = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok()).map(Pid);
            let pid = pid.filter(|pid| name == pid.to_string().as_bytes());
            let native = || self.natives.as_ref().and_then(|natives| natives.look_up(name));
            let Some(ghost) = pid.and_then(|pid| self.ghosts.get(pid)) else {
                return native().map(Some).ok_or(ENOENT);
            };
            // To somebody else, or a moment later, it is another one.
            let of_ghost = || native().map(|shown| Shown { name_us: 0, ..shown });
            if ghost.is_for_itself(asked.pid) {
                return of_ghost().map(Some).ok_or(ENOENT);
            }
            let inode = self.inodes.look_up(ROOT, name, &ghost, Some(Place::Process), self.mode_of_process());
            // Whoever binds it wants to know no more, but whoever looks into it then does.
            return match self.shown(asked, &inode) {
                // It has yet to begin there.
                Err(ESRCH) if ghost.apart => of_ghost().map(Some).ok_or(ESRCH),
                shown => shown.map(Some),
            };
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

    /// That there is such a file in the directory of a process. The rest is asked for by who wants to know it. `None`: the kernel knows it.
    pub(crate) fn name(&self, directory: &Inode, one: &Named) -> Option<Shown> {
        if self.inodes.knows(directory.number, &one.name) {
            return None;
        }
        let inode = self.inodes.look_up(directory.number, &one.name, &directory.ghost, None, one.mode);
        let name_us = if is_guarded(one.mode) { 0 } else { FOREVER_US };
        Some(Shown { node: inode.number, mode: inode.mode, time_ns: inode.made_ns, name_us, ..Shown::default() })
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

    /// What it is, and how large.
    pub(crate) fn show(&self, inode: &Inode, asked: &Asked) -> Result<Shown> {
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
    pub(crate) fn current(&self, inode: &Inode) -> Result<()> {
        if inode.is_current() {
            Ok(())
        } else {
            Err(ESRCH)
        }
    }

    pub(crate) fn read(&self, inode: &Inode, asked: &Asked) -> Result<Arc<Vec<u8>>> {
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

    pub(crate) fn link(&self, inode: &Inode, asked: &Asked) -> Result<Vec<u8>> {
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

    pub(crate) fn names(&self, asked: &Asked) -> Result<Vec<Named>> {
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

    pub(crate) fn write(&self, inode: &Inode, asked: &Asked, data: &[u8]) -> Result<()> {
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
