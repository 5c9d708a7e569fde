//! One descriptor's place in the poller.

use kern::epoll::{Interest, Poller};
use std::os::fd::BorrowedFd;
use vocab::Result;

/// Which of a channel's descriptors is meant: the low bits of the poller's token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    Line = 0,
    Input = 1,
    /// Also a terminal's master, both ways.
    Output = 2,
    Errors = 3,
}

impl Slot {
    pub(super) fn of(token: u64) -> (u64, Slot) {
        let slot = match token & 3 {
            0 => Slot::Line,
            1 => Slot::Input,
            2 => Slot::Output,
            _ => Slot::Errors,
        };
        (token >> 2, slot)
    }
}

/// What a descriptor is waited for now. One that is not waited for at all must leave the poller: it would tell its hangup for ever.
#[derive(Debug, Default)]
pub(super) struct Watch {
    now: Option<Interest>,
}

impl Watch {
    /// Waits for `wanted` from now on; `None`: for nothing, not even hangup.
    pub(super) fn set(
        &mut self,
        poller: &Poller,
        fd: BorrowedFd<'_>,
        token: u64,
        wanted: Option<Interest>,
    ) -> Result<()> {
        match (self.now, wanted) {
            (now, wanted) if now == wanted => return Ok(()),
            (_, None) => poller.remove(fd)?,
            (None, Some(interest)) => poller.add(fd, token, interest)?,
            (Some(_), Some(interest)) => poller.modify(fd, token, interest)?,
        }
        self.now = wanted;
        Ok(())
    }
}
