//! Time namespaces (time_namespaces(7)): what is added to CLOCK_MONOTONIC and CLOCK_BOOTTIME for the processes in one.
//!
//! A namespace is made by unshare(2) for the children of who makes it, its numbers are set before anybody is in it, and then setns(2) takes even the
//! maker into it, if that has one thread.

use crate::clock::now;
use crate::proc::PROC;
use crate::sys;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use vocab::{Fault, Pid, Result};

/// For unshare(2) and setns(2).
pub use libc::CLONE_NEWTIME;

/// What each of the two clocks shows, or what is added to it: nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    pub monotonic: i64,
    pub boottime: i64,
}

const SECOND: i64 = 1_000_000_000;

impl std::ops::Sub for Times {
    type Output = Times;

    /// A clock that somebody has made up may be any number.
    fn sub(self, other: Times) -> Times {
        Times {
            monotonic: self.monotonic.saturating_sub(other.monotonic),
            boottime: self.boottime.saturating_sub(other.boottime),
        }
    }
}

impl std::ops::Add for Times {
    type Output = Times;

    fn add(self, other: Times) -> Times {
        Times {
            monotonic: self.monotonic.saturating_add(other.monotonic),
            boottime: self.boottime.saturating_add(other.boottime),
        }
    }
}

impl Times {
    /// Both clocks, as the calling process sees them.
    pub fn now() -> Times {
        Times { monotonic: read(libc::CLOCK_MONOTONIC), boottime: read(libc::CLOCK_BOOTTIME) }
    }

    /// Is this in neither clock less than that?
    pub fn reaches(self, other: Times) -> bool {
        self.monotonic >= other.monotonic && self.boottime >= other.boottime
    }

    /// As the kernel wants it: seconds, which may be negative, and nanoseconds, which may not.
    fn text(self) -> String {
        let line = |name, ns: i64| format!("{name} {} {}\n", ns.div_euclid(SECOND), ns.rem_euclid(SECOND));
        line("monotonic", self.monotonic) + &line("boottime", self.boottime)
    }

    fn parse(text: &str) -> Option<Times> {
        let of = |name: &str| {
            let mut words = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
            let mut number = || words.next()?.parse::<i64>().ok();
            number()?.checked_mul(SECOND)?.checked_add(number()?)
        };
        Some(Times { monotonic: of("monotonic")?, boottime: of("boottime")? })
    }
}

/// CLOCK_MONOTONIC_COARSE as the calling process sees it: CLOCK_MONOTONIC at the last tick of the kernel, in nanoseconds.
pub fn coarse() -> i64 {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

fn read(clock: libc::clockid_t) -> i64 {
    let now = now(clock);
    now.tv_sec.saturating_mul(SECOND).saturating_add(now.tv_nsec)
}

/// What is added to the machine's clocks for process `pid`; nothing on a kernel without time namespaces.
///
/// # Errors
/// `Gone`.
// ODDITY(time_namespace): timens_offsets tells, and sets, what is added for the children that the process will have: after unshare(2) its own clocks are
// others. linux: `proc_timens_show_offsets` asks `timens_for_children_get`. prog: tests/prog/odd_time_namespace.c
pub fn offsets(pid: Pid) -> Result<Times> {
    offsets_at(&format!("{PROC}/{pid}"))
}

/// The same for the calling process.
///
/// # Errors
/// Without /proc.
pub fn own_offsets() -> Result<Times> {
    offsets_at(&format!("{PROC}/self"))
}

fn offsets_at(process: &str) -> Result<Times> {
    let path = format!("{process}/timens_offsets");
    match std::fs::read_to_string(&path) {
        Ok(text) => Times::parse(&text).ok_or_else(|| Fault::bug(format!("{path} says {text:?}"))),
        Err(e) if e.kind() == ErrorKind::NotFound && Path::new(process).exists() => Ok(Times::default()),
        Err(e) => Err(Fault::io(&e, format!("read {path}"))),
    }
}

/// What is added in the namespace that process `pid` has made and nobody is in yet.
///
/// # Errors
/// ERANGE for what no clock can show; EACCES when somebody is in it.
pub fn set_offsets(pid: Pid, times: Times) -> Result<()> {
    set_at(&format!("{PROC}/{pid}/timens_offsets"), times)
}

fn set_at(path: &str, times: Times) -> Result<()> {
    let set = File::options().write(true).open(path).and_then(|mut file| file.write_all(times.text().as_bytes()));
    set.map_err(|e| Fault::io(&e, format!("set the clocks of a time namespace to {times:?} more")))
}

/// The namespace in which the children of process `pid` will be.
///
/// # Errors
/// `Gone`; `Sys` where there are no such namespaces.
pub fn of_children(pid: Pid) -> Result<OwnedFd> {
    open(&format!("{PROC}/{pid}/ns/time_for_children"))
}

/// The namespace of the calling process.
///
/// # Errors
/// `Sys` where there are no such namespaces.
pub fn own() -> Result<OwnedFd> {
    open(&format!("{PROC}/self/ns/time"))
}

fn open(path: &str) -> Result<OwnedFd> {
    File::open(path).map(OwnedFd::from).map_err(|e| Fault::io(&e, format!("open {path}")))
}

/// Takes the calling process, which has one thread, into a new time namespace, in which so much is added.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN; EINVAL where there are no such namespaces; EUSERS with several threads.
pub fn enter_new(times: Times) -> Result<()> {
    // SAFETY: takes a number, and touches no memory.
    sys::checked(unsafe { libc::unshare(CLONE_NEWTIME) }.into(), || "make a time namespace".into())?;
    set_at(&format!("{PROC}/self/timens_offsets"), times)?;
    let made = open(&format!("{PROC}/self/ns/time_for_children"))?;
    // SAFETY: a live descriptor and a number.
    let entered = unsafe { libc::setns(made.as_raw_fd(), CLONE_NEWTIME) };
    sys::checked(entered.into(), || "enter a time namespace".into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_written_as_the_kernel_reads_them() {
        let times = Times { monotonic: -1, boottime: 3 * SECOND + 7 };
        assert_eq!(times.text(), "monotonic -1 999999999\nboottime 3 7\n");
        assert_eq!(Times::parse(&times.text()), Some(times));
        assert_eq!(Times::parse("monotonic           0         0\n"), None);
    }

    #[test]
    fn in_a_new_namespace_clocks_show_what_is_added() {
        let added = Times { monotonic: 5 * SECOND + 1, boottime: 9 * SECOND };
        crate::testing::in_namespace(|_| {
            let (before, had) = (Times::now(), own_offsets().expect("/proc"));
            enter_new(had + added).expect("root");
            let (after, close) = (Times::now(), Times { monotonic: SECOND, boottime: SECOND });
            assert_eq!(own_offsets(), Ok(had + added));
            assert!(after.reaches(before + added) && (before + added + close).reaches(after));
            assert!(coarse() > before.monotonic + added.monotonic - SECOND);
        });
    }
}
