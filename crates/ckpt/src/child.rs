//! The child of whoever restores, until it is the process of the image.

use kern::newborn::newborn;
use kern::poll::poll;
use kern::ptrace;
use rustix::io::Errno;
use rustix::process::{test_kill_process, test_kill_process_group};
use std::time::{Duration, Instant};
use vocab::{Fault, Pid, Result};

/// Within this a number is free of which nothing is left; 75 to 165 ms were seen after the ends of 150 threads.
const FREED: Duration = Duration::from_secs(1);
const LOOKS_EACH_MS: i32 = 5;

/// Has no process and no group this number?
fn is_nobodys(pid: Pid) -> bool {
    let Some(number) = rustix::process::Pid::from_raw(pid.0) else { return false };
    test_kill_process(number) == Err(Errno::SRCH) && test_kill_process_group(number) == Err(Errno::SRCH)
}

/// A child that is killed unless it is said to live.
pub(crate) struct Child {
    pub(crate) pid: Pid,
    lives: bool,
}

impl Child {
    /// The kernel frees the number of a process some time after it has been waited for (linux: `release_task`, RCU): while nothing has the number, it is asked for again.
    ///
    /// # Errors
    /// `Refused` when the PID is in use.
    pub(crate) fn born(pid: Pid) -> Result<Child> {
        let end = Instant::now() + FREED;
        let mut made = newborn(Some(pid));
        while made == Err(libc::EEXIST) && is_nobodys(pid) && Instant::now() < end {
            let _nothing_tells = poll(&[], LOOKS_EACH_MS);
            made = newborn(Some(pid));
        }
        match made {
            Ok(pid) => Ok(Child { pid, lives: false }),
            Err(libc::EEXIST) => Err(Fault::refused(format!("PID {pid} is in use"))),
            Err(errno) => Err(Fault::sys(errno, format!("make a process with PID {pid}"))),
        }
    }

    /// A child with any number; `None` where there is no room for one more just now.
    ///
    /// # Errors
    /// `Sys` as clone(2).
    pub(crate) fn spare() -> Result<Option<Child>> {
        match newborn(None) {
            Ok(pid) => Ok(Some(Child { pid, lives: false })),
            Err(libc::EAGAIN | libc::ENOMEM) => Ok(None),
            Err(errno) => Err(Fault::sys(errno, "make a process")),
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
