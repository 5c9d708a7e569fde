//! The order of connections: the users of the local socket, and peers that have yet to show the key. Nodes, ghosts and beats are not
//! here: the loop serves them first, and clients for at most [`TURN_US`] of each round (docs/decisions/fair-shares.md).

use crate::connection::{Connection, Token};
use crate::front::Front;
use kern::clock::{monotonic_us, thread_us};
use kern::epoll::Interest;
use link::fair::{Fair, Owner, Turn};
use link::guests::Guests;
use link::rarely::Refusals;
use std::net::IpAddr;
use tracing::warn;

/// Clients are served so long before the loop goes round, in microseconds.
const TURN_US: u64 = 2_000;
/// Connections that are taken from a listening socket in one round.
pub(crate) const TAKEN: usize = 32;
/// How long nobody is taken after a round in which an owner in debt has come, in microseconds.
pub(crate) const REST_US: u64 = 1_500;
/// A client that has left so many bytes of answers unread is asked nothing more until it reads.
pub(crate) const UNREAD: usize = 64 * 1024;

/// The connections of this machine's users, and the shares of all owners.
#[derive(Default)]
pub(crate) struct Clients {
    pub(crate) guests: Guests<Token>,
    pub(crate) fair: Fair<Token>,
    /// Accounts of their own for what it takes to let somebody in: who connects without end is served all the same.
    arrivals: Fair<Token>,
    /// Lines of the log about peers without the key.
    pub(crate) lines: Refusals,
}

impl Clients {
    pub(crate) fn leave(&mut self, token: Token) {
        self.guests.leave(token);
        self.fair.forget(token);
    }

    /// Charges `owner` with what this thread has done since `before_us` ([`thread_us`]). True: the owner is in debt.
    pub(crate) fn charge_since(&mut self, owner: Owner, before_us: u64) -> bool {
        // Work too short to be measured is not free.
        let used_us = thread_us().saturating_sub(before_us) + 1;
        self.fair.charge(owner, used_us, monotonic_us())
    }

    /// Likewise, with what it took to let a connection in.
    pub(crate) fn arrived_since(&mut self, owner: Owner, before_us: u64) -> bool {
        let used_us = thread_us().saturating_sub(before_us) + 1;
        self.arrivals.charge(owner, used_us, monotonic_us())
    }
}

impl Front {
    /// The poller has something of a connection. Those with an owner wait for their turn.
    pub(crate) fn on_connection_ready(&mut self, token: Token) {
        let Some(owner) = self.owner(token) else {
            self.on_connection(token);
            return;
        };
        if self.clients.fair.ready(owner, token, monotonic_us()) {
            if let Some(connection) = self.connections.get(&token) {
                let _ = self.poller.remove(connection.fd());
            }
        }
    }

    /// Serves those whose turn it is.
    pub(crate) fn serve_clients(&mut self) {
        let until = monotonic_us() + TURN_US;
        loop {
            let Some(turn) = self.clients.fair.next(monotonic_us()) else { return };
            let before = thread_us();
            let more = self.on_connection(turn.key);
            self.settle();
            self.clients.charge_since(turn.owner, before);
            self.after_turn(turn, more);
            if monotonic_us() >= until {
                return;
            }
        }
    }

    fn after_turn(&mut self, turn: Turn<Token>, more: bool) {
        let Some(connection) = self.connections.get(&turn.key) else { return };
        if more {
            self.clients.fair.again(turn);
        } else if turn.parked {
            let interest = self.full.get(&turn.key).copied().unwrap_or(Interest::READ);
            if let Err(fault) = self.poller.add(connection.fd(), turn.key, interest) {
                warn!("a connection ends: {fault}");
                self.close(turn.key);
            }
        }
    }

    /// The owner of a connection; `None` for one that is served at once.
    pub(crate) fn owner(&self, token: Token) -> Option<Owner> {
        match self.connections.get(&token)? {
            Connection::Client { peer, .. } => Some(Owner::of_user(peer.creds().uid)),
            Connection::Joining { from, .. } => Some(self.stranger(from.ip())),
            _ => None,
        }
    }

    /// The owner of a peer that has not shown the key.
    pub(crate) fn stranger(&self, from: IpAddr) -> Owner {
        match self.nodes.iter().any(|(_, node)| node.address.ip() == from) {
            true => Owner::Node(from),
            false => Owner::Strangers,
        }
    }

    /// Events that the poller is to tell of a connection: a client that reads nothing is not asked anything.
    pub(crate) fn interest(&self, token: Token) -> Interest {
        match self.connections.get(&token) {
            Some(Connection::Client { link, peer }) if link.queued() > UNREAD && peer.creds().uid != 0 => {
                Interest::WRITE
            }
            Some(connection) => Interest::reading_and(connection.wants_write()),
            None => Interest::READ,
        }
    }
}
