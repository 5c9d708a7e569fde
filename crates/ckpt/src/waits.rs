//! Calls that wait for a duration: the kernel alone knows when such a wait ends, and tells nobody.
//!
//! When it is interrupted for the first time, a sleep has been told what is left if it asked; else the call's arguments say how long it was
//! to last and the scheduler since when the thread sleeps. From then on the kernel restarts it as restart_syscall(2), and both are lost: so
//! whoever lets such a thread go on leaves a note for the next dump, below its stack's red zone, where nothing is while the thread is in a
//! call (but a signal's frame, and then the wait is over). Of one that was interrupted by others the kernel's own structure is read
//! ([`kern::restart_block`]).

use crate::clocks::Clock;
use crate::registers;
use crate::survey::{switches, Waiting};
use image::thread::{Thread, Wait};
use kern::ptrace::Regs;
use kern::remote_memory::RemoteMemory;
use kern::restart_block::{self, Restarts};
use puppet::{Arena, Loan, Stopped};
use tracing::debug;
use vocab::{Fault, Pid, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// ERESTARTNOINTR: the call is made again, whatever signal there is.
const RESTART_ALWAYS: i64 = -513;
/// For [`Wait::left`]: the call was told until when to wait, and is made again as it was.
const AS_IT_WAS: u64 = u64::MAX;

/// ERESTART_RESTARTBLOCK (linux: include/linux/errno.h): the kernel has kept the end of the wait for itself.
const RESTART_BLOCK: i64 = -516;
const SECOND: u64 = 1_000_000_000;

/// What is left below the stack. It counts for the wait for which it was made only, and how often the thread has given up its processor
/// since tells whether it is in that: once for this wait, once for the stop by which it was interrupted, and perhaps for a lock or a page on
/// its way. Another wait that has been interrupted before has given it up twice more.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
struct Note {
    magic: u64,
    tid: u64,
    rip: u64,
    /// The call that was made first.
    call: u64,
    /// When the wait ends, in nanoseconds of CLOCK_MONOTONIC as the process sees it here.
    end: u64,
    switches: u64,
}

/// So often at most.
const MOST_SWITCHES: u64 = 3;

const MAGIC: u64 = u64::from_le_bytes(*b"shoalwai");
/// Below it x86-64 programs have nothing that they need (System V ABI, 3.2.2).
const RED_ZONE: u64 = 128;

fn place(regs: &Regs) -> u64 {
    (regs.rsp - RED_ZONE - size_of::<Note>() as u64) & !15
}

fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * SECOND + now.tv_nsec as u64
}

/// How long a call that was interrupted would still have waited; `None` when it was not waiting for a duration, or nobody knows: then it
/// returns EINTR, as it may after any signal. `seen` is what the thread did before it was stopped, and nothing else was done in it since; `clock` is its
/// process's.
pub(crate) fn left(
    pid: Pid,
    thread: &Stopped,
    regs: &Regs,
    (seen, clock): (Option<&Waiting>, &Clock),
    memory: &RemoteMemory,
) -> Result<Option<Wait>> {
    if regs.rax as i64 != RESTART_BLOCK {
        return Ok(None);
    }
    let noted = noted((pid, thread.tid()), regs, memory, clock)?;
    if noted.is_some() {
        return Ok(noted);
    }
    if regs.orig_rax as i64 == libc::SYS_restart_syscall {
        return Ok(kernels(thread.tid(), regs, clock));
    }
    if let Some(left) = remainder(regs, memory)? {
        return Ok(Some(Wait { call: regs.orig_rax, left }));
    }
    let Some(total) = duration(regs, memory)? else { return Ok(None) };
    let seen = seen.filter(|seen| seen.call as u64 == regs.orig_rax);
    // One that has ended since, and the same call made anew, have it give up its processor once more at least than the stop does.
    let now = seen.map(|_| switches(pid, thread.tid())).transpose()?;
    let same = seen.filter(|seen| now.is_some_and(|now| now <= seen.switches + 1));
    let elapsed = same.map_or(0, |seen| monotonic().saturating_sub(seen.since));
    let left = if total == AS_IT_WAS { total } else { total.saturating_sub(elapsed) };
    Ok(Some(Wait { call: regs.orig_rax, left }))
}

/// What the kernel has kept of a wait that somebody else interrupted before (SIGSTOP and SIGCONT), where it lets that be read.
fn kernels(tid: Pid, regs: &Regs, clock: &Clock) -> Option<Wait> {
    let told =
        restart_block::of(tid, regs).map_err(|fault| debug!(%tid, %fault, "nobody knows what is left of its wait"));
    let Restarts { call, end, is_boottime } = told.ok()??;
    let end = end.filter(|_| call != libc::SYS_futex || regs.rsi as i32 & FUTEX_COMMAND == libc::FUTEX_WAIT);
    let Some(end) = end else { return Some(Wait { call: call as u64, left: AS_IT_WAS }) };
    let now = clock.machines();
    let now = if is_boottime { now.boottime } else { now.monotonic };
    Some(Wait { call: call as u64, left: end.saturating_sub(now as u64) })
}

/// What was left as a note for this wait.
fn noted((pid, tid): (Pid, Pid), regs: &Regs, memory: &RemoteMemory, clock: &Clock) -> Result<Option<Wait>> {
    let mut note = Note::default();
    // There may be no memory: then there was no note either.
    let read = memory.read(place(regs), note.as_mut_bytes()).is_ok();
    if !read || note.magic != MAGIC || note.tid != tid.0 as u64 || note.rip != regs.rip {
        return Ok(None);
    }
    let since = switches(pid, tid)?.saturating_sub(note.switches);
    let now = clock.monotonic();
    let ours = match regs.orig_rax as i64 == libc::SYS_restart_syscall {
        true => since <= MOST_SWITCHES,
        // It has not come to run since the note was made.
        false => regs.orig_rax == note.call && since <= 1 && note.end > now,
    };
    let left = if note.end == AS_IT_WAS { AS_IT_WAS } else { note.end.saturating_sub(now) };
    Ok(ours.then_some(Wait { call: note.call, left }))
}

/// What the kernel has said is left of a sleep that it interrupted, when it was told where (linux: `nanosleep_copyout`).
fn remainder(regs: &Regs, memory: &RemoteMemory) -> Result<Option<u64>> {
    match regs.orig_rax as i64 {
        libc::SYS_nanosleep if regs.rsi != 0 => time(regs.rsi, memory).map(Some),
        libc::SYS_clock_nanosleep if regs.r10 != 0 => time(regs.r10, memory).map(Some),
        _ => Ok(None),
    }
}

/// A struct timespec, in nanoseconds.
fn time(at: u64, memory: &RemoteMemory) -> Result<u64> {
    let mut time = [0u64; 2];
    memory.read(at, time.as_mut_bytes())?;
    Ok(time[0] * SECOND + time[1])
}

/// The command of futex(2) without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME; of those that wait only FUTEX_WAIT is told a duration.
const FUTEX_COMMAND: i32 = 0x7f;

/// Of the kernel's `int` of milliseconds, less than none means without end: to count that down as a number would give it one some day.
fn poll_duration(argument: u64) -> u64 {
    u64::try_from(argument as i32).map_or(AS_IT_WAS, |ms| ms * 1_000_000)
}

/// Nanoseconds that the call was to wait.
fn duration(regs: &Regs, memory: &RemoteMemory) -> Result<Option<u64>> {
    let at = match regs.orig_rax as i64 {
        libc::SYS_nanosleep => regs.rdi,
        libc::SYS_clock_nanosleep => regs.rdx,
        libc::SYS_futex if regs.rsi as i32 & FUTEX_COMMAND == libc::FUTEX_WAIT => regs.r10,
        libc::SYS_futex => return Ok(Some(AS_IT_WAS)),
        libc::SYS_poll => return Ok(Some(poll_duration(regs.rdx))),
        _ => return Ok(None),
    };
    time(at, memory).map(Some)
}

/// Has a thread wait on for what was left: the call is made anew with that duration and interrupted, so that the kernel restarts it
/// when the thread runs. Returns the registers with which it does.
pub(crate) fn go_on(loan: &mut Loan<'_>, memory: &RemoteMemory, arena: Arena, saved: &Thread) -> Result<Regs> {
    let mut regs = registers::of(saved)?;
    let Some(Wait { call, left }) = saved.waits else { return Ok(regs) };
    if left == AS_IT_WAS {
        return Ok(Regs { rax: RESTART_ALWAYS as u64, orig_rax: call, ..regs });
    }
    let mut args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
    let time = || arena.put(memory, [left / SECOND, left % SECOND].as_bytes());
    match call as i64 {
        libc::SYS_nanosleep => args[0] = time()?,
        libc::SYS_clock_nanosleep => args[2] = time()?,
        libc::SYS_futex => args[3] = time()?,
        libc::SYS_poll => args[2] = left.div_ceil(1_000_000),
        other => return Err(Fault::wire(format!("call {other} waits for a duration"))),
    }
    let result = loan.begin(arena, call as i64, args)?;
    if result != RESTART_BLOCK {
        regs.rax = result as u64;
        regs.orig_rax = u64::MAX;
    }
    Ok(regs)
}

/// Leaves the note, as the last thing before the thread runs with these registers.
pub(crate) fn note(
    (pid, tid): (Pid, Pid),
    (waits, regs): (Option<&Wait>, &Regs),
    memory: &RemoteMemory,
    clock: &Clock,
) -> Result<()> {
    let Some(&Wait { call, left }) = waits else { return Ok(()) };
    let end = if left == AS_IT_WAS { left } else { clock.monotonic() + left };
    let note = Note { magic: MAGIC, tid: tid.0 as u64, rip: regs.rip, call, end, switches: switches(pid, tid)? };
    // Where its stack ends there is no place for it, and the next interruption ends the wait.
    let _ = memory.write(place(regs), note.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_without_end_has_no_time_that_could_be_over() {
        assert_eq!([u64::MAX, 0xffff_ffff, 0x8000_0000].map(poll_duration), [AS_IT_WAS; 3]);
        assert_eq!([0, 1, 0x7fff_ffff].map(poll_duration), [0, 1_000_000, 0x7fff_ffff * 1_000_000]);
    }
}
