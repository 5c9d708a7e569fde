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
use vocab::{Fault, Pid, Result, Sig};

/// The rings of all processors.
#[derive(Debug)]
pub struct Stops {
    rings: Vec<Ring>,
    /// The second tracepoint of each processor, which writes to the first one's ring.
    _others: Vec<OwnedFd>,
    /// Where in the fields of either tracepoint the number of the signal is.
    sig_at: usize,
}

/// What a process has just done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It has taken a signal that stops, and does so in a moment unless its group is orphaned.
    Takes(Sig),
    GoesOn,
}

/// Pages of a ring: room for fifteen hundred stops.
const PAGES: usize = 32;
const TYPE_TRACEPOINT: u32 = 2;
/// What is in a sample, in this order (perf_event_open(2)): PID and TID, the time, and the fields of the tracepoint with their length before them.
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_RAW: u64 = 1 << 10;
/// Where they begin, with the header of the record.
const PID_AT: usize = 8;
const TIME_AT: usize = 16;
const RAW_AT: usize = 28;
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
        let sig_at = place_of_sig(tracefs, "signal_deliver")?;
        if place_of_sig(tracefs, "signal_generate")? != sig_at {
            return Err(Fault::bug("two tracepoints of signals that have the signal at different places"));
        }
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
        Ok(Stops { rings, _others: others, sig_at })
    }

    /// The descriptors to poll.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().map(|ring| ring.fd.as_fd())
    }

    /// Who has stopped, or will in a moment, or has gone on since the last call, in their order; `None` when a ring had no room: that may be anybody.
    /// Tasks of other PID namespaces are left out.
    pub fn drain(&mut self) -> Option<Vec<(Pid, Seen)>> {
        let (mut seen, mut lost, sig_at) = (Vec::new(), false, RAW_AT + self.sig_at);
        for ring in &mut self.rings {
            ring.each(|kind, _, bytes| {
                let word = |at: usize| Some(i32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
                let time =
                    bytes.get(TIME_AT..).and_then(|from| from.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b));
                lost |= kind == super::RECORD_LOST;
                if let (RECORD_SAMPLE, Some(pid @ 1..), Some(sig)) = (kind, word(PID_AT), word(sig_at)) {
                    // The other tracepoint is of SIGCHLD alone.
                    let sig = Sig::new(sig as u8).filter(|sig| sig.stops());
                    seen.push((time, Pid(pid), sig.map_or(Seen::GoesOn, Seen::Takes)));
                }
            });
            ring.release();
        }
        // One that goes on may do so on another processor.
        seen.sort_by_key(|(time, ..)| *time);
        (!lost).then(|| seen.into_iter().map(|(_, pid, what)| (pid, what)).collect())
    }
}

/// `\tfield:int sig;\toffset:8;\tsize:4;\tsigned:1;`
fn place_of_sig(tracefs: &Path, name: &str) -> Result<usize> {
    let path = tracefs.join("events/signal").join(name).join("format");
    let text = std::fs::read_to_string(&path).map_err(|e| Fault::io(&e, format!("read {}", path.display())))?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("field:int sig;"));
    let place = line.and_then(|line| line.trim().strip_prefix("offset:")?.split(';').next()?.parse().ok());
    place.ok_or_else(|| Fault::bug(format!("{} has no sig as expected", path.display())))
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
        sample_type: SAMPLE_TID | SAMPLE_TIME | SAMPLE_RAW,
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
                    let what = if sig == Sig::STOP { Seen::Takes(Sig::STOP) } else { Seen::GoesOn };
                    (some, stops.drain().expect("there is room").contains(&(pid, what)))
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
            more(stops.rings.len() * PAGES * super::super::PAGE / RAW_AT + 1);
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
