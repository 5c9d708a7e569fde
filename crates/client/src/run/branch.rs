//! One channel of a copy: the streams of those of its processes that are on one node. The first is the program's; each process that moves with such streams begins
//! another one ([`super::moving`]).

use super::feed::Flow;
use kern::epoll::{Interest, Poller};
use link::Secure;
use std::os::fd::AsFd;
use vocab::{NodeId, Result};
use wire::stream::CREDIT;

/// Names one within its copy; 0: the first.
pub(crate) type Serial = u32;

/// One of any copy's: the number of the copy, and which of that.
pub(crate) type Which = (usize, Serial);

/// The poller's token of a branch.
pub(super) fn token((number, serial): Which) -> u64 {
    (number as u64) << 32 | u64::from(serial)
}

pub(super) fn which(token: u64) -> Which {
    ((token >> 32) as usize, token as u32)
}

/// See the module.
pub(crate) struct Branch {
    pub(super) serial: Serial,
    pub(super) node: NodeId,
    /// Of the move for which it was made ([`wire::ask::Further::branch`]); 0: of none.
    pub(super) id: u64,
    /// Where its first process was before.
    pub(super) from: NodeId,
    /// The program itself is there, or will be.
    pub(super) program: bool,
    pub(super) channel: Secure,
    /// All has come that was written before, where the process was: it may be read.
    pub(super) turn: bool,
    /// That is not known: who would say so may be lost. So may be the move.
    pub(super) early: bool,
    /// Somebody there takes input, as far as we know.
    pub(super) input: bool,
    /// Somebody there wants input, and has been given none since.
    pub(super) wants: bool,
    /// The node is asked for that, for this copy alone.
    pub(super) asked: bool,
    pub(super) flow: Flow,
    /// Output and errors: consumed, and not yet told.
    pub(super) owed: [u32; 2],
    /// Output and errors: how much may still come.
    pub(super) due: [u32; 2],
    /// Output and errors: the end has come.
    pub(super) closed: [bool; 2],
    /// What the poller waits for; `None`: it does not know the channel.
    watched: Option<Interest>,
    /// Not all that has been received has been taken. The poller knows nothing of that, so it is said here, and goes with the branch.
    pub(super) in_hand: bool,
}

impl Branch {
    /// The poller is to know it ([`Branch::watch`]).
    pub(super) fn new(serial: Serial, node: NodeId, channel: Secure) -> Branch {
        Branch {
            serial,
            node,
            id: 0,
            from: node,
            program: true,
            channel,
            turn: true,
            early: false,
            input: true,
            wants: false,
            asked: false,
            flow: Flow::new(),
            owed: [0; 2],
            due: [CREDIT; 2],
            closed: [false; 2],
            watched: None,
            in_hand: false,
        }
    }

    /// Is its handshake, of which nothing else depends, to be gone on with?
    pub(super) fn shakes(&self) -> bool {
        !self.turn && !self.channel.established()
    }

    /// Can somebody there be given input?
    pub(super) fn takes(&self) -> bool {
        self.turn && self.input && !self.flow.is_told()
    }

    /// Nothing is left to come over it but the program's end.
    pub(super) fn is_spent(&self) -> bool {
        self.is_silent() && !self.flow.is_out()
    }

    /// Nor any but input that may have to come back.
    pub(super) fn is_silent(&self) -> bool {
        self.turn && self.closed == [true; 2] && (!self.input || self.flow.is_told())
    }

    /// Has the poller wait, under this token, for what the channel waits for.
    pub(super) fn watch(&mut self, poller: &Poller, token: u64) {
        let wanted = (self.turn || self.shakes()).then(|| Interest::reading_and(self.channel.wants_write()));
        let done = self.watch_for(poller, token, wanted);
        if let Err(fault) = done {
            tracing::warn!(%fault, node = %self.node, "a channel is not waited for");
        }
    }

    /// The poller knows it no more.
    pub(super) fn rest(&mut self, poller: &Poller) {
        if let Err(fault) = self.watch_for(poller, 0, None) {
            tracing::warn!(%fault, node = %self.node, "a channel cannot rest");
        }
    }

    /// It is another poller's from now on.
    pub(super) fn forget_poller(&mut self) {
        self.watched = None;
    }

    fn watch_for(&mut self, poller: &Poller, token: u64, wanted: Option<Interest>) -> Result<()> {
        let fd = self.channel.fd();
        match (self.watched, wanted) {
            (now, wanted) if now == wanted => return Ok(()),
            (_, None) => poller.remove(fd.as_fd())?,
            (None, Some(interest)) => poller.add(fd, token, interest)?,
            (Some(_), Some(interest)) => poller.modify(fd, token, interest)?,
        }
        self.watched = wanted;
        Ok(())
    }
}
