//! The program's standard input: bytes that wait for it, and the end of them.

use kern::poll::{poll, Ready, EAGAIN, EINTR};
use kern::sys;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// See the module.
pub(super) struct Input {
    /// The pipe's write end or the terminal's master; none: nobody reads (any more), or all has been written.
    fd: Option<Arc<OwnedFd>>,
    /// Bytes not yet taken; of the first piece, `begun` have been.
    waiting: VecDeque<Vec<u8>>,
    begun: usize,
    /// Nothing will follow what waits.
    ended: bool,
    /// For a terminal: the byte that ends its input.
    end_of_file: Option<u8>,
}

/// What a write came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wrote {
    /// So many bytes.
    Bytes(u32),
    /// So many bytes, and then nobody read any more.
    Broken(u32),
}

impl Input {
    pub(super) fn new(fd: Arc<OwnedFd>, end_of_file: Option<u8>) -> Input {
        Input { fd: Some(fd), waiting: VecDeque::new(), begun: 0, ended: false, end_of_file }
    }

    pub(super) fn fd(&self) -> Option<&Arc<OwnedFd>> {
        self.fd.as_ref()
    }

    /// Closes it: a pipe's readers see the end.
    pub(super) fn close(&mut self) {
        self.fd = None;
        self.waiting.clear();
        self.begun = 0;
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.fd.is_some() && !self.waiting.is_empty()
    }

    /// Nobody has the pipe open for reading.
    pub(super) fn is_unread(&self) -> bool {
        let over = |fd: &Arc<OwnedFd>| poll(&[(fd.as_fd(), Ready::OVER)], 0).is_ok_and(|ready| ready[0].over);
        self.fd.as_ref().is_some_and(over)
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        if self.fd.is_some() && !self.ended && !bytes.is_empty() {
            self.waiting.push_back(bytes);
        }
    }

    /// No more will be pushed.
    pub(super) fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        if let Some(byte) = self.end_of_file {
            self.waiting.push_back(vec![byte]);
        }
    }

    /// Writes what is taken now.
    pub(super) fn write(&mut self) -> Wrote {
        let mut total = 0;
        let Some(fd) = self.fd.clone() else { return Wrote::Bytes(0) };
        while let Some(piece) = self.waiting.front() {
            match sys::write(fd.as_fd(), &piece[self.begun..]) {
                Ok(n) => {
                    total += n as u32;
                    self.begun += n;
                    if self.begun == piece.len() {
                        self.waiting.pop_front();
                        self.begun = 0;
                    }
                }
                Err(EINTR) => {}
                Err(EAGAIN) => return Wrote::Bytes(total),
                Err(_) => {
                    self.close();
                    return Wrote::Broken(total);
                }
            }
        }
        if self.ended && self.end_of_file.is_none() {
            self.fd = None;
        }
        Wrote::Bytes(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe() -> (OwnedFd, Input) {
        let (read, write) = sys::pipe().expect("pipe");
        sys::set_nonblocking(write.as_fd(), true).expect("fcntl");
        (read, Input::new(Arc::new(write), None))
    }

    #[test]
    fn what_a_full_pipe_does_not_take_waits_and_the_end_comes_last() {
        let (read, mut input) = pipe();
        input.push(vec![7; 100_000]);
        input.end();
        assert_eq!(input.write(), Wrote::Bytes(65_536));
        assert!(input.has_waiting());
        let mut got = vec![0; 200_000];
        assert_eq!(sys::read(read.as_fd(), &mut got), Ok(65_536));
        assert_eq!(input.write(), Wrote::Bytes(100_000 - 65_536));
        assert_eq!(sys::read(read.as_fd(), &mut got), Ok(100_000 - 65_536));
        assert_eq!(sys::read(read.as_fd(), &mut got), Ok(0));
    }

    #[test]
    fn no_reader_is_told() {
        let (read, mut input) = pipe();
        drop(read);
        input.push(vec![1]);
        assert_eq!(input.write(), Wrote::Broken(0));
        input.push(vec![1]);
        assert_eq!(input.write(), Wrote::Bytes(0));
    }
}
