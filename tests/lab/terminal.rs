//! A program on a terminal of its own, spoken to as a person would.

use super::proto::Step;
use super::{Doing, Res};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The master side, and the name of the other.
pub(crate) struct Terminal {
    master: OwnedFd,
    pub(crate) name: String,
    /// All that has come.
    pub(crate) heard: String,
    /// Where in `heard` what was awaited last ends.
    at: usize,
    pending: Vec<u8>,
}

impl Terminal {
    /// 24 lines of 100 characters.
    pub(crate) fn open() -> Res<Terminal> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).doing("open a terminal")?;
        grantpt(&master).and_then(|()| unlockpt(&master)).doing("unlock the terminal")?;
        let size = rustix::termios::Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&master, size).doing("size the terminal")?;
        let name = ptsname(&master, Vec::new()).doing("name the terminal")?.to_string_lossy().into_owned();
        Ok(Terminal { master, name, heard: String::new(), at: 0, pending: Vec::new() })
    }

    /// Goes through the steps; what was awaited in vain until `deadline`.
    pub(crate) fn converse(&mut self, steps: &[Step], deadline: Instant) -> Res<Option<String>> {
        for step in steps {
            match step {
                Step::Type(keys) => self.file()?.write_all(keys.as_bytes()).doing("type")?,
                Step::Await(text) if !self.wait_for(text, deadline)? => return Ok(Some(text.clone())),
                Step::Await(_) => {}
            }
        }
        Ok(None)
    }

    /// Reads until nobody has the other side open any more, or until `deadline`.
    pub(crate) fn drain(&mut self, deadline: Instant) -> Res {
        while self.more(deadline)? {}
        Ok(())
    }

    fn wait_for(&mut self, text: &str, deadline: Instant) -> Res<bool> {
        loop {
            if let Some(found) = self.heard[self.at..].find(text) {
                self.at += found + text.len();
                return Ok(true);
            }
            if !self.more(deadline)? {
                return Ok(false);
            }
        }
    }

    /// Reads once; `false` at the end or when the time is over.
    fn more(&mut self, deadline: Instant) -> Res<bool> {
        let left = deadline.saturating_duration_since(Instant::now());
        if !readable(&self.master, left)? {
            return Ok(false);
        }
        let mut bytes = [0u8; 4096];
        // EIO is how a master says that the other side is closed.
        let n = self.file()?.read(&mut bytes).unwrap_or(0);
        self.pending.extend_from_slice(&bytes[..n]);
        let whole = match std::str::from_utf8(&self.pending) {
            Ok(_) => self.pending.len(),
            Err(e) => e.valid_up_to(),
        };
        self.heard += &String::from_utf8_lossy(&self.pending.drain(..whole).collect::<Vec<u8>>());
        Ok(n > 0)
    }

    fn file(&self) -> Res<File> {
        self.master.try_clone().map(File::from).doing("share the terminal")
    }
}

/// Whether `fd` is readable, or closed, within `time`.
pub(crate) fn readable(fd: impl std::os::fd::AsFd, time: Duration) -> Res<bool> {
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    loop {
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&time)) {
            Ok(n) => return Ok(n > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(format!("poll: {e}")),
        }
    }
}
