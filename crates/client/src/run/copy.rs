//! One copy of the program, as the relay knows it.

use super::delivery::Delivery;
use super::feed::Feed;
use kern::epoll::{Interest, Poller};
use link::secure::Secure;
use std::collections::VecDeque;
use vocab::{Fault, NodeId};
use wire::stream::CREDIT;

/// One copy of the program.
pub(crate) struct Copy {
    pub(crate) node: NodeId,
    pub(crate) key: [u8; 32],
    pub(crate) channel: Option<Secure>,
    /// The program's end is known, with all that was written before it; or nothing more can come.
    pub(crate) over: bool,
    /// The first of the two.
    pub(super) whole: bool,
    /// The channel has broken, and the daemon has yet to say why the program is over.
    pub(super) broken: Option<Fault>,
    /// The daemon has said that the program has ended by itself.
    pub(super) ended: bool,
    /// The program still takes input, as far as we know.
    pub(super) input: bool,
    pub(super) feed: Feed,
    pub(super) delivery: Delivery,
    /// Output and errors: consumed, and not yet told.
    pub(super) owed: [u32; 2],
    /// Output and errors: how much may still come.
    pub(super) due: [u32; 2],
    /// Output and errors: the end has come.
    pub(super) closed: [bool; 2],
    /// Not all could be written at once: the poller waits until it can.
    pub(super) writing: bool,
    /// Not all that has been received has been taken. The poller knows nothing of that, so it is said here, and goes with the copy.
    pub(super) in_hand: bool,
    /// The program has left the node of the channel that was the last one.
    pub(super) moved: bool,
    /// Channels over which the copy is to go on, in order.
    pub(super) next: VecDeque<Next>,
    /// How often it has left a channel.
    pub(super) turn: u32,
    /// Output and errors that came over channels before the present one and are not consumed.
    pub(super) before: [u32; 2],
}

/// A channel whose turn has not come.
pub(super) struct Next {
    pub(super) node: NodeId,
    pub(super) channel: Secure,
    /// The handshake is not done, and is waited for.
    pub(super) shaking: bool,
}

impl Copy {
    pub(super) fn new(node: NodeId, key: [u8; 32]) -> Copy {
        Copy {
            node,
            key,
            channel: None,
            over: false,
            whole: false,
            broken: None,
            ended: false,
            input: true,
            feed: Feed::new(),
            delivery: Delivery::default(),
            owed: [0; 2],
            due: [CREDIT; 2],
            closed: [false; 2],
            writing: false,
            in_hand: false,
            moved: false,
            next: VecDeque::new(),
            turn: 0,
            before: [0; 2],
        }
    }

    /// Where the program is, as far as the daemon has said so.
    pub(super) fn newest_node(&self) -> NodeId {
        self.next.back().map_or(self.node, |next| next.node)
    }

    /// Has the poller wait for what the channel waits for.
    pub(super) fn watch(&mut self, poller: &Poller, number: usize) {
        let Some(channel) = &self.channel else { return };
        if channel.wants_write() != self.writing {
            self.writing = channel.wants_write();
            let interest = Interest::reading_and(self.writing);
            if let Err(fault) = poller.modify(channel.fd(), number as u64, interest) {
                tracing::warn!(%fault, node = %self.node, "a channel is not waited for");
            }
        }
    }
}
