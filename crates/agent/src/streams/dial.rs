//! From an address to an encrypted channel, without ever waiting.

use super::To;
use kern::clock::monotonic_us;
use kern::epoll::Interest;
use kern::sock::{send, tcp_begin, tcp_finish};
use link::Secure;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vocab::{Fault, Result};
use wire::stream::Chunk;

/// Longest time until the relay's end has answered the handshake, in microseconds.
const DIAL_US: u64 = 60_000_000;

/// The byte that says that the connection is a channel (docs/protocol.md, "The control link").
const CHANNEL: u8 = b'S';

/// A channel on its way to being one.
pub(super) struct Dial {
    socket: OwnedFd,
    preamble: [u8; 17],
    key: [u8; 32],
}

/// Where a channel is in its life.
pub(super) enum Line {
    /// TCP connects.
    Dialling(Dial),
    /// The handshake, in which nothing else is sent.
    Shaking(Box<Secure>),
    Open(Box<Secure>),
    /// It was neither, and is dialled again.
    Broken,
}

/// The moment at which a channel that begins now must be established, in the clock of [`monotonic_us`].
pub(super) fn deadline() -> u64 {
    monotonic_us() + DIAL_US
}

impl Line {
    pub(super) fn begin(to: To, key: [u8; 32]) -> Result<Line> {
        match to {
            To::Connected(socket) => {
                kern::sys::set_nonblocking(socket.as_fd(), true)?;
                Line::shake(Secure::channel_dialler(socket, &key)?)
            }
            To::Dial { address, token } => {
                let mut preamble = [CHANNEL; 17];
                preamble[1..].copy_from_slice(&token);
                let socket = tcp_begin(address)?;
                Ok(Line::Dialling(Dial { socket, preamble, key }))
            }
        }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Line::Dialling(dial) => Some(dial.socket.as_fd()),
            Line::Shaking(secure) | Line::Open(secure) => Some(secure.fd()),
            Line::Broken => None,
        }
    }

    pub(super) fn interest(&self) -> Interest {
        match self {
            Line::Dialling(_) => Interest::WRITE,
            Line::Broken => Interest::empty(),
            Line::Shaking(secure) | Line::Open(secure) => Interest::reading_and(secure.wants_write()),
        }
    }

    /// The next message of the relay.
    pub(super) fn next(&mut self) -> Result<Option<Chunk>> {
        match self {
            Line::Open(secure) => secure.next(),
            Line::Dialling(_) | Line::Shaking(_) | Line::Broken => Ok(None),
        }
    }

    pub(super) fn is_established(&self) -> bool {
        matches!(self, Line::Open(secure) if secure.established())
    }

    /// Goes on when the descriptor is ready.
    pub(super) fn go_on(self) -> Result<Line> {
        let dial = match self {
            Line::Dialling(dial) => dial,
            Line::Shaking(mut secure) => {
                let received = secure.receive();
                if !secure.established() {
                    received?;
                }
                return Line::shake(*secure);
            }
            other => return Ok(other),
        };
        if !tcp_finish(dial.socket.as_fd())? {
            return Ok(Line::Dialling(dial));
        }
        // A new connection has room for 17 bytes; anything else is a failure.
        match send(dial.socket.as_fd(), &dial.preamble) {
            Ok(17) => {}
            Ok(_) => return Err(Fault::gone("send a channel's preamble")),
            Err(errno) => return Err(Fault::sys(errno, "send a channel's preamble")),
        }
        Line::shake(Secure::channel_dialler(dial.socket, &dial.key)?)
    }

    fn shake(mut secure: Secure) -> Result<Line> {
        secure.flush()?;
        Ok(match secure.established() {
            true => Line::Open(Box::new(secure)),
            false => Line::Shaking(Box::new(secure)),
        })
    }
}
