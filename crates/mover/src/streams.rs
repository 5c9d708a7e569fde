//! The standard streams of a `shoal run` that goes on, for a descendant of its program that comes to where it is.

use kern::pidfd;
use kern::proc::{thread_of, PROC};
use rustix::fs::{fstat, open, stat, FileType, Mode, OFlags};
use std::os::fd::{AsFd, OwnedFd};
use vocab::{Fault, Pid, Result};

/// As the threads have them that relay: the first one, which holds, has a table of its own without them.
pub(super) struct Streams([Option<OwnedFd>; 3]);

impl Streams {
    /// Of the process of this number. That it is the `shoal run` still is known later: that says, before anything becomes of what is taken here, that it has passed on all
    /// that came before ([`wire::ask::Ask::Passed`]), and so has lived all the time.
    ///
    /// # Errors
    /// `Gone`; before Linux 6.9 `Sys`.
    pub(super) fn of_relay(pid: Pid) -> Result<Streams> {
        let relay = relay_of(pid)?;
        let handle = pidfd::open_thread(relay);
        let handle = handle.map_err(|errno| Fault::sys(errno, format!("take the streams of the `shoal run` {pid}")))?;
        if !thread_of(pid, relay) {
            return Err(Fault::gone(format!("the thread of process {pid} that relays its streams")));
        }
        // One that it has closed has ended.
        Ok(Streams([0, 1, 2].map(|number| pidfd::getfd(handle.as_fd(), number).ok())))
    }

    /// Each of them, or what there is instead.
    pub(super) fn or(self, others: [OwnedFd; 3]) -> [OwnedFd; 3] {
        let [input, output, errors] = self.0;
        let [no_input, no_output, no_errors] = others;
        [input.unwrap_or(no_input), output.unwrap_or(no_output), errors.unwrap_or(no_errors)]
    }

    /// One of them, if it has that.
    pub(super) fn of(&self, number: u8) -> Option<OwnedFd> {
        self.0.get(usize::from(number))?.as_ref()?.try_clone().ok()
    }

    /// A standard stream of the `shoal run` of this number, opened anew to be looked at, if it is a file or a device: also before Linux 6.9, which lends nobody those of
    /// a thread. A pipe or socket that was opened anew would be another.
    pub(super) fn file_of_relay(pid: Pid, number: u8) -> Option<OwnedFd> {
        let path = format!("{PROC}/{pid}/task/{}/fd/{number}", relay_of(pid).ok()?);
        let kind = FileType::from_raw_mode(stat(&path).ok()?.st_mode);
        let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = || open(&path, how, Mode::empty()).ok();
        let leads_out = matches!(kind, FileType::Fifo | FileType::Socket);
        (!leads_out).then(opened).flatten()
    }

    /// Is what is read of its input gone for others? So some may have been read ahead.
    pub(super) fn has_input(&self) -> bool {
        let Some(input) = &self.0[0] else { return false };
        let kind = fstat(input).map(|stat| FileType::from_raw_mode(stat.st_mode));
        !matches!(kind, Ok(FileType::CharacterDevice)) || rustix::termios::isatty(input)
    }
}

/// The thread of a `shoal run` that has its standard streams.
fn relay_of(pid: Pid) -> Result<Pid> {
    let path = format!("{PROC}/{pid}/task");
    let threads = std::fs::read_dir(&path).map_err(|e| Fault::io(&e, format!("read {path}")))?;
    let mut threads = threads.flatten().filter_map(|one| one.file_name().to_str()?.parse().ok().map(Pid));
    let relay = threads.find(|tid| *tid != pid);
    relay.ok_or_else(|| Fault::gone(format!("process {pid} relays no streams")))
}
