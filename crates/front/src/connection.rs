//! What hangs on the daemon's poller: numbers for descriptors, and what each is.

use crate::movers::Mover;
use kern::sock::Peer;
use link::preamble::Greeting;
use link::{Plain, Secure};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vocab::{NodeId, Pid};
use wire::hello::Hello;

/// The poller's number for a descriptor.
pub(crate) type Token = u64;

pub(crate) const LISTENER: Token = 0;
pub(crate) const LOCAL: Token = 1;
pub(crate) const GHOSTS: Token = 2;
pub(crate) const SIGNALS: Token = 3;
pub(crate) const HOLDER: Token = 4;
/// Connections have this number and those above it.
pub(crate) const FIRST_CONNECTION: Token = 16;

/// One descriptor that comes and goes.
pub(crate) enum Connection {
    /// Has not said what it is.
    Greeting {
        greeting: Greeting,
        from: SocketAddr,
    },
    /// Says it is a node and has not sent all of its Hello. Dropped at `deadline_us`.
    Joining {
        link: Box<Secure>,
        from: SocketAddr,
        said: Option<Box<Hello>>,
        deadline_us: u64,
    },
    Node {
        link: Box<Secure>,
        node: NodeId,
    },
    Client {
        link: Box<Plain>,
        peer: Peer,
    },
    /// A pidfd: readable when the process has ended.
    Native {
        pidfd: OwnedFd,
        pid: Pid,
    },
    Mover(Box<Mover>),
    /// A pidfd of the start-up script of this node.
    Script {
        pidfd: OwnedFd,
        node: NodeId,
    },
}

impl Connection {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Connection::Greeting { greeting, .. } => greeting.fd(),
            Connection::Joining { link, .. } | Connection::Node { link, .. } => link.fd(),
            Connection::Client { link, .. } => link.fd(),
            Connection::Native { pidfd, .. } | Connection::Script { pidfd, .. } => pidfd.as_fd(),
            Connection::Mover(mover) => mover.line.fd(),
        }
    }

    pub(crate) fn wants_write(&self) -> bool {
        match self {
            Connection::Greeting { .. } | Connection::Native { .. } | Connection::Script { .. } => false,
            Connection::Joining { link, .. } | Connection::Node { link, .. } => link.wants_write(),
            Connection::Client { link, .. } => link.wants_write(),
            Connection::Mover(mover) => mover.line.wants_write(),
        }
    }

    /// The monotonic microsecond by which it must have become something else.
    pub(crate) fn deadline_us(&self) -> Option<u64> {
        match self {
            Connection::Greeting { greeting, .. } => Some(greeting.deadline_us()),
            Connection::Joining { deadline_us, .. } => Some(*deadline_us),
            _ => None,
        }
    }
}
