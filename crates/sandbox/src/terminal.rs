//! The caller's terminal while a command on the front end has one of its own: bytes go both ways, as in ssh.

use kern::poll::Ready;
use kern::pty::{self, Modes};
use kern::sys;
use std::collections::VecDeque;
use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vocab::{Fault, Result};

/// Bytes read at once.
const PIECE: usize = 16 * 1024;
/// errno(3): what a terminal's master reads when nobody holds the other side.
const EIO: i32 = 5;
const EAGAIN: i32 = 11;

/// The relay between the caller's terminal and the command's. Dropping it gives the caller's terminal its modes back.
#[derive(Debug)]
pub(crate) struct Terminal {
    outer: File,
    modes: Modes,
    master: OwnedFd,
    /// Typed, but not yet taken by the command's terminal.
    typed: VecDeque<u8>,
    input_over: bool,
    output_over: bool,
}

/// The caller's terminal and its modes, if both standard input and output are one.
pub(crate) fn of_caller() -> Result<Option<(File, Modes)>> {
    let input = std::io::stdin();
    if !(input.is_terminal() && std::io::stdout().is_terminal()) {
        return Ok(None);
    }
    let copy = input.as_fd().try_clone_to_owned().map_err(|e| Fault::io(&e, "share the terminal"))?;
    Ok(Some((File::from(copy), Modes::of(input.as_fd())?)))
}

impl Terminal {
    /// Makes the command's terminal, like the caller's: the relay, and the side for the command.
    pub(crate) fn make(outer: File, modes: Modes) -> Result<(Terminal, OwnedFd)> {
        let (master, slave) = pty::open()?;
        let (rows, columns) = pty::window(outer.as_fd()).unwrap_or((24, 80));
        pty::furnish(&slave, Some(&modes), rows, columns)?;
        sys::set_nonblocking(master.as_fd(), true)?;
        let terminal = Terminal { outer, modes, master, typed: VecDeque::new(), input_over: false, output_over: false };
        terminal.enter()?;
        Ok((terminal, slave))
    }

    /// Every byte typed is for the command from now on; also after the caller was stopped and continued.
    pub(crate) fn enter(&self) -> Result<()> {
        self.modes.raw().set(self.outer.as_fd()).map_err(|errno| Fault::sys(errno, "set the terminal's modes"))
    }

    /// The caller's window has changed.
    pub(crate) fn resize(&self) -> Result<()> {
        pty::window(self.outer.as_fd())
            .map_or(Ok(()), |(rows, columns)| pty::set_window(self.master.as_fd(), rows, columns))
    }

    /// What to wait for: always two descriptors, the caller's terminal and the command's.
    pub(crate) fn wanted(&self) -> [(BorrowedFd<'_>, Ready); 2] {
        let input = Ready { readable: !self.input_over && self.typed.is_empty(), ..Ready::default() };
        let output = Ready { readable: !self.output_over, writable: !self.typed.is_empty(), ..Ready::default() };
        [(self.outer.as_fd(), input), (self.master.as_fd(), output)]
    }

    /// Moves what can be moved without waiting.
    pub(crate) fn relay(&mut self, outer: Ready, master: Ready) -> Result<()> {
        if outer.readable && self.typed.is_empty() {
            let mut bytes = [0u8; PIECE];
            match sys::read(self.outer.as_fd(), &mut bytes) {
                Ok(0) | Err(EIO) => self.input_over = true,
                Ok(n) => self.typed.extend(&bytes[..n]),
                Err(errno) => return Err(Fault::sys(errno, "read the terminal")),
            }
        }
        if !self.typed.is_empty() {
            match sys::write(self.master.as_fd(), self.typed.make_contiguous()) {
                Ok(n) => drop(self.typed.drain(..n)),
                Err(EAGAIN) => {}
                Err(_) => self.typed.clear(),
            }
        }
        if master.readable || master.over {
            self.show()?;
        }
        Ok(())
    }

    /// Shows what the command has written and we have not read yet; `false` when nothing (more) was there.
    pub(crate) fn show(&mut self) -> Result<bool> {
        let mut bytes = [0u8; PIECE];
        match sys::read(self.master.as_fd(), &mut bytes) {
            Ok(n) if n > 0 => {
                let mut rest = &bytes[..n];
                while !rest.is_empty() {
                    let out = std::io::stdout();
                    let written = sys::write(out.as_fd(), rest);
                    rest = &rest[written.map_err(|errno| Fault::sys(errno, "write to the terminal"))?..];
                }
                Ok(true)
            }
            Err(EAGAIN) => Ok(false),
            _ => {
                self.output_over = true;
                Ok(false)
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that is gone needs no modes.
        let _ = self.modes.set(self.outer.as_fd());
    }
}
