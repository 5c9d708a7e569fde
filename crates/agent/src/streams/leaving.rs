//! Which programs go on elsewhere, known before the thread of streams hears of it.
//!
//! When a process has moved, what is left of it here is killed, and that looks like the end of its streams. The thread may see it
//! before it takes the word that the process has moved, so whoever sees an end looks here first.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The numbers of their streams.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    streams: Mutex<HashSet<u64>>,
}

impl Leaving {
    /// Said before the process is killed.
    pub(super) fn add(&self, number: u64) {
        self.lock().insert(number);
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.lock().contains(&number)
    }

    /// The channel knows itself.
    pub(super) fn remove(&self, number: u64) {
        self.lock().remove(&number);
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
