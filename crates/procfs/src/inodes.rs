//! The files, links and directories of the tree that the kernel knows, by number, for as long as it does.

use crate::ghosts::Ghost;
use crate::names::{is_guarded, Place};
use kern::clock::realtime_ns;
use kern::fuse::tree::ROOT;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use vocab::Pid;
use wire::entry::COMMON;

/// How long a text is kept after the kernel has been told that it is old, in microseconds: it may still read it.
const KEPT_US: u64 = 2_000_000;

/// A file, link or directory of a ghost.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) number: u64,
    pub(crate) parent: u64,
    pub(crate) ghost: Arc<Ghost>,
    /// In the ghost's directory.
    pub(crate) path: Vec<u8>,
    /// Of a directory.
    pub(crate) place: Option<Place>,
    /// As st_mode.
    pub(crate) mode: u32,
    /// Of what is guarded: the ghost's turn in which it is the owner's.
    pub(crate) turn: u64,
    /// When it became known, in nanoseconds since 1970.
    pub(crate) made_ns: u64,
    /// What the kernel was told last of what is in it.
    pub(crate) told: Mutex<Option<Told>>,
    /// Shared by who finds out what is in it now, and had alone by who has the kernel keep what was told.
    pub(crate) changes: RwLock<()>,
    /// [`Told::time_ns`] of what the kernel has read, or was given.
    has_ns: AtomicU64,
}

/// What the kernel knows of a file, and reads as that.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// `None`: nobody is expected to read it.
    pub(crate) text: Option<Arc<Vec<u8>>>,
    pub(crate) length: u64,
    hash: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) until_us: u64,
    /// Another content has another time.
    pub(crate) time_ns: u64,
}

impl Told {
    /// What is read now, after what was told last.
    pub(crate) fn now(text: Vec<u8>, (uid, gid): (u32, u32), until_us: u64, before: Option<&Told>) -> Told {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let (length, hash) = (text.len() as u64, hasher.finish());
        let same = before.filter(|before| (before.length, before.hash) == (length, hash));
        let time_ns = same.map_or_else(realtime_ns, |before| before.time_ns);
        Told { text: Some(Arc::new(text)), length, hash, uid, gid, until_us, time_ns }
    }
}

impl Inode {
    /// Is it what it was made for? What is guarded is not any more once its body may have become another user's or program's.
    pub(crate) fn is_current(&self) -> bool {
        !self.ghost.is_dead() && (!is_guarded(self.mode) || self.turn == self.ghost.turn())
    }

    /// Is it a file of a process, not of a thread or descriptor?
    pub(crate) fn is_of_process(&self) -> bool {
        self.place.is_none() && !self.path.is_empty() && !self.path.contains(&b'/')
    }

    /// The kernel has the text of this time now; before it had the one of the time that is returned.
    pub(crate) fn has(&self, time_ns: u64) -> u64 {
        self.has_ns.swap(time_ns, Ordering::Relaxed)
    }

    pub(crate) fn name(&self) -> Vec<u8> {
        match self.parent {
            ROOT => self.ghost.pid.to_string().into_bytes(),
            _ => last_part(&self.path).to_vec(),
        }
    }

    pub(crate) fn told(&self) -> MutexGuard<'_, Option<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Inodes(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// With the number of times that they were looked up.
    all: HashMap<u64, (Arc<Inode>, u64)>,
    names: HashMap<(u64, Vec<u8>), u64>,
    of: HashMap<Pid, HashSet<u64>>,
    last: u64,
}

impl Known {
    fn named(&self, parent: u64, name: &[u8]) -> Option<Arc<Inode>> {
        let number = self.names.get(&(parent, name.to_vec()))?;
        self.all.get(number).map(|(inode, _)| inode.clone())
    }
}

impl Inodes {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<Inode>> {
        self.known().all.get(&number).map(|(inode, _)| inode.clone())
    }

    /// Does the kernel know one of this name in directory `parent`?
    pub(crate) fn knows(&self, parent: u64, name: &[u8]) -> bool {
        self.known().named(parent, name).is_some()
    }

    /// The one of this name in directory `parent`, looked up once more.
    pub(crate) fn look_up(
        &self,
        parent: u64,
        name: &[u8],
        ghost: &Arc<Ghost>,
        place: Option<Place>,
        mode: u32,
    ) -> Arc<Inode> {
        let mut known = self.known();
        let key = (parent, last_part(name).to_vec());
        if let Some(number) = known.names.get(&key).copied() {
            if let Some((inode, count)) = known.all.get_mut(&number) {
                // The number of a process may be another ghost's by now, that of a descriptor another kind of file's.
                if Arc::ptr_eq(&inode.ghost, ghost) && inode.mode == mode && inode.is_current() {
                    *count += 1;
                    return inode.clone();
                }
            }
        }
        known.last = (known.last + 1).max(ROOT + 1);
        let number = known.last;
        let path = if parent == ROOT { Vec::new() } else { name.to_vec() };
        let inode = Inode {
            number,
            parent,
            ghost: ghost.clone(),
            path,
            place,
            mode,
            turn: ghost.turn(),
            made_ns: realtime_ns(),
            told: Mutex::default(),
            changes: RwLock::default(),
            has_ns: AtomicU64::new(0),
        };
        let inode = Arc::new(inode);
        known.names.insert(key, number);
        known.all.insert(number, (inode.clone(), 1));
        known.of.entry(ghost.pid).or_default().insert(number);
        inode
    }

    /// A ghost's directory and what is commonly read in it, as far as the kernel knows them.
    pub(crate) fn common(&self, pid: Pid) -> Vec<Arc<Inode>> {
        let files = self.files(pid, COMMON.iter().map(|name| name.as_bytes()));
        files.into_iter().chain(self.directory(pid)).collect()
    }

    /// A ghost's directory, if the kernel knows it.
    pub(crate) fn directory(&self, pid: Pid) -> Option<Arc<Inode>> {
        self.known().named(ROOT, pid.to_string().as_bytes())
    }

    /// Those of these names in a ghost's directory, as far as the kernel knows them.
    pub(crate) fn files<'a>(&self, pid: Pid, names: impl Iterator<Item = &'a [u8]>) -> Vec<Arc<Inode>> {
        let known = self.known();
        let Some(directory) = known.named(ROOT, pid.to_string().as_bytes()) else { return Vec::new() };
        names.filter_map(|name| known.named(directory.number, name)).collect()
    }

    /// All that the kernel knows of ghosts of this number.
    pub(crate) fn of(&self, pid: Pid) -> Vec<Arc<Inode>> {
        let known = self.known();
        let numbers = known.of.get(&pid).into_iter().flatten();
        numbers.filter_map(|number| known.all.get(number).map(|(inode, _)| inode.clone())).collect()
    }

    /// Texts that nobody is expected to read any more are forgotten. True: there are others.
    pub(crate) fn purge(&self, now_us: u64) -> bool {
        let all: Vec<Arc<Inode>> = self.known().all.values().map(|(inode, _)| inode.clone()).collect();
        let mut left = false;
        for inode in all {
            let mut told = inode.told();
            let Some(told) = told.as_mut().filter(|told| told.text.is_some()) else { continue };
            match told.until_us + KEPT_US < now_us {
                true => told.text = None,
                false => left = true,
            }
        }
        left
    }

    /// The kernel has forgotten so many look-ups of it.
    pub(crate) fn forget(&self, number: u64, times: u64) {
        let mut known = self.known();
        let Some((inode, count)) = known.all.get_mut(&number) else { return };
        *count = count.saturating_sub(times);
        if *count > 0 {
            return;
        }
        let (key, pid) = ((inode.parent, inode.name()), inode.ghost.pid);
        known.all.remove(&number);
        if let Some(of) = known.of.get_mut(&pid) {
            of.remove(&number);
            if of.is_empty() {
                known.of.remove(&pid);
            }
        }
        if known.names.get(&key) == Some(&number) {
            known.names.remove(&key);
        }
    }
}

fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ghosts::Ghosts;
    use vocab::NodeId;

    #[test]
    fn one_is_known_until_it_is_forgotten_as_often_as_it_was_looked_up() {
        let (ghosts, inodes) = (Ghosts::default(), Inodes::default());
        let ghost = |pid| {
            ghosts.stand(Pid(pid), NodeId(0));
            ghosts.get(Pid(pid)).expect("it stands")
        };
        let (one, again) = (ghost(7), ghost(7));
        let dir = inodes.look_up(ROOT, b"7", &one, Some(Place::Process), 0o040_555);
        assert_eq!(inodes.look_up(ROOT, b"7", &again, Some(Place::Process), 0o040_555).number, dir.number);
        let file = inodes.look_up(dir.number, b"task/7/stat", &one, None, 0o100_444);
        assert_eq!(file.path, b"task/7/stat");
        inodes.forget(dir.number, 1);
        assert!(inodes.get(dir.number).is_some());
        // Another ghost of that number.
        assert_eq!(inodes.of(Pid(7)).len(), 2);
        ghosts.gone(Pid(7));
        let other = inodes.look_up(ROOT, b"7", &ghost(7), Some(Place::Process), 0o040_555);
        assert_ne!(other.number, dir.number);
        inodes.forget(dir.number, 1);
        assert!(inodes.get(dir.number).is_none());
        assert_eq!(inodes.look_up(ROOT, b"7", &ghost(7), Some(Place::Process), 0o040_555).number, other.number);
    }

    #[test]
    fn what_is_guarded_is_another_one_in_another_turn() {
        let (ghosts, inodes) = (Ghosts::default(), Inodes::default());
        ghosts.stand(Pid(7), NodeId(0));
        let ghost = ghosts.get(Pid(7)).expect("it stands");
        let look = || {
            ["environ", "stat"].map(|name| {
                let mode = Place::Process.mode(name.as_bytes()).expect("it is one of them");
                inodes.look_up(5, name.as_bytes(), &ghost, None, mode)
            })
        };
        let [environ, stat] = look();
        ghost.turns();
        assert!(!environ.is_current() && stat.is_current());
        let [now, same] = look();
        assert!(now.is_current() && now.number != environ.number && same.number == stat.number);
        ghosts.gone(Pid(7));
        assert!(!stat.is_current());
    }

    #[test]
    fn a_text_is_forgotten_and_known_again() {
        let (ghosts, inodes) = (Ghosts::default(), Inodes::default());
        ghosts.stand(Pid(7), NodeId(0));
        let ghost = ghosts.get(Pid(7)).expect("it stands");
        let inode = inodes.look_up(5, b"stat", &ghost, None, 0o100_444);
        *inode.told() = Some(Told::now(b"a".to_vec(), (1, 2), 1000, None));
        assert!(inodes.purge(1000 + KEPT_US));
        assert!(inode.told().as_ref().is_some_and(|told| told.text.is_some()));
        assert!(!inodes.purge(1001 + KEPT_US));
        let before = inode.told().clone().expect("it was told");
        assert!(before.text.is_none() && before.length == 1);
        let again = Told::now(b"a".to_vec(), (1, 2), 2000, Some(&before));
        assert_eq!(again.time_ns, before.time_ns);
        assert_ne!(Told::now(b"b".to_vec(), (1, 2), 2000, Some(&before)).time_ns, before.time_ns);
    }
}
