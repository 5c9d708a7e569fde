//! How long a thread would wait yet whose call the kernel makes again by itself (restart_syscall(2)): which call it was, and until when it waits, are in no register
//! and no file, but in the task's own structure (linux: `struct restart_block`), where a BPF program reads them.

use crate::bpf::{Instruction, TaskProgram, Types, READ_KERNEL, SEQ_WRITE};
use crate::ptrace::Regs;
use std::sync::OnceLock;
use vocab::{Fault, Kind, Pid, Result};

/// Of the structure: a word, the function that makes the call again, and what that needs.
const BYTES: usize = 56;
const SECOND: u64 = 1_000_000_000;

/// Such a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restarts {
    /// The call that was made first.
    pub call: i64,
    /// When it ends, in nanoseconds of this machine's CLOCK_MONOTONIC, to which no time namespace adds anything; `None`: not before what it waits for comes.
    pub end: Option<u64>,
    /// Of its CLOCK_BOOTTIME instead.
    pub is_boottime: bool,
}

/// Gets ready for [`of`], which takes some milliseconds the first time.
///
/// # Errors
/// As [`TaskProgram::load`]; `Unsupported` where a kernel has other types than expected.
pub fn prepare() -> Result<()> {
    program().map(drop)
}

/// What a thread waits for that has these registers and was interrupted in restart_syscall(2); `None`: something else than a time, or it is gone.
///
/// # Errors
/// As [`prepare`], and as [`TaskProgram::look_at`].
pub fn of(tid: Pid, regs: &Regs) -> Result<Option<Restarts>> {
    let mut block = [0; BYTES];
    Ok(if program()?.look_at(tid, &mut block)? { told(&block, regs) } else { None })
}

fn program() -> Result<&'static TaskProgram> {
    static LOADED: OnceLock<Result<TaskProgram>> = OnceLock::new();
    LOADED.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn load() -> Result<TaskProgram> {
    let kernel = Types::read()?;
    let bytes = |of, name| kernel.member(of, name).map(|bits| bits / 8);
    match (bytes("task_struct", "restart_block"), bytes("restart_block", "fn")) {
        (Some(at), Some(8)) => TaskProgram::load(&kernel, &reads(at as i32)),
        _ => Err(Fault::new(Kind::Unsupported, "this kernel describes no restart_block")),
    }
}

/// Writes the bytes at this place of the task.
fn reads(at: i32) -> [Instruction; 16] {
    const LENGTH: i32 = BYTES as i32;
    [
        (0x79, 6, 1, 0, 0),  // r6 = context.meta
        (0x79, 3, 1, 8, 0),  // r3 = context.task
        (0x15, 3, 0, 11, 0), // if r3 == 0 goto end
        (0xbf, 1, 10, 0, 0), // r1 = the stack
        (0x07, 1, 0, 0, -LENGTH),
        (0xb7, 2, 0, 0, LENGTH), // r2 = how much
        (0x07, 3, 0, 0, at),     // r3 = where
        (0x85, 0, 0, 0, READ_KERNEL),
        (0x55, 0, 0, 5, 0),  // if r0 != 0 goto end
        (0x79, 1, 6, 0, 0),  // r1 = meta.seq
        (0xbf, 2, 10, 0, 0), // r2 = the stack
        (0x07, 2, 0, 0, -LENGTH),
        (0xb7, 3, 0, 0, LENGTH), // r3 = how much
        (0x85, 0, 0, 0, SEQ_WRITE),
        (0xb7, 0, 0, 0, 0), // end: return 0
        (0x95, 0, 0, 0, 0),
    ]
}

/// Which function makes the call again is an address in the kernel; but the call's arguments are in the registers as they were, and known again here.
fn told(block: &[u8; BYTES], regs: &Regs) -> Option<Restarts> {
    let long = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| block[at + i]));
    let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| block[at + i]));
    // The first argument of poll(2) and futex(2) is an address, or null; of a sleep there is a clock's number, which is never 0, and how its rest is told.
    if long(16) == regs.rdi && (regs.rdi == 0 || regs.rdi > SMALL) {
        return match word(28) {
            // Has it a time?
            timed @ 0..=1 if word(24) == regs.rsi as u32 => {
                let end = (timed == 1).then(|| long(32) * SECOND + long(40));
                Some(Restarts { call: libc::SYS_poll, end, is_boottime: false })
            }
            // Flags of the futex: one says that it has a time.
            2.. if word(24) == regs.rdx as u32 => {
                Some(Restarts { call: libc::SYS_futex, end: Some(long(40)), is_boottime: false })
            }
            _ => None,
        };
    }
    let clock = word(16) as i32;
    let known = [libc::CLOCK_MONOTONIC, libc::CLOCK_BOOTTIME].contains(&clock);
    let call = if regs.rdi < SMALL { libc::SYS_clock_nanosleep } else { libc::SYS_nanosleep };
    known.then(|| Restarts { call, end: Some(long(32)), is_boottime: clock == libc::CLOCK_BOOTTIME })
}

/// Numbers of clocks are below, addresses above (mmap_min_addr).
const SMALL: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptrace;
    use crate::testing::in_namespace;

    #[test]
    fn what_a_task_would_do_again_is_known_by_its_arguments() {
        let block = |parts: [(usize, u64); 4]| {
            let mut block = [0; BYTES];
            parts.iter().for_each(|(at, number)| block[*at..at + 8].copy_from_slice(&number.to_ne_bytes()));
            block
        };
        let regs = |rdi, rsi, rdx| Regs { rdi, rsi, rdx, ..Regs::default() };
        let timed = |block, regs| told(&block, &regs).map(|it| (it.call, it.end));
        let call = |block, regs| timed(block, regs).map(|(call, end)| (call, end.expect("a time")));
        let sleep = block([(16, 1), (24, 0), (32, 77), (40, 0)]);
        assert_eq!(call(sleep, regs(0x7000, 0, 0)), Some((libc::SYS_nanosleep, 77)));
        assert_eq!(call(sleep, regs(0, 0, 0x7000)), Some((libc::SYS_clock_nanosleep, 77)));
        let processor_time = block([(16, 2), (24, 0), (32, 77), (40, 0)]);
        assert_eq!(call(processor_time, regs(2, 0, 0x7000)), None);
        let poll = block([(16, 0x7000), (24, 1 << 32 | 3), (32, 2), (40, 5)]);
        assert_eq!(call(poll, regs(0x7000, 3, 9000)), Some((libc::SYS_poll, 2_000_000_005)));
        let of_nothing = block([(16, 0), (24, 1 << 32), (32, 2), (40, 5)]);
        assert_eq!(call(of_nothing, regs(0, 0, 9000)), Some((libc::SYS_poll, 2_000_000_005)));
        let without_end = block([(16, 0x7000), (24, 3), (32, 0), (40, 0)]);
        assert_eq!(timed(without_end, regs(0x7000, 3, u64::MAX)), Some((libc::SYS_poll, None)));
        assert_eq!(timed(without_end, regs(0x7000, 4, u64::MAX)), None);
        let futex = block([(16, 0x7000), (24, 0x42 << 32 | 7), (32, 0), (40, 99)]);
        assert_eq!(call(futex, regs(0x7000, 128, 7)), Some((libc::SYS_futex, 99)));
    }

    /// It is stopped and goes on, so the kernel makes its call again; then it is asked what that waits for.
    #[test]
    fn what_the_kernel_makes_again_is_read_from_it() {
        in_namespace(|_| {
            let begun = crate::clock::monotonic_us();
            let child = std::process::Command::new("sleep").arg("100").spawn();
            let pid = Pid(child.expect("sleep is there").id() as i32);
            let does = |what: &str| {
                let path = format!("/proc/{pid}/syscall");
                while !std::fs::read_to_string(&path).is_ok_and(|does| does.starts_with(what)) {
                    let _ = crate::poll::poll(&[], 1);
                }
            };
            does(&format!("{} ", libc::SYS_clock_nanosleep));
            let send = |sig| crate::signal::send(pid, sig).expect("it lives");
            send(vocab::Sig::STOP);
            let stopped =
                || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "));
            while !stopped() {
                let _ = crate::poll::poll(&[], 1);
            }
            send(vocab::Sig::CONT);
            does(&format!("{} ", libc::SYS_restart_syscall));
            ptrace::seize(pid, false, false).expect("root may");
            ptrace::interrupt(pid).expect("it is traced");
            ptrace::wait(pid).expect("it stops");
            let regs = ptrace::regs(pid).expect("it is stopped");
            let restarts = of(pid, &regs).expect("this kernel has BTF").expect("it sleeps");
            assert_eq!((restarts.call, restarts.is_boottime), (libc::SYS_clock_nanosleep, false));
            let left = restarts.end.expect("a time") - begun * 1000;
            assert!((100 * SECOND..110 * SECOND).contains(&left), "{left}");
        });
    }
}
