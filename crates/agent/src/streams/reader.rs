//! Does a process block in reading a program's standard input?
//!
//! `/proc/TID/syscall` shows the call in which a thread sleeps, with its arguments, and `/proc/TID/fd` what its descriptors are:
//! a thread that sleeps in read(2) of our pipe or terminal wants input. poll(2) does not count, as it does not for the
//! kernel's own job control (it raises no SIGTTIN).

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use vocab::Pid;

/// Gives the processes that may read a program's standard input, by their numbers in the agent's own /proc.
pub type Readers = Box<dyn Fn() -> Vec<Pid> + Send>;

/// Calls that read descriptor number `args[0]`: read, readv, splice and preadv2 of x86-64, read and readv of i386
/// (which are close and sched_getscheduler there: they do not sleep).
const READS: [u64; 6] = [0, 19, 275, 327, 3, 145];

/// Which file standard input is: the same for every descriptor of it, whatever its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Input {
    /// Device and inode.
    Pipe(u64, u64),
    /// Device number of the terminal.
    Terminal(u64),
}

impl Input {
    /// Of one end of a pipe (both ends are one inode).
    pub(super) fn of_pipe(end: &OwnedFd) -> Option<Input> {
        own(end).map(|meta| Input::Pipe(meta.dev(), meta.ino()))
    }

    /// Of the program's side of a terminal.
    pub(super) fn of_terminal(slave: &OwnedFd) -> Option<Input> {
        own(slave).map(|meta| Input::Terminal(meta.rdev()))
    }

    fn is(self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|meta| match self {
            Input::Pipe(dev, ino) => meta.dev() == dev && meta.ino() == ino,
            Input::Terminal(rdev) => meta.rdev() == rdev,
        })
    }

    /// Is a thread of one of these processes blocked in reading it?
    pub(super) fn is_read_by(self, processes: &[Pid]) -> bool {
        processes.iter().any(|pid| {
            let tasks = fs::read_dir(format!("/proc/{pid}/task"));
            tasks.is_ok_and(|tasks| tasks.flatten().any(|task| self.blocks(&task.path())))
        })
    }

    fn blocks(self, task: &Path) -> bool {
        let Ok(text) = fs::read_to_string(task.join("syscall")) else { return false };
        let mut words = text.split_ascii_whitespace();
        let Some(number) = words.next().and_then(|w| w.parse::<u64>().ok()) else { return false };
        let fd = words.next().and_then(|w| u64::from_str_radix(w.trim_start_matches("0x"), 16).ok());
        READS.contains(&number) && fd.is_some_and(|fd| self.is(&task.join(format!("fd/{fd}"))))
    }
}

fn own(fd: &OwnedFd) -> Option<fs::Metadata> {
    fs::metadata(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn a_cat_that_waits_for_input_is_seen_and_a_sleep_is_not() {
        for (program, wants) in [("cat", true), ("sleep", false)] {
            let (read, write) = kern::sys::pipe().expect("pipe");
            let input = Input::of_pipe(&write).expect("a pipe");
            let mut command = Command::new(program);
            let mut child = command.args((!wants).then_some("60")).stdin(Stdio::from(read)).spawn().expect("start");
            let pid = [Pid(child.id() as i32)];
            let deadline = Instant::now() + Duration::from_secs(5);
            let mut seen = false;
            while !seen && Instant::now() < deadline && (wants || deadline - Instant::now() > Duration::from_secs(4)) {
                seen = input.is_read_by(&pid);
                std::thread::yield_now();
            }
            assert_eq!(seen, wants, "{program}");
            child.kill().expect("kill");
            child.wait().expect("wait");
        }
    }
}
