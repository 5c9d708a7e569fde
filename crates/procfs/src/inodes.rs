//! The files, links and directories of the tree that the kernel knows, by number, for as long as it does.

use crate::ghosts::Ghost;
use crate::names::Place;
use kern::clock::realtime_ns;
use kern::fuse::tree::ROOT;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use vocab::Pid;
use wire::entry::COMMON;

/// A file, link or directory of a ghost.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) number: u64,
    parent: u64,
    pub(crate) ghost: Arc<Ghost>,
    /// In the ghost's directory.
    pub(crate) path: Vec<u8>,
    /// Of a directory.
    pub(crate) place: Option<Place>,
    /// As st_mode.
    pub(crate) mode: u32,
    /// When it became known, in nanoseconds since 1970.
    pub(crate) made_ns: u64,
    /// What the kernel was told last of what is in it.
    pub(crate) told: Mutex<Option<Told>>,
}

/// What the kernel knows of a file, and reads as that.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) text: Arc<Vec<u8>>,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) until_us: u64,
    /// Another content has another time.
    pub(crate) time_ns: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Inodes(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// With the number of times that they were looked up.
    all: HashMap<u64, (Arc<Inode>, u64)>,
    names: HashMap<(u64, Vec<u8>), u64>,
    last: u64,
}

impl Inodes {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<Inode>> {
        self.known().all.get(&number).map(|(inode, _)| inode.clone())
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
                if Arc::ptr_eq(&inode.ghost, ghost) && inode.mode == mode {
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
            made_ns: realtime_ns(),
            told: Mutex::default(),
        };
        let inode = Arc::new(inode);
        known.names.insert(key, number);
        known.all.insert(number, (inode.clone(), 1));
        inode
    }

    /// A ghost's directory and what is commonly read in it, as far as the kernel knows them.
    pub(crate) fn common(&self, pid: Pid) -> Vec<Arc<Inode>> {
        let known = self.known();
        let one = |parent: u64, name: &[u8]| {
            let number = known.names.get(&(parent, name.to_vec()))?;
            known.all.get(number).map(|(inode, _)| inode.clone())
        };
        let Some(directory) = one(ROOT, pid.to_string().as_bytes()) else { return Vec::new() };
        let files = COMMON.iter().filter_map(|name| one(directory.number, name.as_bytes()));
        files.chain([directory.clone()]).collect()
    }

    /// The kernel has forgotten so many look-ups of it.
    pub(crate) fn forget(&self, number: u64, times: u64) {
        let mut known = self.known();
        let Some((inode, count)) = known.all.get_mut(&number) else { return };
        *count = count.saturating_sub(times);
        if *count > 0 {
            return;
        }
        let name = match inode.parent {
            ROOT => inode.ghost.pid.to_string().into_bytes(),
            _ => last_part(&inode.path).to_vec(),
        };
        let key = (inode.parent, name);
        known.all.remove(&number);
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
        ghosts.gone(Pid(7));
        let other = inodes.look_up(ROOT, b"7", &ghost(7), Some(Place::Process), 0o040_555);
        assert_ne!(other.number, dir.number);
        inodes.forget(dir.number, 1);
        assert!(inodes.get(dir.number).is_none());
        assert_eq!(inodes.look_up(ROOT, b"7", &ghost(7), Some(Place::Process), 0o040_555).number, other.number);
    }
}
