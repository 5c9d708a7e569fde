//! When what waits to be sent is sent: after each turn of the loop, but now and then while thousands of stand-ins are signalled.

use crate::connection::Connection;
use crate::front::Front;
use kern::epoll::Interest;
use tracing::info;

/// From one sending to the next after Ctrl-C in a large job, in microseconds: each wakes an agent, which then has many signals to give and not one.
const TOGETHER_US: u64 = 4_000;

impl Front {
    pub(crate) fn flush_in_time(&mut self, now: u64) {
        if self.dirty.is_empty() || (self.ghosts.many_signalled() && now < self.flushed_us + TOGETHER_US) {
            return;
        }
        self.flushed_us = now;
        self.flush();
    }

    /// When [`Front::flush_in_time`] has something to send.
    pub(crate) fn flush_at(&self) -> Option<u64> {
        (!self.dirty.is_empty()).then_some(self.flushed_us + TOGETHER_US)
    }

    pub(crate) fn flush(&mut self) {
        for token in std::mem::take(&mut self.dirty) {
            let Some(connection) = self.connections.get_mut(&token) else { continue };
            let flushed = match connection {
                Connection::Node { link, .. } | Connection::Joining { link, .. } => link.flush(),
                Connection::Client { link, .. } => link.flush().and_then(|()| self.guests.keeps(token, link.kept())),
                Connection::Greeting { .. } | Connection::Native { .. } => Ok(()),
                Connection::Mover(mover) => mover.line.flush(),
            };
            let full = connection.wants_write();
            let kept = match full == self.full.contains(&token) {
                true => flushed,
                false => flushed.and_then(|()| self.poller.modify(connection.fd(), token, Interest::reading_and(full))),
            };
            if full {
                self.full.insert(token);
            } else {
                self.full.remove(&token);
            }
            if let Err(fault) = kept {
                info!("a connection ends: {fault}");
                self.close(token);
            }
        }
    }
}
