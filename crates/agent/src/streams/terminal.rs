//! The terminal of a program, which the thread reads and writes and the agent holds and drains when the program moves.
//!
//! | when | who | what |
//! |---|---|---|
//! | the program may leave | the agent | holds it: nobody reads or writes here until it is known whether it does |
//! | it stands still | its mover | takes out what was typed and not read |
//! | it stays | the agent | lets go; its mover has put that back |
//! | it is bound to leave | the agent | drains it: what was written is kept here. The thread sends that, then the word that it has left, and closes the terminal |

use kern::poll::EAGAIN;
use kern::{sys, tty};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::warn;

/// More cannot have been written and not be read, in bytes: what a pseudo-terminal takes (linux: `pty_common_install`) and what the line disciplines of both
/// its sides do, with room to spare.
const MOST: usize = 64 * 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct Terminal {
    master: Arc<OwnedFd>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The program's side once more, until the program's end: one that has closed all of it and is about to exit, as cat(1), may neither be hung up, as it would be
    /// when we take that for the end and close the master, nor be unable to open /dev/tty again.
    peer: Option<OwnedFd>,
    held: bool,
    /// Written, and taken from the master.
    saved: VecDeque<u8>,
}

/// The two sides, as descriptors of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sides {
    pub(crate) master: i32,
    pub(crate) peer: i32,
}

impl Terminal {
    pub(super) fn new(master: Arc<OwnedFd>, peer: OwnedFd) -> Terminal {
        Terminal { master, state: Mutex::new(State { peer: Some(peer), held: false, saved: VecDeque::new() }) }
    }

    pub(super) fn master(&self) -> Arc<OwnedFd> {
        self.master.clone()
    }

    /// `None` after the program's end.
    pub(super) fn sides(&self) -> Option<Sides> {
        let peer = self.lock().peer.as_ref()?.as_raw_fd();
        Some(Sides { master: self.master.as_raw_fd(), peer })
    }

    /// The program has ended.
    pub(super) fn ended(&self) {
        self.lock().peer = None;
    }

    /// When this returns nobody reads or writes it here.
    pub(super) fn hold(&self, held: bool) {
        self.lock().held = held;
    }

    pub(super) fn is_held(&self) -> bool {
        self.lock().held
    }

    /// Is there nothing to be had from it until it is let go?
    pub(super) fn is_silent(&self) -> bool {
        let state = self.lock();
        state.held && state.saved.is_empty()
    }

    /// As read(2) of the master.
    pub(super) fn read(&self, into: &mut [u8]) -> Result<usize, i32> {
        let mut state = self.lock();
        if state.saved.is_empty() {
            return if state.held { Err(EAGAIN) } else { sys::read(self.master.as_fd(), into) };
        }
        let count = state.saved.len().min(into.len());
        state.saved.drain(..count).zip(into).for_each(|(byte, place)| *place = byte);
        Ok(count)
    }

    /// As write(2) to it.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<usize, i32> {
        let state = self.lock();
        if state.held {
            return Err(EAGAIN);
        }
        sys::write(self.master.as_fd(), bytes)
    }

    /// What was taken from it and not read here, in bytes.
    pub(super) fn saved(&self) -> usize {
        self.lock().saved.len()
    }

    /// Nobody will write to it any more: all that was written is taken, and what was typed and not shown yet is shown.
    pub(super) fn drain(&self) {
        let mut state = self.lock();
        state.held = true;
        let mut piece = [0; 4096];
        let mut shown = false;
        while state.saved.len() < MOST {
            match sys::read(self.master.as_fd(), &mut piece) {
                Ok(0) => return,
                Ok(count) => {
                    state.saved.extend(&piece[..count]);
                    shown = false;
                }
                Err(EAGAIN) if !shown => {
                    // The line discipline shows what waits for that when something is written, and be it nothing (linux: `n_tty_write`).
                    let Some(peer) = &state.peer else { return };
                    let show = tty::tell_stop(peer.as_fd(), true).and_then(|()| tty::tell_stop(peer.as_fd(), false));
                    if show.is_err() || sys::write(peer.as_fd(), &[]).is_err() {
                        return;
                    }
                    shown = true;
                }
                Err(_) => return,
            }
        }
        warn!("more was written to a terminal than it takes");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kern::pty;

    #[test]
    fn what_is_held_is_neither_read_nor_written_and_what_was_drained_is_read() {
        let (master, peer) = pty::open().expect("a terminal");
        sys::set_nonblocking(master.as_fd(), true).expect("fcntl");
        let writer = peer.try_clone().expect("dup");
        let terminal = Terminal::new(Arc::new(master), peer);
        let mut got = [0; 8];
        sys::write(writer.as_fd(), b"ab\n").expect("room");
        terminal.hold(true);
        assert_eq!((terminal.read(&mut got), terminal.write(b"x")), (Err(EAGAIN), Err(EAGAIN)));
        assert!(terminal.is_silent());
        terminal.hold(false);
        assert_eq!((terminal.read(&mut got[..1]), got[0]), (Ok(1), b'a'));
        terminal.drain();
        assert_eq!((terminal.saved(), terminal.is_silent(), terminal.is_held()), (3, false, true));
        assert_eq!((terminal.read(&mut got), &got[..3]), (Ok(3), &b"b\r\n"[..]));
        assert_eq!(terminal.read(&mut got), Err(EAGAIN));
    }

    /// Also where it is stopped: what is shown of what was typed waits for that.
    #[test]
    fn what_was_typed_and_not_shown_is_drained_too() {
        let (master, peer) = pty::open().expect("a terminal");
        sys::set_nonblocking(master.as_fd(), true).expect("fcntl");
        let slave = peer.try_clone().expect("dup");
        let terminal = Terminal::new(Arc::new(master), peer);
        b"\x13abc".iter().for_each(|byte| tty::type_byte(slave.as_fd(), *byte).expect("root"));
        terminal.drain();
        let mut got = [0; 8];
        assert_eq!((terminal.read(&mut got), &got[..3]), (Ok(3), &b"abc"[..]));
    }
}
