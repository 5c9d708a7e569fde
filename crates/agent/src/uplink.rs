//! The control link to the front end, from dialling to `Welcome` and again after a break.
//!
//! | state | next |
//! |---|---|
//! | Down | at its time: Dialling |
//! | Dialling | connected: the preamble goes, Open |
//! | Open | the handshake, Hello, Welcome, then everything else; broken: Down |

use crate::names::{look_up, Names};
use kern::clock::{boottime_us, monotonic_us};
use kern::epoll::Interest;
use link::preamble::Preamble;
use link::reconnect::{delay_us, refused_delay_us};
use link::Secure;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tracing::{info, warn};
use vocab::{Fault, Kind, Result};
use wire::hello::Hello;
use wire::node::{ToFront, ToNode};

/// A connection that is not welcomed in this time is given up.
const PATIENCE_US: u64 = 4_000_000;

/// So many failed attempts in a row are no accident.
const LASTING: u32 = 3;

enum State {
    Down,
    Dialling(OwnedFd, SocketAddr),
    Open(Box<Secure>),
}

/// The part of each Hello that is about the node itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    pub(crate) identity: u64,
    pub(crate) name: String,
    pub(crate) allow: Option<Vec<String>>,
}

/// The link, whatever state it is in.
pub(crate) struct Uplink {
    front: String,
    names: Names,
    key: [u8; 32],
    own: Own,
    state: State,
    /// Attempts that failed in a row.
    failed: u32,
    /// Of these the last ones that the front end has refused, before it has ever welcomed this node.
    refused: u32,
    has_joined: bool,
    /// Counts connections: the number of a descriptor may come again.
    dialled: u64,
    /// When to dial (Down), or to give up (not yet welcomed); monotonic.
    due_us: u64,
    /// Boot time at which the Hello of this connection was sent, 0 before.
    hello_us: u64,
    welcomed: bool,
    /// The front end's address on this connection: where channels go that name none.
    peer: Option<SocketAddr>,
}

impl Uplink {
    pub(crate) fn new(front: String, key: [u8; 32], own: Own) -> Uplink {
        let (state, names) = (State::Down, Names::new(front.clone(), look_up));
        Uplink {
            front,
            names,
            key,
            own,
            state,
            failed: 0,
            refused: 0,
            has_joined: false,
            dialled: 0,
            due_us: 0,
            hello_us: 0,
            welcomed: false,
            peer: None,
        }
    }

    /// Has the front end welcomed this connection?
    pub(crate) fn up(&self) -> bool {
        self.welcomed
    }

    /// When the Hello of this connection was sent (boot time).
    pub(crate) fn hello_us(&self) -> u64 {
        self.hello_us
    }

    /// Where a mover is to be reached: `:port` is one of the front end's.
    pub(crate) fn reached(&self, address: String) -> String {
        match (address.strip_prefix(':').and_then(|port| port.parse().ok()), self.peer) {
            (Some(port), Some(peer)) => SocketAddr::new(peer.ip(), port).to_string(),
            _ => address,
        }
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// When [`Uplink::step`] is to be called at the latest, whatever the descriptor says.
    pub(crate) fn due_us(&self) -> Option<u64> {
        (!self.welcomed).then_some(self.due_us)
    }

    /// Another one for each connection.
    pub(crate) fn connection(&self) -> u64 {
        self.dialled
    }

    /// What to wait for.
    pub(crate) fn waits_for(&self) -> Option<(BorrowedFd<'_>, Interest)> {
        match &self.state {
            State::Down => None,
            State::Dialling(fd, _) => Some((fd.as_fd(), Interest::WRITE)),
            State::Open(link) => Some((link.fd(), Interest::reading_and(link.wants_write()))),
        }
    }

    /// Bytes that wait to be sent.
    pub(crate) fn queued(&self) -> usize {
        match &self.state {
            State::Open(link) => link.queued(),
            _ => 0,
        }
    }

    /// Queues a message; without a link it is dropped, since a Hello tells all that matters of it.
    pub(crate) fn send(&mut self, message: &ToFront) {
        if let Err(fault) = self.try_send(message) {
            warn!(%fault, "link: a message is not sent");
        }
    }

    /// The same, where somebody waits for what comes of it.
    ///
    /// # Errors
    /// `Wire` when the message is longer than a frame may be.
    pub(crate) fn try_send(&mut self, message: &ToFront) -> Result<()> {
        let (State::Open(link), true) = (&mut self.state, self.welcomed) else { return Ok(()) };
        match link.send(message) {
            Err(fault) if fault.kind != Kind::Wire => {
                self.broke(&fault);
                Ok(())
            }
            sent => sent,
        }
    }

    /// Is this a connection on which nothing has been said yet, and can be?
    pub(crate) fn to_greet(&self) -> bool {
        matches!(&self.state, State::Open(link) if link.established() && self.hello_us == 0)
    }

    /// Begins a connection.
    pub(crate) fn greet(&mut self, hello: Hello) {
        let State::Open(link) = &mut self.state else { return };
        self.hello_us = boottime_us();
        let Own { identity, name, allow } = self.own.clone();
        let sent = Hello { identity, name, allow, ..hello }
            .parts()
            .into_iter()
            .try_for_each(|part| link.send(&ToFront::from(part)));
        if let Err(fault) = sent.and_then(|()| link.flush()) {
            self.broke(&fault);
        }
    }

    /// Writes what is queued.
    pub(crate) fn flush(&mut self) {
        if let State::Open(link) = &mut self.state {
            if let Err(fault) = link.flush() {
                self.broke(&fault);
            }
        }
    }

    /// Does what can be done now and returns what has come.
    pub(crate) fn step(&mut self) -> Vec<ToNode> {
        let mut come = Vec::new();
        if let Err(fault) = self.try_step(&mut come) {
            self.broke(&fault);
        }
        come
    }

    fn try_step(&mut self, come: &mut Vec<ToNode>) -> Result<()> {
        if let State::Down = self.state {
            if monotonic_us() < self.due_us {
                return Ok(());
            }
            self.due_us = monotonic_us() + PATIENCE_US;
            self.dialled += 1;
            let address = self.address()?;
            self.state = State::Dialling(kern::sock::tcp_begin(address)?, address);
        }
        if let State::Dialling(fd, address) = &self.state {
            let failed = |fault: Fault| fault.doing(format!("reach the front end at {address}"));
            if !kern::sock::tcp_finish(fd.as_fd()).map_err(failed)? {
                return self.in_time();
            }
            self.connected()?;
        }
        let State::Open(link) = &mut self.state else { return Ok(()) };
        let more = link.receive();
        while let Some(message) = link.next::<ToNode>()? {
            self.welcomed |= matches!(message, ToNode::Welcome { .. });
            come.push(message);
        }
        link.flush()?;
        more?;
        self.in_time()
    }

    fn in_time(&self) -> Result<()> {
        match !self.welcomed && monotonic_us() >= self.due_us {
            true => Err(Fault::gone(format!(
                "join the front end at {}: no answer in {} s",
                self.front,
                PATIENCE_US / 1_000_000
            ))),
            false => Ok(()),
        }
    }

    fn connected(&mut self) -> Result<()> {
        let State::Dialling(fd, _) = std::mem::replace(&mut self.state, State::Down) else { return Ok(()) };
        kern::sock::tcp_tune(fd.as_fd(), kern::sock::USER_TIMEOUT_MS)?;
        self.peer = kern::sock::peer_address(fd.as_fd()).ok();
        Preamble::Control.send(fd.as_fd())?;
        self.hello_us = 0;
        self.state = State::Open(Box::new(Secure::control_dialler(fd, &self.key)?));
        Ok(())
    }

    fn address(&mut self) -> Result<SocketAddr> {
        let known = self.names.addresses()?;
        // A name may have several, of which one answers ("localhost": IPv6 first, where the front end listens for IPv4 only).
        let one = self.failed as usize % known.len().max(1);
        let doing = || Fault::gone(format!("look up the front end {}", self.front));
        known.get(one).copied().ok_or_else(doing)
    }

    /// The connection is of no use any more.
    pub(crate) fn broke(&mut self, fault: &Fault) {
        if self.welcomed {
            info!(%fault, "link: up -> down");
            self.failed = 0;
        } else {
            self.did_not_join(fault);
        }
        self.due_us = monotonic_us() + self.delay_us();
        self.welcomed = false;
        self.hello_us = 0;
        self.state = State::Down;
    }

    fn did_not_join(&mut self, fault: &Fault) {
        let is_refusal = fault.kind == Kind::Refused && !self.has_joined;
        self.refused = if is_refusal { self.refused.saturating_add(1) } else { 0 };
        let in_handshake = self.hello_us == 0 && matches!(self.state, State::Open(_));
        // A front end that ends, or has no time, closes a connection too, but not one after the other.
        let guess = (in_handshake && self.refused > LASTING)
            .then(|| fault.clone().doing("the front end refuses this node, most likely because its key is another"));
        let fault = guess.as_ref().unwrap_or(fault);
        // Once is a restart or a race; only what lasts is worth a line.
        match self.failed {
            0 | LASTING => warn!(%fault, "link: cannot join"),
            _ => tracing::debug!(%fault, "link: cannot join"),
        }
        self.failed = self.failed.saturating_add(1);
    }

    /// A node that has joined has a lease of life, and dials often as long as that lasts.
    fn delay_us(&self) -> u64 {
        let spread = link::random::<8>().map_or(0, u64::from_ne_bytes);
        match self.refused {
            0 => delay_us(self.failed, spread),
            refused => refused_delay_us(refused, spread),
        }
    }

    /// A Welcome has been taken in.
    pub(crate) fn joined(&mut self) {
        (self.failed, self.refused, self.has_joined) = (0, 0, true);
        self.names.wait_no_more();
    }
}
