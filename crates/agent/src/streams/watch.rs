//! One descriptor's place in the poller.

use kern::epoll::{Interest, Poller};
use std::os::fd::BorrowedFd;
use vocab::Result;

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
