//! One of the program's output streams: read while the relay takes it, up to what the program had written at its end.

use super::terminal::Terminal;
use kern::poll::{unread, EAGAIN, EINTR};
use kern::sys;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use wire::stream::{CREDIT, PIECE};

/// See the module.
pub(super) struct Output {
    /// The pipe's read end or the terminal's master; none: it has ended, or nobody wants it.
    fd: Option<Arc<OwnedFd>>,
    /// By which it is read, as long as it is.
    terminal: Option<Arc<Terminal>>,
    is_terminal: bool,
    /// Bytes that may still be sent.
    credit: u32,
    /// After the program's end: how much is to be read before that is told. Reading less than that without waiting does too.
    left: Option<usize>,
}

/// What a read came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    Bytes(Vec<u8>),
    /// Nothing now.
    Nothing,
    /// Nobody can write any more.
    End,
}

impl Output {
    pub(super) fn new(fd: Option<Arc<OwnedFd>>, terminal: Option<Arc<Terminal>>) -> Output {
        Output { fd, is_terminal: terminal.is_some(), terminal, credit: CREDIT, left: None }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    pub(super) fn fd(&self) -> Option<&Arc<OwnedFd>> {
        self.fd.as_ref()
    }

    /// Closes it: a pipe's writers get SIGPIPE.
    pub(super) fn close(&mut self) {
        (self.fd, self.terminal) = (None, None);
        self.left = self.left.map(|_| 0);
    }

    pub(super) fn allow(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes);
    }

    pub(super) fn may_read(&self) -> bool {
        self.fd.is_some() && self.credit > 0 && self.terminal.as_ref().is_none_or(|terminal| !terminal.is_silent())
    }

    /// The program has ended.
    pub(super) fn ended(&mut self) {
        self.left = Some(match &self.fd {
            None => 0,
            // It does not say how much there is (FIONREAD knows of whole lines only).
            Some(_) if self.is_terminal => usize::MAX,
            // One more than there is: so the end of the file, if it is there, is told before the program's end.
            Some(fd) => unread(fd.as_fd()).unwrap_or(0) + 1,
        });
    }

    /// So much is in the pipe, or was drained of the terminal, of which a process that leaves has written the last by now, in bytes.
    pub(super) fn waiting(&self) -> usize {
        if let Some(terminal) = &self.terminal {
            return terminal.saved();
        }
        self.fd.as_ref().and_then(|fd| unread(fd.as_fd())).unwrap_or(0)
    }

    /// All that the program had written by its end has been read.
    pub(super) fn is_drained(&self) -> bool {
        self.left == Some(0)
    }

    /// The program's end waits for a read that nothing may announce.
    pub(super) fn must_look(&self) -> bool {
        self.left.is_some_and(|left| left > 0) && self.may_read()
    }

    /// Reads once, at most one piece, and no more than may be sent.
    pub(super) fn read(&mut self, mut buffer: Vec<u8>) -> Read {
        let Some(fd) = &self.fd else { return Read::Nothing };
        let most = PIECE.min(self.credit as usize);
        buffer.resize(most, 0);
        let read = match &self.terminal {
            Some(terminal) => terminal.read(&mut buffer),
            None => sys::read(fd.as_fd(), &mut buffer),
        };
        match read {
            // EIO: every process has closed the terminal.
            Ok(0) => Read::End,
            Ok(n) => {
                buffer.truncate(n);
                self.credit -= n as u32;
                self.left = self.left.map(|left| left.saturating_sub(n));
                Read::Bytes(buffer)
            }
            Err(EAGAIN) => {
                self.left = self.left.map(|_| 0);
                Read::Nothing
            }
            Err(EINTR) => Read::Nothing,
            Err(_) => Read::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_waits_for_what_was_written_before_it_and_not_for_what_comes_after() {
        let (read, write) = sys::pipe().expect("pipe");
        sys::set_nonblocking(read.as_fd(), true).expect("fcntl");
        let mut output = Output::new(Some(Arc::new(read)), None);
        sys::write(write.as_fd(), b"before").expect("room");
        output.ended();
        sys::write(write.as_fd(), b"after").expect("room");
        assert!(!output.is_drained());
        assert_eq!(output.read(Vec::new()), Read::Bytes(b"beforeafter".to_vec()));
        assert!(output.is_drained());
        drop(write);
        assert_eq!(output.read(Vec::new()), Read::End);
    }

    #[test]
    fn no_more_is_read_than_may_be_sent() {
        let (read, write) = sys::pipe().expect("pipe");
        sys::set_nonblocking(read.as_fd(), true).expect("fcntl");
        let mut output = Output::new(Some(Arc::new(read)), None);
        let mut sent = 0;
        while output.may_read() {
            sys::write(write.as_fd(), &[1; 40_000]).expect("room");
            let Read::Bytes(bytes) = output.read(Vec::new()) else { panic!("there are bytes") };
            sent += bytes.len();
        }
        assert_eq!(sent, CREDIT as usize);
        output.allow(5);
        let Read::Bytes(bytes) = output.read(Vec::new()) else { panic!("there are bytes") };
        assert_eq!(bytes.len(), 5);
    }
}
