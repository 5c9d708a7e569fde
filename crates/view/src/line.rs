//! A connection for several threads: one of them at a time waits for what comes, and all send.

use kern::poll::{poll, Ready};
use link::Secure;
use minicbor::{Decode, Encode};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use vocab::{Fault, Result};

/// What several threads share, whatever became of one that had it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Line {
    secure: Mutex<Secure>,
    /// The socket, to wait for it without the mutex.
    socket: TcpStream,
}

impl Line {
    /// Ends the handshake before `until`.
    ///
    /// # Errors
    /// `Gone`, `Refused`, `Wire` as [`Secure::receive`]; `Gone` when the time is over.
    pub(crate) fn begin(mut secure: Secure, until: Instant) -> Result<Line> {
        let socket = secure.fd().try_clone_to_owned().map_err(|e| Fault::io(&e, "share a connection"))?;
        while !secure.established() {
            secure.flush()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Fault::gone("the peer does not end the handshake"));
            }
            let ready = Ready { readable: true, writable: secure.wants_write(), over: false };
            let _ = poll(&[(socket.as_fd(), ready)], i32::try_from(left.as_millis()).unwrap_or(i32::MAX).max(1));
            secure.receive()?;
        }
        secure.flush()?;
        secure.keep_much();
        Ok(Line { secure: Mutex::new(secure), socket: socket.into() })
    }

    /// Waits for a message; of one thread at a time.
    ///
    /// # Errors
    /// As [`Secure::receive`] and [`Secure::next`]: the connection has ended.
    pub(crate) fn receive<T: for<'b> Decode<'b, ()>>(&self) -> Result<T> {
        loop {
            let more = {
                let mut secure = lock(&self.secure);
                if let Some(message) = secure.next()? {
                    return Ok(message);
                }
                let more = secure.receive()?;
                if let Some(message) = secure.next()? {
                    return Ok(message);
                }
                more
            };
            if !more {
                let _ = poll(&[(self.socket.as_fd(), Ready::READ)], -1);
            }
        }
    }

    /// The messages that have come; perhaps none.
    ///
    /// # Errors
    /// As [`Line::receive`]; the messages before the end come first.
    pub(crate) fn take<T: for<'b> Decode<'b, ()>>(&self) -> Result<Vec<T>> {
        let mut secure = lock(&self.secure);
        let mut all = Vec::new();
        loop {
            let received = secure.receive();
            while let Some(message) = secure.next()? {
                all.push(message);
            }
            match received {
                Ok(true) => {}
                Err(fault) if all.is_empty() => return Err(fault),
                // An error is there the next time too.
                _ => return Ok(all),
            }
        }
    }

    /// To wait for messages.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes a message, to be sent with the next one or by [`Line::flush`].
    ///
    /// # Errors
    /// `Gone`: the connection has ended.
    pub(crate) fn queue<T: Encode<()>>(&self, message: &T) -> Result<()> {
        lock(&self.secure).send(message)
    }

    /// Sends what was queued, as far as the socket takes it.
    pub(crate) fn flush(&self) {
        let mut secure = lock(&self.secure);
        while secure.flush().is_ok() && secure.wants_write() {
            drop(secure);
            let _ = poll(&[(self.socket.as_fd(), Ready { readable: false, writable: true, over: false })], -1);
            secure = lock(&self.secure);
        }
    }

    /// Sends a message, and waits until the socket has taken it.
    ///
    /// # Errors
    /// `Gone`: the connection has ended.
    pub(crate) fn send<T: Encode<()>>(&self, message: &T) -> Result<()> {
        let mut secure = lock(&self.secure);
        secure.send(message)?;
        loop {
            secure.flush()?;
            if !secure.wants_write() {
                return Ok(());
            }
            drop(secure);
            let _ = poll(&[(self.socket.as_fd(), Ready { readable: false, writable: true, over: false })], -1);
            secure = lock(&self.secure);
        }
    }

    /// Ends the connection: threads that wait for it, or send, get an error.
    pub(crate) fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}
