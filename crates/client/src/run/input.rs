//! Reading our own standard input for the programs, as the terminal's job control allows it.

use super::channels::{Allowed, Channels};
use super::output::stop;
use super::program::input_is_terminal;
use kern::poll::{poll, Ready, EAGAIN, EINTR};
use kern::relay::RELAY;
use kern::{pty, signal, sys};
use std::os::fd::{AsFd, BorrowedFd};
use vocab::{Sig, SigSet};
use wire::stream::PIECE;

/// The reader. A terminal is read ahead only while we are in its foreground. In the background it is read when a
/// program asks, and then the kernel does to us what it would have done to the program: SIGTTIN, or EIO.
pub(crate) struct Reader<'c> {
    channels: &'c Channels,
    terminal: bool,
    /// Are we quiet, as the nodes were last told? They begin with not.
    quiet: Option<bool>,
    buffer: Vec<u8>,
}

/// What a read brought.
enum Got {
    Bytes(usize),
    End,
    /// Look around again.
    Nothing,
}

impl<'c> Reader<'c> {
    pub(crate) fn new(channels: &'c Channels) -> Reader<'c> {
        Reader { channels, terminal: input_is_terminal(), quiet: Some(false), buffer: vec![0; PIECE] }
    }

    /// Reads until the end of the input, or until no program takes any.
    pub(crate) fn run(mut self) {
        // Blocked, a read in the background would fail with EIO at once (__tty_check_change).
        if let Err(fault) = signal::unblock(SigSet(Sig::TTIN.bit())) {
            tracing::warn!(%fault, "reading in the background will not stop this process");
        }
        let stdin = std::io::stdin();
        let stdin = stdin.as_fd();
        loop {
            self.channels.reader.drain();
            self.look_around(stdin);
            let got = match self.channels.allowed() {
                Allowed::Over => return self.close(),
                Allowed::Wait => self.wait(None),
                Allowed::Read(most) if self.quiet == Some(false) => self.wait(Some((stdin, most))),
                Allowed::Read(most) if self.channels.is_wanted() => self.read_in_background(stdin, most),
                Allowed::Read(_) => self.wait(None),
            };
            match got {
                Got::Bytes(n) => self.channels.input(self.buffer[..n].to_vec()),
                Got::End => return self.channels.input(Vec::new()),
                Got::Nothing => {}
            }
        }
    }

    /// No program reads any more: whoever writes to a pipe must learn it, as from a program that has closed its input.
    fn close(&self) {
        if !self.terminal {
            if let Err(fault) = kern::own::close_input() {
                tracing::warn!(%fault, "the writer of our input is not told that nobody reads it");
            }
        }
    }

    /// Are we in the foreground? The programs' nodes must know when that changes.
    fn look_around(&mut self, stdin: BorrowedFd<'_>) {
        if !self.terminal {
            return;
        }
        let background = !pty::in_foreground(stdin);
        if !background {
            RELAY.make_raw();
        }
        if self.quiet != Some(background) {
            self.quiet = Some(background);
            self.channels.quiet(background);
        }
    }

    /// Waits until something is to be done; reads when that is input.
    fn wait(&mut self, input: Option<(BorrowedFd<'_>, usize)>) -> Got {
        let bell = (self.channels.reader.as_fd(), Ready::READ);
        let Some((stdin, most)) = input else {
            let _ = poll(&[bell], -1);
            return Got::Nothing;
        };
        let Ok(ready) = poll(&[bell, (stdin, Ready::READ)], -1) else { return Got::Nothing };
        let readable = ready[1].readable || ready[1].over;
        // The terminal may have been taken from us while we waited; then this input is not ours.
        let ours = !self.terminal || pty::in_foreground(stdin);
        match readable && ours && matches!(self.channels.allowed(), Allowed::Read(_)) {
            true => self.read(stdin, most),
            false => Got::Nothing,
        }
    }

    fn read_in_background(&mut self, stdin: BorrowedFd<'_>, most: usize) -> Got {
        let round = RELAY.round();
        match sys::read(stdin, &mut self.buffer[..most]) {
            Err(EINTR) => {
                stop(Sig::TTIN, round);
                // Whatever we are now, the node is told again, and asked again where it is to be.
                self.quiet = None;
                Got::Nothing
            }
            other => self.result(other),
        }
    }

    fn read(&mut self, stdin: BorrowedFd<'_>, most: usize) -> Got {
        let got = sys::read(stdin, &mut self.buffer[..most]);
        self.result(got)
    }

    fn result(&self, got: Result<usize, i32>) -> Got {
        match got {
            Ok(0) => Got::End,
            Ok(n) => Got::Bytes(n),
            Err(EAGAIN | EINTR) => Got::Nothing,
            // EIO: a group that nobody can continue, or a terminal that is gone. A pipe can only say that it has ended.
            Err(_) => Got::End,
        }
    }
}
