//! The child of whoever restores, until it is the process of the image.

use kern::newborn::newborn;
use kern::ptrace;
use std::os::fd::AsFd;
use vocab::{Fault, Pid, Result, Sig};

/// A child that is killed unless it is said to live.
pub(crate) struct Child {
    pub(crate) pid: Pid,
    lives: bool,
}

impl Child {
    /// # Errors
    /// `Refused` when the PID is in use.
    pub(crate) fn born(pid: Pid) -> Result<Child> {
        match newborn(Some(pid)) {
            Ok(pid) => Ok(Child { pid, lives: false }),
            Err(libc::EEXIST) => Err(Fault::refused(format!("PID {pid} is in use"))),
            Err(errno) => Err(Fault::sys(errno, format!("make a process with PID {pid}"))),
        }
    }

    pub(crate) fn lives(mut self) {
        self.lives = true;
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.lives {
            let handle = kern::pidfd::open(self.pid);
            let _gone_already = handle.and_then(|fd| kern::pidfd::kill(fd.as_fd(), Sig::KILL));
            while matches!(ptrace::wait(self.pid), Ok(halt) if !matches!(halt, ptrace::Halt::Ended(_))) {
                let _dying = ptrace::detach(self.pid, None);
            }
        }
    }
}
