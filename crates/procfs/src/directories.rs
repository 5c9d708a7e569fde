//! Directories of the tree that are open, with what was in them then.

use kern::fuse::tree::Named;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Directories(Mutex<Open>);

/// By handle.
#[derive(Debug, Default)]
struct Open {
    last: u64,
    all: HashMap<u64, Arc<Vec<Named>>>,
}

impl Directories {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One is opened: its handle.
    pub(crate) fn add(&self, names: Vec<Named>) -> u64 {
        let mut open = self.open();
        open.last += 1;
        let handle = open.last;
        open.all.insert(handle, Arc::new(names));
        handle
    }

    /// Nothing is in one that is not open.
    pub(crate) fn names(&self, handle: u64) -> Arc<Vec<Named>> {
        self.open().all.get(&handle).cloned().unwrap_or_default()
    }

    pub(crate) fn close(&self, handle: u64) {
        self.open().all.remove(&handle);
    }
}
