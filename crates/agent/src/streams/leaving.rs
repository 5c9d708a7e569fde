//! What of streams is known beside the thread: which programs go on elsewhere, before it hears of that, and which pipes and terminals are whose.
//!
//! When a process has moved, what is left of it here is killed, and that looks like the end of its streams. The thread may see it
//! before it takes the word that the process has moved, so whoever sees an end looks here first.

use super::terminal::Terminal;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// By the numbers of the streams.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// So many are about to leave.
    leaving: HashMap<u64, u32>,
    /// Inodes of the pipes of those that are pipes.
    pipes: HashMap<u64, [u64; 3]>,
    terminals: HashMap<u64, Arc<Terminal>>,
    /// Their channels may be dialled again.
    waiting: HashSet<u64>,
}

impl Leaving {
    /// Said before the process is killed.
    pub(super) fn add(&self, number: u64) {
        *self.lock().leaving.entry(number).or_default() += 1;
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.lock().leaving.contains_key(&number)
    }

    /// The relay has been told of one of them.
    pub(super) fn remove(&self, number: u64) {
        let mut known = self.lock();
        if let Some(left) = known.leaving.get_mut(&number) {
            *left -= 1;
            if *left == 0 {
                known.leaving.remove(&number);
            }
        }
    }

    pub(super) fn has_pipes(&self, number: u64, inodes: [u64; 3]) {
        self.lock().pipes.insert(number, inodes);
    }

    pub(super) fn of_pipe(&self, inode: u64) -> Option<u64> {
        self.lock().pipes.iter().find(|(_, inodes)| inodes.contains(&inode)).map(|(number, _)| *number)
    }

    pub(super) fn pipes(&self, number: u64) -> Option<[u64; 3]> {
        self.lock().pipes.get(&number).copied()
    }

    pub(super) fn waits(&self, number: u64) {
        self.lock().waiting.insert(number);
    }

    /// There is a channel, or there is to be none.
    pub(super) fn waits_no_more(&self, number: u64) {
        self.lock().waiting.remove(&number);
    }

    pub(super) fn is_waiting(&self, number: u64) -> bool {
        self.lock().waiting.contains(&number)
    }

    pub(super) fn has_terminal(&self, number: u64, terminal: Arc<Terminal>) {
        self.lock().terminals.insert(number, terminal);
    }

    pub(super) fn terminal(&self, number: u64) -> Option<Arc<Terminal>> {
        self.lock().terminals.get(&number).cloned()
    }

    pub(super) fn forget_terminal(&self, number: u64) {
        self.lock().terminals.remove(&number);
    }

    /// The streams are over.
    pub(super) fn forget(&self, number: u64) {
        let mut known = self.lock();
        known.terminals.remove(&number);
        known.leaving.remove(&number);
        known.pipes.remove(&number);
        known.waiting.remove(&number);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
