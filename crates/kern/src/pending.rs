//! Which signals wait for a process, and whether it is stopped: what a daemon must know of an interrupted stand-in.

use crate::proc;
use std::io::Write;
use std::os::fd::AsFd;
use vocab::{Pid, SigSet};

/// From `/proc/PID/status` (proc(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Private and shared pending signals together.
    pub signals: SigSet,
    /// The state letter.
    pub state: u8,
}

/// `None` when there is no such process.
///
/// A daemon asks this of every stand-in that is signalled, so it is one open, one read and one close.
pub fn read(pid: Pid) -> Option<Pending> {
    let mut path = [0u8; 64];
    write!(&mut path[..63], "/proc/{pid}/status").ok()?;
    let mut buffer = [0u8; 4096];
    let length = {
        let fd = proc::open_at(libc::AT_FDCWD, &path).ok()?;
        proc::read_on(fd.as_fd(), &mut buffer).ok()?
    };
    match length < buffer.len() {
        true => parse(&buffer[..length]),
        // Many supplementary groups.
        false => parse(&std::fs::read(format!("/proc/{pid}/status")).ok()?),
    }
}

fn parse(text: &[u8]) -> Option<Pending> {
    let mut pending = Pending { signals: SigSet(0), state: b'?' };
    for line in text.split(|b| *b == b'\n') {
        if let Some(rest) = line.strip_prefix(b"State:\t") {
            pending.state = *rest.first().unwrap_or(&b'?');
        } else if let Some(hex) = line.strip_prefix(b"SigPnd:\t").or_else(|| line.strip_prefix(b"ShdPnd:\t")) {
            let hex = std::str::from_utf8(hex).ok()?;
            pending.signals.0 |= u64::from_str_radix(hex, 16).ok()?;
        }
    }
    Some(pending)
}

/// The monotonic clock in microseconds (clock_gettime(2)).
pub fn now_us() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the result is live.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

/// Waits at most `ms` milliseconds until `fd` is readable.
pub fn wait_readable(fd: std::os::fd::BorrowedFd<'_>, ms: i32) {
    let mut poll = libc::pollfd { fd: std::os::fd::AsRawFd::as_raw_fd(&fd), events: libc::POLLIN, revents: 0 };
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&mut poll, 1, ms) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_nothing_waits_for_it() {
        let me = read(Pid(std::process::id() as i32)).expect("it exists");
        assert!(matches!(me.state, b'R' | b'S'));
        assert!(!me.signals.has(vocab::Sig::KILL));
    }
}
