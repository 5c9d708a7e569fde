//! When what waits to be sent is sent: after each turn of the loop, but now and then while thousands of stand-ins are signalled.

use crate::connection::{Connection, Token};
use crate::front::Front;
use kern::epoll::Interest;
use tracing::info;
use vocab::Result;

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
                Connection::Client { link, .. } => {
                    link.flush().and_then(|()| self.clients.guests.keeps(token, link.kept()))
                }
                Connection::Greeting { .. } | Connection::Native { .. } | Connection::Script { .. } => Ok(()),
                Connection::Mover(mover) => mover.line.flush(),
            };
            if let Err(fault) = flushed.and_then(|()| self.wait_for(token)) {
                info!("a connection ends: {fault}");
                self.close(token);
            }
        }
    }

    /// Has the poller tell what is to be waited for of this connection.
    fn wait_for(&mut self, token: Token) -> Result<()> {
        let interest = self.interest(token);
        let before = self.full.get(&token).copied().unwrap_or(Interest::READ);
        if interest == before {
            return Ok(());
        }
        match interest {
            Interest::READ => drop(self.full.remove(&token)),
            _ => drop(self.full.insert(token, interest)),
        }
        if before == Interest::WRITE {
            // Questions may have come whole before, of which the poller does not tell.
            self.on_connection_ready(token);
        }
        match self.connections.get(&token) {
            Some(connection) if !self.clients.fair.is_parked(token) => {
                self.poller.modify(connection.fd(), token, interest)
            }
            _ => Ok(()),
        }
    }
}
