//! Connections of shoal: encrypted ones between machines, plain ones on a machine, both as frames of `wire` over a
//! nonblocking descriptor, driven by the caller's epoll loop. Beside them what a connection needs: a socket to take it at, keys, the
//! bytes before it, beats, backoff, how many there may be, and whose turn it is.
//!
//! The loop is the same for both kinds ([`Framed`]):
//! ```text
//! loop {
//!     poller.modify(link.fd(), token, Interest::reading_and(link.wants_write()))?;
//!     poller.wait(&mut ready, timeout)?;
//!     let more = link.receive()?;                    // Err(Gone): the other end closed it
//!     while let Some(message) = link.next()? { … link.send(&answer)?; … }
//!     link.flush()?;                                 // `more`: come back without waiting
//! }
//! ```
#![forbid(unsafe_code)]

pub mod allow;
pub mod beat;
mod buffer;
mod cipher;
pub mod crowd;
pub mod fair;
mod framed;
pub mod guests;
pub mod keys;
pub mod listener;
pub mod plain;
pub mod preamble;
pub mod rarely;
pub mod reconnect;
pub mod secure;

pub use framed::{Framed, QUEUE_MOST};
pub use keys::{random, ClusterKey};
pub use plain::Plain;
pub use secure::Secure;
