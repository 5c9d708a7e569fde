//! One connection of the tree, whose ends wait for each other.

use kern::clock::monotonic_us;
use kern::poll::{poll, Ready, EINTR};
use link::Secure;
use minicbor::{Decode, Encode};
use std::os::fd::OwnedFd;
use std::time::Duration;
use vocab::{Fault, Result};

/// The question: the stream from which byte on.
#[derive(Encode, Decode, PartialEq, Eq, Debug)]
pub(crate) struct Want {
    #[n(0)]
    pub(crate) from: u64,
}

/// The answers, one after the other.
#[derive(Encode, Decode, PartialEq, Eq, Debug)]
pub(crate) enum Said {
    /// The next bytes.
    #[n(0)]
    Bytes(#[cbor(n(0), with = "minicbor::bytes")] Vec<u8>),
    /// Nothing more yet.
    #[n(1)]
    Alive,
    /// The end of the stream: its bytes in all, and the checksum, upper half first.
    #[n(2)]
    End(#[n(0)] u64, #[n(1)] u64, #[n(2)] u64),
    /// The stream itself was cut off where it begins, and why.
    #[n(3)]
    Cut(#[n(0)] String),
}

/// How long an end waits for the other one before it takes that for dead. Whoever serves says something four times in this.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// See the module.
pub struct Line(Secure);

impl Line {
    /// To the machine at the other end of this connection, which has the same key.
    ///
    /// # Errors
    /// `Gone`, `Sys` as of the connection.
    pub fn dialled(fd: OwnedFd, key: &[u8; 32]) -> Result<Line> {
        let mut secure = Secure::channel_dialler(fd, key)?;
        secure.keep_much();
        secure.flush()?;
        Ok(Line(secure))
    }

    pub(crate) fn taken(fd: OwnedFd, key: &[u8; 32]) -> Result<Line> {
        let mut secure = Secure::channel_taker(fd, key)?;
        secure.keep_much();
        Ok(Line(secure))
    }

    /// Sends it whole.
    ///
    /// # Errors
    /// `Gone` when the other end takes nothing for [`PATIENCE`].
    pub fn say<T: Encode<()>>(&mut self, what: &T) -> Result<()> {
        self.0.send(what)?;
        let mut queued = usize::MAX;
        let mut until = deadline();
        loop {
            if self.0.wants_write() {
                self.0.flush()?;
            }
            let established = self.0.established();
            if established && !self.0.wants_write() {
                return Ok(());
            }
            if self.0.queued() < queued {
                (queued, until) = (self.0.queued(), deadline());
            }
            // The other end's part of the handshake is read here.
            self.wait(until)?;
            if !established {
                self.0.receive()?;
            }
        }
    }

    /// The next that the other end says.
    ///
    /// # Errors
    /// `Gone` when nothing comes for [`PATIENCE`].
    pub fn hear<T: for<'b> Decode<'b, ()>>(&mut self) -> Result<T> {
        let until = deadline();
        loop {
            if let Some(what) = self.0.next()? {
                return Ok(what);
            }
            if self.0.receive()? {
                continue;
            }
            if let Some(what) = self.0.next()? {
                return Ok(what);
            }
            self.0.flush()?;
            self.wait(until)?;
        }
    }

    /// Waits so long for the end of the connection: nothing more is said on it.
    ///
    /// # Errors
    /// `Gone` when it has come.
    pub(crate) fn stays(&mut self, most: Duration) -> Result<()> {
        let until = monotonic_us() + most.as_micros() as u64;
        while let Some(left) = until.checked_sub(monotonic_us()).filter(|left| *left > 0) {
            let ready = poll(&[(self.0.fd(), Ready::READ)], left.div_ceil(1000) as i32);
            if ready.is_ok_and(|ready| ready[0] != Ready::default()) {
                self.0.receive()?;
            }
        }
        Ok(())
    }

    fn wait(&self, until_us: u64) -> Result<()> {
        let left = until_us.saturating_sub(monotonic_us());
        if left == 0 {
            return Err(Fault::gone(format!("nothing from the other end for {PATIENCE:?}")));
        }
        let wanted = Ready { readable: true, writable: self.0.wants_write(), over: false };
        match poll(&[(self.0.fd(), wanted)], i32::try_from(left.div_ceil(1000)).unwrap_or(i32::MAX)) {
            Ok(_) | Err(EINTR) => Ok(()),
            Err(errno) => Err(Fault::sys(errno, "wait for the other end")),
        }
    }
}

fn deadline() -> u64 {
    monotonic_us() + PATIENCE.as_micros() as u64
}
