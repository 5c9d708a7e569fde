//! All threads of a process stand still.

use crate::together::Together;
use crate::undisturbed::Undisturbed;
use kern::others;
use kern::remote_memory::RemoteMemory;
use puppet::{Arena, Loan, Running, Stopped};
use std::cell::Cell;
use std::collections::BTreeSet;
use vocab::{Fault, Pid, Result, Sig};

/// A process whose threads are all stopped. Dropped, it runs on.
pub struct Frozen {
    pub pid: Pid,
    /// The leader first, then by TID.
    pub threads: Vec<Stopped>,
    /// Where each might run before; `None`: where it may still.
    processors: Vec<Option<Vec<u8>>>,
    pub(crate) together: Together,
    /// Where scripts were executed in its leader, and a `syscall` instruction: unmapped before it runs on.
    pub(crate) lent: Cell<Option<(Arena, u64)>>,
    /// The last field: it is over when the process runs on.
    undisturbed: Cell<Option<Undisturbed>>,
}

/// Stops every thread, those made meanwhile included.
///
/// # Errors
/// EPERM for who may not trace it or when it is traced already; `Gone`; `Unsupported` for a process whose leader has ended.
pub fn freeze(pid: Pid) -> Result<Frozen> {
    stop_all(pid)?.in_order()
}

/// The same; signals to the calling thread wait from then on until [`Frozen::may_be_let_go`], or until the process runs on.
///
/// # Errors
/// As [`freeze`].
pub(crate) fn freeze_undisturbed(pid: Pid) -> Result<Frozen> {
    let frozen = stop_all(pid)?;
    frozen.undisturbed.set(Some(Undisturbed::now()?));
    frozen.in_order()
}

fn stop_all(pid: Pid) -> Result<Frozen> {
    let mut frozen = Frozen::none_of(pid);
    let mut seen: BTreeSet<i32> = BTreeSet::new();
    loop {
        let new: Vec<i32> =
            crate::proc::numbers_in(pid, "task")?.into_iter().filter(|tid| !seen.contains(tid)).collect();
        if new.is_empty() {
            break;
        }
        seen.extend(&new);
        stop(&new, &mut frozen)?;
    }
    Ok(frozen)
}

/// Asks all before it waits for the first. A thread that has ended meanwhile is none.
fn stop(tids: &[i32], frozen: &mut Frozen) -> Result<()> {
    let mut running = Vec::new();
    for tid in tids {
        let is_first = running.is_empty() && frozen.threads.is_empty();
        match if is_first { Running::seize_soon(Pid(*tid)) } else { Running::seize_beside(Pid(*tid)) } {
            Ok(thread) => {
                let asked = thread.interrupt();
                running.push(thread);
                asked.or_else(unless_gone)?;
            }
            Err(fault) => unless_gone(fault)?,
        }
    }
    wait(running, frozen)
}

/// For those that were asked; for the leader last, since of one that was killed the kernel does not tell before all others have been waited for, and these are ours
/// to wait for (linux: `delay_group_leader`).
fn wait(running: Vec<Running>, frozen: &mut Frozen) -> Result<()> {
    // Those that stand still already, too.
    let all: Vec<Pid> = frozen.threads.iter().map(Stopped::tid).chain(running.iter().map(Running::tid)).collect();
    let (leader, others): (Vec<_>, Vec<_>) = running.into_iter().partition(|thread| thread.tid() == frozen.pid);
    for stopped in others.into_iter().chain(leader).map(|thread| thread.stopped_beside(&all)) {
        match stopped {
            Ok(stopped) => frozen.threads.push(stopped),
            Err(fault) => unless_gone(fault)?,
        }
    }
    Ok(())
}

fn unless_gone(fault: Fault) -> Result<()> {
    let mut innermost = &fault;
    while let Some(cause) = &innermost.cause {
        innermost = cause;
    }
    match innermost.kind {
        vocab::Kind::Gone => Ok(()),
        _ => Err(fault),
    }
}

impl Frozen {
    fn none_of(pid: Pid) -> Frozen {
        let (together, lent) = (Together::here(), Cell::default());
        Frozen { pid, threads: Vec::new(), processors: Vec::new(), together, lent, undisturbed: Cell::default() }
    }

    /// Of these threads, which are traced, as are those that they make: all that the process has.
    pub(crate) fn of(pid: Pid, threads: impl Iterator<Item = Running>) -> Result<Frozen> {
        let mut frozen = Frozen::none_of(pid);
        let running: Vec<Running> = threads.collect();
        running.iter().try_for_each(|thread| thread.interrupt().or_else(unless_gone))?;
        let mut seen: BTreeSet<i32> = running.iter().map(|thread| thread.tid().0).collect();
        wait(running, &mut frozen)?;
        loop {
            // Made before their makers stood still, or were traced. Were one forgotten, who executes a program would wait for its end for ever (linux: `de_thread`).
            let new: Vec<i32> =
                crate::proc::numbers_in(pid, "task")?.into_iter().filter(|tid| !seen.contains(tid)).collect();
            if new.is_empty() {
                return frozen.in_order();
            }
            seen.extend(&new);
            // Those that are traced stand still before their first instruction.
            let (born, others): (Vec<i32>, Vec<i32>) =
                new.into_iter().partition(|tid| kern::pending::read(Pid(*tid)).is_some_and(|thread| thread.traced));
            wait(born.into_iter().map(|tid| Running::known(Pid(tid))).collect(), &mut frozen)?;
            stop(&others, &mut frozen)?;
        }
    }

    fn in_order(mut self) -> Result<Frozen> {
        let pid = self.pid;
        self.threads.sort_by_key(|thread| (thread.tid() != pid, thread.tid()));
        match self.threads.first() {
            Some(leader) if leader.tid() == pid => {
                self.gather();
                Ok(self)
            }
            // Or is about to have another one, by which it executes a program.
            _ => Err(Fault::new(vocab::Kind::Changed, format!("process {pid} lives on without its first thread"))),
        }
    }

    pub fn leader(&self) -> &Stopped {
        &self.threads[0]
    }

    fn gather(&mut self) {
        self.processors = self.threads.iter().map(|thread| self.together.bring(thread.tid())).collect();
    }

    /// Gives each thread back where it might run.
    fn scatter(&mut self) {
        for (thread, before) in self.threads.iter().zip(std::mem::take(&mut self.processors)) {
            // It may have been killed.
            let _ = before.map(|before| others::set_processors(thread.tid(), &before));
        }
    }

    /// If whoever keeps it still is killed from now on, it runs on as if nothing had been: for what takes long, and asks nothing more of it.
    ///
    /// # Errors
    /// `Gone` when it was killed.
    pub(crate) fn may_be_let_go(&self) -> Result<()> {
        self.tidy()?;
        for (thread, before) in self.each() {
            // In front of a signal it would take that one: SIGTRAP, by which our calls end.
            thread.is_at_rest()?;
            // It may have been killed.
            let _ = before.map(|before| others::set_processors(thread.tid(), before));
        }
        self.threads.iter().try_for_each(Stopped::hand_back_stop)?;
        drop(self.undisturbed.take());
        Ok(())
    }

    /// Its threads, each where it might run before.
    pub(crate) fn scattered(&mut self) -> Vec<Stopped> {
        self.scatter();
        std::mem::take(&mut self.threads)
    }

    /// Each thread, and where it might run before if that was changed.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Stopped, Option<&[u8]>)> {
        self.threads.iter().zip(self.processors.iter().map(Option::as_deref))
    }

    /// The signal that had stopped the process before, or that one of its threads has taken while they were asked to stand still: the others stop by it with
    /// the next thing that they do.
    pub fn stopped_by(&self) -> Option<Sig> {
        self.threads.iter().find_map(Stopped::group)
    }

    /// Has a SIGSTOP come since the last call that was taken from one of them?
    pub(crate) fn take_stop(&self) -> bool {
        // Of each, so no `any`.
        self.threads.iter().filter(|thread| thread.take_stop()).count() != 0
    }

    /// Nothing of ours stays in it.
    pub(crate) fn tidy(&self) -> Result<()> {
        let (Some((arena, gate)), Some(leader)) = (self.lent.take(), self.threads.first()) else { return Ok(()) };
        let memory = RemoteMemory::open(self.pid)?;
        let mut loan = Loan::take_at(leader, &memory, gate)?;
        loan.unmap_arena(arena)?;
        loan.give_back()
    }

    /// All threads run on; a SIGSTOP that was taken from one, or (`stops`) from one before, stops them.
    pub fn thaw(mut self, stops: bool) -> Result<()> {
        self.run_on(stops)
    }

    fn run_on(&mut self, stops: bool) -> Result<()> {
        let tidied = self.tidy();
        self.scatter();
        let stops = self.take_stop() || stops;
        let mut threads = std::mem::take(&mut self.threads).into_iter();
        let leader = threads.next().map_or(Ok(()), |leader| {
            let stops = stops && !leader.is_to_continue()?;
            leader.release(stops.then_some(Sig::STOP))
        });
        let others = threads.map(|thread| thread.release(None)).fold(Ok(()), Result::and);
        tidied.and(others).and(leader)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // It may have been killed.
        let _gone = self.run_on(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    /// Its first thread takes so many descriptors for itself that to end takes it a while.
    const LEAVES: &str = "import ctypes, os, resource, threading, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
threading.Thread(target=time.sleep, args=(60,)).start()
libc = ctypes.CDLL(None)
libc.unshare(0x400)
for _ in range(min(most, 50000) - 100): os.dup(1)
os.write(1, b'1')
libc.syscall(60, 0)";

    #[test]
    fn who_stops_a_process_whose_first_thread_is_about_to_end_does_not_wait_for_the_others() {
        for round in 0..20 {
            let python = Command::new("python3").args(["-S", "-c", LEAVES]).stdout(Stdio::piped()).spawn();
            let mut child = python.expect("python3");
            let pid = Pid(child.id() as i32);
            child.stdout.take().expect("piped").read_exact(&mut [0]).expect("it is about to end");
            // Nothing tells that it has begun to end.
            std::thread::sleep(Duration::from_micros(100 * round));
            let (tells, told) = std::sync::mpsc::channel();
            let _over_with_this_process = std::thread::spawn(move || tells.send(freeze(pid).map(drop)));
            let told = told.recv_timeout(Duration::from_secs(10)).expect("it does not hang");
            // Before, and long after, it is something else that is wrong with it.
            assert!(told.is_ok() || told.is_err_and(|fault| fault.kind != vocab::Kind::Bug));
            child.kill().expect("a child");
            child.wait().expect("killed");
        }
    }

    #[test]
    fn a_stop_that_came_while_a_process_was_asked_is_not_lost_with_who_asked() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = Pid(child.id() as i32);
        let frozen = freeze(pid).expect("a child");
        let memory = RemoteMemory::open(pid).expect("a child");
        let areas = kern::areas::areas(pid, false).expect("a child");
        let mut loan = Loan::take(frozen.leader(), &memory, &areas).expect("64-bit, with a vdso");
        kern::signal::send(pid, Sig::STOP).expect("a child");
        loan.must("ask for its number", libc::SYS_getpid, &[]).expect("stopped");
        loan.give_back().expect("stopped");
        let waits = || {
            let all = kern::ptrace::queued(pid, kern::ptrace::Queue::Process).expect("a child");
            all.iter().any(|info| info[0] as i32 == libc::SIGSTOP)
        };
        assert!(!waits());
        frozen.may_be_let_go().expect("stopped");
        assert!(waits() && !frozen.take_stop());
        drop(frozen);
        child.kill().expect("a child");
        child.wait().expect("killed");
    }

    const MANY: &str = "import threading, time\nfor _ in range(6): threading.Thread(target=time.sleep, args=(60,)).start()\nprint(1, flush=True)";

    #[test]
    fn who_writes_a_process_that_is_killed_does_not_wait_for_its_first_thread() {
        for round in 0..100 {
            let python = Command::new("python3").args(["-S", "-c", MANY]).stdout(Stdio::piped()).spawn();
            let mut child = python.expect("python3");
            let pid = Pid(child.id() as i32);
            child.stdout.take().expect("piped").read_exact(&mut [0]).expect("it has its threads");
            let (tells, told) = std::sync::mpsc::channel();
            let _over_with_this_process = std::thread::spawn(move || {
                let written =
                    crate::dump::dump(pid, Default::default(), std::io::sink(), crate::dump::Then::GoesOn, false);
                tells.send(written.map(drop))
            });
            std::thread::sleep(Duration::from_micros(150 * round));
            child.kill().expect("a child");
            let _killed_or_not = told.recv_timeout(Duration::from_secs(10)).expect("it does not hang");
            // Who traces it is its parent here, to whom its end is told but once.
            let _told_here_or_there = child.wait();
        }
    }

    /// It waits for its other thread, which somebody else traces and does not let end, to execute a program: nobody can trace it meanwhile.
    #[test]
    fn who_executes_a_program_and_comes_to_no_end_is_not_waited_for() {
        let code = "import os, threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\nos.write(1, b'1')\nos.read(0, 1)\nos.execv('/bin/sleep', ['sleep', '60'])";
        let mut python = Command::new("python3");
        let python = python.args(["-S", "-c", code]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = python.expect("python3");
        let pid = Pid(child.id() as i32);
        child.stdout.take().expect("piped").read_exact(&mut [0]).expect("it has its thread");
        let mut all = crate::proc::numbers_in(pid, "task").expect("it lives").into_iter().map(Pid);
        let other = all.find(|tid| *tid != pid).expect("its thread");
        kern::ptrace::seize(other, false, true).expect("a child's");
        child.stdin.take().expect("piped").write_all(b"x").expect("it reads");
        let end = std::time::Instant::now() + Duration::from_secs(5);
        while !kern::ptrace::tells_its_end(other) {
            assert!(std::time::Instant::now() < end, "it is asked to end");
            std::thread::sleep(Duration::from_millis(1));
        }
        let (tells, told) = std::sync::mpsc::channel();
        let _over_with_this_process = std::thread::spawn(move || tells.send(freeze(pid).map(drop)));
        let told = told.recv_timeout(Duration::from_secs(10)).expect("it does not hang");
        assert_eq!(told.map_err(|fault| fault.kind), Err(vocab::Kind::Changed));
        // Before it is killed: of a thread that is traced nobody but its tracer hears the end.
        kern::ptrace::detach(other, None).expect("it tells its end");
        child.kill().expect("a child");
        child.wait().expect("killed");
    }

    #[test]
    fn a_stop_that_comes_while_it_is_asked_stops_what_is_let_go() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = Pid(child.id() as i32);
        {
            let frozen = freeze(pid).expect("a child");
            let memory = RemoteMemory::open(pid).expect("a child");
            let areas = kern::areas::areas(pid, false).expect("it lives");
            let mut loan = Loan::take(frozen.leader(), &memory, &areas).expect("it stands still");
            kern::signal::send(pid, Sig::STOP).expect("a child");
            loan.call(libc::SYS_getpid, &[]).expect("it does");
            loan.give_back().expect("it lives");
        }
        let is = |what: &str| {
            let end = std::time::Instant::now() + Duration::from_secs(5);
            let stat = || crate::proc::stat_fields(pid).expect("it lives").remove(0);
            while stat() != what && std::time::Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(stat(), what);
        };
        is("T");
        child.kill().expect("a child");
        child.wait().expect("killed");
    }
}
