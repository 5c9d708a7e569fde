//! What each thread has of its own.

use crate::cpu;
use crate::identity;
use crate::modes;
use crate::proc::Fields;
use crate::registers;
use crate::sigstate;
use image::thread::{AltStack, Creds, Rseq, Scheduling, Thread, Wait};
use kern::others;
use kern::poll::poll_for;
use kern::proc::{whole, PROC};
use kern::ptrace::{self, Queue};
use kern::remote_memory::RemoteMemory;
use puppet::{Arena, Loan, Outcome, Script, Slot, Stopped};
use std::time::{Duration, Instant};
use vocab::{Fault, Pid, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// In which the number of a thread that has ended is free, even where processors are busy.
const FREES: Duration = Duration::from_secs(1);
/// Nothing tells when it is.
const SOON: Duration = Duration::from_millis(1);

/// `stack_t` (sigaltstack(2)).
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
struct StackT {
    at: u64,
    flags: u32,
    pad: u32,
    size: u64,
}

/// Everything of a stopped thread, with the processors on which it may run if these are others now. `waits`: what is left of its wait (`waits::left`). `own`: what it has
/// told of itself. `status`: what /proc tells of it.
///
/// # Errors
/// `Refused` for what is not carried; `Gone`.
pub(crate) fn read(
    (pid, status): (Pid, &Fields),
    (thread, processors): (&Stopped, Option<&[u8]>),
    waits: Option<Wait>,
    own: Own,
) -> Result<Thread> {
    let tid = thread.tid();
    let failed = |what: &'static str| move |errno| Fault::sys(errno, format!("read the {what} of thread {tid}"));
    let rseq = ptrace::rseq(tid).or_else(|errno| if errno == libc::EIO { Ok(Default::default()) } else { Err(errno) });
    let rseq = rseq.map_err(failed("restartable sequence"))?;
    Ok(Thread {
        tid: tid.0,
        regs: registers::save(&thread.regs()?),
        xstate: ptrace::xstate(tid).map_err(failed("extended registers"))?.into(),
        mask: thread.sigmask()?,
        queue: sigstate::queue(tid, Queue::Thread)?,
        robust: ptrace::robust_list(tid).map_err(failed("robust futexes"))?,
        rseq: Rseq { address: rseq.address, size: rseq.size, signature: rseq.signature, flags: rseq.flags },
        name: name(pid, tid)?.trim_ascii_end().into(),
        creds: Creds { securebits: own.secure_bits, ..identity::creds_of(tid, status)? },
        scheduling: Scheduling { slack: own.slack, ..scheduling(tid, processors)? },
        altstack: own.altstack,
        clear_tid: own.clear_tid,
        death_signal: own.death_signal,
        modes: own.modes,
        waits,
    })
}

pub(crate) fn name(pid: Pid, tid: Pid) -> Result<Vec<u8>> {
    whole(&format!("{PROC}/{pid}/task/{tid}/comm")).map_err(|e| Fault::io(&e, format!("read the name of thread {tid}")))
}

fn scheduling(tid: Pid, processors: Option<&[u8]>) -> Result<Scheduling> {
    let failed = |errno| Fault::sys(errno, format!("read the scheduling of thread {tid}"));
    let others::Scheduling { policy, priority, nice } = others::scheduling(tid).map_err(failed)?;
    let processors = match processors {
        Some(known) => known.to_vec(),
        None => others::processors(tid).map_err(failed)?,
    };
    let io = others::io_priority(tid).map_err(failed)?;
    Ok(Scheduling { policy, priority, nice, processors: processors.into(), slack: 0, io })
}

/// Questions to a thread that only itself can answer, in a script.
pub(crate) struct Asked {
    stack: u64,
    clear: u64,
    death: u64,
    bits: Slot,
    slack: Slot,
    modes: modes::Asked,
}

/// And the answers.
pub(crate) struct Own {
    altstack: AltStack,
    clear_tid: u64,
    death_signal: i32,
    slack: u64,
    modes: Vec<(u32, u64)>,
    pub(crate) secure_bits: u32,
}

pub(crate) fn ask(script: &mut Script) -> Asked {
    let stack = script.room(size_of::<StackT>());
    script.call("read the alternate stack", libc::SYS_sigaltstack, &[0, stack]);
    let clear = script.room(8);
    script.call("read the address of its TID", libc::SYS_prctl, &[libc::PR_GET_TID_ADDRESS as u64, clear]);
    let death = script.room(4);
    script.call("read its parent's signal", libc::SYS_prctl, &[libc::PR_GET_PDEATHSIG as u64, death]);
    let bits = script.call("read the secure bits", libc::SYS_prctl, &[libc::PR_GET_SECUREBITS as u64]);
    let slack = script.call("read the timer slack", libc::SYS_prctl, &[libc::PR_GET_TIMERSLACK as u64]);
    Asked { stack, clear, death, bits, slack, modes: modes::ask(script) }
}

/// What the script has brought in the lent thread. `secure_bits`: of another thread of its process.
pub(crate) fn told(
    loan: &mut Loan<'_>,
    arena: Arena,
    outcome: &Outcome,
    asked: &Asked,
    secure_bits: Option<u32>,
) -> Result<Own> {
    let StackT { at, flags, size, .. } = outcome.value(asked.stack)?;
    // Of what is asked these alone are rights, and the answer stands in memory that is its user's to write to.
    let secure_bits = match secure_bits {
        Some(known) if outcome.result(asked.bits) == i64::from(known) => known,
        _ => loan.told(arena, libc::SYS_prctl, [libc::PR_GET_SECUREBITS as u64, 0, 0, 0, 0, 0])? as u32,
    };
    Ok(Own {
        altstack: AltStack { at, flags, size },
        clear_tid: outcome.value(asked.clear)?,
        death_signal: outcome.value(asked.death)?,
        slack: outcome.result(asked.slack) as u64,
        modes: modes::told(outcome, &asked.modes)?,
        secure_bits,
    })
}

/// A script in the thread.
pub(crate) fn ask_alone(
    thread: &Stopped,
    memory: &RemoteMemory,
    (gate, arena): (u64, Arena),
    secure_bits: Option<u32>,
) -> Result<Own> {
    let mut loan = Loan::take_at(thread, memory, gate)?;
    let mut script = arena.script();
    let asked = ask(&mut script);
    let outcome = loan.run(arena, script)?;
    let own = told(&mut loan, arena, &outcome, &asked, secure_bits)?;
    loan.give_back()?;
    Ok(own)
}

pub(crate) fn set_name(script: &mut Script, name: &[u8]) {
    let name = script.text(name);
    script.call("set the name", libc::SYS_prctl, &[libc::PR_SET_NAME as u64, name]);
}

/// Makes a thread that stands before its first instruction what it was, apart from its registers. With a script of its own, in which
/// its credentials come last. `named`: as it is called already, if that is known; on a node the agent is told of each new name, and runs first.
pub(crate) fn set(
    (loan, arena): (&mut Loan<'_>, Arena),
    script: &mut Script,
    (saved, named): (&Thread, Option<&[u8]>),
    now: &Creds,
    pid: i32,
) -> Result<()> {
    if named != Some(&saved.name.0) {
        set_name(script, &saved.name.0);
    }
    if saved.robust.0 != 0 {
        script.call("set the robust futexes", libc::SYS_set_robust_list, &[saved.robust.0, saved.robust.1]);
    }
    let rseq = &saved.rseq;
    if rseq.address != 0 {
        let args = [rseq.address, rseq.size.into(), 0, rseq.signature.into()];
        script.call("register the restartable sequence", libc::SYS_rseq, &args);
    }
    script.call("set the address of its TID", libc::SYS_set_tid_address, &[saved.clear_tid]);
    let AltStack { at, flags, size } = saved.altstack;
    // Whether it is on that stack now its stack pointer says.
    let flags = flags & !(libc::SS_ONSTACK as u32);
    let stack = script.bytes(StackT { at, flags, pad: 0, size }.as_bytes());
    script.call("set the alternate stack", libc::SYS_sigaltstack, &[stack, 0]);
    script.call("set the timer slack", libc::SYS_prctl, &[libc::PR_SET_TIMERSLACK as u64, saved.scheduling.slack]);
    modes::set(script, &saved.modes)?;
    sigstate::set_long_queue((loan, arena), script, &saved.queue, (pid as u64, Some(saved.tid as u64)))?;
    identity::set_creds(script, &saved.creds, now);
    // A change of credentials clears it (prctl(2)).
    let signal = saved.death_signal as u64;
    script.call("set its parent's signal", libc::SYS_prctl, &[libc::PR_SET_PDEATHSIG as u64, signal]);
    Ok(())
}

/// The kernel has room for the tiles of a thread that has used them (linux: `__xfd_enable_feature`), and only then takes them.
pub(crate) fn make_room_for_tiles(loan: &mut Loan<'_>, arena: Arena, saved: &Thread) -> Result<()> {
    match cpu::has_tiles(&saved.xstate.0) {
        true => loan.use_tiles(arena),
        false => Ok(()),
    }
}

/// What is set from outside. `else_on`: the processors for one that had none of this machine.
pub(crate) fn set_scheduling(saved: &Thread, else_on: Option<&[u8]>) -> Result<()> {
    let tid = Pid(saved.tid);
    let failed = |what: &'static str| move |errno| Fault::sys(errno, format!("set the {what} of thread {tid}"));
    let Scheduling { policy, priority, nice, .. } = saved.scheduling;
    if others::scheduling(tid) != Ok(others::Scheduling { policy, priority, nice }) {
        others::set_scheduling(tid, others::Scheduling { policy, priority, nice }).map_err(failed("scheduling"))?;
    }
    if saved.scheduling.io != 0 {
        others::set_io_priority(tid, saved.scheduling.io).map_err(failed("priority for input and output"))?;
    }
    match others::set_processors(tid, &saved.scheduling.processors.0) {
        Ok(()) => Ok(()),
        // A machine without these processors: any will do.
        Err(libc::EINVAL) => {
            else_on.map_or(Ok(()), |any| others::set_processors(tid, any)).map_err(failed("processors"))
        }
        Err(errno) => Err(failed("processors")(errno)),
    }
}

/// `struct clone_args`, up to the set of TIDs.
fn clone_args(set_tid: u64) -> [u64; 10] {
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    [flags as u64, 0, 0, 0, 0, 0, 0, 0, set_tid, 1]
}

/// The threads besides the leader, each before its first instruction.
pub(crate) fn make(loan: &mut Loan<'_>, arena: Arena, threads: &[Thread], made: &mut Vec<Stopped>) -> Result<()> {
    for saved in threads {
        let end = Instant::now() + FREES;
        while let Err(fault) = make_one(loan, arena, saved.tid) {
            // Seen where processors are busy. By its source the kernel tells who waits for a process of its end before the numbers of its threads are free (linux:
            // `release_task`, and then `free_pids`).
            let nobody = !std::fs::exists(format!("{PROC}/{}", saved.tid)).unwrap_or(true);
            if fault.errno != libc::EEXIST || !nobody || Instant::now() > end {
                return Err(fault);
            }
            let _ = poll_for(&[], Some(SOON));
        }
        made.push(Stopped::newborn(Pid(saved.tid))?);
    }
    Ok(())
}

fn make_one(loan: &mut Loan<'_>, arena: Arena, number: i32) -> Result<()> {
    let mut script = arena.script();
    let tid = script.bytes(&number.to_ne_bytes());
    let args = script.bytes(clone_args(tid).as_bytes());
    let length = size_of::<[u64; 10]>() as u64;
    script.call(format!("make thread {number}"), libc::SYS_clone3, &[args, length]);
    loan.run(arena, script).map(drop)
}
