//! Stop signals as processes take them, and SIGCONT as it is sent: nothing else tells of a stop but the wait of the parent, whoever that is.
//! From the tracepoints `signal_deliver` and `signal_generate` (include/trace/events/signal.h), filtered in the kernel, so that other
//! signals cost nothing that can be measured.

use super::{Attr, Ring, FLAG_USE_CLOCKID, FLAG_WATERMARK};
use crate::sys;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use vocab::{Fault, Pid, Result};

/// What was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// A thread of this process has taken SIGSTOP, SIGTSTP, SIGTTIN or SIGTTOU. It stops in a moment, unless it handles the signal or its
    /// group is orphaned.
    Stops(Pid),
    /// Somebody was sent SIGCONT, or what was seen is not all.
    Some,
}

/// The rings of all processors.
#[derive(Debug)]
pub struct Stops {
    rings: Vec<Ring>,
}

/// Pages of a ring: room for some hundred signals.
const PAGES: usize = 8;
const TYPE_TRACEPOINT: u32 = 2;
const SAMPLE_TID: u64 = 1 << 1;
const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;
/// `_IOW('$', 6, char *)`.
const SET_FILTER: libc::Ioctl = 0x4008_2406;
const TAKEN: &CStr = c"sig >= 19 && sig <= 22";
const CONTINUED: &CStr = c"sig == 18";

impl Stops {
    /// Stops of the tasks of `cgroup`, and SIGCONT from anybody. `tracefs` is where that is mounted, and is needed for this call only.
    ///
    /// # Errors
    /// `Sys`: ENOENT when there are no such tracepoints, EACCES or EPERM without CAP_PERFMON.
    pub fn open(cgroup: Option<BorrowedFd<'_>>, tracefs: &Path) -> Result<Stops> {
        let mut rings = Vec::new();
        for (name, filter, cgroup) in [("signal_deliver", TAKEN, cgroup), ("signal_generate", CONTINUED, None)] {
            let path = tracefs.join("events/signal").join(name).join("id");
            let text = std::fs::read_to_string(&path).map_err(|e| Fault::io(&e, format!("read {}", path.display())))?;
            let id = text.trim().parse().map_err(|_| Fault::bug(format!("{} says {text:?}", path.display())))?;
            for cpu in super::online()? {
                let fd = tracepoint(id, filter, cgroup, cpu)?;
                rings.push(Ring::on(fd, PAGES)?);
            }
        }
        Ok(Stops { rings })
    }

    /// The descriptors to poll.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().map(|ring| ring.fd.as_fd())
    }

    /// All there is. Tasks of other PID namespaces are left out.
    pub fn drain(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        let of_stops = self.rings.len() / 2;
        for (at, ring) in self.rings.iter_mut().enumerate() {
            ring.each(|kind, _, bytes| {
                let pid = bytes.get(8..12).map_or(0, |b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
                match kind {
                    RECORD_SAMPLE if at < of_stops && pid > 0 => seen.push(Seen::Stops(Pid(pid))),
                    RECORD_SAMPLE if at < of_stops => {}
                    RECORD_SAMPLE | RECORD_LOST => seen.push(Seen::Some),
                    _ => {}
                }
            });
        }
        seen
    }
}

/// An event for each hit of tracepoint `id` that passes `filter`, waking at once.
fn tracepoint(id: u64, filter: &CStr, cgroup: Option<BorrowedFd<'_>>, cpu: i32) -> Result<OwnedFd> {
    let attr = Attr {
        kind: TYPE_TRACEPOINT,
        size: size_of::<Attr>() as u32,
        config: id,
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
    sys::checked(ret.into(), || format!("filter tracepoint {id} by {filter:?}"))?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_namespace;
    use crate::{mount, pidfd};
    use std::process::Command;
    use vocab::Sig;

    #[test]
    #[expect(clippy::zombie_processes, reason = "it ends with its namespace")]
    fn a_stop_and_a_continue_are_seen_at_once_and_other_signals_are_not() {
        in_namespace(|_| {
            let place = std::env::temp_dir();
            mount::mount("tracefs", &place, mount::Flags::empty(), "").expect("root may");
            let mut stops = Stops::open(None, &place).expect("root may");
            mount::detach(&place).expect("mounted above");
            let child = Command::new("sleep").arg("100").spawn().expect("sleep is there");
            let pid = Pid(child.id() as i32);
            let fd = pidfd::open(pid).expect("my child");
            for (sig, want) in [
                (Sig::CHLD, None),
                (Sig::STOP, Some(Seen::Stops(pid))),
                (Sig::CONT, Some(Seen::Some)),
                (Sig::CHLD, None),
            ] {
                pidfd::kill(fd.as_fd(), sig).expect("my child");
                let mut polls: Vec<libc::pollfd> = stops
                    .fds()
                    .map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
                    .collect();
                let patience = if want.is_some() { 5000 } else { 20 };
                loop {
                    // SAFETY: as many pollfds as the count says.
                    let ready = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as u64, patience) };
                    let seen = stops.drain();
                    match want {
                        Some(want) if seen.contains(&want) => break,
                        Some(_) => assert!(ready > 0, "{sig} was not seen"),
                        None => break assert!(!seen.contains(&Seen::Stops(pid)), "{sig} was seen"),
                    }
                }
            }
        });
    }
}
