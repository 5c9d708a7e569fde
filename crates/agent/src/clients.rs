//! The order of questions: each user of the local socket has a share of this daemon, which runs before all ordinary threads
//! (docs/decisions/fair-shares.md). Beats, records, gates and stand-ins are not here: the loop serves them first.

use crate::agent::{Agent, Token};
use kern::clock::{monotonic_us, thread_us};
use kern::epoll::Interest;
use link::fair::{Owner, Turn};
use tracing::warn;

/// Clients are served so long before the loop goes round, in microseconds.
const TURN_US: u64 = 1_000;
/// Connections that are taken from a listening socket in one round.
pub(crate) const TAKEN: usize = 32;
/// How long nobody is taken after a round in which a user in debt has come, in microseconds.
pub(crate) const REST_US: u64 = 1_500;
/// A client that has left so many bytes of answers unread is asked nothing more until it reads.
pub(crate) const UNREAD: usize = 64 * 1024;

impl Agent {
    /// The poller has something of a client.
    pub(crate) fn client_ready(&mut self, number: u32) {
        let Some(owner) = self.asks.owner(number) else { return };
        if self.asks.fair.ready(owner, number, monotonic_us()) {
            self.asks.unpoll(&self.poller, number);
        }
    }

    /// Serves clients whose turn it is.
    pub(crate) fn serve_clients(&mut self) {
        let until = monotonic_us() + TURN_US;
        loop {
            let Some(turn) = self.asks.fair.next(monotonic_us()) else { return };
            let before = thread_us();
            let more = self.serve_client(turn.key);
            self.charge_since(turn.owner, before);
            self.after_turn(turn, more);
            if monotonic_us() >= until {
                return;
            }
        }
    }

    /// Charges `owner` with what this thread has done since `before_us` ([`thread_us`]). True: the owner is in debt.
    pub(crate) fn charge_since(&mut self, owner: Owner, before_us: u64) -> bool {
        // Work too short to be measured is not free.
        let used_us = thread_us().saturating_sub(before_us) + 1;
        self.asks.fair.charge(owner, used_us, monotonic_us())
    }

    /// Likewise, with what it took to let a connection in.
    pub(crate) fn arrived_since(&mut self, owner: Owner, before_us: u64) -> bool {
        let used_us = thread_us().saturating_sub(before_us) + 1;
        self.asks.arrivals.charge(owner, used_us, monotonic_us())
    }

    fn after_turn(&mut self, turn: Turn<u32>, more: bool) {
        if self.asks.owner(turn.key).is_none() {
            return;
        }
        if more {
            self.asks.fair.again(turn);
        } else if turn.parked && !self.asks.poll_again(&self.poller, turn.key) {
            self.drop_client(turn.key);
        }
    }

    /// Has the poller tell what is to be waited for of a client; false when it cannot.
    pub(crate) fn wait_for_client(&mut self, number: u32) -> bool {
        let Some((before, now)) = self.asks.interest_changes(number) else { return true };
        if before == Interest::WRITE {
            // Questions may have come whole before, of which the poller does not tell.
            self.client_ready(number);
        }
        self.asks.fair.is_parked(number) || self.asks.poll_for(&self.poller, number, now)
    }
}

/// Says in the log why a client is dropped.
pub(crate) fn polled(done: vocab::Result<()>) -> bool {
    done.inspect_err(|fault| warn!(%fault, "local client")).is_ok()
}

/// The poller's number of a client.
pub(crate) fn poller_number(number: u32) -> u64 {
    Token::Client(number).number()
}
