//! A descriptor as /proc shows it.

use crate::obstacle::Obstacle;
use crate::proc;
use kern::pidfd;
use kern::proc::PROC;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use vocab::{Fault, Pid, Result};

/// A descriptor as /proc shows it.
pub(crate) struct Seen {
    pub(crate) pid: Pid,
    pub(crate) number: i32,
    /// Where the link in /proc/PID/fd leads.
    pub(crate) link: Vec<u8>,
    /// /proc/PID/fdinfo.
    pub(crate) info: String,
}

impl Seen {
    /// The value of the first line `name:` of its fdinfo.
    pub(crate) fn field(&self, name: &str) -> Result<&str> {
        let value = self.info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(str::trim).ok_or_else(|| self.strange(name))
    }

    pub(crate) fn number_of(&self, name: &str, base: u32) -> Result<u64> {
        u64::from_str_radix(self.field(name)?, base).map_err(|_| self.strange(name))
    }

    pub(crate) fn strange(&self, name: &str) -> Fault {
        Fault::bug(format!("/proc/{}/fdinfo/{} has no {name} as expected", self.pid, self.number))
    }

    pub(crate) fn path(&self) -> String {
        format!("{PROC}/{}/fd/{}", self.pid, self.number)
    }

    /// Name and flags were read one after the other: are they of one open file? Its user may exchange descriptors meanwhile, by another process that shares them,
    /// and is not to have a file by its name opened as another was.
    ///
    /// Returns a copy of the descriptor, if it has a name of a file system.
    pub(super) fn is_one_file(&self) -> Result<Option<OwnedFd>> {
        if !self.link.starts_with(b"/") {
            return Ok(None);
        }
        let copy = copy(self)?;
        let failed = |e: rustix::io::Errno| Fault::sys(e.raw_os_error(), format!("look at descriptor {}", self.number));
        let link = rustix::fs::readlink(format!("{PROC}/self/fd/{}", copy.as_raw_fd()), Vec::new()).map_err(failed)?;
        let flags = rustix::fs::fcntl_getfl(&copy).map_err(failed)?.bits();
        match link.as_bytes() == self.link && flags == self.flags()? & !(libc::O_CLOEXEC as u32) {
            true => Ok(Some(copy)),
            false => Err(Fault::refused(format!("descriptor {} is another file by now", self.number))),
        }
    }

    /// Does it lead where it led when it was seen?
    pub(super) fn is_still(&self) -> bool {
        proc::name(self.pid, &format!("fd/{}", self.number)).is_ok_and(|link| link == self.link)
    }

    /// F_GETFL.
    pub(super) fn flags(&self) -> Result<u32> {
        self.number_of("flags", 8).map(|flags| flags as u32)
    }

    pub(super) fn obstacle(&self, why: &str) -> Obstacle {
        format!("descriptor {} ({}) {why}", self.number, String::from_utf8_lossy(&self.link))
    }
}

pub(super) fn look_at_all(pid: Pid) -> Result<Vec<Seen>> {
    let all = proc::numbers_in(pid, "fd")?.into_iter().map(|number| look_at(pid, number));
    all.filter_map(Result::transpose).collect()
}

/// `None` for a descriptor that was closed meanwhile. No other failure means that there is none: the process would go on without it.
///
/// # Errors
/// What the caller may not read.
pub(super) fn look_at(pid: Pid, number: i32) -> Result<Option<Seen>> {
    let look = || -> Result<Seen> {
        let link = proc::name(pid, &format!("fd/{number}"))?;
        let info = proc::file(pid, &format!("fdinfo/{number}"))?;
        Ok(Seen { pid, number, link, info: String::from_utf8_lossy(&info).into_owned() })
    };
    match look() {
        // ESRCH: of a process that has ended.
        Err(fault) if matches!(fault.errno, libc::ENOENT | libc::EBADF | libc::ESRCH) => Ok(None),
        seen => seen.map(Some),
    }
}

/// The same open file in this process.
pub(super) fn copy(seen: &Seen) -> Result<OwnedFd> {
    pidfd::open(seen.pid)
        .and_then(|handle| pidfd::getfd(handle.as_fd(), seen.number))
        .map_err(|errno| Fault::sys(errno, format!("take descriptor {} of process {}", seen.number, seen.pid)))
}
