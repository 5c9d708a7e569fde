//! Waiting for children: every end, stop and continue with its usage (wait4(2)).

use crate::sys;
use vocab::{Exit, Pid, Sig};

/// What changed in a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    Ended(Exit),
    Stopped(Sig),
    Continued,
}

impl Change {
    /// From the status word of wait(2); `None` for what no kernel makes.
    pub fn from_status(status: i32) -> Option<Change> {
        if status == 0xffff {
            return Some(Change::Continued);
        }
        if status & 0xff == 0x7f {
            // The highest bit tells of a stop of a traced thread.
            return Sig::new((status >> 8) as u8 & 0x7f).map(Change::Stopped);
        }
        Exit::from_status(status).map(Change::Ended)
    }
}

/// CPU time and memory of a child and of the descendants it waited for (getrusage(2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Microseconds.
    pub user_us: u64,
    /// Microseconds.
    pub system_us: u64,
    /// Largest resident set in KiB.
    pub max_rss_kb: u64,
}

impl From<&libc::rusage> for Usage {
    fn from(raw: &libc::rusage) -> Usage {
        let us = |t: libc::timeval| (t.tv_sec as u64) * 1_000_000 + t.tv_usec as u64;
        Usage { user_us: us(raw.ru_utime), system_us: us(raw.ru_stime), max_rss_kb: raw.ru_maxrss as u64 }
    }
}

/// One change of one child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waited {
    pub pid: Pid,
    /// As wait(2) gives it: for a traced thread it says more than `change`.
    pub status: i32,
    pub change: Change,
    pub usage: Usage,
}

/// `__WALL`: children of every kind (wait(2)).
pub const WALL: i32 = libc::__WALL;

/// The next change of any child (those of other threads and of exit_signal 0 included), without blocking;
/// `Ok(None)` when there is none now.
///
/// # Errors
/// ECHILD without children.
pub fn any() -> Result<Option<Waited>, i32> {
    wait(-1, libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED)
}

/// The next change of child `pid`, without blocking.
pub fn try_one(pid: Pid) -> Result<Option<Waited>, i32> {
    wait(pid.0, libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED)
}

/// Is `pid` a child of this process, living or ended?
pub fn is_child(pid: Pid) -> bool {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: a null siginfo is allowed (waitid(2)); nothing is taken from the child.
    unsafe { libc::waitid(libc::P_PID, pid.0 as u32, std::ptr::null_mut(), options) == 0 }
}

/// Blocks until child `pid` has ended.
pub fn ended(pid: Pid) -> Result<Waited, i32> {
    loop {
        match wait(pid.0, 0) {
            Err(libc::EINTR) => continue,
            Ok(Some(waited)) => return Ok(waited),
            Ok(None) => return Err(libc::ECHILD),
            Err(errno) => return Err(errno),
        }
    }
}

fn wait(pid: i32, options: i32) -> Result<Option<Waited>, i32> {
    let mut status = 0;
    // SAFETY: a rusage is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live variables of the right types.
    let got = sys::check(unsafe { libc::wait4(pid, &mut status, options | libc::__WALL, &mut usage) }.into())?;
    if got == 0 {
        return Ok(None);
    }
    let change = Change::from_status(status).ok_or(libc::EIO)?;
    Ok(Some(Waited { pid: Pid(got as i32), status, change, usage: Usage::from(&usage) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_one_until_it_is_waited_for_and_nobody_else_is() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep(1)");
        let pid = Pid(child.id() as i32);
        assert!(is_child(pid) && !is_child(Pid::INIT));
        child.kill().expect("it is ours");
        assert!(is_child(pid));
        child.wait().expect("it is ours");
        assert!(!is_child(pid));
    }
    use std::process::Command;

    #[test]
    #[expect(clippy::zombie_processes, reason = "this module waits for it")]
    fn stop_continue_and_end_of_a_child() {
        let child = Command::new("sleep").arg("100").spawn().expect("sleep is there");
        let pid = Pid(child.id() as i32);
        let fd = crate::pidfd::open(pid).expect("a live child");
        let kill = |sig| crate::pidfd::kill(std::os::fd::AsFd::as_fd(&fd), sig).expect("my child");
        let mut seen = Vec::new();
        assert_eq!(try_one(pid), Ok(None));
        for (sig, want) in [
            (Sig::STOP, Change::Stopped(Sig::STOP)),
            (Sig::CONT, Change::Continued),
            (Sig::KILL, Change::Ended(Exit::Killed { sig: Sig::KILL, core: false })),
        ] {
            kill(sig);
            while seen.last() != Some(&want) {
                if let Some(waited) = try_one(pid).expect("a child") {
                    seen.push(waited.change);
                }
                std::thread::yield_now();
            }
        }
        assert_eq!(seen.len(), 3);
        assert_eq!(try_one(pid), Err(libc::ECHILD));
    }

    #[test]
    fn every_status_word_is_told_apart() {
        assert_eq!(Change::from_status(0xffff), Some(Change::Continued));
        assert_eq!(Change::from_status(0x137f), Some(Change::Stopped(Sig::STOP)));
        assert_eq!(Change::from_status(3 << 8), Some(Change::Ended(Exit::Code(3))));
        assert_eq!(Change::from_status(0x007f), None);
    }
}
