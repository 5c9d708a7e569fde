//! What a thread has forbidden or asked of the processor for itself alone, and has told prctl(2) or arch_prctl(2).

use image::thread::MODES;
use puppet::script::Outcome;
use puppet::{Script, Slot};
use vocab::{Fault, Result};

/// Kinds of speculation, the first numbers of [`MODES`].
const SPECULATION: u64 = 3;
const TSC: u32 = 3;
const MEMORY_FAILS: u32 = 4;
const CPUID: u32 = 5;

/// PR_SPEC_PRCTL: it can be set at all. PR_SPEC_ENABLE and what forbids it are what can be set.
const CAN_BE_SET: u64 = 1;
const FORBIDDEN: u64 = 0b11100;

/// linux: `PR_MCE_KILL_SET`, `PR_MCE_KILL_DEFAULT`.
const SET: u64 = 1;
const DEFAULT: i64 = 2;

/// Codes of arch_prctl (linux: asm/prctl.h).
const ARCH_GET_CPUID: u64 = 0x1011;
const ARCH_SET_CPUID: u64 = 0x1012;

pub(crate) struct Asked {
    speculation: [Slot; SPECULATION as usize],
    tsc: u64,
    memory_fails: Slot,
    cpuid: Slot,
}

pub(crate) fn ask(script: &mut Script) -> Asked {
    let speculation =
        [0, 1, 2].map(|kind| script.attempt(libc::SYS_prctl, &[libc::PR_GET_SPECULATION_CTRL as u64, kind, 0, 0, 0]));
    let tsc = script.room(4);
    script.attempt(libc::SYS_prctl, &[libc::PR_GET_TSC as u64, tsc]);
    Asked {
        speculation,
        tsc,
        memory_fails: script.attempt(libc::SYS_prctl, &[libc::PR_MCE_KILL_GET as u64, 0, 0, 0, 0]),
        cpuid: script.attempt(libc::SYS_arch_prctl, &[ARCH_GET_CPUID]),
    }
}

pub(crate) fn told(outcome: &Outcome, asked: &Asked) -> Result<Vec<(u32, u64)>> {
    let mut modes = Vec::new();
    for (kind, slot) in (0..).zip(&asked.speculation) {
        let told = outcome.result(*slot).max(0) as u64;
        if told & CAN_BE_SET != 0 && told & FORBIDDEN != 0 {
            modes.push((kind, told & FORBIDDEN));
        }
    }
    if outcome.value::<i32>(asked.tsc)? == libc::PR_TSC_SIGSEGV {
        modes.push((TSC, libc::PR_TSC_SIGSEGV as u64));
    }
    let how = outcome.result(asked.memory_fails);
    if (0..DEFAULT).contains(&how) {
        modes.push((MEMORY_FAILS, how as u64));
    }
    if outcome.result(asked.cpuid) == 0 {
        modes.push((CPUID, 0));
    }
    Ok(modes)
}

/// # Errors
/// `Wire` for one that is not known.
pub(crate) fn set(script: &mut Script, modes: &[(u32, u64)]) -> Result<()> {
    for &(mode, value) in modes {
        if !MODES.contains(&mode) {
            return Err(Fault::wire(format!("mode {mode} of a thread")));
        }
        let (what, number, args) = match mode {
            TSC => {
                ("forbid reading the time stamp counter", libc::SYS_prctl, [libc::PR_SET_TSC as u64, value, 0, 0, 0])
            }
            MEMORY_FAILS => {
                let args = [libc::PR_MCE_KILL as u64, SET, value, 0, 0];
                ("say when memory that fails kills it", libc::SYS_prctl, args)
            }
            CPUID => ("forbid the instruction CPUID", libc::SYS_arch_prctl, [ARCH_SET_CPUID, value, 0, 0, 0]),
            kind => {
                let args = [libc::PR_SET_SPECULATION_CTRL as u64, kind.into(), value, 0, 0];
                ("forbid speculation", libc::SYS_prctl, args)
            }
        };
        script.call(what, number, &args);
    }
    Ok(())
}
