//! What is on its way from the copies to our own standard output and error.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use vocab::NodeId;
use wire::stream::Stream;

/// What the copies have written, gathered for the writers of our own streams.
pub(crate) trait Gathered: Sync {
    /// What is to be written to this stream.
    fn queue(&self, stream: Stream) -> &Queue;

    /// Bytes of a copy have been written out: it may write as many more.
    fn consumed(&self, copy: usize, stream: Stream, bytes: usize);

    /// All before a mark has been written.
    fn marked(&self);

    /// Nobody reads our own stream: let the programs know.
    fn unread(&self, stream: Stream);
}

/// What the writer of one stream is to do, in order.
#[derive(Debug)]
pub(crate) enum Item {
    /// Bytes of a copy: write them, then say that they are consumed.
    Data { copy: usize, bytes: Vec<u8> },
    /// A line of our own.
    Note(String),
    /// No more of this copy: write the line it has begun.
    Flush { copy: usize },
    /// This copy and its descendants have closed this stream.
    End,
    /// What follows of this copy comes from there.
    Moved { copy: usize, node: NodeId },
    /// Say when everything before this has been written.
    Mark,
}

/// What is to be written to one stream.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    items: Mutex<VecDeque<Item>>,
    filled: Condvar,
}

impl Queue {
    pub(crate) fn push(&self, item: Item) {
        self.lock().push_back(item);
        self.filled.notify_one();
    }

    /// All that is there, at least one.
    pub(crate) fn take(&self) -> VecDeque<Item> {
        let mut items = self.lock();
        while items.is_empty() {
            items = self.filled.wait(items).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut *items)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, VecDeque<Item>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
