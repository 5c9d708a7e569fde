//! A traced thread: it runs, or it stands still and can be asked.

use kern::init::SignalFd;
use kern::poll::{poll, Ready};
use kern::proc::is_ending;
use kern::ptrace::{self, Halt, Queue, Regs};
use std::cell::Cell;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use vocab::{Fault, Kind, Pid, Result, Sig};

/// A thread that is traced and runs. Dropping it leaves it traced, until its tracer ends.
#[derive(Debug)]
#[must_use = "a thread that is dropped stays traced"]
pub struct Running {
    tid: Pid,
    /// ptrace(2) answers only the OS thread that has seized.
    here: PhantomData<*const ()>,
}

/// A thread that is traced and stands still, outside of any system call or interrupted in one.
///
/// Dropped, it is given up and runs on: whoever fails half-way leaves nobody stopped.
#[derive(Debug)]
#[must_use = "a thread that is dropped runs on"]
pub struct Stopped {
    tid: Pid,
    group: Option<Sig>,
    /// A SIGSTOP was taken from it.
    met_stop: Cell<bool>,
    /// So was a SIGTRAP that somebody has sent.
    met_trap: Cell<bool>,
    here: PhantomData<*const ()>,
}

fn gone(tid: Pid) -> Fault {
    Fault { errno: libc::ESRCH, ..Fault::gone(format!("thread {tid} has ended")) }
}

/// ESRCH of a traced thread means that it was killed (ptrace(2), "Death under ptrace").
pub(crate) fn failed(tid: Pid, errno: i32, doing: &str) -> Fault {
    match errno {
        libc::ESRCH | libc::ECHILD => gone(tid).doing(format!("{doing} of thread {tid}")),
        errno => Fault::sys(errno, format!("{doing} of thread {tid}")),
    }
}

impl Running {
    /// Begins to trace a thread. With `follow` the threads that it makes are traced too; with `kill` it dies with its tracer.
    ///
    /// # Errors
    /// EPERM when another traces it or it is not the caller's to trace, `Changed` where it may have ended instead; `Gone`.
    pub fn seize(tid: Pid, follow: bool, kill: bool) -> Result<Running> {
        Running::seized(tid, ptrace::seize(tid, follow, kill))
    }

    /// The same with neither of a thread whose process may be executing a program, which may take for ever (a file system that does not answer).
    ///
    /// # Errors
    /// As [`Running::seize`]; `Changed` also when it does so all the while.
    pub fn seize_soon(tid: Pid) -> Result<Running> {
        const PATIENCE_US: u64 = 900_000;
        Running::seized(tid, ptrace::seize_within(tid, PATIENCE_US))
    }

    /// The same of a thread beside which others of its process are traced already, which end if one of them executes a program.
    ///
    /// # Errors
    /// As [`Running::seize_soon`].
    pub fn seize_beside(tid: Pid) -> Result<Running> {
        const PATIENCE_US: u64 = 50_000;
        Running::seized(tid, ptrace::seize_within(tid, PATIENCE_US))
    }

    fn seized(tid: Pid, seized: std::result::Result<(), i32>) -> Result<Running> {
        let is_traced = || kern::pending::read(tid).is_some_and(|thread| thread.traced);
        seized.map_err(|errno| match failed(tid, errno, "begin the trace") {
            fault if errno == libc::EINTR => {
                Fault { kind: Kind::Changed, ..fault }.doing("it executes a program, and has not begun with it")
            }
            // It had ended and was not waited for (linux: `ptrace_attach`); another thread that executes a program has its number then.
            fault if errno == libc::EPERM && !is_traced() => Fault { kind: Kind::Changed, ..fault },
            fault => fault,
        })?;
        Ok(Running { tid, here: PhantomData })
    }

    /// One that is traced already, since it was made by one that is (`follow`).
    pub fn known(tid: Pid) -> Running {
        Running { tid, here: PhantomData }
    }

    pub fn tid(&self) -> Pid {
        self.tid
    }

    /// Asks it to stop; [`Running::stopped`] waits for that. Asking all threads before waiting for the first saves time.
    pub fn interrupt(&self) -> Result<()> {
        ptrace::interrupt(self.tid).map_err(|errno| failed(self.tid, errno, "interrupt"))
    }

    /// Waits until it stands still, after [`Running::interrupt`]. Signals that come first are delivered.
    ///
    /// # Errors
    /// `Gone` when it has ended instead.
    pub fn stopped(self) -> Result<Stopped> {
        self.stopped_by(ptrace::wait)
    }

    /// The same for the first thread of a process, which may have been on its way to its end when it was seized: it tells that no more, and as long as others of its
    /// process live the kernel keeps from its tracer that it has ended (linux: `delay_group_leader`). Nobody would wait to the end of that.
    ///
    /// # Errors
    /// As [`Running::stopped`].
    pub fn leader_stopped(self) -> Result<Stopped> {
        self.stopped_by(wait_for_leader)
    }

    /// The same of a thread beside `others` that are traced too. If it executes a program it waits for them to end, and each of them for its tracer to hear that
    /// (linux: `de_thread`, `ptrace_event` of PTRACE_EVENT_EXIT): those are let go, and are `Gone` when they are waited for.
    ///
    /// # Errors
    /// As [`Running::stopped`].
    pub fn stopped_beside(self, others: &[Pid]) -> Result<Stopped> {
        self.stopped_by(|tid| wait_beside(tid, others))
    }

    /// Where a thread stops with the signal of a fault still to be taken, the kernel delivers that first: the handler is told of the fault by registers that no
    /// lent call has touched (`uc_mcontext`: the trap, its error and its address).
    fn stopped_by(self, wait: impl Fn(Pid) -> std::result::Result<Halt, i32>) -> Result<Stopped> {
        let takes_a_fault = |tid| ptrace::takes_a_fault(tid).map_err(|errno| failed(tid, errno, "look at the signals"));
        loop {
            let sig = match wait(self.tid).map_err(|errno| failed(self.tid, errno, "wait for a stop"))? {
                Halt::Trap | Halt::Group(_) if takes_a_fault(self.tid)? => None,
                Halt::Trap => return Ok(Stopped::new(self.tid, None)),
                Halt::Group(sig) => return Ok(Stopped::new(self.tid, Some(sig))),
                Halt::Signal(sig) => {
                    self.interrupt()?;
                    Some(sig)
                }
                Halt::Event(_) => None,
                Halt::Exiting => {
                    let _ends_anyway = ptrace::detach(self.tid, None);
                    return Err(gone(self.tid));
                }
                Halt::Ended(_) => return Err(gone(self.tid)),
            };
            ptrace::go_on(self.tid, sig).map_err(|errno| failed(self.tid, errno, "the going on"))?;
        }
    }
}

/// As [`ptrace::wait`], of a thread that others may stand still beside. Of a first thread that was killed the kernel tells nothing before the others have been waited for
/// (linux: `delay_group_leader`), and these are ours to wait for: so it is not waited for alone.
pub(crate) fn wait(tid: Pid) -> std::result::Result<Halt, i32> {
    match ptrace::anybody()? == tid {
        true => ptrace::wait(tid),
        // Of a thread that it has made, say.
        false => wait_for_leader(tid),
    }
}

fn wait_for_leader(tid: Pid) -> std::result::Result<Halt, i32> {
    wait_beside(tid, &[])
}

/// As [`ptrace::wait`]; ESRCH when it ends, also if it cannot be waited for yet. SIGCHLD is blocked from now on.
fn wait_beside(tid: Pid, others: &[Pid]) -> std::result::Result<Halt, i32> {
    /// Milliseconds: another thread of this process may have taken the signal.
    const LOOKS_AGAIN: i32 = 10;
    if let Some(halt) = ptrace::look(tid)? {
        return Ok(halt);
    }
    let told = SignalFd::new(&[Sig::CHLD]).map_err(|fault| fault.errno)?;
    let mut is_late = false;
    loop {
        while told.take().map_err(|fault| fault.errno)?.is_some() {}
        if let Some(halt) = ptrace::look(tid)? {
            return Ok(halt);
        }
        // Not before it is: one that executes a program is seldom, and each is asked.
        let asked = others.iter().filter(|other| is_late && **other != tid);
        for other in asked.filter(|other| ptrace::tells_its_end(**other)) {
            let _ends_anyway = ptrace::detach(*other, None);
        }
        is_late = true;
        let told_something = poll(&[(told.as_fd(), Ready::READ)], LOOKS_AGAIN).is_ok_and(|ready| ready[0].readable);
        // To ask /proc takes longer than the stop of a thread does, of which it tells.
        if !told_something && is_ending(tid) {
            // What it told before that, it has told by now.
            return ptrace::look(tid)?.ok_or(libc::ESRCH);
        }
    }
}

impl Stopped {
    fn new(tid: Pid, group: Option<Sig>) -> Stopped {
        Stopped { tid, group, met_stop: Cell::new(false), met_trap: Cell::new(false), here: PhantomData }
    }

    /// A thread that a traced one has made (`follow`): it stops before its first instruction.
    pub fn newborn(tid: Pid) -> Result<Stopped> {
        Running::known(tid).stopped()
    }

    pub fn tid(&self) -> Pid {
        self.tid
    }

    /// The signal by which its whole process is stopped, if it is.
    pub fn group(&self) -> Option<Sig> {
        self.group
    }

    /// What reaches it while it is lent: of the signals that can only SIGSTOP does, and a SIGTRAP that was sent. They are its tracer's then, and would be lost.
    pub(crate) fn meets(&self, sig: Sig) {
        match sig {
            Sig::STOP => self.met_stop.set(true),
            Sig::TRAP => self.met_trap.set(true),
            _ => {}
        }
    }

    /// Does it stand still in front of a trap of its own? SIGTRAP is not blocked while it is lent: one that was sent is its tracer's too.
    ///
    /// # Errors
    /// `Gone`.
    pub(crate) fn has_trapped(&self) -> Result<bool> {
        let taken = ptrace::about_to_take(self.tid);
        taken.map(|info| ptrace::is_caused(&info)).map_err(|errno| failed(self.tid, errno, "look at a trap"))
    }

    /// A SIGTRAP that was taken from it is sent again. Its sender is the caller then.
    pub(crate) fn hand_back_trap(&self) {
        if self.met_trap.take() {
            let _gone_already = kern::signal::send_to_traced(self.tid, Sig::TRAP);
        }
    }

    /// Has a SIGSTOP come since the last call that was taken from it? It is the caller's to deliver, or to pass on.
    pub fn take_stop(&self) -> bool {
        self.met_stop.take()
    }

    /// A SIGSTOP that the caller has taken by [`Stopped::take_stop`] is as if it had not been.
    pub fn put_back_stop(&self) {
        self.met_stop.set(true);
    }

    /// A SIGSTOP that was taken from it waits for its process again, as far as the caller may send one: whoever takes it next stops them all.
    ///
    /// # Errors
    /// `Gone`.
    pub fn hand_back_stop(&self) -> Result<()> {
        if self.met_stop.get() && (self.is_to_continue()? || kern::signal::send(self.tid, Sig::STOP).is_ok()) {
            self.met_stop.set(false);
        }
        Ok(())
    }

    /// Does SIGCONT wait for it or its process? Then no stop that came before holds any more (linux: `prepare_signal`).
    ///
    /// # Errors
    /// `Gone`.
    pub fn is_to_continue(&self) -> Result<bool> {
        self.waits(Sig::CONT)
    }

    /// Does a SIGSTOP wait for it or its process, or was one taken from it?
    ///
    /// # Errors
    /// `Gone`.
    pub fn is_to_stop(&self) -> Result<bool> {
        Ok(self.met_stop.get() || self.waits(Sig::STOP)?)
    }

    fn waits(&self, sig: Sig) -> Result<bool> {
        let waits = |queue| {
            let all = ptrace::queued(self.tid, queue);
            let all = all.map_err(|errno| failed(self.tid, errno, "look at the signals"))?;
            Ok(all.iter().any(|info| info[0] == u64::from(sig.number())))
        };
        Ok(waits(Queue::Process)? || waits(Queue::Thread)?)
    }

    pub fn regs(&self) -> Result<Regs> {
        ptrace::regs(self.tid).map_err(|errno| failed(self.tid, errno, "read the registers"))
    }

    pub fn set_regs(&self, regs: &Regs) -> Result<()> {
        ptrace::set_regs(self.tid, regs).map_err(|errno| failed(self.tid, errno, "set the registers"))
    }

    pub fn sigmask(&self) -> Result<u64> {
        ptrace::sigmask(self.tid).map_err(|errno| failed(self.tid, errno, "read the signal mask"))
    }

    pub fn set_sigmask(&self, mask: u64) -> Result<()> {
        ptrace::set_sigmask(self.tid, mask).map_err(|errno| failed(self.tid, errno, "set the signal mask"))
    }

    /// From now on it does not outlive its tracer, unless it is given up before. With `follow` the threads that it makes are traced too.
    pub fn die_with_tracer(&self, follow: bool) -> Result<()> {
        ptrace::die_with_tracer(self.tid, follow).map_err(|errno| failed(self.tid, errno, "the binding to its tracer"))
    }

    /// Tells this thread, and no other of its process, to end by a call of its own; `gate` is the address of a `syscall` instruction. [`Stopped::ends`] is to follow.
    ///
    /// # Errors
    /// `Gone`.
    pub fn exit(&self, gate: u64) -> Result<()> {
        let regs = Regs { rax: libc::SYS_exit as u64, rdi: 0, rip: gate, orig_rax: u64::MAX, ..self.regs()? };
        self.set_sigmask(!0)?;
        self.set_regs(&regs)?;
        ptrace::go_on(self.tid, None).map_err(|errno| failed(self.tid, errno, "the end"))
    }

    /// Waits until it has ended, as it was told to: its number is free when this returns. (One that is not traced any more frees it some time after its process
    /// has gone on with another program. linux: `release_task`) `true`: a SIGSTOP was taken from it, of which nobody else knows. While the others stand
    /// still, one for the process comes to those that run to their ends.
    #[must_use = "a SIGSTOP that was taken is lost"]
    pub fn ends(self) -> bool {
        let tid = self.tid;
        loop {
            match ptrace::wait(tid) {
                Ok(Halt::Ended(_)) | Err(_) => break,
                Ok(Halt::Signal(sig)) => self.meets(sig),
                Ok(_) => {}
            }
            let _ending = ptrace::go_on(tid, None);
        }
        let met = self.take_stop();
        std::mem::forget(self);
        met
    }

    /// Waits until it has ended: its process was killed. A process's leader must be the last of its threads. (Given up meanwhile it might stop once more,
    /// to tell its tracer that it ends, and then nobody would let it: ptrace(2), PTRACE_O_TRACEEXIT.)
    pub fn dies(self) {
        let tid = self.tid;
        let _killed_meanwhile = self.release(None);
        while matches!(ptrace::wait(tid), Ok(halt) if !matches!(halt, Halt::Ended(_))) {
            let _dying = ptrace::detach(tid, None);
        }
    }

    /// After [`crate::Loan::execute`] it comes out of that call, and stands in front of the first instruction of the new program: it can be lent again.
    ///
    /// # Errors
    /// `Gone` when it was killed.
    pub fn leaves_exec(&self) -> Result<()> {
        self.until_interrupted("the beginning of another program").map(drop)
    }

    /// It stands still where the kernel looks whether its process is stopped, and whether its parent is to be told that it goes on, before it takes a signal. One
    /// that is let go from the stop in front of a signal, and takes a SIGCONT next, tells its parent with the next signal after that (linux: `get_signal`, `relock`).
    /// Returns the signal by which its whole process is stopped now, if it is (linux: `do_jobctl_trap`).
    ///
    /// # Errors
    /// `Gone` when it was killed.
    pub fn is_at_rest(&self) -> Result<Option<Sig>> {
        self.until_interrupted("another stop")
    }

    fn until_interrupted(&self, what: &str) -> Result<Option<Sig>> {
        let gone_on = |errno| failed(self.tid, errno, what);
        ptrace::interrupt(self.tid).map_err(gone_on)?;
        loop {
            ptrace::go_on(self.tid, None).map_err(gone_on)?;
            match wait(self.tid).map_err(gone_on)? {
                Halt::Trap => return Ok(None),
                Halt::Group(sig) => return Ok(Some(sig)),
                Halt::Exiting | Halt::Ended(_) => return Err(gone(self.tid)),
                Halt::Signal(sig) => self.meets(sig),
                Halt::Event(_) => {}
            }
        }
    }

    /// Gives it up. It runs on, unless its process is stopped, or is to be by a SIGSTOP that was taken from it.
    ///
    /// # Errors
    /// `Gone`.
    pub fn run_on(self) -> Result<()> {
        let stops = self.take_stop() && !self.is_to_continue()?;
        self.release(stops.then_some(Sig::STOP))
    }

    /// Gives it up, with a signal delivered. It runs on, unless its process is stopped.
    pub fn release(self, sig: Option<Sig>) -> Result<()> {
        self.hand_back_trap();
        let tid = self.tid;
        std::mem::forget(self);
        ptrace::detach(tid, sig).map_err(|errno| failed(tid, errno, "end the trace"))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.hand_back_trap();
        let _gone_already = ptrace::detach(self.tid, None);
    }
}
