//! A process comes home, and runs a moment before what lies on its directory is taken away. Whoever looks for something there just then finds nobody, and is to look once more when that
//! has been done: the kernel walks a path from its beginning again when it is told ESTALE (linux: `do_filp_open`, `retry_estale`).

use crate::ghosts::Ghost;
use crate::server::Server;
use kern::fuse::tree::{Asked, What, ROOT};
use kern::proc::exists;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vocab::errno::{ESRCH, ESTALE};

/// For so long it is waited until nothing lies there.
const PATIENCE: Duration = Duration::from_millis(500);

/// How many changes of who stands here have been heard of, and have been made everywhere.
#[derive(Debug, Default)]
struct Count {
    heard: u64,
    made: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Homecoming {
    count: Mutex<Count>,
    changed: Condvar,
}

impl Homecoming {
    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before anybody is taken for gone.
    pub(crate) fn hears(&self) {
        self.count().heard += 1;
    }

    /// What was heard of first, of what had not been made, is.
    pub(crate) fn is_made(&self) {
        self.count().made += 1;
        self.changed.notify_all();
    }

    /// Does nothing of this ghost lie anywhere any more, within a time?
    fn has_left(&self, ghost: &Ghost) -> bool {
        let until = Instant::now() + PATIENCE;
        let (mut count, mut of_its_end) = (self.count(), None);
        loop {
            if ghost.is_gone() {
                let made = *of_its_end.get_or_insert(count.heard);
                if count.made >= made {
                    return true;
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            count = self.changed.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Of whom is something looked for by name? `None`: it has been found before, and is read.
pub(crate) fn looked_for(asked: &Asked) -> Option<u64> {
    let by_name = matches!(asked.what, What::Lookup(_) | What::Attributes | What::Link | What::OpenDirectory);
    (by_name && asked.node != ROOT).then_some(asked.node)
}

impl Server {
    /// What is told instead to who looks for something in this directory or below, and is told that the process is gone.
    pub(crate) fn told_again(&self, errno: i32, node: Option<u64>) -> i32 {
        let inode = node.filter(|_| errno == ESRCH).and_then(|node| self.inodes.get(node));
        let Some(ghost) = inode.map(|inode| inode.ghost.clone()).filter(|ghost| !ghost.apart) else { return errno };
        // The number may be another one's by now: then that is found.
        if !(ghost.is_gone() && exists(ghost.pid)) {
            return errno;
        }
        let _waits = self.crew.waits();
        match self.homecoming.has_left(&ghost) {
            true => ESTALE,
            false => errno,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ghosts::Ghosts;
    use std::sync::Arc;
    use vocab::{NodeId, Pid};

    #[test]
    fn a_ghost_has_left_when_the_change_of_which_its_end_was_is_made() {
        let (ghosts, homecoming) = (Ghosts::default(), Arc::new(Homecoming::default()));
        ghosts.stand(Pid(7), NodeId(1));
        let ghost = ghosts.get(Pid(7)).expect("it stands");
        homecoming.hears();
        homecoming.is_made();
        assert!(!homecoming.has_left(&ghost), "it stands");
        homecoming.hears();
        ghosts.gone(Pid(7));
        assert!(!homecoming.has_left(&ghost), "what lies there is not taken away");
        let (waits, its) = (homecoming.clone(), ghost.clone());
        let waiter = std::thread::spawn(move || waits.has_left(&its));
        homecoming.is_made();
        assert!(waiter.join().expect("it ends"));
    }
}
