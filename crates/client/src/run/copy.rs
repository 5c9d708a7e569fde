//! One copy of the program, as the relay knows it.

use kern::epoll::{Interest, Poller};
use link::secure::Secure;
use vocab::NodeId;
use wire::stream::CREDIT;

/// One copy of the program.
pub(crate) struct Copy {
    pub(crate) node: NodeId,
    pub(crate) key: [u8; 32],
    pub(crate) channel: Option<Secure>,
    /// The program's end is known, with all that was written before it; or nothing more can come.
    pub(crate) over: bool,
    /// The program still takes input, as far as we know.
    pub(super) input: bool,
    /// Input that may still be sent.
    pub(super) credit: u32,
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
}

impl Copy {
    pub(super) fn new(node: NodeId, key: [u8; 32]) -> Copy {
        Copy {
            node,
            key,
            channel: None,
            over: false,
            input: true,
            credit: CREDIT,
            owed: [0; 2],
            due: [CREDIT; 2],
            closed: [false; 2],
            writing: false,
            in_hand: false,
        }
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
