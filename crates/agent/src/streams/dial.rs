//! From an address to an encrypted channel, without ever waiting.

use super::To;
use kern::clock::monotonic_us;
use kern::epoll::Interest;
use kern::sock::{is_unheard, send, tcp_begin, tcp_finish};
use link::Secure;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vocab::{Fault, Result};
use wire::stream::Chunk;

/// Longest time until the relay's end has answered the handshake, in microseconds.
const DIAL_US: u64 = 60_000_000;

/// The byte that says that the connection is a channel (docs/protocol.md, "The control link").
const CHANNEL: u8 = b'S';

/// How often an address is dialled that takes a connection and drops it, as a machine does whose queue of connections is full (linux: `tcp_v4_syn_recv_sock`).
pub(super) const TIMES: u8 = 6;

/// A channel on its way to being one.
pub(super) struct Dial {
    socket: OwnedFd,
    whom: Whom,
}

/// The relay's address, the token to show there, and how often to dial still.
pub(super) struct Whom {
    address: SocketAddr,
    token: [u8; 16],
    key: [u8; 32],
    left: u8,
}

impl Whom {
    fn dial(mut self) -> Result<Line> {
        self.left = self.left.saturating_sub(1);
        Ok(Line::Dialling(Dial { socket: tcp_begin(self.address)?, whom: self }))
    }
}

/// Where a channel is in its life.
pub(super) enum Line {
    /// TCP connects.
    Dialling(Dial),
    /// The handshake, in which nothing else is sent; and who was dialled.
    Shaking(Box<Secure>, Option<Box<Whom>>),
    Open(Box<Secure>),
    /// It was neither, and is dialled again.
    Broken,
}

/// A line after its descriptor was ready.
pub(super) enum Next {
    Same(Line),
    /// The descriptor is another one.
    Another(Line),
}

/// The moment at which a channel that begins now must be established, in the clock of [`monotonic_us`].
pub(super) fn deadline() -> u64 {
    monotonic_us() + DIAL_US
}

impl Line {
    /// Dials at most so often, if it has to.
    pub(super) fn begin(to: To, key: [u8; 32], times: u8) -> Result<Line> {
        match to {
            To::Connected(socket) => {
                kern::sys::set_nonblocking(socket.as_fd(), true)?;
                Line::shake(Box::new(Secure::channel_dialler(socket, &key)?), None)
            }
            To::Dial { address, token } => Whom { address, token, key, left: times }.dial(),
        }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Line::Dialling(dial) => Some(dial.socket.as_fd()),
            Line::Shaking(secure, _) | Line::Open(secure) => Some(secure.fd()),
            Line::Broken => None,
        }
    }

    pub(super) fn interest(&self) -> Interest {
        match self {
            Line::Dialling(_) => Interest::WRITE,
            Line::Broken => Interest::empty(),
            Line::Shaking(secure, _) | Line::Open(secure) => Interest::reading_and(secure.wants_write()),
        }
    }

    /// The next message of the relay.
    pub(super) fn next(&mut self) -> Result<Option<Chunk>> {
        match self {
            Line::Open(secure) => secure.next(),
            Line::Dialling(_) | Line::Shaking(..) | Line::Broken => Ok(None),
        }
    }

    pub(super) fn is_established(&self) -> bool {
        matches!(self, Line::Open(secure) if secure.established())
    }

    /// Goes on when the descriptor is ready. A connection that was reset before anybody had a byte of it is dialled again: the machine that listens knew nothing of it.
    pub(super) fn go_on(self) -> Result<Next> {
        let (mut secure, whom) = match self {
            Line::Dialling(dial) => return dial.go_on().map(Next::Same),
            Line::Shaking(secure, whom) => (secure, whom),
            other => return Ok(Next::Same(other)),
        };
        let received = secure.receive();
        let gone_on = if secure.established() { Ok(()) } else { received.map(drop) }.and_then(|()| secure.flush());
        match (gone_on, whom) {
            (Ok(()), whom) => Ok(Next::Same(Line::shaken(secure, whom))),
            (Err(fault), Some(whom)) if whom.left > 0 && is_unheard(secure.fd()) => {
                tracing::debug!(%fault, left = whom.left, "dials again at once");
                whom.dial().map(Next::Another)
            }
            (Err(fault), _) => Err(fault),
        }
    }

    fn shake(mut secure: Box<Secure>, whom: Option<Box<Whom>>) -> Result<Line> {
        secure.flush()?;
        Ok(Line::shaken(secure, whom))
    }

    fn shaken(secure: Box<Secure>, whom: Option<Box<Whom>>) -> Line {
        if secure.established() {
            Line::Open(secure)
        } else {
            Line::Shaking(secure, whom)
        }
    }
}

impl Dial {
    fn go_on(self) -> Result<Line> {
        let Dial { socket, whom } = self;
        if !tcp_finish(socket.as_fd())? {
            return Ok(Line::Dialling(Dial { socket, whom }));
        }
        let mut preamble = [CHANNEL; 17];
        preamble[1..].copy_from_slice(&whom.token);
        // A new connection has room for 17 bytes; anything else is a failure.
        match send(socket.as_fd(), &preamble) {
            Ok(17) => {}
            Ok(_) => return Err(Fault::gone("send a channel's preamble")),
            Err(errno) => return Err(Fault::sys(errno, "send a channel's preamble")),
        }
        Line::shake(Box::new(Secure::channel_dialler(socket, &whom.key)?), Some(Box::new(whom)))
    }
}
