//! Output that was read and may not go yet (see [`crate::order`]).

use crate::order::Order;
use kern::clock::monotonic_us;
use std::collections::VecDeque;
use std::sync::Arc;
use tracing::warn;
use wire::stream::Chunk;

/// Microseconds after which it goes all the same: whatever shows the program on the front end is stuck, and its output must not be.
/// As long as a front end that is merely busy may be silent without losing a node.
const LONGEST_US: u64 = 5_000_000;

/// The chunks of one channel, in their order.
pub(super) struct Held {
    order: Arc<Order>,
    chunks: VecDeque<(u64, u64, Chunk)>,
}

impl Held {
    pub(super) fn new(order: Arc<Order>) -> Held {
        Held { order, chunks: VecDeque::new() }
    }

    /// The chunk itself when it may go now, otherwise it is kept.
    pub(super) fn pass(&mut self, chunk: Chunk) -> Option<Chunk> {
        let before = self.chunks.back().map(|(number, _, _)| *number);
        let Some(number) = self.order.ask().or(before) else { return Some(chunk) };
        self.chunks.push_back((number, monotonic_us() + LONGEST_US, chunk));
        None
    }

    /// Likewise for one that nobody sees: it waits only for those before it.
    pub(super) fn behind(&mut self, chunk: Chunk) -> Option<Chunk> {
        let Some(&(number, until, _)) = self.chunks.back() else { return Some(chunk) };
        self.chunks.push_back((number, until, chunk));
        None
    }

    /// The next one that may go by now.
    pub(super) fn take(&mut self) -> Option<Chunk> {
        let (number, until, _) = self.chunks.front()?;
        if *number > self.order.granted() {
            if monotonic_us() < *until {
                return None;
            }
            warn!(number, "output goes though what happened before it is not shown");
        }
        self.chunks.pop_front().map(|(_, _, chunk)| chunk)
    }

    /// When the next one goes at the latest (monotonic).
    pub(super) fn until(&self) -> Option<u64> {
        self.chunks.front().map(|(_, until, _)| *until)
    }
}
