//! The ghosts' directories of the tree are bound onto their own in /proc. With a ghost, what is bound to it goes (linux: `proc_flush_pid`).

use crate::ghosts::Ghosts;
use crate::server;
use kern::fuse::tree::{Tree, ROOT};
use kern::mount;
use kern::proc::PROC;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use tracing::debug;
use vocab::Pid;

/// What mounts of the tree are told by (proc_pid_mountinfo(5)).
pub(crate) const SOURCE: &str = "shoal-proc";

/// What has changed, in order.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) new: Vec<Pid>,
    /// They were there, and are not as they were.
    pub(crate) stirred: Vec<Pid>,
    pub(crate) gone: Vec<Pid>,
}

fn place(pid: Pid) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// Binds and takes away until nobody tells of changes any more. Nobody waits for it.
pub(crate) fn follow(changes: &Receiver<Change>, ghosts: &Ghosts, tree: &Tree, at: &Path) {
    // Or each would be seen, and cost, in every mount namespace of the machine.
    if let Err(fault) = mount::make_private(Path::new("/proc")) {
        debug!(%fault, "ghosts are seen in other mount namespaces too");
    }
    while let Ok(change) = changes.recv() {
        for pid in change.new {
            if ghosts.get(pid).is_none() {
                continue;
            }
            if let Err(fault) = mount::bind(&at.join(pid.to_string()), &place(pid)) {
                debug!(%pid, %fault, "it has ended");
            }
            // Meanwhile it may have gone, and that be another one's.
            if ghosts.get(pid).is_none() {
                let _none = mount::detach(&place(pid));
            }
        }
        change.stirred.into_iter().for_each(|pid| server::outdate(tree, pid));
        for pid in change.gone.into_iter().filter(|pid| ghosts.get(*pid).is_none()) {
            // It is still there if what stood there runs there now, or was not waited for.
            let _none = mount::detach(&place(pid));
            tree.remove(ROOT, pid.to_string().as_bytes());
        }
    }
}

/// Takes away all that was bound, by this process or one before, and the tree, which is mounted at `at`.
pub(crate) fn sweep(at: &Path) {
    let mounts = std::fs::read_to_string(format!("{PROC}/self/mountinfo")).unwrap_or_default();
    // What came last lies on top.
    for pid in mounts.lines().rev().filter_map(bound) {
        let _ = mount::detach(&place(pid));
    }
    while mount::detach(at).is_ok() {}
}

/// The process on whose directory this line's mount is, if it is one of ours.
fn bound(line: &str) -> Option<Pid> {
    let (head, tail) = line.split_once(" - ")?;
    let mut tail = tail.split(' ');
    if tail.next() != Some("fuse") || tail.next() != Some(SOURCE) {
        return None;
    }
    head.split(' ').nth(4)?.strip_prefix("/proc/")?.parse().ok().map(Pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_ours_are_known() {
        let line = |at: &str, kind: &str, source: &str| format!("40 30 0:50 /7 {at} rw,nosuid - {kind} {source} rw");
        assert_eq!(bound(&line("/proc/7", "fuse", SOURCE)), Some(Pid(7)));
        assert_eq!(bound(&line("/proc/7", "fuse", "other")), None);
        assert_eq!(bound(&line("/proc", "proc", SOURCE)), None);
        assert_eq!(bound(&line("/run/shoal/proc", "fuse", SOURCE)), None);
        assert_eq!(bound("half a line"), None);
    }
}
