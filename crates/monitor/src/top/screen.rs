//! The terminal while `shoal top` has it, and that it is given back as it was.
//!
//! What is drawn goes to it as fast as it takes it, and nothing waits for that: a terminal that takes nothing (its other side has stopped reading) keeps
//! neither keys nor signals waiting.

use kern::poll::{poll_for, Ready};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::Terminal;
use std::cell::RefCell;
use std::fs::File;
use std::io::{stdout, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};
use vocab::errno::EAGAIN;
use vocab::{Fault, Result};

/// So long a terminal may take to be given back.
const LAST: Duration = Duration::from_millis(300);

/// What is drawn and has yet to go to the terminal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drawn(Rc<RefCell<Vec<u8>>>);

impl Write for Drawn {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The terminal in raw mode, with a screen of its own; dropped, it is as before.
pub(crate) struct Screen {
    pub(crate) terminal: Terminal<CrosstermBackend<Drawn>>,
    drawn: Drawn,
    to: File,
}

impl Screen {
    /// # Errors
    /// `Sys` where the terminal does not take it; then it is as before.
    pub(crate) fn take() -> Result<Screen> {
        let failed = |e: std::io::Error| Fault::io(&e, "take the terminal");
        // A panic ends the process where it is: nothing is dropped.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
        let drawn = Drawn::default();
        let to = open().map_err(failed)?;
        enable_raw_mode().map_err(failed)?;
        let terminal = Terminal::new(CrosstermBackend::new(drawn.clone())).inspect_err(|_| give_back());
        let mut screen = Screen { terminal: terminal.map_err(failed)?, drawn, to };
        screen.begin()?;
        Ok(screen)
    }

    fn begin(&mut self) -> Result<()> {
        let begun = execute!(self.drawn, EnterAlternateScreen).and_then(|()| self.terminal.clear());
        begun.map_err(|e| Fault::io(&e, "take the terminal"))
    }

    /// Has it yet to take what was drawn? Then there is no use in drawing anew.
    pub(crate) fn is_behind(&self) -> bool {
        !self.drawn.0.borrow().is_empty()
    }

    /// Gives it as much as it takes now.
    ///
    /// # Errors
    /// `Sys` as write(2).
    pub(crate) fn push(&mut self) -> Result<()> {
        let mut drawn = self.drawn.0.borrow_mut();
        while !drawn.is_empty() {
            match kern::sys::write(self.to.as_fd(), &drawn) {
                Ok(taken) => drop(drawn.drain(..taken)),
                Err(EAGAIN) => break,
                Err(errno) => return Err(Fault::sys(errno, "draw on the terminal")),
            }
        }
        Ok(())
    }

    /// Gives it to somebody else for a while.
    pub(crate) fn leave(&self) {
        self.drawn.0.borrow_mut().clear();
        give_back();
    }

    /// Takes it again, also if somebody else has changed it meanwhile.
    ///
    /// # Errors
    /// As [`Screen::take`].
    pub(crate) fn enter(&mut self) -> Result<()> {
        self.drawn.0.borrow_mut().clear();
        let _ = disable_raw_mode();
        enable_raw_mode().map_err(|e| Fault::io(&e, "take the terminal"))?;
        self.begin()
    }
}

impl AsFd for Screen {
    /// Writable when it takes more.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.to.as_fd()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The terminal, opened anew: that it does not keep a writer waiting is no matter of those who have standard output too.
fn open() -> std::io::Result<File> {
    let again = |path: &str| kern::tty::open_apart(path);
    match again("/proc/self/fd/1").or_else(|_| again("/dev/tty")) {
        Ok(file) => Ok(file),
        Err(_) => stdout().as_fd().try_clone_to_owned().map(File::from),
    }
}

fn give_back() {
    let mut last = Drawn::default();
    // Where the terminal is gone there is nothing to give back.
    let _ = execute!(last, LeaveAlternateScreen, Show);
    if let Ok(to) = open() {
        let until = Instant::now() + LAST;
        let mut left = &last.0.take()[..];
        while !left.is_empty() && Instant::now() < until {
            match kern::sys::write(to.as_fd(), left) {
                Ok(taken) => left = &left[taken..],
                Err(EAGAIN) => drop(poll_for(&[(to.as_fd(), Ready::WRITE)], Some(until - Instant::now()))),
                Err(_) => break,
            }
        }
    }
    let _ = disable_raw_mode();
}
