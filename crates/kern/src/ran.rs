//! Whether a thread has run: on a busy machine that may take a while.

use crate::proc::PROC;
use std::time::Duration;
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

    pub fn tid(&self) -> Pid {
        self.tid
    }

    /// Now that it may go on: may it still be in the short call in which it waited? It has neither slept since nor run for long.
    pub fn may_be_in_it(&self) -> bool {
        let wants_to_run = crate::pending::read(self.tid).is_some_and(|found| found.state == b'R');
        wants_to_run && ran_ns(self.tid).is_some_and(|ran_ns| ran_ns - self.ran_ns.min(ran_ns) < SHORT_NS)
    }
}

/// What a thread has of the processors, for who looks at it now and then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    tid: Pid,
    /// At the last look.
    ran_ns: u64,
}

impl Share {
    /// It is looked at for the first time; of one that has not begun, or on a kernel that does not count, nothing is known.
    pub fn new(tid: Pid) -> Share {
        Share { tid, ran_ns: ran_ns(tid).unwrap_or(u64::MAX) }
    }

    pub fn tid(&self) -> Pid {
        self.tid
    }

    /// Does it wait for a processor, and has it run for less than `little` since the last look? Not, where that cannot be told.
    pub fn starves(&mut self, little: Duration) -> bool {
        let Some(ran_ns) = ran_ns(self.tid) else { return false };
        let before = std::mem::replace(&mut self.ran_ns, ran_ns);
        let has_run = ran_ns.checked_sub(before).map(Duration::from_nanos);
        has_run.is_some_and(|has_run| has_run < little)
            && crate::pending::read(self.tid).is_some_and(|found| found.state == b'R')
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

    #[test]
    fn who_sleeps_or_has_had_enough_does_not_starve() {
        let (mut child, pid) = shell("while :; do :; done");
        let (mut sleeper, asleep) = shell("exec sleep 60");
        until(|| is_in_state(pid, b'R') && is_in_state(asleep, b'S'));
        let ever = Duration::from_secs(3600);
        let (mut share, mut of_sleeper) = (Share::new(pid), Share::new(asleep));
        assert!(share.starves(ever), "it wants to run, and has not run for an hour");
        assert!(!of_sleeper.starves(ever), "it wants nothing");
        let before = share;
        until(|| ran_ns(pid).is_some_and(|ran_ns| ran_ns > before.ran_ns + 2 * SHORT_NS));
        assert!(!share.starves(Duration::from_nanos(SHORT_NS)), "it has run since");
        for one in [&mut child, &mut sleeper] {
            one.kill().and_then(|()| one.wait()).expect("a child of ours");
        }
        assert!(!share.starves(ever), "it is gone");
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
