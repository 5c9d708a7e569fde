//! Who stands here for whom.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use vocab::{NodeId, Pid};

/// A process that stands here for one elsewhere, for as long as it does: another one of the same number is another ghost.
#[derive(Debug)]
pub(crate) struct Ghost {
    pub(crate) pid: Pid,
    node: AtomicI32,
}

impl Ghost {
    pub(crate) fn node(&self) -> NodeId {
        NodeId(self.node.load(Ordering::Relaxed))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Ghosts(Mutex<HashMap<Pid, Arc<Ghost>>>);

impl Ghosts {
    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<Pid, Arc<Ghost>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It stands for a process of this node. True: it is new.
    pub(crate) fn stand(&self, pid: Pid, node: NodeId) -> bool {
        let mut all = self.all();
        if let Some(ghost) = all.get(&pid) {
            ghost.node.store(node.0, Ordering::Relaxed);
            return false;
        }
        all.insert(pid, Arc::new(Ghost { pid, node: AtomicI32::new(node.0) }));
        true
    }

    pub(crate) fn gone(&self, pid: Pid) -> Option<Arc<Ghost>> {
        self.all().remove(&pid)
    }

    pub(crate) fn get(&self, pid: Pid) -> Option<Arc<Ghost>> {
        self.all().get(&pid).cloned()
    }
}
