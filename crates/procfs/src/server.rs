//! Answers what is asked of the tree.

use crate::contents::{self, Contents, What as Found};
use crate::ghosts::{Ghost, Ghosts};
use crate::inodes::{Inode, Inodes, Told};
use crate::machines::Machines;
use crate::names::{is_directory, is_guarded, is_link, Place};
use kern::clock::{monotonic_us, realtime_ns};
use kern::fuse::tree::{Asked, Named, Shown, Tree, What, ROOT};
use kern::proc::PROC;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use vocab::errno::{EACCES, ENOENT, ESRCH};
use vocab::Pid;

/// For how long a name is what it is that is so as long as its ghost is, in microseconds.
const FOREVER_US: u64 = 1_000_000_000_000;

/// Those that are open, with what was in them then, by the handle of each; and the last handle.
#[derive(Default)]
struct Directories {
    last: u64,
    open: HashMap<u64, Vec<Named>>,
}

type Result<T> = std::result::Result<T, i32>;

/// What all threads that serve share.
static INODES: LazyLock<Inodes> = LazyLock::new(Inodes::default);
static OPEN: LazyLock<Mutex<Directories>> = LazyLock::new(Mutex::default);

/// A ghost is not as it was: neither this nor the kernel takes for true any longer what was told. Not for a thread that serves.
pub(crate) fn outdate(tree: &Tree, pid: Pid) {
    for inode in INODES.common(pid) {
        if let Some(told) = inode.told.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            told.until_us = 0;
        }
        tree.outdate(inode.number);
    }
}

/// One thread's.
pub(crate) struct Server {
    tree: Arc<Tree>,
    ghosts: Arc<Ghosts>,
    machines: Arc<Machines>,
}

impl Server {
    pub(crate) fn new(tree: Arc<Tree>, ghosts: Arc<Ghosts>, machines: Arc<Machines>) -> Server {
        Server { tree, ghosts, machines }
    }

    /// Serves until the tree is not mounted any more.
    pub(crate) fn serve(self) {
        crate::run_first();
        let mut room = Tree::room();
        while let Ok(asked) = self.tree.next_request(&mut room) {
            let unique = asked.unique;
            if let Err(errno) = self.answer(asked) {
                self.tree.fail(unique, errno);
            }
        }
    }

    fn answer(&self, asked: Asked) -> Result<()> {
        let unique = asked.unique;
        match &asked.what {
            What::Nothing => {}
            What::Forget(nodes) => nodes.iter().for_each(|(node, times)| INODES.forget(*node, *times)),
            What::CloseDirectory { handle } => {
                open_directories().open.remove(handle);
            }
            What::Lookup(name) => match self.look_up(&asked, name)? {
                Some(shown) => self.tree.found(unique, &shown),
                None => self.tree.nothing(unique, FOREVER_US),
            },
            What::Attributes if asked.node == ROOT => {
                let kept_us = FOREVER_US;
                self.tree.attributes(unique, &Shown { node: ROOT, mode: 0o040_555, kept_us, ..Shown::default() });
            }
            What::Attributes => self.tree.attributes(unique, &self.show(&*inode(&asked)?, &asked)?),
            What::Link => self.tree.data(unique, &self.link(&*inode(&asked)?, &asked)?),
            What::OpenDirectory => {
                let names = self.names(&asked)?;
                let mut directories = open_directories();
                directories.last += 1;
                let handle = directories.last;
                directories.open.insert(handle, names);
                drop(directories);
                self.tree.opened(unique, handle);
            }
            What::Names { handle, from, room } => {
                let directories = open_directories();
                let names = directories.open.get(handle).map(Vec::as_slice).unwrap_or_default();
                self.tree.names(unique, names, *from, *room);
            }
            What::Read { from, most } => {
                let text = self.read(&*inode(&asked)?, &asked)?;
                let from = usize::try_from(*from).unwrap_or(usize::MAX).min(text.len());
                self.tree.data(unique, &text[from..text.len().min(from.saturating_add(*most))]);
            }
            What::Write { data } => self.write(&*inode(&asked)?, &asked, data)?,
        }
        Ok(())
    }

    /// `None`: there is no such name, and never will be.
    fn look_up(&self, asked: &Asked, name: &[u8]) -> Result<Option<Shown>> {
        if asked.node == ROOT {
            let pid = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok()).map(Pid).ok_or(ENOENT)?;
            let ghost = self.ghosts.get(pid).ok_or(ENOENT)?;
            let inode = INODES.look_up(ROOT, name, &ghost, Some(Place::Process), 0o040_555);
            // Whoever binds it wants to know no more.
            return Ok(Some(Shown { node: inode.number, mode: inode.mode, ..Shown::default() }));
        }
        let directory = inode(asked)?;
        let (ghost, place) = (&directory.ghost, directory.place.ok_or(ENOENT)?);
        let path = match &directory.path[..] {
            [] => name.to_vec(),
            before => [before, b"/", name].concat(),
        };
        let (mode, name_us) = match place.mode(name) {
            Some(mode) => (mode, FOREVER_US),
            None if place.numbered() => (self.mode(asked, ghost, place, &path, name)?, 0),
            None => return Ok(None),
        };
        let below = is_directory(mode).then(|| place.below(name)).flatten();
        let inode = INODES.look_up(directory.number, &path, ghost, below, mode);
        match self.show(&inode, asked) {
            Ok(shown) => Ok(Some(Shown { name_us, ..shown })),
            Err(errno) => {
                INODES.forget(inode.number, 1);
                Err(errno)
            }
        }
    }

    /// The mode of a thread or descriptor.
    fn mode(&self, asked: &Asked, ghost: &Ghost, place: Place, path: &[u8], name: &[u8]) -> Result<u32> {
        if !name.iter().all(u8::is_ascii_digit) || name.is_empty() {
            return Err(ENOENT);
        }
        if place == Place::Tasks && name == ghost.pid.to_string().as_bytes() {
            return Ok(0o040_555);
        }
        self.contents(asked, ghost, path).map(|found| found.mode)
    }

    /// What it is, and how large.
    fn show(&self, inode: &Inode, asked: &Asked) -> Result<Shown> {
        let mut shown = Shown { node: inode.number, mode: inode.mode, time_ns: inode.made_ns, ..Shown::default() };
        let now = monotonic_us();
        if inode.place == Some(Place::Process) {
            (shown.uid, shown.gid) = contents::owner_here(&inode.ghost)?;
            // Its owner is the ghost's, and when that changes it is told of ([`outdate`]).
            shown.kept_us = if self.machines.fresh_us == 0 { 0 } else { FOREVER_US };
            return Ok(shown);
        }
        if is_guarded(inode.mode) || is_directory(inode.mode) {
            let (uid, gid, until_us) = contents::owner(&self.machines, &inode.ghost)?;
            (shown.uid, shown.gid, shown.kept_us) = (uid, gid, until_us.saturating_sub(now));
            if is_link(inode.mode) {
                shown.size = 64;
                return Ok(shown);
            }
            if is_directory(inode.mode) || !may(asked, uid) {
                shown.kept_us = if is_directory(inode.mode) { shown.kept_us } else { 0 };
                return Ok(shown);
            }
        }
        let told = self.text(inode, asked, false)?;
        shown.kept_us = told.until_us.saturating_sub(now);
        (shown.uid, shown.gid) = (told.uid, told.gid);
        (shown.size, shown.time_ns) = (told.text.len() as u64, told.time_ns);
        Ok(shown)
    }

    /// What is in a file. `as_told`: as the kernel was told last, which is what it reads.
    fn text(&self, inode: &Inode, asked: &Asked, as_told: bool) -> Result<Told> {
        let mut told = inode.told.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = |told: &&Told| as_told || told.until_us > monotonic_us();
        if let Some(told) = told.as_ref().filter(counts) {
            return Ok(told.clone());
        }
        let found = match self.contents(asked, &inode.ghost, &inode.path) {
            Ok(found) => found,
            // As it was; but one that is not there any more is not.
            Err(errno) => return told.clone().filter(|_| !matches!(errno, ESRCH | ENOENT)).ok_or(errno),
        };
        let Found::Text(text) = found.what else { return Err(ENOENT) };
        let same = told.take().filter(|told| *told.text == text);
        let (text, time_ns) = same.map_or_else(|| (Arc::new(text), realtime_ns()), |told| (told.text, told.time_ns));
        let Contents { uid, gid, until_us, .. } = found;
        Ok(told.insert(Told { text, uid, gid, until_us, time_ns }).clone())
    }

    fn read(&self, inode: &Inode, asked: &Asked) -> Result<Arc<Vec<u8>>> {
        let told = self.text(inode, asked, true)?;
        match !is_guarded(inode.mode) || may(asked, told.uid) {
            true => Ok(told.text),
            false => Err(EACCES),
        }
    }

    fn link(&self, inode: &Inode, asked: &Asked) -> Result<Vec<u8>> {
        let found = self.contents(asked, &inode.ghost, &inode.path)?;
        match found.what {
            _ if !may(asked, found.uid) && asked.pid != inode.ghost.pid => Err(EACCES),
            Found::Text(to) => Ok(to),
            Found::Names(_) => Err(ENOENT),
        }
    }

    fn names(&self, asked: &Asked) -> Result<Vec<Named>> {
        if asked.node == ROOT {
            // Who goes through all directories finds the ghosts in /proc.
            return Ok(Vec::new());
        }
        let inode = inode(asked)?;
        let place = inode.place.ok_or(ENOENT)?;
        if !place.numbered() {
            return Ok(place.names().map(|(name, mode)| Named { name: name.into(), mode }).collect());
        }
        match self.contents(asked, &inode.ghost, &inode.path)?.what {
            Found::Names(names) => Ok(names),
            Found::Text(_) => Err(ENOENT),
        }
    }

    /// A ghost that dumps core says what is to be in it (core(5)).
    fn write(&self, inode: &Inode, asked: &Asked, data: &[u8]) -> Result<()> {
        if inode.path != b"coredump_filter" || asked.pid != inode.ghost.pid {
            return Err(EACCES);
        }
        let to = format!("{PROC}/{}/coredump_filter", inode.ghost.pid);
        std::fs::write(to, data).map_err(|e| e.raw_os_error().unwrap_or(EACCES))?;
        self.tree.written(asked.unique, data.len() as u32);
        Ok(())
    }

    /// A ghost that looks for its own descriptors finds those.
    fn contents(&self, asked: &Asked, ghost: &Ghost, path: &[u8]) -> Result<Contents> {
        match asked.pid == ghost.pid && path.starts_with(b"fd") {
            true => contents::own(ghost, path),
            false => contents::contents(&self.machines, ghost, path),
        }
    }
}

fn open_directories() -> std::sync::MutexGuard<'static, Directories> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn inode(asked: &Asked) -> Result<Arc<Inode>> {
    INODES.get(asked.node).ok_or(ENOENT)
}

/// May who asks read what is only for the owner?
fn may(asked: &Asked, uid: u32) -> bool {
    asked.uid == 0 || asked.uid == uid
}
