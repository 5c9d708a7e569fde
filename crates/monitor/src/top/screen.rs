//! The terminal while `shoal top` has it, and that it is given back as it was.

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::Terminal;
use std::io::{stdout, Stdout};
use vocab::{Fault, Result};

/// The terminal in raw mode, with a screen of its own; dropped, it is as before.
pub(crate) struct Screen {
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
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
        begin().map_err(failed)?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).inspect_err(|_| give_back()).map_err(failed)?;
        Ok(Screen { terminal })
    }

    /// Gives it to somebody else for a while.
    pub(crate) fn leave(&self) {
        give_back();
    }

    /// Takes it again.
    ///
    /// # Errors
    /// As [`Screen::take`].
    pub(crate) fn enter(&mut self) -> Result<()> {
        begin().and_then(|()| self.terminal.clear()).map_err(|e| Fault::io(&e, "take the terminal"))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn begin() -> std::io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen).inspect_err(|_| give_back())
}

fn give_back() {
    // Where the terminal is gone there is nothing to give back.
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
