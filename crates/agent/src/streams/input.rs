//! The program's standard input: bytes that wait for it, and the end of them.

use super::terminal::Terminal;
use kern::poll::{poll, unread, Ready, EAGAIN, EINTR};
use kern::proc::PROC;
use kern::pty::Modes;
use kern::sys;
use rustix::fs::{open, Mode, OFlags};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use wire::stream::PIECE;

/// See the module.
pub(super) struct Input {
    /// The pipe's write end or the terminal's master; none: nobody reads (any more), or all has been written.
    fd: Option<Arc<OwnedFd>>,
    /// Bytes not yet taken; of the first piece, `begun` have been.
    waiting: VecDeque<Vec<u8>>,
    begun: usize,
    /// Nothing will follow what waits.
    ended: bool,
    /// A terminal has no end: whoever waits for more gets the byte that means it.
    ends_when_read: bool,
    /// An end for reading of a pipe into which all has been written, as long as that may not have been read.
    rest: Option<OwnedFd>,
    /// By which it is written, if it is one.
    terminal: Option<Arc<Terminal>>,
}

/// The byte that ends the input of a terminal of which that cannot be asked.
const END_OF_FILE: u8 = 4;

/// What a write came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wrote {
    /// So many bytes.
    Bytes(u32),
    /// So many bytes, and then nobody read any more.
    Broken(u32),
}

impl Input {
    pub(super) fn new(fd: Arc<OwnedFd>, terminal: Option<Arc<Terminal>>) -> Input {
        Input {
            fd: Some(fd),
            waiting: VecDeque::new(),
            begun: 0,
            ended: false,
            ends_when_read: false,
            rest: None,
            terminal,
        }
    }

    pub(super) fn fd(&self) -> Option<&Arc<OwnedFd>> {
        self.fd.as_ref()
    }

    /// Closes it: a pipe's readers see the end.
    pub(super) fn close(&mut self) {
        (self.fd, self.terminal) = (None, None);
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

    /// This comes before all that waits.
    pub(super) fn push_first(&mut self, bytes: Vec<u8>) {
        self.waiting.push_front(bytes);
    }

    /// What is in the pipe and nobody has read waits before the rest, to be taken back; readers that are there wait on, also if the end stood behind it: if there
    /// is something that was not read, the end was not reached, and comes anew.
    pub(super) fn withdraw(&mut self) {
        if let Some(Some(first)) = (self.begun > 0).then(|| self.waiting.front_mut()) {
            first.drain(..self.begun);
        }
        self.begun = 0;
        if self.terminal.is_some() {
            // What it has taken is its program's.
            return;
        }
        let rest = self.rest.take();
        // Before anything is read: who reads next must not take what it finds for the end.
        let writer = rest.as_ref().and_then(write_end);
        let pipe = rest.or_else(|| self.fd.as_ref().and_then(|fd| read_end(fd)));
        let unread = pipe.map(|pipe| read_all(&pipe)).unwrap_or_default();
        unread.into_iter().rev().for_each(|piece| self.waiting.push_front(piece));
        if !self.waiting.is_empty() {
            self.ended = false;
            self.fd = self.fd.take().or(writer.map(Arc::new));
        }
    }

    /// What waits, in order.
    pub(super) fn take_back(&mut self) -> VecDeque<Vec<u8>> {
        std::mem::take(&mut self.waiting)
    }

    /// No more will be pushed.
    pub(super) fn end(&mut self) {
        let before = std::mem::replace(&mut self.ended, true);
        self.ends_when_read |= !before && self.terminal.is_some();
    }

    /// Is whoever waits for more to be told that there is none?
    pub(super) fn ends_when_read(&self) -> bool {
        self.ends_when_read && self.fd.is_some()
    }

    /// A reader waits for more, after the end. Read line by line the end comes again and again, as that of a file; as a key it comes once.
    ///
    /// Written before somebody waits it would be lost to who changes the terminal's modes first, as a shell that edits lines does (linux: `n_tty_set_termios`).
    pub(super) fn end_is_read(&mut self) {
        let Some(master) = self.fd.as_ref().filter(|_| self.ends_when_read) else { return };
        let modes = Modes::of(master.as_fd()).ok();
        self.ends_when_read = modes.as_ref().is_some_and(Modes::is_canonical);
        self.waiting.push_back(vec![modes.map_or(END_OF_FILE, |modes| modes.end_of_file())]);
    }

    /// Writes what is taken now.
    pub(super) fn write(&mut self) -> Wrote {
        let mut total = 0;
        let Some(fd) = self.fd.clone() else { return Wrote::Bytes(0) };
        while let Some(piece) = self.waiting.front() {
            let piece_left = &piece[self.begun..];
            let written = match &self.terminal {
                Some(terminal) => terminal.write(piece_left),
                None => sys::write(fd.as_fd(), piece_left),
            };
            match written {
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
                Err(_) => return Wrote::Broken(total),
            }
        }
        if self.ended && self.terminal.is_none() {
            self.rest = self.fd.take().filter(|fd| unread(fd.as_fd()) > Some(0)).and_then(|fd| read_end(&fd));
        }
        Wrote::Bytes(total)
    }
}

/// An end for reading of the pipe of which this is one for writing (proc(5), fifo_open in linux).
fn read_end(pipe: &OwnedFd) -> Option<OwnedFd> {
    end(pipe, OFlags::RDONLY)
}

/// The other way round.
fn write_end(pipe: &OwnedFd) -> Option<OwnedFd> {
    end(pipe, OFlags::WRONLY)
}

fn end(pipe: &OwnedFd, which: OFlags) -> Option<OwnedFd> {
    let flags = which | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(format!("{PROC}/self/fd/{}", pipe.as_raw_fd()), flags, Mode::empty()).ok()
}

/// What is in a pipe into which nobody else writes. Never waits, whatever the descriptor's mode.
fn read_all(pipe: &OwnedFd) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    while let Some(some @ 1..) = unread(pipe.as_fd()) {
        let mut piece = vec![0; some.min(PIECE)];
        match sys::read(pipe.as_fd(), &mut piece) {
            Ok(n) => piece.truncate(n),
            Err(EINTR) => continue,
            // EAGAIN: somebody has read it meanwhile.
            Err(_) => break,
        }
        pieces.push(piece);
    }
    pieces
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
    fn what_is_not_read_comes_back_in_order() {
        let (read, mut input) = pipe();
        let whole: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
        whole.chunks(30_000).for_each(|piece| input.push(piece.to_vec()));
        // Pieces begin on pages of their own, so it is a little less than the pipe's size.
        assert!(matches!(input.write(), Wrote::Bytes(60_001..65_536)));
        let mut got = vec![0; 1_000];
        assert_eq!(sys::read(read.as_fd(), &mut got), Ok(1_000));
        input.push(vec![1, 2, 3]);
        // Nobody else needs to have it open for reading any more.
        drop(read);
        input.withdraw();
        got.extend(input.take_back().into_iter().flatten());
        assert_eq!(got.split_off(100_000), [1, 2, 3]);
        assert!(got == whole);
    }

    #[test]
    fn what_was_written_before_the_end_comes_back_too() {
        let (read, mut input) = pipe();
        input.push(b"abc".to_vec());
        input.end();
        assert_eq!(input.write(), Wrote::Bytes(3));
        let mut got = [0; 1];
        assert_eq!(sys::read(read.as_fd(), &mut got), Ok(1));
        input.withdraw();
        assert_eq!(input.take_back(), [b"bc"]);
        // The reader had not come to the end: it waits for what comes anew.
        sys::set_nonblocking(read.as_fd(), true).expect("fcntl");
        assert_eq!(sys::read(read.as_fd(), &mut got), Err(EAGAIN));
        input.push(b"d".to_vec());
        input.end();
        assert_eq!(input.write(), Wrote::Bytes(1));
        assert_eq!((sys::read(read.as_fd(), &mut got), got), (Ok(1), *b"d"));
        // Now it has.
        input.withdraw();
        assert!(input.take_back().is_empty());
        assert_eq!(sys::read(read.as_fd(), &mut got), Ok(0));
    }

    #[test]
    fn no_reader_is_told() {
        let (read, mut input) = pipe();
        drop(read);
        input.push(vec![1]);
        assert_eq!(input.write(), Wrote::Broken(0));
        input.withdraw();
        assert_eq!(input.take_back(), [vec![1]]);
        input.close();
        input.push(vec![1]);
        assert_eq!(input.write(), Wrote::Bytes(0));
    }
}
