//! Much that comes, read as a stream of bytes: records are opened where their bytes are wanted, instead of into a buffer from which they are copied.

use super::{Secure, State, HEAD, READ_MOST, TAG};
use crate::framed::{self, Io};
use kern::sock;
use std::os::fd::AsFd;
use vocab::{Fault, Result};

/// Bytes for which a reader is woken that waits for more: to be woken for each packet costs both ends a fifth of their time.
const WAKE: usize = 192 * 1024;

impl Secure {
    /// Reads bytes of the frames that come, heads included, up to the end of `into`; how many: fewer when no more have come ([`Secure::awaits`]).
    /// Afterwards [`Secure::receive`] and the like go on behind them.
    ///
    /// # Errors
    /// As [`Secure::receive`].
    pub fn pull(&mut self, into: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        let pulled = self.or_die(|link| {
            while done < into.len() {
                let rest = &mut into[done..];
                let opened = link.arrived.filled();
                if !opened.is_empty() {
                    let count = opened.len().min(rest.len());
                    rest[..count].copy_from_slice(&opened[..count]);
                    link.arrived.consume(count);
                    done += count;
                    continue;
                }
                match link.record_into(rest)? {
                    Some(count) => done += count,
                    None if link.read_some()? => {}
                    None => break,
                }
            }
            Ok(())
        });
        match pulled {
            // The next call tells why there is no more.
            Err(_) if done > 0 => Ok(done),
            Err(fault) => Err(fault),
            Ok(()) => Ok(done),
        }
    }

    /// The caller will wait until the descriptor can be read, with so many bytes of the stream to come for certain: it is not woken for the first of them.
    /// For 0, or fewer than are worth it, it is for any.
    ///
    /// # Errors
    /// `Sys` as setsockopt(2).
    pub fn awaits(&mut self, bytes: usize) -> Result<()> {
        // What has come of a record is not in the socket any more.
        let bytes = bytes.saturating_sub(self.raw.len());
        let least = if bytes < WAKE { 1 } else { WAKE };
        if std::mem::replace(&mut self.least, least) != least {
            sock::wake_at(self.fd.as_fd(), least)?;
        }
        Ok(())
    }

    /// Opens the next record, if all of it has come: into this room if it fits, and how much that is; else to where messages are.
    fn record_into(&mut self, room: &mut [u8]) -> Result<Option<usize>> {
        let Some(length) = self.whole_record()? else { return Ok(None) };
        let State::Open { noise, proven: true } = &mut self.state else {
            self.record(length)?;
            self.raw.consume(HEAD + length);
            return Ok(Some(0));
        };
        let record = &self.raw.filled()[HEAD..HEAD + length];
        let opened = match length.checked_sub(TAG).and_then(|content| room.get_mut(..content)) {
            Some(room) => noise.read_message(record, room),
            None => self.arrived.fill(length, |room| noise.read_message(record, room)).map(|_| 0),
        };
        let opened = opened.map_err(|_| Fault::wire(super::FORGED))?;
        self.raw.consume(HEAD + length);
        Ok(Some(opened))
    }

    /// Reads once; is there anything new?
    fn read_some(&mut self) -> Result<bool> {
        let fd = self.fd.as_fd();
        loop {
            return match framed::sort(self.raw.fill(READ_MOST, |room| kern::sys::read(fd, room)), "receive") {
                Ok(Io::Done(0)) => Err(self.ended(framed::ended(!self.raw.is_empty()))),
                Ok(Io::Done(_)) => Ok(true),
                Ok(Io::Again) => continue,
                Ok(Io::NotNow) => Ok(false),
                Err(fault) => Err(self.ended(fault)),
            };
        }
    }
}
