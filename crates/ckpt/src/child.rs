//! The child of whoever restores, until it is the process of the image.

use kern::newborn::newborn;
use kern::ptrace;
use vocab::{Fault, Pid, Result};

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
            kern::pidfd::end(self.pid);
            while matches!(ptrace::wait(self.pid), Ok(halt) if !matches!(halt, ptrace::Halt::Ended(_))) {
                let _dying = ptrace::detach(self.pid, None);
            }
        }
    }
}
