//! How much a node has asked for.

use std::sync::atomic::{AtomicU64, Ordering};

/// Operations have smaller numbers (`enum fuse_opcode`).
pub(crate) const KINDS: usize = 64;

#[derive(Debug)]
pub(crate) struct Counts {
    kinds: [AtomicU64; KINDS],
    pub(crate) own: AtomicU64,
    pub(crate) read: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) ahead: AtomicU64,
    pub(crate) notices: AtomicU64,
    pub(crate) recalls: AtomicU64,
    /// As [`wire::view::ToServer::Kept`] has it: bytes, from its disk, from other nodes.
    pub(crate) kept: [AtomicU64; 3],
}

impl Default for Counts {
    fn default() -> Counts {
        let zero = || AtomicU64::new(0);
        Counts {
            kinds: std::array::from_fn(|_| zero()),
            own: zero(),
            read: zero(),
            written: zero(),
            ahead: zero(),
            notices: zero(),
            recalls: zero(),
            kept: std::array::from_fn(|_| zero()),
        }
    }
}

pub(crate) fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

impl Counts {
    pub(crate) fn request(&self, opcode: u32) {
        if let Some(kind) = self.kinds.get(opcode as usize) {
            add(kind, 1);
        }
    }

    pub(crate) fn keeps(&self, kept: [u64; 3]) {
        self.kept.iter().zip(kept).for_each(|(counter, count)| counter.store(count, Ordering::Relaxed));
    }

    /// Requests by operation, those that were made.
    pub(crate) fn requests(&self) -> Vec<(u32, u64)> {
        let all = self.kinds.iter().enumerate();
        all.map(|(kind, count)| (kind as u32, count.load(Ordering::Relaxed))).filter(|(_, count)| *count > 0).collect()
    }
}
