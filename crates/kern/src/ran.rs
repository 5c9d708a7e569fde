//! Whether a thread that was let go on has run since: on a busy machine that may take a while.

use crate::proc::PROC;
use vocab::Pid;

/// More than a short call takes, in nanoseconds of the thread's own time.
const SHORT_NS: u64 = 1_000_000;

/// A thread that waits, and how much it had run by then (proc(5), `/proc/PID/schedstat`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waited {
    tid: Pid,
    ran_ns: u64,
}

impl Waited {
    /// `None` when it is gone, or this kernel does not count (CONFIG_SCHED_INFO).
    pub fn now(tid: Pid) -> Option<Waited> {
        let ran_ns = ran_ns(tid)?;
        Some(Waited { tid, ran_ns })
    }

    /// Now that it may go on: may it still be in the short call in which it waited? It has neither slept since nor run for long.
    pub fn may_be_in_it(&self) -> bool {
        let wants_to_run = crate::pending::read(self.tid).is_some_and(|found| found.state == b'R');
        wants_to_run && ran_ns(self.tid).is_some_and(|ran_ns| ran_ns - self.ran_ns.min(ran_ns) < SHORT_NS)
    }
}

fn ran_ns(tid: Pid) -> Option<u64> {
    let text = std::fs::read_to_string(format!("{PROC}/{tid}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    /// A shell that has begun with the rest of its script.
    fn shell(rest: &str) -> (Child, Pid) {
        let mut command = Command::new("sh");
        let command = command.args(["-c", &format!("echo; {rest}")]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("sh");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let pid = Pid(child.id() as i32);
        (child, pid)
    }

    fn until(come: impl Fn() -> bool) {
        while !come() {
            std::thread::yield_now();
        }
    }

    fn is_in_state(pid: Pid, state: u8) -> bool {
        crate::pending::read(pid).is_some_and(|found| found.state == state)
    }

    #[test]
    fn who_runs_for_long_has_left_and_so_has_who_sleeps() {
        let (mut loops, pid) = shell("while :; do :; done");
        let waited = Waited::now(pid).expect("this kernel counts");
        until(|| !waited.may_be_in_it());
        assert!(is_in_state(pid, b'R'));
        loops.kill().and_then(|()| loops.wait()).expect("my child");
        let (mut reads, pid) = shell("read x");
        until(|| is_in_state(pid, b'S'));
        assert!(!Waited::now(pid).expect("this kernel counts").may_be_in_it());
        reads.kill().and_then(|()| reads.wait()).expect("my child");
        assert_eq!(Waited::now(pid), None);
    }

    #[test]
    fn who_wants_to_run_and_has_not_may_be_in_its_call() {
        let link = std::fs::read_link("/proc/thread-self").expect("procfs");
        let tid = link.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("PID/task/TID");
        assert!(Waited::now(Pid(tid)).expect("this kernel counts").may_be_in_it());
    }
}
