//! An encrypted, authenticated connection between two machines: Noise (noiseprotocol.org, revision 34) over a
//! nonblocking descriptor.
//!
//! | | pattern | pre-shared key |
//! |---|---|---|
//! | control | `Noise_XXpsk0_25519_AESGCM_BLAKE2s` | the cluster key |
//! | channel | `Noise_NNpsk0_25519_AESGCM_BLAKE2s` | the channel's one-time key |
//!
//! On the wire: records of a u16 length (big endian) and as many bytes, handshake messages first, then frames of
//! `wire::frame` cut into encrypted records wherever a record is full. The side that read the last handshake message
//! sends an empty record at once: when it arrives, the other side too has proof that its peer holds the key, and
//! [`Secure::established`] says so on both.
//!
//! `psk0` has the dialler seal its first message with the key, so a peer without the key is refused before any public-key work (a hash and one
//! tag). Whoever repeats the first message of somebody else causes that work, and learns nothing: `proven` needs an answer to a fresh key.
//!
//! AESGCM by measurement: ChaChaPoly has a third of its rate (2.4 of 7.1 GB/s for records of 65519 bytes, by ring on an AMD EPYC of family 26). Who computes it:
//! `cipher`, and docs/decisions/freeze.md. Both halves of a handshake's arithmetic take 200 us; a handshake over loopback TCP 550 us for control, 320 us
//! for a channel (`--example rate`).

mod stream;

use crate::buffer::Buffer;
use crate::cipher::{resolver, TAG};
use crate::framed::{self, Framed, Io, ARRIVED_MOST, TURN};
use minicbor::{Decode, Encode};
use snow::{Builder, HandshakeState, TransportState};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use tracing::debug;
use vocab::{Fault, Result};

const CONTROL: &str = "Noise_XXpsk0_25519_AESGCM_BLAKE2s";
const CHANNEL: &str = "Noise_NNpsk0_25519_AESGCM_BLAKE2s";

/// Bytes of the length before each record.
const HEAD: usize = 2;
/// The most payload in a record: Noise allows messages of 65535 bytes.
const PAYLOAD: usize = 65535 - TAG;
/// The most bytes of a handshake message; ours have at most 112.
const SHAKE: usize = 256;
/// Sealed bytes that are made ahead of the socket.
const AHEAD: usize = 4 * (HEAD + PAYLOAD + TAG);
/// A connection reads this much at once at first, and doubles it while reads come back full.
const READ_LEAST: usize = 4 * 1024;
const READ_MOST: usize = 256 * 1024;

const FORGED: &str = "a record of the peer is forged or damaged";

enum State {
    Shaking(Box<HandshakeState>),
    /// `proven`: a record of the peer could be opened, or its last handshake message proved that it has the key.
    Open {
        noise: Box<TransportState>,
        proven: bool,
    },
    Failed(Fault),
}

/// One end of a connection. All calls return at once; nothing is read or written but by [`Secure::receive`],
/// [`Secure::pull`] and [`Secure::flush`].
///
/// The deadline for the handshake is the caller's: drop a connection that is not [`Secure::established`] some seconds
/// after it was made. After an error of `receive` or `flush` the connection is dead and repeats the error; whole
/// messages that came before are still there for `next`.
pub struct Secure {
    fd: OwnedFd,
    state: State,
    dialler: bool,
    /// Sealed bytes as they came.
    raw: Buffer,
    /// Opened bytes: frames.
    arrived: Buffer,
    /// Frames to be sealed.
    leaving: Buffer,
    /// Sealed bytes, to be written.
    sealed: Buffer,
    read_size: usize,
    /// Bytes at which the descriptor can be read.
    least: usize,
}

impl Secure {
    /// The side of the control link that connected; `fd` is nonblocking and its preamble has been sent
    /// ([`crate::preamble`]).
    ///
    /// # Errors
    /// `Bug` when the library refuses our pattern; so for all four.
    pub fn control_dialler(fd: OwnedFd, key: &[u8; 32]) -> Result<Secure> {
        Secure::new(fd, CONTROL, key, true)
    }

    /// The side of the control link that accepted; the preamble has been read from `fd`.
    pub fn control_taker(fd: OwnedFd, key: &[u8; 32]) -> Result<Secure> {
        Secure::new(fd, CONTROL, key, false)
    }

    /// The side of a channel that connected.
    pub fn channel_dialler(fd: OwnedFd, key: &[u8; 32]) -> Result<Secure> {
        Secure::new(fd, CHANNEL, key, true)
    }

    /// The side of a channel that was handed the socket.
    pub fn channel_taker(fd: OwnedFd, key: &[u8; 32]) -> Result<Secure> {
        Secure::new(fd, CHANNEL, key, false)
    }

    fn new(fd: OwnedFd, pattern: &str, key: &[u8; 32], dialler: bool) -> Result<Secure> {
        let handshake = handshake(pattern, key, dialler).map_err(|e| library(&e, "prepare a handshake"))?;
        let mut new = Secure {
            fd,
            state: State::Shaking(Box::new(handshake)),
            dialler,
            raw: Buffer::default(),
            arrived: Buffer::default(),
            leaving: Buffer::default(),
            sealed: Buffer::default(),
            read_size: READ_LEAST,
            least: 1,
        };
        new.shake()?;
        Ok(new)
    }

    /// The descriptor, to wait for.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The peer has proved that it has the key, in this connection (what it sent cannot be a repetition of an older
    /// one).
    pub fn established(&self) -> bool {
        matches!(self.state, State::Open { proven: true, .. })
    }

    /// There is something for [`Secure::flush`] to write.
    pub fn wants_write(&self) -> bool {
        match self.state {
            State::Shaking(_) => !self.sealed.is_empty(),
            State::Open { .. } => !self.sealed.is_empty() || !self.leaving.is_empty(),
            State::Failed(_) => false,
        }
    }

    /// Bytes that were sent but not yet given to the socket.
    pub fn queued(&self) -> usize {
        self.leaving.len() + self.sealed.len()
    }

    /// Reads what is there. True: there may be more; take the messages by `next` and call again. False: wait until the
    /// descriptor is readable (level-triggered: a closed connection is told by the next call). Reads nothing while a
    /// largest frame's worth of messages is not taken.
    ///
    /// # Errors
    /// `Gone` when the peer closed or is unreachable; `Refused` when it has another key (or closed during the
    /// handshake, which is how the side that dialled learns of it); `Wire` for bytes that are not of the protocol.
    pub fn receive(&mut self) -> Result<bool> {
        self.or_die(Secure::try_receive)
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

    /// Large amounts are to come: what memory is needed for them is kept.
    pub fn keep_much(&mut self) {
        [&mut self.raw, &mut self.arrived, &mut self.leaving, &mut self.sealed].into_iter().for_each(Buffer::keep_much);
    }

    /// Queues a frame whose bytes are these, one after the other, without copying them together before they are sealed;
    /// that is done at once. Otherwise as [`Secure::send`].
    ///
    /// # Errors
    /// `Gone` when the connection has failed.
    pub fn send_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        match &self.state {
            State::Failed(fault) => return Err(because(Fault::gone("send a message"), fault)),
            State::Shaking(_) => {
                parts.iter().for_each(|part| self.leaving.append(|bytes| bytes.extend_from_slice(part)));
                return Ok(());
            }
            State::Open { .. } => {}
        }
        self.seal_ahead(usize::MAX)?;
        let State::Open { noise, .. } = &mut self.state else { return Ok(()) };
        for piece in parts.iter().flat_map(|part| part.chunks(PAYLOAD)) {
            seal(&mut self.sealed, piece.len() + TAG, |room| noise.write_message(piece, room))?;
        }
        Ok(())
    }

    /// Queues a message; before the handshake is done too. Call [`Secure::flush`] when all that is at hand is queued:
    /// small messages then share a record.
    ///
    /// # Errors
    /// `Gone` when more than [`crate::QUEUE_MOST`] bytes wait already, or the connection has failed; `Wire` when the
    /// message is longer than a frame may be.
    pub fn send<T: Encode<()>>(&mut self, message: &T) -> Result<()> {
        match &self.state {
            State::Failed(fault) => Err(because(Fault::gone("send a message"), fault)),
            _ => framed::push(message, &mut self.leaving),
        }
    }

    /// Writes as much as the socket takes; what it does not take stays ([`Secure::wants_write`]).
    ///
    /// # Errors
    /// `Gone` when the peer closed or is unreachable. What it had said before is there for `next`.
    pub fn flush(&mut self) -> Result<()> {
        self.or_die(|link| {
            link.try_flush().inspect_err(|_| {
                // Its last words (why it closed) may wait in the socket; the error of writing is the one to report.
                let _ = link.try_receive();
            })
        })
    }

    /// Gives the descriptor back; what was queued is lost.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// After an error the connection is dead, and says so for ever.
    fn or_die<T>(&mut self, step: impl FnOnce(&mut Secure) -> Result<T>) -> Result<T> {
        if let State::Failed(fault) = &self.state {
            return Err(fault.clone());
        }
        step(self).inspect_err(|fault| {
            debug!(dialler = self.dialler, %fault, "link: failed");
            self.state = State::Failed(fault.clone());
        })
    }

    fn try_receive(&mut self) -> Result<bool> {
        let mut taken = 0;
        // Who reads the stream may have left some.
        self.records()?;
        while taken < TURN && self.arrived.len() <= ARRIVED_MOST {
            let fd = self.fd.as_fd();
            let got = match framed::sort(self.raw.fill(self.read_size, |room| kern::sys::read(fd, room)), "receive") {
                Ok(Io::Done(0)) => {
                    return Err(self.ended(framed::ended(!self.raw.is_empty() || !self.arrived.is_empty())))
                }
                Ok(Io::Done(got)) => got,
                Ok(Io::Again) => continue,
                Ok(Io::NotNow) => return Ok(false),
                Err(fault) => return Err(self.ended(fault)),
            };
            self.records()?;
            if got < self.read_size {
                return Ok(false);
            }
            self.read_size = (self.read_size * 2).min(READ_MOST);
            taken += got;
        }
        Ok(true)
    }

    /// A connection that ends in the handshake was refused, as far as we can know. Why, the caller may guess: a peer that ends, or has no time, closes too.
    fn ended(&self, fault: Fault) -> Fault {
        match self.state {
            State::Open { proven: true, .. } | State::Failed(_) => fault,
            _ => because(Fault::refused("handshake: the peer closed the connection before its end"), &fault),
        }
    }

    /// Opens every whole record that has come.
    fn records(&mut self) -> Result<()> {
        while let Some(length) = self.whole_record()? {
            self.record(length)?;
            self.raw.consume(HEAD + length);
        }
        Ok(())
    }

    /// The length of the next record, if all of it has come.
    fn whole_record(&self) -> Result<Option<usize>> {
        let Some(head) = self.raw.filled().first_chunk::<HEAD>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes(*head));
        if matches!(self.state, State::Shaking(_)) && length > SHAKE {
            return Err(Fault::wire(format!("handshake: the peer sends a record of {length} bytes: it is no shoal")));
        }
        Ok((self.raw.len() >= HEAD + length).then_some(length))
    }

    fn record(&mut self, length: usize) -> Result<()> {
        let record = &self.raw.filled()[HEAD..HEAD + length];
        match &mut self.state {
            State::Shaking(handshake) => {
                let payload = handshake.read_message(record, &mut [0; SHAKE]).map_err(|e| misread(&e))?;
                if payload != 0 {
                    return Err(Fault::wire("handshake: the peer sends a payload with it"));
                }
                self.shake()
            }
            State::Open { noise, proven } => {
                let opened = self.arrived.fill(length, |room| noise.read_message(record, room));
                opened.map_err(|_| match *proven {
                    true => Fault::wire(FORGED),
                    false => Fault::refused("handshake: the peer has another key"),
                })?;
                if !std::mem::replace(proven, true) {
                    debug!(dialler = self.dialler, "link: shaking -> established");
                }
                Ok(())
            }
            State::Failed(fault) => Err(fault.clone()),
        }
    }

    /// Goes on with the handshake after a step, as far as it is our turn.
    fn shake(&mut self) -> Result<()> {
        let State::Shaking(handshake) = &mut self.state else { return Ok(()) };
        let wrote_last = handshake.is_my_turn() && !handshake.is_handshake_finished();
        if wrote_last {
            seal(&mut self.sealed, SHAKE, |room| handshake.write_message(&[], room))?;
        }
        if !handshake.is_handshake_finished() {
            return Ok(());
        }
        let parked = State::Failed(Fault::bug("a handshake that was left half way"));
        let State::Shaking(handshake) = std::mem::replace(&mut self.state, parked) else { return Ok(()) };
        let mut noise = handshake.into_transport_mode().map_err(|e| library(&e, "end a handshake"))?;
        // Who read the last message has its proof, and gives the other side's; see the head of this file.
        let proven = !wrote_last;
        if proven {
            seal(&mut self.sealed, TAG, |room| noise.write_message(&[], room))?;
            debug!(dialler = self.dialler, "link: shaking -> established");
        }
        self.state = State::Open { noise: Box::new(noise), proven };
        Ok(())
    }

    /// Seals frames, until there are `most` bytes sealed.
    fn seal_ahead(&mut self, most: usize) -> Result<()> {
        let State::Open { noise, .. } = &mut self.state else { return Ok(()) };
        while !self.leaving.is_empty() && self.sealed.len() < most {
            let frames = self.leaving.filled();
            let piece = &frames[..frames.len().min(PAYLOAD)];
            seal(&mut self.sealed, piece.len() + TAG, |room| noise.write_message(piece, room))?;
            let count = piece.len();
            self.leaving.consume(count);
        }
        Ok(())
    }

    fn try_flush(&mut self) -> Result<()> {
        loop {
            self.seal_ahead(AHEAD)?;
            if self.sealed.is_empty() {
                return Ok(());
            }
            match framed::sort(kern::sock::send(self.fd.as_fd(), self.sealed.filled()), "send") {
                Ok(Io::Done(count)) => self.sealed.consume(count),
                Ok(Io::Again) => {}
                Ok(Io::NotNow) => return Ok(()),
                Err(fault) => return Err(self.ended(fault)),
            }
        }
    }
}

impl Framed for Secure {
    fn fd(&self) -> BorrowedFd<'_> {
        Secure::fd(self)
    }
    fn established(&self) -> bool {
        Secure::established(self)
    }
    fn wants_write(&self) -> bool {
        Secure::wants_write(self)
    }
    fn receive(&mut self) -> Result<bool> {
        Secure::receive(self)
    }
    fn next<T: for<'b> Decode<'b, ()>>(&mut self) -> Result<Option<T>> {
        Secure::next(self)
    }
    fn send<T: Encode<()>>(&mut self, message: &T) -> Result<()> {
        Secure::send(self, message)
    }
    fn flush(&mut self) -> Result<()> {
        Secure::flush(self)
    }
    fn queued(&self) -> usize {
        Secure::queued(self)
    }
}

fn handshake(pattern: &str, key: &[u8; 32], dialler: bool) -> std::result::Result<HandshakeState, snow::Error> {
    let secret;
    let mut builder = Builder::with_resolver(pattern.parse()?, resolver()).prologue(b"shoal")?.psk(0, key)?;
    if pattern == CONTROL {
        secret = own_key()?;
        builder = builder.local_private_key(&secret)?;
    }
    if dialler {
        builder.build_initiator()
    } else {
        builder.build_responder()
    }
}

/// The static key that XX wants: made once in each process. The cluster key is what is checked, this one only hides
/// behind it.
fn own_key() -> std::result::Result<[u8; 32], snow::Error> {
    static OWN: OnceLock<[u8; 32]> = OnceLock::new();
    if let Some(key) = OWN.get() {
        return Ok(*key);
    }
    let made = Builder::new(CONTROL.parse()?).generate_keypair()?.private;
    let made = <[u8; 32]>::try_from(made.as_slice()).map_err(|_| snow::Error::Input)?;
    Ok(*OWN.get_or_init(|| made))
}

/// Appends one record: `write` makes its content, of at most `room` bytes.
fn seal(
    into: &mut Buffer,
    room: usize,
    write: impl FnOnce(&mut [u8]) -> std::result::Result<usize, snow::Error>,
) -> Result<()> {
    let sealed = into.fill(HEAD + room, |space| {
        let (head, content) = space.split_at_mut(HEAD);
        let length = write(content)?;
        // PAYLOAD + TAG is the largest u16, and no handshake message comes near it.
        head.copy_from_slice(&(length as u16).to_be_bytes());
        Ok(HEAD + length)
    });
    sealed.map(drop).map_err(|e| library(&e, "seal a record"))
}

/// A handshake message that cannot be read: forged, sealed with another key, or none at all.
fn misread(error: &snow::Error) -> Fault {
    match error {
        snow::Error::Decrypt => Fault::refused("handshake: the peer has another key"),
        _ => Fault::wire(format!("handshake: the peer sends what is no handshake: {error}")),
    }
}

fn library(error: &snow::Error, doing: &str) -> Fault {
    Fault::bug(format!("{doing}: {error}"))
}

fn because(fault: Fault, cause: &Fault) -> Fault {
    Fault { cause: Some(Box::new(cause.clone())), ..fault }
}
