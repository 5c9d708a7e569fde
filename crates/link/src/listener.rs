//! A listening socket on a loop's poller.

use kern::epoll::{Interest, Poller};
use kern::sock::accept;
use std::os::fd::{AsFd, OwnedFd};
use tracing::warn;
use vocab::Result;

/// How long nobody is let in when there is no descriptor for them, in microseconds.
const DEAF_US: u64 = 100_000;

/// It lets go of the poller while no descriptor is to be had for who waits (EMFILE), since the poller would tell of them again and again.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    token: u64,
    deaf_until_us: Option<u64>,
}

impl Listener {
    /// Lets `poller` tell of connections to `fd` by `token`.
    ///
    /// # Errors
    /// `Sys` as epoll_ctl(2).
    pub fn new(fd: OwnedFd, token: u64, poller: &Poller) -> Result<Listener> {
        poller.add(fd.as_fd(), token, Interest::READ)?;
        Ok(Listener { fd, token, deaf_until_us: None })
    }

    /// The next connection, nonblocking; `None` when nobody waits, or none can be taken at `now_us` (monotonic), with a line in the log.
    pub fn take(&mut self, poller: &Poller, now_us: u64) -> Option<OwnedFd> {
        accept(self.fd.as_fd()).unwrap_or_else(|fault| {
            warn!("{fault}");
            if self.deaf_until_us.is_none() && poller.remove(self.fd.as_fd()).is_ok() {
                self.deaf_until_us = Some(now_us + DEAF_US);
            }
            None
        })
    }

    /// Takes nobody for a while: those who connect wait in the socket's queue.
    pub fn rest(&mut self, poller: &Poller, until_us: u64) {
        if self.deaf_until_us.is_none() && poller.remove(self.fd.as_fd()).is_ok() {
            self.deaf_until_us = Some(until_us);
        }
    }

    /// When [`Listener::listen_again`] has something to do.
    pub fn due_us(&self) -> Option<u64> {
        self.deaf_until_us
    }

    /// Lets the poller tell of connections again, if it is time.
    pub fn listen_again(&mut self, poller: &Poller, now_us: u64) {
        if self.deaf_until_us.is_some_and(|until| until <= now_us) {
            let added = poller.add(self.fd.as_fd(), self.token, Interest::READ);
            self.deaf_until_us = added.err().map(|fault| {
                warn!("{fault}");
                now_us + DEAF_US
            });
        }
    }
}
