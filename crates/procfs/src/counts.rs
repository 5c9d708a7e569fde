//! How often what was asked.

use kern::fuse::tree::{Asked, What, ROOT};
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::debug;

/// Since the beginning.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Names in directories of ghosts.
    names: AtomicU64,
    attributes: AtomicU64,
    /// Directories that were opened, and asked for what is in them.
    opened: AtomicU64,
    listed: AtomicU64,
    reads: AtomicU64,
    /// Of all these: when it was logged last, and when [`Counts::told`] found nothing left.
    logged: AtomicU64,
    told: AtomicU64,
}

fn more(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn now(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl Counts {
    pub(crate) fn counts(&self, asked: &Asked) {
        match asked.what {
            What::Lookup(_) if asked.node != ROOT => more(&self.names),
            What::Attributes => more(&self.attributes),
            What::OpenDirectory => more(&self.opened),
            What::Names { .. } => more(&self.listed),
            What::Read { .. } => more(&self.reads),
            _ => {}
        }
    }

    fn all(&self) -> u64 {
        [&self.names, &self.attributes, &self.opened, &self.listed, &self.reads].map(now).iter().sum()
    }

    /// If anything was asked since the last time.
    pub(crate) fn log(&self) {
        let all = self.all();
        if self.logged.swap(all, Ordering::Relaxed) != all {
            let [names, attributes, opened, listed, reads] =
                [&self.names, &self.attributes, &self.opened, &self.listed, &self.reads].map(now);
            debug!(names, attributes, opened, listed, reads, "was asked");
        }
    }

    /// Calls `forget`, which says whether anything of what was told is left, unless there is nothing: what nobody has asked for was not told.
    pub(crate) fn told(&self, forget: impl FnOnce() -> bool) {
        let all = self.all();
        if now(&self.told) != all && !forget() {
            self.told.store(all, Ordering::Relaxed);
        }
    }
}
