//! What all connections have in common: whole messages in, whole messages out, never more memory than agreed.

use crate::buffer::Buffer;
use minicbor::{Decode, Encode};
use std::os::fd::BorrowedFd;
use vocab::{Fault, Result};
use wire::frame;

/// The most bytes that may wait to be sent to a peer that does not read; sending more is an error, and the link is best
/// closed.
pub const QUEUE_MOST: usize = 64 * 1024 * 1024;

/// Bytes of frames that may have arrived without being taken; above it nothing more is read. One largest frame fits.
pub(crate) const ARRIVED_MOST: usize = frame::HEAD + frame::MOST;

/// Bytes that one `receive` takes before the caller gets its turn.
pub(crate) const TURN: usize = 512 * 1024;

/// Frames over a nonblocking descriptor: [`crate::Secure`] and [`crate::Plain`]; the methods are theirs, see there.
pub trait Framed {
    fn fd(&self) -> BorrowedFd<'_>;
    fn established(&self) -> bool;
    fn wants_write(&self) -> bool;
    fn receive(&mut self) -> Result<bool>;
    fn next<T: for<'b> Decode<'b, ()>>(&mut self) -> Result<Option<T>>;
    fn send<T: Encode<()>>(&mut self, message: &T) -> Result<()>;
    fn flush(&mut self) -> Result<()>;
    fn queued(&self) -> usize;
}

/// The first whole message, taken from the buffer. A frame that is no `T` is taken too, a frame that says it is too
/// long is not.
pub(crate) fn next<T: for<'b> Decode<'b, ()>>(arrived: &mut Buffer) -> Result<Option<T>> {
    let Some((body, used)) = frame::split(arrived.filled())? else { return Ok(None) };
    let message = frame::decode(body);
    arrived.consume(used);
    message.map(Some)
}

/// Appends `message` to what is to be sent.
pub(crate) fn push<T: Encode<()>>(message: &T, leaving: &mut Buffer) -> Result<()> {
    if leaving.len() > QUEUE_MOST {
        return Err(Fault::gone(format!("send a message: the peer has left {} bytes unread", leaving.len())));
    }
    leaving.append(|bytes| frame::encode(message, bytes))
}

/// What became of one read or write.
pub(crate) enum Io {
    Done(usize),
    /// Interrupted by a signal: again.
    Again,
    /// The descriptor has nothing, or takes nothing, now.
    NotNow,
}

/// Sorts a read's or write's result: `Gone` for the errors of a lost connection (tcp(7), ip(7)), `Sys` for others.
pub(crate) fn sort(result: std::result::Result<usize, i32>, doing: &str) -> Result<Io> {
    use std::io::ErrorKind as E;
    let errno = match result {
        Ok(count) => return Ok(Io::Done(count)),
        Err(errno) => errno,
    };
    match std::io::Error::from_raw_os_error(errno).kind() {
        E::Interrupted => Ok(Io::Again),
        E::WouldBlock => Ok(Io::NotNow),
        E::BrokenPipe
        | E::ConnectionReset
        | E::ConnectionAborted
        | E::TimedOut
        | E::NetworkDown
        | E::NetworkUnreachable
        | E::HostUnreachable => Err(Fault { errno, ..Fault::gone(doing) }),
        _ => Err(Fault::sys(errno, doing)),
    }
}

/// The peer closed; `cut` says that something was incomplete.
pub(crate) fn ended(cut: bool) -> Fault {
    Fault::gone(match cut {
        true => "the peer closed the connection in the middle of a message",
        false => "the peer closed the connection",
    })
}
