//! The bytes in the clear at the start of a TCP connection to a daemon: `C` for the control link, `S` and a 16-byte
//! token for a channel, `V` for a node's view of the front end's files, `J` and the 16-byte name of an invitation for a machine that joins.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vocab::{Fault, Result};

use crate::framed::{self, Io};

/// Bytes of a channel's token.
pub const TOKEN: usize = 16;

/// What a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preamble {
    Control,
    /// The channel with this token ([`wire::node::ChannelTo`]).
    Channel([u8; TOKEN]),
    /// Another process than the daemon takes it ([`wire::view`]).
    View,
    /// A machine without the cluster key has a token of this name ([`wire::join`]); another process than the daemon takes it.
    Join([u8; TOKEN]),
}

impl Preamble {
    /// The channel with `token`.
    ///
    /// # Errors
    /// `Wire` when it does not have 16 bytes.
    pub fn channel(token: &[u8]) -> Result<Preamble> {
        let token = token.try_into();
        token.map(Preamble::Channel).map_err(|_| Fault::wire("the token of a channel must have 16 bytes"))
    }

    /// Sends it as the first bytes of a connection that has just been made, and thus takes 17 bytes at once.
    ///
    /// # Errors
    /// `Gone` when the peer closed; `Sys` as send(2).
    pub fn send(self, fd: BorrowedFd<'_>) -> Result<()> {
        let bytes = match self {
            Preamble::Control => vec![b'C'],
            Preamble::View => vec![b'V'],
            Preamble::Channel(token) => [b"S".as_slice(), &token].concat(),
            Preamble::Join(name) => [b"J".as_slice(), &name].concat(),
        };
        loop {
            match framed::sort(kern::sock::send(fd, &bytes), "send a preamble")? {
                Io::Done(sent) if sent == bytes.len() => return Ok(()),
                Io::Again => {}
                Io::Done(_) | Io::NotNow => return Err(Fault::bug("a preamble must be the first that is sent")),
            }
        }
    }
}

/// An accepted connection that has not yet said what it is. It reads no byte more than the preamble, since what follows
/// may be another process's.
#[derive(Debug)]
pub struct Greeting {
    fd: OwnedFd,
    got: [u8; 1 + TOKEN],
    have: usize,
    deadline_us: u64,
}

impl Greeting {
    /// `fd` is nonblocking; the preamble must have come by the monotonic moment `deadline_us`.
    pub fn new(fd: OwnedFd, deadline_us: u64) -> Greeting {
        Greeting { fd, got: [0; 1 + TOKEN], have: 0, deadline_us }
    }

    /// The descriptor, to wait for.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// When to call [`Greeting::read`] at the latest.
    pub fn deadline_us(&self) -> u64 {
        self.deadline_us
    }

    /// Reads what is there at the moment `now_us`; `None`: it is not whole yet. When it is, [`Greeting::into_fd`] has
    /// the connection.
    ///
    /// # Errors
    /// `Gone` when the peer closed, or the deadline has passed; `Wire` when it speaks something else. Drop the
    /// connection.
    pub fn read(&mut self, now_us: u64) -> Result<Option<Preamble>> {
        loop {
            let wanted = match self.got[0] {
                _ if self.have == 0 => 1,
                b'C' => return Ok(Some(Preamble::Control)),
                b'V' => return Ok(Some(Preamble::View)),
                b'S' | b'J' if self.have < self.got.len() => self.got.len(),
                b'S' => return Preamble::channel(&self.got[1..]).map(Some),
                b'J' => {
                    let name = self.got.last_chunk().copied();
                    return Ok(name.map(Preamble::Join));
                }
                other => {
                    return Err(Fault::wire(format!("a connection begins with byte {other:#04x}: it is no shoal")))
                }
            };
            let read = kern::sys::read(self.fd.as_fd(), &mut self.got[self.have..wanted]);
            match framed::sort(read, "read a preamble")? {
                Io::Done(0) => return Err(Fault::gone("the peer closed the connection before it said what it wants")),
                Io::Done(count) => self.have += count,
                Io::Again => {}
                Io::NotNow if now_us >= self.deadline_us => {
                    return Err(Fault::gone("the peer did not say in time what it wants"));
                }
                Io::NotNow => return Ok(None),
            }
        }
    }

    /// The connection, with everything behind the preamble unread.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kern::sock::{socketpair, Kind as Pair};
    use vocab::Kind;

    const TOKEN_7: [u8; TOKEN] = [7; TOKEN];

    fn pair() -> (OwnedFd, Greeting) {
        let (here, there) = socketpair(Pair::Stream).expect("pair");
        kern::sys::set_nonblocking(there.as_fd(), true).expect("nonblocking");
        (here, Greeting::new(there, 100))
    }

    #[test]
    fn what_follows_stays_unread() {
        for preamble in [Preamble::Control, Preamble::View, Preamble::Channel(TOKEN_7), Preamble::Join(TOKEN_7)] {
            let (here, mut greeting) = pair();
            assert_eq!(greeting.read(1).expect("waits"), None);
            preamble.send(here.as_fd()).expect("send");
            assert_eq!(kern::sock::send(here.as_fd(), b"rest"), Ok(4));
            assert_eq!(greeting.read(1).expect("read"), Some(preamble));
            let mut rest = [0; 8];
            assert_eq!(kern::sys::read(greeting.into_fd().as_fd(), &mut rest), Ok(4));
            assert_eq!(&rest[..4], b"rest");
        }
    }

    #[test]
    fn a_token_may_come_in_pieces_but_not_after_the_deadline() {
        let (here, mut greeting) = pair();
        kern::sock::send(here.as_fd(), b"S").expect("send");
        for _ in 0..15 {
            kern::sock::send(here.as_fd(), &[7]).expect("send");
            assert_eq!(greeting.read(99).expect("waits"), None);
        }
        assert_eq!(greeting.read(100).expect_err("too late").kind, Kind::Gone);
        kern::sock::send(here.as_fd(), &[7]).expect("send");
        assert_eq!(greeting.read(99).expect("whole"), Some(Preamble::Channel(TOKEN_7)));
    }

    #[test]
    fn silence_closing_and_other_protocols_are_errors() {
        let (here, mut greeting) = pair();
        assert_eq!(greeting.read(100).expect_err("silent").kind, Kind::Gone);
        drop(here);
        assert_eq!(greeting.read(1).expect_err("closed").kind, Kind::Gone);
        let (here, mut greeting) = pair();
        kern::sock::send(here.as_fd(), b"GET / HTTP/1.1\r\n").expect("send");
        assert_eq!(greeting.read(1).expect_err("no shoal").kind, Kind::Wire);
        assert_eq!(Preamble::channel(b"short").expect_err("short").kind, Kind::Wire);
    }
}
