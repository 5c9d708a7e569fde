//! Where a successor of the front end's daemon finds a mover that has outlived the one that has started it.

use super::carrier::{wait, Word};
use super::orders::{Heirs, Said};
use kern::clock::monotonic_us;
use kern::poll::Ready;
use kern::sock;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use vocab::Result;

/// A socket. Dropped, it is not there any more.
pub(super) struct Found {
    path: PathBuf,
    listener: OwnedFd,
    patience_us: u64,
}

impl Found {
    /// # Errors
    /// `Sys` when the socket cannot be made.
    pub(super) fn new(at: &Heirs) -> Result<Found> {
        let path = PathBuf::from(&at.socket);
        let listener = sock::unix_listen(&path, 0o600)?;
        Ok(Found { path, listener, patience_us: at.patience_us })
    }

    /// Readable when there is one.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Until when one that is to come now is waited for (monotonic, in microseconds).
    pub(super) fn until(&self) -> u64 {
        monotonic_us() + self.patience_us
    }

    /// The line to one, if it is there.
    pub(super) fn accept(&self) -> Result<Option<OwnedFd>> {
        sock::accept(self.fd())
    }

    /// Says it, to a successor if need be.
    ///
    /// # Errors
    /// `Gone` when none has come in time.
    pub(super) fn say_at_last(&self, word: &mut Word, said: &Said) -> Result<()> {
        while word.say(said).is_err() || word.heard().is_err() {
            let until = self.until();
            let line = loop {
                if let Some(line) = self.accept()? {
                    break line;
                }
                wait(&[(self.fd(), Ready::READ)], Some(until))?;
            };
            word.follows(line)?;
        }
        // Heard by one that ends before it has read this is heard by nobody.
        Ok(())
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        // It is of no use to anybody.
        let _ = std::fs::remove_file(&self.path);
    }
}
