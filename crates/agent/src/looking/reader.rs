//! Does a process wait for a program's standard input?
//!
//! `/proc/TID/syscall` shows the call in which a thread sleeps, with its arguments, and `/proc/TID/fd` what its descriptors are. So
//! a thread that sleeps in read(2) of our pipe or terminal wants input; so does one that has it in what it polls, which its memory tells, or
//! for epoll(7) `/proc/PID/fdinfo`. All processes are looked at: who inherited the input need not descend from the program any more.

use kern::proc::PROC;
use kern::stat::{known, Known};
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use vocab::Pid;

/// Which file standard input is: the same for every descriptor of it, whatever its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Input {
    /// Device and inode.
    Pipe((u32, u32), u64),
    /// Device number of the terminal.
    Terminal((u32, u32)),
}

/// Which ways of waiting count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waits {
    /// To block in reading, as for the kernel's own job control (poll(2) raises no SIGTTIN).
    Read,
    Any,
}

/// A call in which a thread sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Read { fd: u64 },
    Poll { fds: u64, count: u64 },
    Select { count: u64, reading: u64 },
    Epoll { fd: u64 },
}

/// More descriptors than this nobody polls who waits for standard input.
const MOST: u64 = 4096;
/// POLLIN and POLLRDNORM, EPOLLIN and EPOLLRDNORM.
const READING: u32 = 0x41;

impl Call {
    /// From a line of `/proc/TID/syscall`. The numbers are x86-64's, then i386's: what they mean on the other one of the two does not
    /// sleep or has arguments that are no such list. 219 is restart_syscall, which continues a poll after a stop.
    fn parse(text: &str) -> Option<Call> {
        let mut words = text.split_ascii_whitespace();
        let number: u32 = words.next()?.parse().ok()?;
        let mut next = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
        let (first, second) = (next()?, next()?);
        match number {
            0 | 19 | 275 | 327 | 3 | 145 => Some(Call::Read { fd: first }),
            7 | 271 | 219 | 168 | 309 | 414 => Some(Call::Poll { fds: first, count: second }),
            23 | 270 | 142 | 308 | 413 => Some(Call::Select { count: first, reading: second }),
            232 | 281 | 441 | 256 | 319 => Some(Call::Epoll { fd: first }),
            _ => None,
        }
    }

    /// The descriptors whose input the thread waits for.
    fn awaited(self, task: &Path, waits: Waits) -> Vec<u64> {
        let memory = |at: u64, bytes: u64| {
            let mut found = vec![0; bytes as usize];
            let read = File::open(task.join("mem")).and_then(|mem| mem.read_exact_at(&mut found, at));
            read.map(|()| found).unwrap_or_default()
        };
        match self {
            Call::Read { fd } => vec![fd],
            _ if waits == Waits::Read => Vec::new(),
            Call::Poll { fds, count } if count <= MOST => polled(&memory(fds, count * POLLFD as u64)),
            Call::Select { count, reading } if count <= MOST => selected(&memory(reading, count.div_ceil(64) * 8)),
            Call::Epoll { fd } => watched(&fs::read_to_string(task.join(format!("fdinfo/{fd}"))).unwrap_or_default()),
            Call::Poll { .. } | Call::Select { .. } => Vec::new(),
        }
    }
}

/// The length of a struct pollfd (poll(2)): a descriptor, events, what came.
const POLLFD: usize = 8;

fn polled(list: &[u8]) -> Vec<u64> {
    let one = |entry: &[u8]| {
        let (fd, events) = (entry.first_chunk::<4>()?, entry.get(4..6)?.first_chunk::<2>()?);
        let reads = u32::from(u16::from_le_bytes(*events)) & READING != 0;
        u64::try_from(i32::from_le_bytes(*fd)).ok().filter(|_| reads)
    };
    list.chunks_exact(POLLFD).filter_map(one).collect()
}

/// The members of an fd_set (select(2)): one bit for each descriptor.
fn selected(set: &[u8]) -> Vec<u64> {
    (0..8 * set.len() as u64).filter(|fd| set[(fd / 8) as usize] >> (fd % 8) & 1 != 0).collect()
}

/// Of an epoll instance: lines `tfd: 5 events: 19 data: …` (proc_pid_fdinfo(5)).
fn watched(fdinfo: &str) -> Vec<u64> {
    let one = |line: &str| {
        let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
        let fd = words.next()?.parse().ok()?;
        let events = u32::from_str_radix(words.nth(1)?, 16).ok()?;
        (events & READING != 0).then_some(fd)
    };
    fdinfo.lines().filter_map(one).collect()
}

/// Is a thread of this process of the procfs at `proc` in a call that may wait for input? Most are not, and this is the
/// cheapest look at them, which nobody can hold up: neither their memory nor their files are touched.
pub(super) fn may_await(proc: &Path, pid: Pid) -> bool {
    let process = proc.join(pid.to_string());
    let waits = |task: &Path| fs::read_to_string(task.join("syscall")).is_ok_and(|text| Call::parse(&text).is_some());
    let tasks = process.join("task");
    // A link for each thread beside the directory's own two.
    if fs::symlink_metadata(&tasks).is_ok_and(|of| of.nlink() == 3) {
        return waits(&process);
    }
    fs::read_dir(tasks).is_ok_and(|tasks| tasks.flatten().any(|task| waits(&task.path())))
}

impl Input {
    /// Of one end of a pipe (both ends are one inode).
    pub(crate) fn of_pipe(end: &OwnedFd) -> Option<Input> {
        own(end).map(|file| Input::Pipe(file.dev, file.ino))
    }

    /// Of the program's side of a terminal.
    pub(crate) fn of_terminal(slave: &OwnedFd) -> Option<Input> {
        own(slave).map(|file| Input::Terminal(file.rdev))
    }

    fn is(self, path: &Path) -> bool {
        known(path).is_some_and(|file| match self {
            Input::Pipe(dev, ino) => (file.dev, file.ino) == (dev, ino),
            Input::Terminal(rdev) => file.rdev == rdev,
        })
    }

    /// Does a thread of this process of the procfs at `proc` wait for it?
    pub(super) fn is_awaited_in(self, proc: &Path, pid: Pid, waits: Waits) -> bool {
        let tasks = fs::read_dir(proc.join(format!("{pid}/task")));
        tasks.is_ok_and(|tasks| tasks.flatten().any(|task| self.is_awaited_by(&task.path(), waits)))
    }

    fn is_open_in(self, task: &Path) -> bool {
        let open = fs::read_dir(task.join("fd"));
        open.is_ok_and(|open| open.flatten().any(|fd| self.is(&fd.path())))
    }

    fn is_awaited_by(self, task: &Path, waits: Waits) -> bool {
        let text = |file: &str| fs::read_to_string(task.join(file)).unwrap_or_default();
        // One that was stopped within the call waits for SIGCONT, and will ask again.
        if !text("stat").rsplit(')').next().is_some_and(|rest| rest.starts_with(" S")) {
            return false;
        }
        let call = Call::parse(&text("syscall"));
        // Nobody's memory is read who has not got it: to read may take as long as the memory's user likes.
        if matches!(call, Some(Call::Poll { .. } | Call::Select { .. } | Call::Epoll { .. })) && !self.is_open_in(task)
        {
            return false;
        }
        let awaited = call.map(|call| call.awaited(task, waits)).unwrap_or_default();
        awaited.iter().any(|fd| self.is(&task.join(format!("fd/{fd}"))))
    }
}

fn own(fd: &OwnedFd) -> Option<Known> {
    known(Path::new(&format!("{PROC}/self/fd/{}", fd.as_raw_fd())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    /// Who of these waits for its input, in the two senses.
    #[test]
    fn reading_and_polling_are_seen_and_sleeping_is_not() {
        let poll = "import select; p = select.poll(); p.register(0, select.POLLIN); p.poll()";
        let select = "import select; select.select([0], [], [])";
        let epoll = "import select; e = select.epoll(); e.register(0, select.EPOLLIN); e.poll()";
        let other = "import select, os; r, w = os.pipe(); select.select([r], [], [])";
        for (words, reads, any) in [
            (&["cat"][..], true, true),
            (&["sleep", "60"], false, false),
            (&["python3", "-c", poll], false, true),
            (&["python3", "-c", select], false, true),
            (&["python3", "-c", epoll], false, true),
            (&["python3", "-c", other], false, false),
        ] {
            let (read, write) = kern::sys::pipe().expect("pipe");
            let input = Input::of_pipe(&write).expect("a pipe");
            let mut child = Command::new(words[0]).args(&words[1..]).stdin(Stdio::from(read)).spawn().expect("start");
            let task = format!("/proc/{}/task/{0}", child.id());
            let sleeps = || fs::read_to_string(format!("{task}/syscall")).is_ok_and(|text| sleeping(&text));
            let deadline = Instant::now() + Duration::from_secs(20);
            while !sleeps() && Instant::now() < deadline {
                std::thread::yield_now();
            }
            let by_it = || input.is_awaited_in(Path::new("/proc"), Pid(child.id() as i32), Waits::Any);
            let stopped = stop(child.id(), "STOP", 'T') && by_it();
            assert!(!stopped && stop(child.id(), "CONT", 'S'), "{words:?}");
            let seen = [Waits::Read, Waits::Any].map(|waits| input.is_awaited_by(Path::new(&task), waits));
            let everywhere = by_it();
            child.kill().expect("kill");
            child.wait().expect("wait");
            assert_eq!((seen, everywhere), ([reads, any], any), "{words:?}");
        }
    }

    /// Sends a signal, and waits until the process is in this state.
    fn stop(pid: u32, signal: &str, state: char) -> bool {
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
        assert!(sent.expect("kill").success());
        let deadline = Instant::now() + Duration::from_secs(20);
        let now = || fs::read_to_string(format!("/proc/{pid}/stat")).expect("a child");
        while !now().contains(&format!(") {state} ")) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        true
    }

    /// In the call that the program was started for: one of those above, or clock_nanosleep.
    fn sleeping(text: &str) -> bool {
        text.starts_with("230 ") || Call::parse(text).is_some_and(|call| !matches!(call, Call::Read { fd: 3.. }))
    }

    #[test]
    fn lists_of_descriptors_are_read_as_the_kernel_writes_them() {
        assert_eq!(polled(&[0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0, 255, 255, 255, 255, 1, 0, 0, 0]), [0]);
        assert_eq!(selected(&[0b101, 0, 1]), [0, 2, 16]);
        let fdinfo = "pos:\t0\ntfd:        0 events:       19 data: 1  pos:0\ntfd:        7 events:       1c data: 2\n";
        assert_eq!(watched(fdinfo), [0]);
        assert_eq!(Call::parse("running"), None);
        assert_eq!(Call::parse("0 0x0 0x7ffe 0x1000"), Some(Call::Read { fd: 0 }));
    }
}
