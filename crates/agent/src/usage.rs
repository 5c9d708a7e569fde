//! The CPU time of children elsewhere: who is charged with it, and how a reader gets it.
//!
//! The kernel charges a parent with what the stand-in of its child has used, which is nothing. So the agent keeps what the processes
//! themselves have used, and adds it to the results of the calls that tell it. For this it traces the thread that calls, for the one call
//! (`kern::trace`), and only when there is something to add; a thread that somebody else traces gets the kernel's figures.
//!
//! The memory of a caller may be a file of a file system whose server is its user's and need not answer. So a stand-in of its own, the
//! writer, reads and writes it, one result after the other; when it is stuck everybody gets the kernel's figures until it is not.
//!
//! A number is no memory: when another thread of the caller's process executes a program, the traced thread dies, and its number may be the new program's,
//! which may be root's. So the writer opens the memory while the thread stands still (which may wait for that other thread, too, and so is no work of the
//! agent's), and the agent then asks the kernel whether the thread still stands where it stopped (`kern::trace::is_still`). A yes says that the thread had
//! its number when the file was opened, and that nothing had been executed by then. The file is of the memory from before any later exec.
//!
//! | state of a reader | next |
//! |---|---|
//! | calls getrusage or times, with nothing to add | goes on untraced |
//! | waits, and no child elsewhere has ended | goes on untraced, remembered; traced when one is told to end |
//! | traced, behind its call | kept there until the result has been changed, at most [`PATIENCE_US`]: released |
//! | traced, interrupted in it | goes on, still traced; after [`PATIENCE_US`] without a child that is about to end released, and remembered again |
//! | traced, gets a signal or is stopped | released; the call is asked about again when it is restarted |
//! | traced, has executed a program | released, and nothing is changed any more |

use crate::agent::Agent;
use ghost::{Command, Outcome};
use kern::clock::monotonic_us;
use kern::faultpoint::reach;
use kern::proc::PROC;
use kern::ptrace;
use kern::seccomp::{Call, Notice, Reads};
use kern::trace::{self, Stop};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::CString;
use tracing::debug;
use vocab::errno::EINTR;
use vocab::{Pid, Sig};
use wire::event::Usage;

/// Microseconds that a wait is traced without an end of a child: it waits for another one.
const PATIENCE_US: u64 = 50_000;
/// The same as long as a child that was told to end has not: the machine is busy, or the child is a program of a user's that does not obey.
const LONGEST_US: u64 = 5_000_000;
/// Microseconds of a clock tick (USER_HZ is 100 on every x86).
const TICK_US: u64 = 10_000;
/// Children of which it is remembered what they had used when they were waited for.
const REMEMBERED: usize = 64;

/// What has been used, and who asks.
#[derive(Debug, Default)]
pub(crate) struct Usages {
    /// By body: what its children elsewhere had used that it has waited for, and theirs.
    charged: HashMap<Pid, Usage>,
    /// The newest of those children.
    waited: VecDeque<(Pid, Usage)>,
    /// Threads that may wait for children with a struct rusage, by process.
    waiting: HashMap<Pid, BTreeSet<Pid>>,
    /// Traced threads, and their processes.
    traced: HashMap<Pid, Traced>,
    /// Processes that have kept us waiting: not again.
    untraceable: HashSet<Pid>,
    /// Results to be changed; the first is under way.
    results: VecDeque<Result>,
    /// The stand-in that changes them.
    pub(crate) writer: Option<Pid>,
}

/// What a call has filled in, to which `usage` is to be added.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Result {
    /// [`Pid::NONE`] when it was released meanwhile.
    tid: Pid,
    /// The stop in which the thread is kept, as wait(2) told it.
    status: i32,
    /// The file that the writer opens. It stays where it is in memory until the writer is done.
    path: CString,
    /// The writer's descriptor of it.
    file: Option<u32>,
    of: Reads,
    at: u64,
    compat: bool,
    /// Not known yet: whose it is is at this address.
    info: Option<u64>,
    usage: Usage,
}

#[derive(Debug)]
struct Traced {
    process: Pid,
    /// Monotonic.
    since_us: u64,
    until_us: u64,
    /// It is to be released wherever it stops.
    over: bool,
}

fn sum(a: Usage, b: Usage) -> Usage {
    Usage {
        user_us: a.user_us + b.user_us,
        system_us: a.system_us + b.system_us,
        max_rss_kb: a.max_rss_kb.max(b.max_rss_kb),
    }
}

impl Usages {
    /// None yet; `writer` is there.
    pub(crate) fn with(writer: Pid) -> Usages {
        Usages { writer: Some(writer), ..Usages::default() }
    }

    /// `parent`, a body, has waited for `child`, which was elsewhere.
    pub(crate) fn charge(&mut self, parent: Pid, child: Pid, usage: Usage) {
        let charged = self.charged.entry(parent).or_default();
        *charged = sum(*charged, usage);
        self.waited.push_back((child, usage));
        if self.waited.len() > REMEMBERED {
            self.waited.pop_front();
        }
    }

    fn of(&self, parent: Pid) -> Usage {
        self.charged.get(&parent).copied().unwrap_or_default()
    }

    /// A body has ended, having used `own`: what it and its children have used, wherever they were.
    pub(crate) fn whole(&self, pid: Pid, own: Usage) -> Usage {
        sum(own, self.of(pid))
    }

    /// Nothing is left of body `pid`. Has a body waited for it, then that is charged.
    pub(crate) fn left(&mut self, pid: Pid, by: Option<Pid>) {
        self.waiting.remove(&pid);
        self.untraceable.remove(&pid);
        if let (Some(usage), Some(parent)) = (self.charged.remove(&pid), by) {
            self.charge(parent, pid, usage);
        }
    }

    /// Thread `tid` is not traced any more: nothing is changed for it. `false` if it was not traced.
    fn drop_traced(&mut self, tid: Pid) -> bool {
        if let Some(place) = self.results.iter().position(|result| result.tid == tid) {
            match place {
                0 => self.results[0].tid = Pid::NONE,
                _ => drop(self.results.remove(place)),
            }
        }
        self.traced.remove(&tid).is_some()
    }

    pub(crate) fn due_us(&self) -> Option<u64> {
        self.traced.values().filter(|traced| !traced.over).map(|traced| traced.until_us).min()
    }
}

impl Agent {
    /// A thread of `caller` reads the usage of children.
    pub(crate) fn reads_usage(&mut self, notice: Notice, caller: Pid, of: Reads, at: u64) {
        if at != 0 && self.bodies.has(caller) && !self.usages.traced.contains_key(&notice.tid) {
            if self.stands.iter().any(|stand| stand.why.a_body_waits()) || !self.usages.charged.is_empty() {
                self.settle();
                self.waited_for(caller);
            }
            let add = match of {
                Reads::Children | Reads::Times => self.usages.of(caller) != Usage::default(),
                Reads::Wait4 | Reads::Waitid { .. } => {
                    // Its child may call `shoal run` only now.
                    self.usages.waiting.entry(caller).or_default().insert(notice.tid);
                    let mut children = self.stands.children_of(caller).filter(|stand| stand.why.a_body_waits());
                    children.any(|child| child.ending) || self.has_charged_child(caller)
                }
            };
            if add {
                self.trace(notice.tid, caller);
            }
        }
        notice.held.proceed();
    }

    /// Has a body a child here that is charged with usage elsewhere, as its parent will be?
    fn has_charged_child(&self, parent: Pid) -> bool {
        let mut charged = self.usages.charged.keys();
        charged.any(|pid| self.bodies.person(*pid).is_some_and(|person| person.ppid == parent))
    }

    fn trace(&mut self, tid: Pid, process: Pid) {
        // A traced thread may have ended without a word: its number may be another thread's, for which no result is meant.
        if self.usages.untraceable.contains(&process) || self.usages.traced.contains_key(&tid) {
            return;
        }
        match trace::seize(tid) {
            Ok(()) => {
                let since_us = monotonic_us();
                let until_us = since_us + PATIENCE_US;
                self.usages.traced.insert(tid, Traced { process, since_us, until_us, over: false });
            }
            Err(errno) => {
                debug!(%tid, errno, "usage: not traced");
                if errno == EINTR {
                    self.usages.untraceable.insert(process);
                }
            }
        }
    }

    /// A child of body `parent` is about to be told to end: who waits for it is to see what it has used.
    pub(crate) fn trace_waiting(&mut self, parent: Pid) {
        for tid in self.usages.waiting.remove(&parent).unwrap_or_default() {
            self.trace(tid, parent);
        }
    }

    /// A thread that is traced for its usage has stopped or ended. `false` when `tid` is none such, or its end is news for its parent too.
    pub(crate) fn traced_changed(&mut self, tid: Pid, status: i32) -> bool {
        if let Some(former) = trace::executed(tid, status) {
            self.usages.drop_traced(former);
            self.usages.drop_traced(tid);
            release(tid, None);
            return true;
        }
        let Some(Traced { process, over, .. }) = self.usages.traced.get(&tid) else { return false };
        let (process, over) = (*process, *over);
        let Some(stop) = trace::stop(tid, status) else {
            self.usages.drop_traced(tid);
            // linux: wait_task_zombie. A tracer that is the parent as well is told once.
            return self.bodies.person(tid).is_none_or(|person| person.ppid != Pid::INIT);
        };
        let (signal, waits) = match stop {
            Stop::Before | Stop::Behind { call: Call::Reads { .. }, result: None, .. } if !over => {
                if let Err(errno) = ptrace::to_call(tid) {
                    debug!(%tid, errno, "usage: killed while it was traced");
                }
                return true;
            }
            Stop::Behind { call: Call::Reads { of, at }, compat, result } => {
                let filled = result.filter(|result| *result >= 0 && at != 0);
                if filled.is_some_and(|result| self.add_usage((tid, status), process, (of, at, compat), result)) {
                    return true;
                }
                (0, result.is_none())
            }
            Stop::Before | Stop::Behind { .. } => (0, false),
            Stop::Other { signal } => (signal, false),
        };
        self.usages.drop_traced(tid);
        if waits {
            self.usages.waiting.entry(process).or_default().insert(tid);
        }
        release(tid, Sig::new(signal as u8));
        true
    }

    /// Waits that go on without an end of a child are no longer traced, and nobody is kept for a result that cannot be changed.
    pub(crate) fn trace_no_more(&mut self) {
        let now = monotonic_us();
        let late = self.usages.traced.iter().filter(|(_, traced)| !traced.over && traced.until_us <= now);
        for (tid, process, since_us) in late.map(|(tid, t)| (*tid, t.process, t.since_us)).collect::<Vec<_>>() {
            let is_early = || now < since_us + LONGEST_US && self.has_child_that_is_ending(process);
            if self.usages.results.iter().any(|result| result.tid == tid) {
                self.let_reader_go(tid);
            } else if is_early() {
                if let Some(traced) = self.usages.traced.get_mut(&tid) {
                    traced.until_us = now + PATIENCE_US;
                }
            } else if ptrace::interrupt(tid).is_err() {
                self.usages.drop_traced(tid);
            } else if let Some(traced) = self.usages.traced.get_mut(&tid) {
                traced.over = true;
            }
        }
    }

    /// Has it a child here that was told to end, as its process elsewhere did, and has not yet?
    fn has_child_that_is_ending(&self, parent: Pid) -> bool {
        let mut told = self.stands.children_of(parent).filter(|stand| stand.why.a_body_waits() && stand.ending);
        let lives = |pid| kern::pending::read(pid).is_some_and(|found| !matches!(found.state, b'Z' | b'X'));
        told.any(|child| lives(child.person.pid))
    }

    fn let_reader_go(&mut self, tid: Pid) {
        if self.usages.drop_traced(tid) {
            release(tid, None);
        }
    }

    /// A thread that has stopped with this status is behind its call, which has returned `returned`, and what it has filled in is at `at`. `false` when
    /// nothing is to be added.
    fn add_usage(
        &mut self,
        (tid, status): (Pid, i32),
        process: Pid,
        (of, at, compat): (Reads, u64, bool),
        returned: i64,
    ) -> bool {
        self.waited_for(process);
        let (usage, info) = match of {
            Reads::Children | Reads::Times => (self.usages.of(process), None),
            Reads::Wait4 => (self.used_by(Pid(returned as i32)), None),
            Reads::Waitid { info } => (Usage::default(), Some(info).filter(|info| *info != 0)),
        };
        if usage == Usage::default() && info.is_none() || self.usages.writer.is_none() {
            return false;
        }
        // A thread that is remembered as a waiting one may have ended long ago: its number may be that of a thread of another process.
        if !kern::signal::is_thread(process, tid) {
            return false;
        }
        let Ok(path) = CString::new(format!("{PROC}/{tid}/mem")) else { return false };
        if let Some(traced) = self.usages.traced.get_mut(&tid) {
            (traced.until_us, traced.over) = (monotonic_us() + PATIENCE_US, false);
        }
        reach("usage is there");
        self.usages.results.push_back(Result { tid, status, path, file: None, of, at, compat, info, usage });
        if self.usages.results.len() == 1 {
            self.next_result();
        }
        true
    }

    /// Begins with the first of the results that wait.
    fn next_result(&mut self) {
        let (Some(result), Some(writer)) = (self.usages.results.front(), self.usages.writer) else { return };
        self.ghosts.command(writer, Command::Open { path: result.path.as_ptr() as u64 });
    }

    /// The writer has done something for the first result.
    pub(crate) fn result_done(&mut self, outcome: &Outcome) {
        let Some(writer) = self.usages.writer else { return };
        let Some(result) = self.usages.results.front_mut() else { return };
        match outcome.command {
            Command::Open { .. } => result.file = u32::try_from(outcome.ret).ok(),
            Command::Close { .. } => result.file = None,
            _ => {}
        }
        let (result, words) = (result.clone(), outcome.out.map(|word| word as u64));
        let next = self.next_of_result(&result, outcome.command, outcome.ret, words);
        if let Some(next) = next {
            return self.ghosts.command(writer, next);
        }
        self.let_reader_go(result.tid);
        if let Some(file) = result.file {
            return self.ghosts.command(writer, Command::Close { file });
        }
        self.usages.results.pop_front();
        self.next_result();
    }

    /// The writer's next command for the first result, but for closing its file; `None`: nothing is left to do.
    fn next_of_result(&mut self, result: &Result, done: Command, ret: i64, words: [u64; 4]) -> Option<Command> {
        let file = result.file.filter(|_| result.tid != Pid::NONE)?;
        let bytes = if result.compat { 16 } else { 32 };
        let peek = |address| Some(Command::Peek { file, address, bytes });
        match (done, result.info) {
            (Command::Open { .. }, info) => {
                let stands = trace::is_still(result.tid, result.status);
                stands.then(|| peek(info.unwrap_or(result.at))).flatten()
            }
            // Nothing comes of a memory that its process has left.
            (Command::Peek { .. }, _) if ret != i64::from(bytes) => None,
            (Command::Peek { .. }, Some(_)) => {
                let usage = self.used_by(si_pid(words, result.compat));
                let first = self.usages.results.front_mut().filter(|_| usage != Usage::default())?;
                (first.info, first.usage) = (None, usage);
                peek(result.at)
            }
            (Command::Peek { address, .. }, None) => {
                reach("usage is written");
                let words = added(result.of, result.compat, words, result.usage);
                Some(Command::Poke { file, address, bytes, words })
            }
            _ => None,
        }
    }

    /// There is no writer any more.
    pub(crate) fn writer_gone(&mut self) {
        self.usages.writer = None;
        for result in std::mem::take(&mut self.usages.results) {
            self.let_reader_go(result.tid);
        }
    }

    /// What a child has used elsewhere that has ended, and was waited for just now, or looked at (WNOWAIT).
    fn used_by(&self, child: Pid) -> Usage {
        let ended = self.stands.get(child).filter(|stand| stand.ending).map(|stand| stand.usage);
        let waited = || self.usages.waited.iter().rev().find(|(pid, _)| *pid == child).map(|(_, usage)| *usage);
        ended.or_else(waited).unwrap_or_else(|| self.usages.of(child))
    }
}

/// A thread that stands still for us goes on untraced.
fn release(tid: Pid, signal: Option<Sig>) {
    if let Err(errno) = ptrace::detach(tid, signal) {
        debug!(%tid, errno, "usage: killed while it was traced");
    }
}

/// Who has ended, says the beginning of a siginfo_t.
fn si_pid(words: [u64; 4], compat: bool) -> Pid {
    let place = if compat { words[1] >> 32 } else { words[2] };
    Pid(place as i32)
}

/// The first four words of a struct rusage (user and system time in seconds and microseconds), or a struct tms (four clock_t, the last two of
/// children), with `usage` added. Each is a half in the compat layout.
fn added(of: Reads, compat: bool, words: [u64; 4], usage: Usage) -> [u64; 4] {
    let [a, b, ..] = words;
    let mut times = if compat { [a & HALF, a >> 32, b & HALF, b >> 32] } else { words };
    if of == Reads::Times {
        times[2] += usage.user_us / TICK_US;
        times[3] += usage.system_us / TICK_US;
    } else {
        for (n, us) in [(0, usage.user_us), (2, usage.system_us)] {
            let us = times[n + 1] + us;
            (times[n], times[n + 1]) = (times[n] + us / SECOND_US, us % SECOND_US);
        }
    }
    let [a, b, c, d] = times;
    if compat {
        [a & HALF | b << 32, c & HALF | d << 32, 0, 0]
    } else {
        times
    }
}

const HALF: u64 = 0xffff_ffff;
const SECOND_US: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const A: Usage = Usage { user_us: 1_600_000, system_us: 25_000, max_rss_kb: 300 };

    #[test]
    fn a_parent_is_charged_with_what_its_children_and_theirs_have_used() {
        let mut usages = Usages::default();
        usages.charge(Pid(10), Pid(11), A);
        usages.charge(Pid(10), Pid(12), A);
        assert_eq!(usages.of(Pid(10)), Usage { user_us: 3_200_000, system_us: 50_000, max_rss_kb: 300 });
        let own = Usage { user_us: 5, system_us: 6, max_rss_kb: 700 };
        assert_eq!(usages.whole(Pid(10), own), Usage { user_us: 3_200_005, system_us: 50_006, max_rss_kb: 700 });
        usages.left(Pid(10), Some(Pid(9)));
        assert_eq!((usages.of(Pid(10)).user_us, usages.of(Pid(9)).user_us), (0, 3_200_000));
        usages.left(Pid(9), None);
        assert!(usages.charged.is_empty());
    }

    fn halves(words: [u64; 4]) -> [u64; 4] {
        [words[0] | words[1] << 32, words[2] | words[3] << 32, 0, 0]
    }

    #[test]
    fn a_rusage_gets_more_time() {
        let (before, after) = ([2, 500_000, 0, 990_000], [4, 100_000, 1, 15_000]);
        assert_eq!(added(Reads::Wait4, false, before, A), after);
        assert_eq!(added(Reads::Children, true, halves(before), A), halves(after));
    }

    #[test]
    fn a_tms_gets_ticks_of_children() {
        let (before, after) = ([1, 2, 3, 4], [1, 2, 163, 6]);
        assert_eq!(added(Reads::Times, false, before, A), after);
        assert_eq!(added(Reads::Times, true, halves(before), A), halves(after));
    }

    #[test]
    fn a_siginfo_says_who_has_ended() {
        assert_eq!(si_pid([17, 1, 0x5_0000_07d0, 3], false), Pid(2000));
        assert_eq!(si_pid([17, 2000 << 32 | 1, 5, 0], true), Pid(2000));
    }
}
