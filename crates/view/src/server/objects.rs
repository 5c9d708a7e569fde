//! Contents of files by their checksums, and the nodes that have them on their disks, or are about to: a node is told some that it may have a content from.
//!
//! The nodes of a content are a binary tree in the order in which they have asked, which needs no messages: the front end sends it to the first, and each has it from one that asked earlier.

use super::inodes::{Inode, Who};
use crate::line::lock;
use rustix::fs::Stat;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::{Content, Name};
use vocab::Fault;

/// The smallest content that nodes keep, and the largest, in bytes. Smaller ones go with the answer to OPEN.
const SIZES: std::ops::RangeInclusive<u64> = wire::view::KEPT;
/// So many contents are known at a time.
const KNOWN_MOST: usize = 20_000;
/// With so many bytes of checksums, and so many have nodes that they can be had from.
const SUMS_MOST: u64 = 64 << 20;
const NAMES_MOST: usize = 100_000;
/// Earlier nodes that a node is told, at most.
const SOURCES: usize = 3;
/// A file that has not changed for so long changes no more without another time of its change.
const OLD: Duration = Duration::from_secs(2);

/// A file that has not changed has this (device, number, size, times of its modification and of its change).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Version {
    file: (u64, u64, u64),
    times: [i64; 4],
    /// Of one that had changed a moment before: its number for nodes, and how often it has changed as far as they know.
    changes: Option<(u64, u64)>,
}

impl Version {
    /// The version by its times alone, if these have changed long enough ago, and the version as nodes know it.
    fn of(inode: &Inode, stat: &Stat, now: Duration) -> (Option<Version>, Version) {
        let changed = Duration::new(stat.st_ctime.try_into().unwrap_or(u64::MAX), stat.st_ctime_nsec as u32);
        let by_times = Version {
            file: (stat.st_dev, stat.st_ino, stat.st_size as u64),
            times: [stat.st_mtime, stat.st_mtime_nsec as i64, stat.st_ctime, stat.st_ctime_nsec as i64],
            changes: None,
        };
        let changes = Some((inode.id, lock(&inode.state).changes));
        ((now >= changed.saturating_add(OLD)).then_some(by_times), Version { changes, ..by_times })
    }
}

type Known = Arc<OnceLock<Option<Arc<Content>>>>;

#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// Of checksums.
    bytes: AtomicU64,
    known: Mutex<HashMap<Version, Known>>,
    /// In the order in which they have asked.
    nodes: Mutex<HashMap<Name, Vec<Who>>>,
}

impl Objects {
    /// The content of a file on which there is a lease, if it is one to be kept. `file`: to be read for it, all of it, where it is not known.
    pub(crate) fn content(&self, inode: &Inode, stat: &Stat, file: Option<&File>) -> Option<Arc<Content>> {
        let size = u64::try_from(stat.st_size).ok().filter(|size| SIZES.contains(size))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (by_times, version) = Version::of(inode, stat, now);
        let known = {
            let mut all = lock(&self.known);
            if all.len() >= KNOWN_MOST || self.bytes.load(Ordering::Relaxed) >= SUMS_MOST {
                all.clear();
                self.bytes.store(0, Ordering::Relaxed);
            }
            let known = by_times.and_then(|version| all.get(&version)).or_else(|| all.get(&version)).cloned();
            match file {
                Some(_) => known.unwrap_or_else(|| all.entry(by_times.unwrap_or(version)).or_default().clone()),
                None => known?,
            }
        };
        match file {
            // Whoever asks for the same meanwhile waits.
            Some(file) => known
                .get_or_init(|| {
                    self.bytes.fetch_add(size / store::PIECE * 32, Ordering::Relaxed);
                    read(size, file)
                })
                .clone(),
            None => known.get().cloned().flatten(),
        }
    }

    /// `who` is going to have this content; the nodes that it may have it from, the nearest in the tree first.
    pub(crate) fn join(&self, name: Name, who: Who) -> Vec<Who> {
        let mut all = lock(&self.nodes);
        if all.len() >= NAMES_MOST && !all.contains_key(&name) {
            // Who asks from now on is a first one again.
            all.clear();
        }
        let nodes = all.entry(name).or_default();
        let at = nodes.iter().position(|one| *one == who).unwrap_or_else(|| {
            nodes.push(who);
            nodes.len() - 1
        });
        ancestors(at).take(SOURCES).map(|at| nodes[at]).collect()
    }

    /// A node is gone.
    pub(crate) fn leave(&self, who: Who) {
        lock(&self.nodes).retain(|_, nodes| {
            nodes.retain(|one| *one != who);
            !nodes.is_empty()
        });
    }
}

/// The places above this one in a binary tree, as a heap has them.
fn ancestors(at: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(at.checked_sub(1).map(|before| before / 2), |at| at.checked_sub(1).map(|before| before / 2))
}

fn read(size: u64, file: &File) -> Option<Arc<Content>> {
    let read = |from: u64, into: &mut [u8]| {
        file.read_exact_at(into, from).map_err(|e| Fault::io(&e, "read a file for its checksums"))
    };
    Content::of(size, read).ok().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_a_content_from_one_that_asked_earlier() {
        let objects = Objects::default();
        let name = Name([7; 32]);
        let told: Vec<Vec<Who>> = (0..6).map(|who| objects.join(name, who)).collect();
        let expected: [&[Who]; 6] = [&[], &[0], &[0], &[1, 0], &[1, 0], &[2, 0]];
        assert_eq!(told, expected);
        assert_eq!(objects.join(name, 3), [1, 0], "once");
        objects.leave(1);
        assert_eq!(objects.join(name, 9), [3, 0]);
        assert_eq!(ancestors(100).collect::<Vec<_>>(), [49, 24, 11, 5, 2, 0]);
        (0..10).for_each(|who| objects.leave(who));
        assert!(lock(&objects.nodes).is_empty());
    }
}
