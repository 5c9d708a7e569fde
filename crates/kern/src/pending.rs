//! Which signals wait for a process, and whether it is stopped: what a daemon must know of an interrupted stand-in.

use crate::proc::PROC;
use std::fs::File;
use std::os::unix::fs::FileExt;
use vocab::{Pid, Sig, SigSet};

/// From `/proc/PID/status` (proc(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Private and shared pending signals together, without the SIGSTOP by which a tracer attaches itself.
    pub signals: SigSet,
    /// Those pending for the process, not for its main thread alone.
    pub shared: SigSet,
    /// Those that its main thread blocks.
    pub blocked: SigSet,
    /// The state letter.
    pub state: u8,
    /// Somebody traces it: whether a signal has stopped it cannot be told from its state.
    pub traced: bool,
}

impl Pending {
    /// Has a stand-in that is stopped, and has nothing in hand, stopped as it was told? Then it lets through only what stops it, and SIGCONT; where it holds, all
    /// ([`crate::standin`]).
    pub fn stops_as_told(&self) -> bool {
        self.blocked.has(Sig::HUP)
    }
}

/// `None` when there is no such process.
pub fn read(pid: Pid) -> Option<Pending> {
    read_file(&open(pid)?, pid)
}

/// Is it stopped on its way out of a call that has sent a signal? A signal that is met there has come after that (proc_pid_syscall(5), linux: `proc_pid_syscall`).
/// Called by a node's agent of stand-ins that it has told to send one.
pub fn has_just_sent(pid: Pid) -> bool {
    const SENDS: [i64; 3] = [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_tgsigqueueinfo];
    let call = std::fs::read_to_string(format!("{PROC}/{pid}/syscall")).unwrap_or_default();
    // "running", or -1 where it is in no call.
    let number = call.split(' ').next().and_then(|number| number.parse().ok());
    number.is_some_and(|number| SENDS.contains(&number)) && read(pid).is_some_and(|now| now.state == b'T')
}

/// Reads of the same few processes again and again: it keeps their files open.
///
/// A daemon asks of every stand-in that is signalled, while the signal waits; with the file open that is one call, not three.
/// A file of a process that is gone says ESRCH, also when another has its number by then.
#[derive(Debug, Default)]
pub struct Reader {
    /// The last one used is the last.
    files: Vec<(Pid, File)>,
}

/// Files that a [`Reader`] keeps.
const KEPT: usize = 32;

impl Reader {
    /// As [`read`].
    pub fn read(&mut self, pid: Pid) -> Option<Pending> {
        let known = self.files.iter().rposition(|(of, _)| *of == pid).map(|at| self.files.remove(at).1);
        let kept = known.and_then(|file| Some((read_file(&file, pid)?, file)));
        let (pending, file) = match kept {
            Some(found) => found,
            None => {
                let file = open(pid)?;
                (read_file(&file, pid)?, file)
            }
        };
        if self.files.len() == KEPT {
            self.files.remove(0);
        }
        self.files.push((pid, file));
        Some(pending)
    }

    /// Closes the file of `pid`, which is not asked about any more.
    pub fn forget(&mut self, pid: Pid) {
        self.files.retain(|(of, _)| *of != pid);
    }
}

fn open(pid: Pid) -> Option<File> {
    File::open(format!("{PROC}/{pid}/status")).ok()
}

fn read_file(file: &File, pid: Pid) -> Option<Pending> {
    let mut buffer = [0u8; 4096];
    match file.read_at(&mut buffer, 0).ok()? {
        length if length < buffer.len() => parse(&buffer[..length]),
        // Many supplementary groups.
        _ => parse(&std::fs::read(format!("{PROC}/{pid}/status")).ok()?),
    }
}

fn parse(text: &[u8]) -> Option<Pending> {
    let mut pending = Pending { signals: SigSet(0), shared: SigSet(0), blocked: SigSet(0), state: b'?', traced: false };
    for line in text.split(|b| *b == b'\n') {
        if let Some(rest) = line.strip_prefix(b"State:\t") {
            pending.state = *rest.first().unwrap_or(&b'?');
        } else if let Some(tracer) = line.strip_prefix(b"TracerPid:\t") {
            pending.traced = tracer != b"0";
        } else if let Some(hex) = line.strip_prefix(b"SigPnd:\t") {
            pending.signals.0 |= set(hex)?;
            // PTRACE_ATTACH sends one (linux: ptrace_attach), which stops nobody, but for the tracer.
            pending.signals.0 &= if pending.traced { !Sig::STOP.bit() } else { u64::MAX };
        } else if let Some(hex) = line.strip_prefix(b"SigBlk:\t") {
            pending.blocked.0 = set(hex)?;
        } else if let Some(hex) = line.strip_prefix(b"ShdPnd:\t") {
            pending.shared.0 = set(hex)?;
            pending.signals.0 |= pending.shared.0;
        }
    }
    Some(pending)
}

fn set(hex: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

/// Is a process stopped by a signal, or about to be? One of its threads takes the signal for all (linux: `do_signal_stop`), so it waits no more, and one that is in a
/// killable wait stops behind that only (ODDITY stop-taken-by-another; tests/prog/odd_stop_by_another.c).
pub fn stops(pid: Pid) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("{PROC}/{pid}/task")) else { return false };
    let states = threads.flatten().filter_map(|thread| std::fs::read(thread.path().join("status")).ok());
    states.filter_map(|text| parse(&text)).any(|thread| thread.state == b'T')
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

    #[test]
    fn what_a_tracer_sends_is_no_stop() {
        let stop = Sig::STOP.bit();
        let of = |tracer: u32, own: u64, shared: u64| {
            let text =
                format!("State:\tS (sleeping)\nTracerPid:\t{tracer}\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\n");
            parse(text.as_bytes()).expect("a status").signals.0
        };
        assert_eq!([of(0, stop, 0), of(7, stop, 0), of(7, stop, stop), of(7, stop | 1, 0)], [stop, 0, stop, 1]);
    }

    #[test]
    fn one_that_is_stopped_by_its_own_signal_has_just_sent_it() {
        for (does, expected) in [("kill -STOP $$", true), ("exec sleep 100", false)] {
            let mut child = std::process::Command::new("sh").args(["-c", does]).spawn().expect("sh(1)");
            let pid = Pid(child.id() as i32);
            if !expected {
                let sleeps = format!("{} ", libc::SYS_clock_nanosleep);
                while !std::fs::read_to_string(format!("/proc/{pid}/syscall"))
                    .is_ok_and(|does| does.starts_with(&sleeps))
                {
                    let _ = crate::poll::poll(&[], 1);
                }
                assert!(!has_just_sent(pid));
                crate::signal::send(pid, Sig::STOP).expect("it lives");
            }
            while read(pid).map(|now| now.state) != Some(b'T') {
                let _ = crate::poll::poll(&[], 1);
            }
            assert_eq!(has_just_sent(pid), expected, "{does}");
            child.kill().expect("it lives");
            child.wait().expect("it ends");
        }
    }

    #[test]
    fn one_that_is_stopped_is_not_one_that_sleeps() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep(1)");
        let pid = Pid(child.id() as i32);
        assert!(!stops(pid));
        crate::signal::send(pid, Sig::STOP).expect("it is ours");
        let ends = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while !stops(pid) {
            assert!(std::time::Instant::now() < ends, "it stops");
        }
        child.kill().and_then(|()| child.wait()).expect("it is ours");
        assert!(!stops(pid));
    }

    #[test]
    fn a_file_that_is_kept_says_what_is_now_and_nothing_of_who_is_gone() {
        let mut reader = Reader::default();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep(1)");
        let pid = Pid(child.id() as i32);
        let sleeps = reader.read(pid).expect("it exists");
        assert!(sleeps.state != b'Z' && sleeps.signals == SigSet(0));
        child.kill().expect("it is ours");
        let ends = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while reader.read(pid).map(|p| p.state) != Some(b'Z') {
            assert!(std::time::Instant::now() < ends, "it ends");
        }
        child.wait().expect("it is ours");
        assert_eq!(reader.read(pid), None);
        assert!(reader.files.is_empty());
    }
}
