//! Processes of a cgroup that stop or go on, whoever stops or continues them: otherwise only the wait of their parent tells, whoever that is.
//!
//! From the tracepoints `signal_deliver` and `signal_generate` (include/trace/events/signal.h), filtered in the kernel. Both hits are in the context of the
//! process itself: it takes a stop signal, and a moment later stops unless its group is orphaned; and when it goes on it signals its parent
//! (linux: `do_notify_parent_cldstop`), unless that does not want to know (SIGCHLD ignored, SA_NOCLDSTOP).

use super::{Attr, Ring, FLAG_USE_CLOCKID, FLAG_WATERMARK};
use crate::{mount, sys};
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use vocab::{Fault, Pid, Result};

/// The rings of all processors.
#[derive(Debug)]
pub struct Stops {
    rings: Vec<Ring>,
    /// The second tracepoint of each processor, which writes to the first one's ring.
    _others: Vec<OwnedFd>,
}

/// Pages of a ring: room for four thousand stops.
const PAGES: usize = 16;
const TYPE_TRACEPOINT: u32 = 2;
const SAMPLE_TID: u64 = 1 << 1;
const RECORD_SAMPLE: u32 = 9;
/// `_IO('$', 5)`.
const SET_OUTPUT: libc::Ioctl = 0x2405;
/// `_IOW('$', 6, char *)`.
const SET_FILTER: libc::Ioctl = 0x4008_2406;
/// SIGSTOP, SIGTSTP, SIGTTIN and SIGTTOU that are not handled.
const TAKEN: &CStr = c"sig >= 19 && sig <= 22 && sa_handler == 0";
/// SIGCHLD with CLD_CONTINUED.
const WENT_ON: &CStr = c"sig == 17 && code == 6";

impl Stops {
    /// Of the tasks of `cgroup`, or of the machine. `place` is a directory on which tracefs is mounted during this call.
    ///
    /// # Errors
    /// `Sys`: ENODEV when the kernel has no tracefs, ENOENT when it has no such tracepoints, EACCES or EPERM without CAP_PERFMON.
    pub fn open(cgroup: Option<BorrowedFd<'_>>, place: &Path) -> Result<Stops> {
        mount::mount("tracefs", place, mount::Flags::NOSUID | mount::Flags::NODEV | mount::Flags::NOEXEC, "")?;
        let stops = Stops::of(cgroup, place);
        mount::detach(place)?;
        stops
    }

    fn of(cgroup: Option<BorrowedFd<'_>>, tracefs: &Path) -> Result<Stops> {
        let (taken, went_on) = (number(tracefs, "signal_deliver")?, number(tracefs, "signal_generate")?);
        let (mut rings, mut others) = (Vec::new(), Vec::new());
        for cpu in super::online()? {
            let ring = Ring::on(tracepoint(taken, TAKEN, cgroup, cpu)?, PAGES)?;
            let other = tracepoint(went_on, WENT_ON, cgroup, cpu)?;
            // SAFETY: takes two descriptors.
            let ret = unsafe { libc::ioctl(other.as_raw_fd(), SET_OUTPUT, ring.fd.as_raw_fd()) };
            sys::checked(ret.into(), || "let two tracepoints write to one ring".into())?;
            rings.push(ring);
            others.push(other);
        }
        Ok(Stops { rings, _others: others })
    }

    /// The descriptors to poll.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().map(|ring| ring.fd.as_fd())
    }

    /// Who has stopped, or will in a moment, or has gone on since the last call; `None` when a ring had no room: that may be anybody.
    /// Tasks of other PID namespaces are left out.
    pub fn drain(&mut self) -> Option<Vec<Pid>> {
        let (mut seen, mut lost) = (Vec::new(), false);
        for ring in &mut self.rings {
            ring.each(|kind, _, bytes| {
                let pid = bytes.get(8..12).map_or(0, |b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
                lost |= kind == super::RECORD_LOST;
                if kind == RECORD_SAMPLE && pid > 0 {
                    seen.push(Pid(pid));
                }
            });
            ring.release();
        }
        (!lost).then_some(seen)
    }
}

fn number(tracefs: &Path, name: &str) -> Result<u64> {
    let path = tracefs.join("events/signal").join(name).join("id");
    let text = std::fs::read_to_string(&path).map_err(|e| Fault::io(&e, format!("read {}", path.display())))?;
    text.trim().parse().map_err(|_| Fault::bug(format!("{} says {text:?}", path.display())))
}

/// An event for each hit of tracepoint `number` that passes `filter`, waking at once.
fn tracepoint(number: u64, filter: &CStr, cgroup: Option<BorrowedFd<'_>>, cpu: i32) -> Result<OwnedFd> {
    let attr = Attr {
        kind: TYPE_TRACEPOINT,
        size: size_of::<Attr>() as u32,
        config: number,
        sample_period: 1,
        sample_type: SAMPLE_TID,
        flags: FLAG_WATERMARK | FLAG_USE_CLOCKID,
        wakeup_watermark: 1,
        clockid: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    };
    let fd = super::open_event(&attr, cgroup, cpu)?;
    // SAFETY: the filter is a string that lives through the call, which copies it.
    let ret = unsafe { libc::ioctl(fd.as_raw_fd(), SET_FILTER, filter.as_ptr()) };
    sys::checked(ret.into(), || format!("filter tracepoint {number} by {filter:?}"))?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::others;
    use crate::pidfd;
    use crate::testing::in_namespace;
    use std::process::Command;
    use vocab::Sig;

    /// Polls until something is there, at most `patience` milliseconds.
    fn wait(stops: &Stops, patience: i32) -> bool {
        let poll = |fd: BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut polls: Vec<libc::pollfd> = stops.fds().map(poll).collect();
        // SAFETY: as many pollfds as the count says.
        unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as u64, patience) > 0 }
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "it ends with its namespace")]
    fn who_stops_and_goes_on_is_seen_at_once_and_no_other_signal_is() {
        in_namespace(|_| {
            let mut stops = Stops::open(None, &std::env::temp_dir()).expect("root may");
            let child = Command::new("sleep").arg("100").spawn().expect("sleep is there");
            let pid = Pid(child.id() as i32);
            let fd = pidfd::open(pid).expect("my child");
            for (sig, seen) in [(Sig::CHLD, false), (Sig::STOP, true), (Sig::CONT, true), (Sig::CHLD, false)] {
                pidfd::kill(fd.as_fd(), sig).expect("my child");
                let mut found = |patience| {
                    let some = wait(&stops, patience);
                    (some, stops.drain().expect("there is room").contains(&pid))
                };
                if !seen {
                    assert!(!found(20).1, "{sig} was seen");
                    continue;
                }
                while let (some, false) = found(5000) {
                    assert!(some, "{sig} was not seen");
                }
            }
        });
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "it ends with its namespace")]
    fn a_full_ring_says_so() {
        in_namespace(|_| {
            // All on one processor: the ring that was filled is the one that tells of it.
            others::set_processors(Pid::NONE, &one_processor()).expect("one of those it has");
            let mut stops = Stops::open(None, &std::env::temp_dir()).expect("root may");
            let child = Command::new("sleep").arg("100").spawn().expect("sleep is there");
            let fd = pidfd::open(Pid(child.id() as i32)).expect("my child");
            let more = |times: usize| {
                for _ in 0..times {
                    pidfd::kill(fd.as_fd(), Sig::STOP).expect("my child");
                    wait_stopped(child.id());
                    pidfd::kill(fd.as_fd(), Sig::CONT).expect("my child");
                }
            };
            more(3);
            assert!(stops.drain().is_some_and(|seen| seen.len() >= 3));
            // More than all rings hold; that some were lost is told with the next record that finds room.
            more(stops.rings.len() * PAGES * super::super::PAGE / 16 + 1);
            stops.drain();
            let mut rounds = 0;
            while stops.drain().is_some() {
                more(1);
                rounds += 1;
                assert!(rounds < 1000, "no ring says that it was full");
            }
        });
    }

    /// The lowest of those on which this thread may run.
    fn one_processor() -> Vec<u8> {
        let mut set = others::processors(Pid::NONE).expect("its own");
        let lowest = set.iter().position(|byte| *byte != 0).expect("at least one");
        set[lowest] &= set[lowest].wrapping_neg();
        set[lowest + 1..].fill(0);
        set
    }

    fn wait_stopped(pid: u32) {
        // SAFETY: an all-zero siginfo_t is valid, and waitid writes to it.
        let ret = unsafe { libc::waitid(libc::P_PID, pid, &mut std::mem::zeroed(), libc::WSTOPPED) };
        assert_eq!(ret, 0);
    }
}
