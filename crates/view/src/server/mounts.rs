//! File systems that are mounted and unmounted while nodes know the directory: what stands there has another content from then on, which no mark tells.

use super::coherence::Coherence;
use kern::mounts::{Mount, Mounts};
use rustix::fs::{stat, Stat};
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tracing::warn;

/// Where ghosts are mounted, thousands of them, which no node sees.
const GHOSTS: &str = "/proc";
/// Between two looks there are so long, and so many times what the last one took: where there are thousands of mounts, each program that starts would be a reason to look.
const PAUSE: Duration = Duration::from_millis(30);
const TIMES: u32 = 20;
/// Nodes have so long to forget the files of a file system.
const LETS_GO: Duration = Duration::from_secs(3);

impl Coherence {
    /// Tells nodes of mounts until the process ends.
    pub(crate) fn watch_mounts(&self) {
        let mut known: HashSet<Mount> = HashSet::new();
        let begun = Mounts::open().and_then(|mounts| {
            known = mounts.all(GHOSTS)?;
            Ok(mounts)
        });
        let mounts = match begun {
            Ok(mounts) => mounts,
            Err(fault) => return warn!(%fault, "view: mounts are not told"),
        };
        loop {
            mounts.wait();
            let begun = Instant::now();
            match mounts.all(GHOSTS) {
                Ok(now) => {
                    let places = |all: &HashSet<Mount>| -> HashSet<(u64, PathBuf)> {
                        all.iter().map(|mount| (mount.number, mount.at.clone())).collect()
                    };
                    places(&known).symmetric_difference(&places(&now)).for_each(|(_, at)| self.mounted(at));
                    now.difference(&known).for_each(|mount| self.remounted(mount.number));
                    self.inodes.prune();
                    known = now;
                }
                Err(fault) => return warn!(%fault, "view: mounts are not told any more"),
            }
            let _ = kern::poll::poll_for(&[], Some(PAUSE.max(begun.elapsed() * TIMES)));
        }
    }

    /// Has nodes let go of the file system at `at`, for who is going to unmount it; how many of its files they still know.
    pub(crate) fn let_go_of(&self, at: &Path) -> u64 {
        let Ok(Stat { st_dev, .. }) = stat(at) else { return 0 };
        let left = || self.inodes.all().iter().filter(|inode| inode.key.0 == st_dev).count() as u64;
        let until = Instant::now() + LETS_GO;
        loop {
            // A name that a node looks up meanwhile is known again.
            self.mounted(at);
            let still = left();
            self.inodes.prune();
            if still == 0 || Instant::now() >= until {
                return still;
            }
            let _ = kern::poll::poll_for(&[], Some(PAUSE));
        }
    }

    /// What may be done there may be otherwise now (nosuid, noexec, ro).
    fn remounted(&self, mount: u64) {
        for inode in self.inodes.remounted(mount) {
            self.recall(&inode);
            self.attributes_changed(&inode, None);
        }
    }

    /// Something has been mounted there, or is there no more.
    fn mounted(&self, at: &Path) {
        let (Some(directory), Some(name)) = (at.parent(), at.file_name()) else { return };
        // It may be hidden, or gone: then nodes have heard of that.
        let Ok(Stat { st_dev, st_ino, .. }) = stat(directory) else { return };
        if let Some(directory) = self.inodes.known((st_dev, st_ino)) {
            self.name_changed(&directory, name.as_bytes(), None);
        }
    }
}
