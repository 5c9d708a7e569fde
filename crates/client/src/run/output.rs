//! Writing a program's output to our own standard output or error: one thread for each, since either may block.

use super::lines::Lines;
use super::queue::{Gathered, Item};
use super::turns::{Turns, Written};
use kern::poll::{poll, Ready, EAGAIN, EINTR};
use kern::relay::RELAY;
use kern::{signal, sys};
use std::os::fd::{AsFd, BorrowedFd};
use vocab::errno::{EIO, EPIPE};
use vocab::{Fault, Sig, SigSet};
use wire::stream::Stream;

/// Longest wait for the stop that a terminal's stop signal announced, in milliseconds.
pub(crate) const STOP_MS: u32 = 3000;

/// What we write is not taken: nobody reads it, or (the errno) it cannot be written.
struct Unread(i32);

/// One writer.
pub(crate) struct Writer<'c, G> {
    from: &'c G,
    stream: Stream,
    /// Where lines must stay whole or have prefixes.
    lines: Option<Lines>,
    /// Where copies write one after the other.
    turns: Option<Turns>,
    unread: bool,
    /// Copies that have this stream open.
    open: usize,
}

impl<'c, G: Gathered> Writer<'c, G> {
    /// `open`: so many copies have the stream open.
    pub(crate) fn new(from: &'c G, stream: Stream, lines: Option<Lines>, open: usize) -> Writer<'c, G> {
        Writer { from, stream, lines, turns: None, unread: false, open }
    }

    /// Copies write one after the other.
    pub(super) fn in_turns(mut self, turns: Option<Turns>) -> Writer<'c, G> {
        self.turns = turns;
        self
    }

    /// Writes until the process ends.
    pub(crate) fn run(mut self) {
        // Without SIGTTOU a terminal with `tostop` would let a background job write (tty_check_change).
        if let Err(fault) = signal::unblock(SigSet(Sig::TTOU.bit())) {
            tracing::warn!(%fault, "terminal output cannot stop this process");
        }
        let from = self.from;
        loop {
            for item in from.queue(self.stream).take() {
                self.one(item);
            }
        }
    }

    /// Writes what is there.
    pub(crate) fn catch_up(&mut self) {
        let items = std::mem::take(&mut *self.from.queue(self.stream).lock());
        items.into_iter().for_each(|item| self.one(item));
    }

    fn one(&mut self, item: Item) {
        match (item, &mut self.turns) {
            (Item::Data { of, bytes }, Some(turns)) => {
                let written = turns.data(of, bytes, &mut self.lines);
                self.turn(written);
            }
            (Item::Flush { of }, Some(turns)) => {
                let written = turns.ends(of, &mut self.lines);
                self.turn(written);
            }
            (item, _) => self.as_it_comes(item),
        }
    }

    fn turn(&mut self, written: Written) {
        for (bytes, consumed) in written {
            self.write(&bytes);
            if let Some((of, count)) = consumed {
                self.from.consumed(of, self.stream, count);
            }
        }
    }

    fn as_it_comes(&mut self, item: Item) {
        match item {
            Item::Data { of, bytes } => {
                match &mut self.lines {
                    None => self.write(&bytes),
                    Some(lines) => {
                        let mut whole = Vec::new();
                        lines.feed(of, &bytes, &mut whole);
                        self.write(&whole);
                    }
                }
                self.from.consumed(of, self.stream, bytes.len());
            }
            Item::Note(text) => self.write((kern::own::plain(text.trim_end()) + "\n").as_bytes()),
            Item::Flush { of } => {
                let mut whole = Vec::new();
                if let Some(lines) = &mut self.lines {
                    lines.flush(of, &mut whole);
                }
                self.write(&whole);
            }
            Item::End => {
                self.open = self.open.saturating_sub(1);
                if self.open == 0 {
                    self.close();
                }
            }
            Item::Moved { from, to, node } => {
                if let Some(lines) = &mut self.lines {
                    lines.moved(from, to, node);
                }
            }
            Item::Mark => self.from.marked(),
            Item::Passed { copy, branch } => self.from.passed(copy, branch),
        }
    }

    /// Nothing of a copy will be written any more: whoever reads our standard output must learn it, also if the program lives on. Standard error stays
    /// open for what is to be said of ourselves.
    fn close(&self) {
        if self.stream == Stream::Out {
            if let Err(fault) = kern::own::close_standard(1) {
                tracing::warn!(%fault, "the reader of our output is not told that it has ended");
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.unread {
            return;
        }
        let written = match self.stream {
            Stream::Err => write_all(std::io::stderr().as_fd(), bytes),
            _ => write_all(std::io::stdout().as_fd(), bytes),
        };
        if let Err(Unread(errno)) = written {
            self.unread = true;
            // The program cannot be told why; it may even have ended, and well. EIO: a terminal that is gone, or a group that nobody can continue.
            if self.stream == Stream::Out && !matches!(errno, EPIPE | EIO) {
                kern::own::complain(Fault::sys(errno, "write what the program has written to standard output"));
            }
            self.from.unread(self.stream);
        }
    }
}

/// Writes everything, whatever mode the descriptor has that we were given.
fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Unread> {
    while !bytes.is_empty() {
        let round = RELAY.round();
        match sys::write(fd, bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(EAGAIN) => {
                let _ = poll(&[(fd, Ready::WRITE)], -1);
            }
            Err(EINTR) => stop(Sig::TTOU, round),
            Err(errno) => return Err(Unread(errno)),
        }
    }
    Ok(())
}

/// A relay thread was interrupted by a terminal's stop signal: the main thread stops the process, or has stopped holding.
pub(crate) fn stop(sig: Sig, round: u32) {
    if !RELAY.is_ending() {
        RELAY.wait_round(round, STOP_MS);
    } else if let Err(fault) = signal::suffer(sig) {
        tracing::warn!(%fault, "cannot stop");
    }
}
