//! A stopped thread lent for system calls: its registers, its signal mask and what it was doing are as before when it is given back, but that a restartable sequence is
//! given up, as it is by any stop.

use crate::arena::{Arena, CODE_LENGTH, ONE_TILE};
use crate::gate;
use crate::lifted::Lifted;
use crate::rights;
use crate::script::{Outcome, Script, CODE};
use crate::sequence;
use crate::thread::{failed, wait, Stopped};
use kern::areas::Area;
use kern::ptrace::{self, Halt, Regs, USER_CS};
use kern::remote_memory::RemoteMemory;
use std::ops::Range;
use vocab::{Fault, Result, Sig};

/// While it is out no signal but SIGKILL, SIGSTOP and SIGTRAP reaches the thread. Of a SIGSTOP it is noted that it came ([`Stopped::take_stop`]); a SIGTRAP that was sent
/// waits again when it is given back.
///
/// Dropped, it is given back: whoever fails half-way leaves the thread as it was.
#[must_use = "a loan that is dropped is given back"]
pub struct Loan<'a> {
    thread: &'a Stopped,
    memory: &'a RemoteMemory,
    saved: Regs,
    mask: u64,
    /// Where a `syscall` instruction is.
    gate: u64,
    /// Its extended registers, where these are others now.
    extended: Option<Vec<u8>>,
    /// The thread is to have all that back.
    owed: bool,
}

/// Stops on the way to a trap; a few are usual.
const MOST_SIGNALS: u32 = 100;

/// A function of the vdso takes some hundred.
const MOST_STEPS: u32 = 10_000;

/// SIGTRAP must not be blocked: the kernel would unblock it for a trap, and set its action to the default (linux: `force_sig_info_to_task`).
const ALL_BUT_TRAP: u64 = !(1 << (libc::SIGTRAP - 1));

/// How a thread goes on.
type Resume = fn(vocab::Pid) -> std::result::Result<(), i32>;
const GO_ON: Resume = |tid| ptrace::go_on(tid, None);

impl<'a> Loan<'a> {
    /// `areas`: the mappings of the process, of which the vdso has the `syscall` instruction that is used.
    ///
    /// # Errors
    /// `Unsupported` for a 32-bit program, or one without a vdso.
    pub fn take(thread: &'a Stopped, memory: &'a RemoteMemory, areas: &[Area]) -> Result<Loan<'a>> {
        let gate = gate::find(memory, areas)?;
        Loan::take_at(thread, memory, gate)
    }

    /// The same, with the address of a `syscall` instruction that is known.
    pub fn take_at(thread: &'a Stopped, memory: &'a RemoteMemory, gate: u64) -> Result<Loan<'a>> {
        let saved = thread.regs()?;
        if saved.cs != USER_CS {
            let what = format!("thread {} runs 32-bit code, which is not lent", thread.tid());
            return Err(Fault::new(vocab::Kind::Unsupported, what));
        }
        let tid = thread.tid();
        if ptrace::dispatches_calls(tid).map_err(|errno| failed(tid, errno, "ask who takes the calls"))? {
            let what = "takes its system calls itself (prctl(2), PR_SET_SYSCALL_USER_DISPATCH), which is not carried";
            return Err(Fault::refused(format!("thread {tid} {what}")));
        }
        let saved = sequence::left(tid, saved, memory);
        let mask = thread.sigmask()?;
        let mut loan = Loan { thread, memory, saved, mask, gate, extended: None, owed: true };
        thread.set_sigmask(ALL_BUT_TRAP)?;
        loan.extended = rights::open(thread.tid())?;
        Ok(loan)
    }

    /// It is not given back: the thread becomes another one's, with what that one has.
    pub fn for_good(self) -> Loan<'a> {
        let mut kept = self;
        kept.owed = false;
        kept
    }

    pub fn tid(&self) -> vocab::Pid {
        self.thread.tid()
    }

    pub fn gate(&self) -> u64 {
        self.gate
    }

    /// Uses another `syscall` instruction from now on: the vdso was moved.
    pub fn set_gate(&mut self, gate: u64) {
        self.gate = gate;
    }

    /// One system call: the kernel's own result, `-errno` for a failure.
    ///
    /// # Errors
    /// `Gone` when the thread was killed.
    pub fn call(&mut self, number: i64, args: &[u64]) -> Result<i64> {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let [rdi, rsi, rdx, r10, r8, r9] = all;
        let rax = number as u64;
        let regs = Regs { rax, rdi, rsi, rdx, r10, r8, r9, rip: self.gate, orig_rax: u64::MAX, ..self.saved };
        self.thread.set_regs(&regs)?;
        self.until_trap(ptrace::step)?;
        let regs = self.thread.regs()?;
        match regs.rip == self.gate + 2 {
            true => Ok(regs.rax as i64),
            false => Err(Fault::bug(format!("a lent thread went to {:#x} instead of behind its call", regs.rip))),
        }
    }

    /// The same, failing with the errno.
    pub fn must(&mut self, what: &str, number: i64, args: &[u64]) -> Result<i64> {
        match self.call(number, args)? {
            failed @ -4095..0 => Err(Fault::sys(-failed as i32, what)),
            done => Ok(done),
        }
    }

    /// One system call whose result is the kernel's own word, whoever writes into the memory of the process meanwhile, and so may have other instructions
    /// executed in place of those that are meant.
    ///
    /// # Errors
    /// `Refused` when somebody has; `Gone` when the thread was killed.
    pub fn told(&mut self, arena: Arena, number: i64, args: [u64; 6]) -> Result<i64> {
        let tid = self.thread.tid();
        let [rdi, rsi, rdx, r10, r8, r9] = args;
        let rax = number as u64;
        let regs = Regs { rax, rdi, rsi, rdx, r10, r8, r9, rip: arena.one_call(), orig_rax: u64::MAX, ..self.saved };
        self.thread.set_regs(&regs)?;
        let asked = |errno| failed(tid, errno, "the watch on a call");
        let written =
            || Fault::refused(format!("somebody writes into the memory of thread {tid}, which is being asked"));
        ptrace::tell_calls(tid, true).map_err(asked)?;
        self.until_trap(ptrace::to_call)?;
        if ptrace::call(tid) != Ok(ptrace::Call::Enters { number: rax, args }) {
            return Err(written());
        }
        self.until_trap(ptrace::to_call)?;
        let left = ptrace::call(tid).map_err(asked)?;
        ptrace::tell_calls(tid, false).map_err(asked)?;
        match left {
            ptrace::Call::Leaves { result } => Ok(result),
            _ => Err(written()),
        }
    }

    /// Begins a call that may wait, and interrupts it at once: its result, or that it is to be restarted, as the kernel then keeps in the
    /// thread how long it is to wait still (linux: `struct restart_block`). It may be over before it is interrupted.
    pub fn begin(&mut self, arena: Arena, number: i64, args: [u64; 6]) -> Result<i64> {
        let tid = self.thread.tid();
        let [rdi, rsi, rdx, r10, r8, r9] = args;
        let rax = number as u64;
        let regs = Regs { rax, rdi, rsi, rdx, r10, r8, r9, rip: arena.one_call(), orig_rax: u64::MAX, ..self.saved };
        self.thread.set_regs(&regs)?;
        self.until_trap(ptrace::to_call)?;
        ptrace::go_on(tid, None).map_err(|errno| failed(tid, errno, "the going on"))?;
        ptrace::interrupt(tid).map_err(|errno| failed(tid, errno, "interrupt"))?;
        loop {
            match wait(tid).map_err(|errno| failed(tid, errno, "wait for a call to be interrupted"))? {
                Halt::Trap | Halt::Group(_) => return self.thread.regs().map(|regs| regs.rax as i64),
                Halt::Signal(Sig::TRAP) if self.thread.has_trapped()? => {
                    return self.thread.regs().map(|regs| regs.rax as i64)
                }
                // The interruption is yet to come.
                Halt::Signal(sig) => self.withholds(sig, GO_ON).map_err(|errno| failed(tid, errno, "the going on"))?,
                Halt::Exiting | Halt::Ended(_) => return Err(failed(tid, libc::ESRCH, "a call in place")),
                other => return Err(Fault::bug(format!("a call that was to be interrupted brought {other:?}"))),
            }
        }
    }

    /// The thread uses the tiles of AMX for a moment, for which its process must have the permission. They are empty afterwards.
    ///
    /// # Errors
    /// `Gone` when the thread was killed.
    pub fn use_tiles(&mut self, arena: Arena) -> Result<()> {
        let rdi = arena.put(self.memory, &ONE_TILE)?;
        let regs = Regs { rdi, rip: arena.use_tiles(), orig_rax: u64::MAX, ..self.saved };
        self.thread.set_regs(&regs)?;
        self.until_trap(GO_ON)
    }

    /// The thread goes on by itself until the function that it is in has returned: `slot` is where on its stack the address is to which it does, `trap` that of an `int3`.
    /// What it has been lent for must come after this, as after [`Loan::step_out`], which takes it a stop for each instruction, and so for ever where a
    /// function begins again because a tick of the clock has come meanwhile.
    ///
    /// # Errors
    /// `Bug` when it came to another trap, or with another stack; `Gone` when the thread was killed.
    pub fn step_back(&mut self, slot: u64, trap: u64) -> Result<()> {
        let mut to = [0; 8];
        self.memory.read(slot, &mut to)?;
        self.memory.write(slot, &trap.to_le_bytes())?;
        let went = self.until_trap(GO_ON);
        self.memory.write(slot, &to)?;
        went?;
        let regs = self.thread.regs()?;
        if (regs.rip, regs.rsp) != (trap + 1, slot + 8) {
            let what = format!(
                "a thread that was to return from {slot:#x} is at {:#x}, its stack at {:#x}",
                regs.rip, regs.rsp
            );
            return Err(Fault::bug(what));
        }
        self.saved = Regs { rip: u64::from_le_bytes(to), ..regs };
        self.thread.set_regs(&self.saved)
    }

    /// As the thread is when it is given back.
    pub fn regs(&self) -> &Regs {
        &self.saved
    }

    /// The thread goes on by itself, instruction by instruction, until it is out of `code`, or has not come out in [`MOST_STEPS`]. What it has been lent for must come
    /// after this: from now on its registers are those that it has then.
    ///
    /// # Errors
    /// `Gone` when the thread was killed.
    pub fn step_out(&mut self, code: &Range<u64>) -> Result<()> {
        for _ in 0..MOST_STEPS {
            if !code.contains(&self.saved.rip) {
                break;
            }
            self.until_trap(ptrace::step)?;
            self.saved = self.thread.regs()?;
        }
        Ok(())
    }

    /// Maps an arena, at an address of the kernel's or, with `at`, there. A process that has all the memory that its limits allow has it too, if the caller may
    /// lift them.
    ///
    /// # Errors
    /// ENOMEM for a process with as many mappings as there may be, and for one at its hard limits that are not the caller's to raise; `Gone`.
    pub fn map_arena(&mut self, at: Option<u64>) -> Result<Arena> {
        self.map((at, Arena::LENGTH), Arena::usual)
    }

    /// Maps an arena where [`Arena::beside`] says.
    ///
    /// # Errors
    /// As [`Loan::map_arena`].
    pub fn map_arena_there(&mut self, there: Arena) -> Result<Arena> {
        self.map((Some(there.base()), there.length()), |_| there)
    }

    fn map(&mut self, place: (Option<u64>, u64), arena: impl Fn(u64) -> Arena) -> Result<Arena> {
        match self.map_for_script(place).and_then(|base| self.map_code(arena(base))) {
            // EAGAIN: of memory that is locked at once (mlockall(2), MCL_FUTURE).
            Err(fault) if matches!(fault.errno, libc::ENOMEM | libc::EAGAIN) => {
                let _until_it_is_mapped = Lifted::of(self.thread.tid());
                self.map_for_script(place).and_then(|base| self.map_code(arena(base)))
            }
            mapped => mapped,
        }
    }

    fn map_for_script(&mut self, (at, length): (Option<u64>, u64)) -> Result<u64> {
        let fixed = if at.is_some() { libc::MAP_FIXED_NOREPLACE } else { 0 };
        let how = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed) as u64;
        let rw = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let args = [at.unwrap_or(0), length, rw, how, u64::MAX, 0];
        self.must("map memory for a script", libc::SYS_mmap, &args).map(|base| base as u64)
    }

    fn map_code(&mut self, arena: Arena) -> Result<Arena> {
        let rx = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        // Not by mprotect(2): a process may have forsworn to make memory executable that was writable (PR_SET_MDWE).
        let how = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
        let args = [arena.base(), CODE_LENGTH, rx, how, u64::MAX, 0];
        let mapped = self.must("map a page for a script's code", libc::SYS_mmap, &args);
        match mapped.and_then(|_| arena.write_code(self.memory)) {
            Ok(()) => Ok(arena),
            Err(fault) => {
                // What failed is what counts.
                let _stays_mapped = self.unmap_arena(arena);
                Err(fault)
            }
        }
    }

    pub fn unmap_arena(&mut self, arena: Arena) -> Result<()> {
        self.must("unmap a script's memory", libc::SYS_munmap, &[arena.base(), arena.length()]).map(drop)
    }

    /// Executes a script.
    ///
    /// # Errors
    /// That of the first call which must not fail and did; `Gone` when the thread was killed.
    pub fn run(&mut self, arena: Arena, script: Script) -> Result<Outcome> {
        let mut script = script;
        let (data_at, data) = script.data()?;
        self.memory.write(data_at, data)?;
        let mut data = vec![0; data.len()];
        let mut next = Some(0);
        while let Some(from) = next {
            let (at, table) = script.table(from);
            self.memory.write(at, &table)?;
            self.run_table(arena, at)?;
            let mut table = vec![0; script.table_length(from)];
            self.memory.read(at, &mut table)?;
            next = script.take_results(from, &table)?;
        }
        self.memory.read(data_at, &mut data)?;
        Ok(script.outcome(data))
    }

    fn run_table(&mut self, arena: Arena, table: u64) -> Result<()> {
        let regs = Regs { rip: arena.base(), rbx: table, orig_rax: u64::MAX, ..self.saved };
        self.thread.set_regs(&regs)?;
        self.until_trap(GO_ON)?;
        let done = arena.base() + CODE.len() as u64;
        match self.thread.regs()?.rip {
            rip if rip == done => Ok(()),
            rip => Err(Fault::bug(format!("a script ended at {rip:#x} instead of {done:#x}"))),
        }
    }

    fn until_trap(&mut self, resume: Resume) -> Result<()> {
        let tid = self.thread.tid();
        resume(tid).map_err(|errno| failed(tid, errno, "the going on"))?;
        // Of those that one thread can have, each is met once; but in front of a SIGTRAP that was sent the same comes again and again (ODDITY faults-while-traced).
        for _ in 0..MOST_SIGNALS {
            let went = match wait(tid).map_err(|errno| failed(tid, errno, "wait for a trap"))? {
                Halt::Signal(Sig::TRAP) if self.thread.has_trapped()? => return Ok(()),
                Halt::Signal(sig) => self.withholds(sig, resume),
                // An interruption or the stop of its process that was still on its way.
                Halt::Trap | Halt::Group(_) | Halt::Event(_) => resume(tid),
                Halt::Exiting | Halt::Ended(_) => return Err(failed(tid, libc::ESRCH, "a call in place")),
            };
            went.map_err(|errno| failed(tid, errno, "the going on"))?;
        }
        Err(Fault::refused(format!(
            "thread {tid} blocks a SIGTRAP that was sent and the signal of a fault, and both wait"
        )))
    }

    /// The thread goes on without a signal that is not to reach it. All others are blocked, and one that comes all the same is queued again (linux: `ptrace_signal`).
    fn withholds(&self, sig: Sig, resume: Resume) -> std::result::Result<(), i32> {
        match sig {
            Sig::STOP | Sig::TRAP => {
                self.thread.meets(sig);
                resume(self.thread.tid())
            }
            // Its instruction was executed, or its next trap would not wait already.
            sig => ptrace::go_on(self.thread.tid(), Some(sig)),
        }
    }

    /// execve(2) or its like: the thread, which is to be the only one of its process, stands still before the first instruction of the new
    /// program, with all signals blocked that can be but SIGTRAP. Until it is released it is killed if its tracer ends.
    ///
    /// # Errors
    /// The errno of the call; `Gone` when the thread was killed.
    pub fn execute(mut self, arena: Arena, number: i64, args: [u64; 6]) -> Result<()> {
        self.executes((arena.one_call(), GO_ON), number, args)
    }

    /// The same, with no arena: that is others' memory too, and nothing of ours may stay in it.
    ///
    /// # Errors
    /// As [`Loan::execute`].
    pub fn execute_without_arena(mut self, number: i64, args: [u64; 6]) -> Result<()> {
        let gate = self.gate;
        self.executes((gate, ptrace::step), number, args)
    }

    /// The lower end of what its stack is used for: some hundred bytes below it are its own.
    pub fn stack(&self) -> u64 {
        self.saved.rsp
    }

    fn executes(&mut self, (at, resume): (u64, Resume), number: i64, args: [u64; 6]) -> Result<()> {
        let tid = self.thread.tid();
        let done = |errno| failed(tid, errno, "the execution of another program");
        let [rdi, rsi, rdx, r10, r8, r9] = args;
        let rax = number as u64;
        let regs = Regs { rax, rdi, rsi, rdx, r10, r8, r9, rip: at, orig_rax: u64::MAX, ..self.saved };
        self.thread.set_regs(&regs)?;
        ptrace::stop_after_exec(tid).map_err(done)?;
        loop {
            resume(tid).map_err(done)?;
            match wait(tid).map_err(done)? {
                ptrace::EXECUTED => {
                    self.owed = false;
                    return Ok(());
                }
                Halt::Signal(Sig::TRAP) if self.thread.has_trapped()? => {
                    return Err(Fault::sys(-(self.thread.regs()?.rax as i64) as i32, "execute another program"));
                }
                Halt::Exiting | Halt::Ended(_) => return Err(done(libc::ESRCH)),
                Halt::Signal(sig) => self.thread.meets(sig),
                // An interruption that was on its way.
                Halt::Trap | Halt::Group(_) | Halt::Event(_) => {}
            }
        }
    }

    /// The registers and the mask are the thread's again.
    ///
    /// # Errors
    /// `Gone` when it was killed.
    pub fn give_back(mut self) -> Result<()> {
        self.restore()
    }

    fn restore(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.owed) {
            return Ok(());
        }
        let extended = self.extended.take().map_or(Ok(()), |extended| rights::set(self.thread.tid(), &extended));
        let all = extended.and_then(|()| self.thread.set_regs(&self.saved));
        self.thread.hand_back_trap();
        all.and_then(|()| self.thread.set_sigmask(self.mask)).inspect_err(|_| {
            // With what the scripts have left in its registers it must not run: it would do something else than its program says.
            let _gone_already = kern::signal::send(self.thread.tid(), Sig::KILL);
        })
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        // It was killed, then or now.
        let _gone = self.restore();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::Running;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use vocab::Pid;

    /// What runs on after a loan that was given up half-way does what its program says.
    #[test]
    fn a_loan_that_is_dropped_is_given_back() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = Pid(child.id() as i32);
        let before = loop {
            let thread = stop(pid);
            let regs = thread.regs().expect("stopped");
            // Until then it has yet to execute, or to begin its wait.
            if [libc::SYS_nanosleep, libc::SYS_clock_nanosleep].contains(&(regs.orig_rax as i64)) {
                let (mask, memory) = (thread.sigmask().expect("stopped"), RemoteMemory::open(pid).expect("a child"));
                let mut loan =
                    Loan::take(&thread, &memory, &kern::areas::areas(pid, false).expect("a child")).expect("64-bit");
                let kept = loan.must("close nothing", libc::SYS_close, &[9999]).map_err(|fault| fault.errno);
                assert_eq!(kept, Err(libc::EBADF));
                drop(loan);
                assert_eq!(thread.sigmask().expect("stopped"), mask);
                assert_eq!(thread.regs().expect("stopped"), regs);
                break regs;
            }
        };
        let thread = stop(pid);
        // After its wait's instruction, or before it where the kernel has yet to begin the wait again: the instruction is two bytes long.
        let at = thread.regs().expect("stopped").rip;
        assert!([before.rip, before.rip - 2].contains(&at), "at {at:#x}, it was at {:#x}", before.rip);
        thread.release(None).expect("stopped");
        child.kill().expect("a child");
        child.wait().expect("a child");
    }

    fn stop(pid: Pid) -> Stopped {
        let running = Running::seize(pid, false, false).expect("a child");
        running.interrupt().expect("seized");
        running.stopped().expect("a child")
    }

    /// A shell that counts, and is interrupted with calls in it; it goes on as if nothing had been.
    #[test]
    fn a_thread_that_was_lent_does_not_notice() {
        let mut child = Command::new("python3")
            .args(["-c", "import time\ntime.sleep(0.1)\nprint(sum(range(3000000)), flush=True)"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let pid = Pid(child.id() as i32);
        let memory = loop {
            // Until it has executed, its memory is that of this test, or of a script of that name.
            let exe = std::fs::read_link(format!("/proc/{pid}/exe")).expect("a child");
            if exe.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3")) {
                break RemoteMemory::open(pid).expect("a child");
            }
            std::thread::yield_now();
        };
        for _ in 0..50 {
            let running = Running::seize(pid, false, false).expect("a child");
            running.interrupt().expect("seized");
            let Ok(thread) = running.stopped() else { break };
            let areas = kern::areas::areas(pid, false).expect("a child");
            let mut loan = Loan::take(&thread, &memory, &areas).expect("64-bit, with a vdso");
            assert_eq!(loan.call(libc::SYS_getpid, &[]).expect("lent"), i64::from(pid.0));
            assert_eq!(loan.call(libc::SYS_close, &[9999]).expect("lent"), -i64::from(libc::EBADF));
            let arena = loan.map_arena(None).expect("room");
            let nothing = [0; 6];
            assert_eq!(loan.told(arena, libc::SYS_getpid, nothing).expect("lent"), i64::from(pid.0));
            // Somebody puts `inc eax` and a trap in place of the call.
            memory.write(arena.one_call(), &[0xff, 0xc0, 0xcc]).expect("a page of its own");
            assert!(loan.told(arena, libc::SYS_getpid, nothing).is_err_and(|fault| fault.kind == vocab::Kind::Refused));
            arena.write_code(&memory).expect("a page of its own");
            let mut script = arena.script();
            let ends = script.room(8);
            script.call("make a pipe", libc::SYS_pipe2, &[ends, 0]);
            let name = script.bytes(b"through");
            let duplicate = script.call("duplicate", libc::SYS_dup, &[1]);
            let close = script.call("close", libc::SYS_close, &[0]);
            script.pass(duplicate, close, 0);
            let missing = script.attempt(libc::SYS_close, &[9999]);
            let group = script.call("read the group", libc::SYS_getpgid, &[0]);
            let outcome = loan.run(arena, script).expect("it runs");
            assert!(outcome.result(duplicate) > 2);
            assert_eq!(outcome.result(close), 0);
            assert_eq!(outcome.result(missing), -i64::from(libc::EBADF));
            assert!(outcome.result(group) > 0);
            assert_eq!(outcome.data(name, 7), b"through");
            let [read, write]: [i32; 2] = outcome.value(ends).expect("two numbers");
            let mut script = arena.script();
            script.call("close", libc::SYS_close, &[read as u64]);
            script.call("close", libc::SYS_close, &[write as u64]);
            script.call("never", libc::SYS_close, &[9999]);
            assert_eq!(loan.run(arena, script).map(drop).map_err(|fault| fault.errno), Err(libc::EBADF));
            loan.unmap_arena(arena).expect("mapped");
            loan.give_back().expect("stopped");
            assert!(!thread.take_stop() && !thread.is_to_continue().expect("stopped"));
            thread.release(None).expect("stopped");
        }
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("its output");
        assert_eq!(line.trim(), "4499998500000");
        assert!(child.wait().expect("a child").success());
    }
}
