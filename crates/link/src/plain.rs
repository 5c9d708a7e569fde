//! The same frames without encryption, for unix sockets on one machine; a frame can take a descriptor along.

use crate::buffer::Buffer;
use crate::framed::{self, Framed, Io, ARRIVED_MOST, TURN};
use minicbor::{Decode, Encode};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vocab::{Fault, Result};

/// A connection reads this much at once at first, and doubles it while reads come back full: most say little.
const READ_LEAST: usize = 2 * 1024;
const READ_MOST: usize = 64 * 1024;
/// Bytes that one `receive` takes of a peer that is not to keep others waiting.
const SLICE: usize = 16 * 1024;

/// One end of a unix stream connection, nonblocking. Who may connect, and who did, is the kernel's word
/// (`kern::sock::peer_credentials`).
///
/// After an error of `receive` or `flush` the connection is of no use; whole messages that came before are still there
/// for `next`.
pub struct Plain {
    fd: OwnedFd,
    arrived: Buffer,
    leaving: Buffer,
    /// Descriptors to be sent, each with its place: how many bytes of `leaving` go before it.
    outgoing: VecDeque<(usize, OwnedFd)>,
    incoming: VecDeque<OwnedFd>,
    /// The most descriptors that may have come without being taken.
    most: usize,
    read_size: usize,
    /// The most bytes that one `receive` takes, about.
    turn: usize,
}

impl Plain {
    /// Takes no descriptors: a peer that sends one is dropped. `fd` is nonblocking.
    pub fn new(fd: OwnedFd) -> Plain {
        Plain::taking(fd, 0)
    }

    /// Takes descriptors too, as many as `most` before [`Plain::descriptor`] is called.
    pub fn taking(fd: OwnedFd, most: usize) -> Plain {
        let (arrived, leaving) = (Buffer::default(), Buffer::default());
        let (outgoing, incoming) = (VecDeque::new(), VecDeque::new());
        Plain { fd, arrived, leaving, outgoing, incoming, most, read_size: READ_LEAST, turn: TURN }
    }

    /// Reads little at a time: what a peer says beyond that waits in the socket, and not here.
    pub fn in_slices(self) -> Plain {
        Plain { turn: SLICE, ..self }
    }

    /// The descriptor, to wait for.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Always: there is no handshake.
    pub fn established(&self) -> bool {
        true
    }

    /// There is something for [`Plain::flush`] to write.
    pub fn wants_write(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Bytes that were sent but not yet given to the socket.
    pub fn queued(&self) -> usize {
        self.leaving.len()
    }

    /// Bytes that are kept here for the peer: what it has said and was not taken, and what it has not read.
    pub fn kept(&self) -> usize {
        self.arrived.len() + self.leaving.len()
    }

    /// Reads what is there. True: there may be more; take the messages by `next` and call again. False: wait until the
    /// descriptor is readable (level-triggered). Reads nothing while a largest frame's worth of messages is not taken.
    ///
    /// # Errors
    /// `Gone` when the peer closed; `Refused` when it sends more descriptors than are taken.
    pub fn receive(&mut self) -> Result<bool> {
        let mut taken = 0;
        while taken < self.turn && self.arrived.len() <= ARRIVED_MOST {
            let (fd, mut descriptors) = (self.fd.as_fd(), Vec::new());
            let mut now = true;
            let got = self.arrived.fill(self.read_size, |room| {
                let received = kern::sock::receive_with(fd, room)?;
                now = received.is_some();
                let received = received.unwrap_or_default();
                descriptors = received.descriptors;
                Ok::<_, Fault>(received.bytes)
            })?;
            if !now {
                return Ok(false);
            }
            if got == 0 {
                return Err(framed::ended(!self.arrived.is_empty()));
            }
            if self.incoming.len() + descriptors.len() > self.most {
                return Err(Fault::refused("receive: the peer sends descriptors that nobody asked for"));
            }
            // A read ends behind bytes with descriptors, so a short one does not mean that all has been read.
            let short = got < self.read_size && descriptors.is_empty();
            self.incoming.extend(descriptors);
            if short {
                return Ok(false);
            }
            self.read_size = (self.read_size * 2).min(READ_MOST).min(self.turn);
            taken += got;
        }
        Ok(true)
    }

    /// The next whole message, if one has come.
    ///
    /// # Errors
    /// `Wire` for a frame that says it is too long (every call repeats it), or that is no `T` (the next call goes on
    /// behind it).
    #[expect(clippy::should_implement_trait, reason = "an iterator has one type, a connection's messages have several")]
    pub fn next<T: for<'b> Decode<'b, ()>>(&mut self) -> Result<Option<T>> {
        framed::next(&mut self.arrived)
    }

    /// The oldest descriptor that has come and was not taken, close-on-exec. Descriptors come in the order of the
    /// messages that they belong to, never later than these: take one for each message that says that it brings one.
    pub fn descriptor(&mut self) -> Option<OwnedFd> {
        self.incoming.pop_front()
    }

    /// Queues a message.
    ///
    /// # Errors
    /// `Gone` when more than [`crate::QUEUE_MOST`] bytes wait already; `Wire` when the message is longer than a frame
    /// may be.
    pub fn send<T: Encode<()>>(&mut self, message: &T) -> Result<()> {
        framed::push(message, &mut self.leaving)
    }

    /// Queues a message that takes `descriptor` along; it is closed here when it has gone.
    ///
    /// # Errors
    /// As [`Plain::send`].
    pub fn send_with<T: Encode<()>>(&mut self, message: &T, descriptor: OwnedFd) -> Result<()> {
        let place = self.leaving.len();
        framed::push(message, &mut self.leaving)?;
        self.outgoing.push_back((place, descriptor));
        Ok(())
    }

    /// Writes as much as the socket takes; what it does not take stays ([`Plain::wants_write`]).
    ///
    /// # Errors
    /// `Gone` when the peer closed; `Sys` as sendmsg(2): ETOOMANYREFS.
    pub fn flush(&mut self) -> Result<()> {
        while !self.leaving.is_empty() {
            let bytes = self.leaving.filled();
            let sent = match self.outgoing.front() {
                // The rest of this message, up to the next that has a descriptor, goes without it.
                Some((0, descriptor)) => {
                    let end = self.outgoing.get(1).map_or(bytes.len(), |(place, _)| *place);
                    let sent = kern::sock::send_with(self.fd.as_fd(), &bytes[..end], &[descriptor.as_fd()])?;
                    if sent.is_some() {
                        self.outgoing.pop_front();
                    }
                    sent
                }
                next => {
                    let end = next.map_or(bytes.len(), |(place, _)| *place);
                    match framed::sort(kern::sock::send(self.fd.as_fd(), &bytes[..end]), "send")? {
                        Io::Done(count) => Some(count),
                        Io::Again => Some(0),
                        Io::NotNow => None,
                    }
                }
            };
            let Some(sent) = sent else { return Ok(()) };
            self.leaving.consume(sent);
            self.outgoing.iter_mut().for_each(|(place, _)| *place -= sent);
        }
        Ok(())
    }

    /// Gives the descriptor back; what was queued is lost.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl Framed for Plain {
    fn fd(&self) -> BorrowedFd<'_> {
        Plain::fd(self)
    }
    fn established(&self) -> bool {
        Plain::established(self)
    }
    fn wants_write(&self) -> bool {
        Plain::wants_write(self)
    }
    fn receive(&mut self) -> Result<bool> {
        Plain::receive(self)
    }
    fn next<T: for<'b> Decode<'b, ()>>(&mut self) -> Result<Option<T>> {
        Plain::next(self)
    }
    fn send<T: Encode<()>>(&mut self, message: &T) -> Result<()> {
        Plain::send(self, message)
    }
    fn flush(&mut self) -> Result<()> {
        Plain::flush(self)
    }
    fn queued(&self) -> usize {
        Plain::queued(self)
    }
}
