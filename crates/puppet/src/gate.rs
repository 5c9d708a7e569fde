//! Where a process has a `syscall` instruction.

use kern::areas::Area;
use kern::remote_memory::RemoteMemory;
use std::sync::atomic::{AtomicU64, Ordering};
use vocab::{Fault, Result};

/// The instruction `syscall`.
const CALL: [u8; 2] = [0x0f, 0x05];
/// Where it is behind the beginning of a vdso.
static KNOWN_GATE: AtomicU64 = AtomicU64::new(0);

/// A `syscall` instruction in the vdso: where time cannot be told without the kernel it calls it (linux: arch/x86/entry/vdso).
pub(crate) fn find(memory: &RemoteMemory, areas: &[Area]) -> Result<u64> {
    let vdso = areas.iter().find(|area| area.path == b"[vdso]");
    let vdso = vdso.ok_or_else(|| Fault::new(vocab::Kind::Unsupported, "a process without a vdso"))?;
    // Mostly it is where it was found last, in another process.
    let known = KNOWN_GATE.load(Ordering::Relaxed);
    let mut two = [0; 2];
    if known + 2 <= vdso.length() && memory.read(vdso.start + known, &mut two).is_ok() && two == CALL {
        return Ok(vdso.start + known);
    }
    let mut bytes = vec![0; vdso.length() as usize];
    memory.read(vdso.start, &mut bytes)?;
    let at = bytes.windows(2).position(|two| two == CALL);
    let at = at.ok_or_else(|| Fault::new(vocab::Kind::Unsupported, "a vdso without a system call"))? as u64;
    KNOWN_GATE.store(at, Ordering::Relaxed);
    Ok(vdso.start + at)
}
