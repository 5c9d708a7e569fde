//! What is on its way from the copies to our own standard output and error.

use super::branch::Which;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use vocab::NodeId;
use wire::stream::Stream;

/// What the copies have written, gathered for the writers of our own streams.
pub(crate) trait Gathered: Sync {
    /// What is to be written to this stream.
    fn queue(&self, stream: Stream) -> &Queue;

    /// Bytes that came over a channel have been written out: as many more may come.
    fn consumed(&self, of: Which, stream: Stream, bytes: usize);

    /// All before a mark has been written.
    fn marked(&self);

    /// All before the word of a process that comes to where this is has been written to one stream.
    fn passed(&self, copy: usize, branch: u64);

    /// Nobody reads our own stream: let the programs know.
    fn unread(&self, stream: Stream);
}

/// What the writer of one stream is to do, in order.
#[derive(Debug)]
pub(crate) enum Item {
    /// Bytes of a channel: write them, then say that they are consumed.
    Data { of: Which, bytes: Vec<u8> },
    /// A line of our own.
    Note(String),
    /// No more of this channel: write the line it has begun.
    Flush { of: Which },
    /// A copy and its descendants have closed this stream.
    End,
    /// What was begun on the one channel goes on on the other, which comes from there.
    Moved { from: Which, to: Which, node: NodeId },
    /// Say when everything before this has been written.
    Mark,
    /// The same, for a process of this copy that comes to where this is.
    Passed { copy: usize, branch: u64 },
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
