//! The calling process becomes a stand-in, or makes room for stand-ins in its own address space.

use super::{raw, run, slot_state, taking, Slot, SLOT};
use crate::relay::Relay;
use crate::sys;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use vocab::Result;

/// Slots for stand-ins: address space only; memory is taken as slots are used.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    base: u64,
    count: u32,
}

impl Slots {
    /// Reserves `wanted` slots, or fewer (never below `least`) where the address space is limited.
    pub fn reserve(wanted: u32, least: u32) -> Result<Slots> {
        let mut count = wanted;
        loop {
            let bytes = (count as usize + 1) * SLOT;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a fresh mapping at an address of the kernel's choice.
            let at =
                unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
            match sys::checked(at as i64, || format!("reserve room for {count} stand-ins")) {
                Ok(at) => {
                    let base = (at as u64).next_multiple_of(SLOT as u64);
                    // Stacks of one page each: a huge page would cost 2 MB for the first of them.
                    // SAFETY: advice on the mapping made above.
                    unsafe { libc::madvise(base as *mut _, bytes - SLOT, libc::MADV_NOHUGEPAGE) };
                    return Ok(Slots { base, count });
                }
                Err(fault) if count <= least => return Err(fault),
                Err(_) => count /= 2,
            }
        }
    }

    pub fn count(self) -> u32 {
        self.count
    }

    /// The lower end and size of slot `index` as a plain stack (for [`super::setup::Setup`]).
    pub fn stack(self, index: u32) -> (u64, u64) {
        (self.base + u64::from(index) * SLOT as u64, SLOT as u64)
    }

    fn prepare(self, index: u32, fd: i32, relay: u64) -> (u64, *mut Slot) {
        let slot = slot_state(self.base + u64::from(index) * SLOT as u64);
        // SAFETY: the slot lies in our own mapping and nothing uses it yet.
        unsafe {
            slot.write_bytes(0, 1);
            (*slot).fd = fd;
            (*slot).base = self.base;
            (*slot).length = u64::from(self.count) * SLOT as u64;
            (*slot).relay = relay;
            (*slot).index = index;
        }
        (slot as u64 & !15, slot)
    }
}

/// Notes where the slots are and which thread holds, for the signal handler.
fn note_region(slots: Slots, main: u64) {
    taking::REGION[0].store(slots.base, Ordering::Relaxed);
    taking::REGION[1].store(slots.base + u64::from(slots.count) * SLOT as u64, Ordering::Relaxed);
    taking::REGION[2].store(main, Ordering::Relaxed);
}

/// The calling process becomes a stand-in; it ends only as the daemon tells it.
///
/// Called by the main thread of `shoal run`, whose other threads relay (they must have all signals blocked but SIGTTIN and
/// SIGTTOU) and are told by `relay` what it does. It takes over all signals of the process.
///
/// # Errors
/// Only when the address space has no room for the slots.
pub fn hold_here(file: OwnedFd, relay: &'static Relay) -> Result<std::convert::Infallible> {
    let slots = Slots::reserve(65_536, 64)?;
    taking::block(!0);
    // SAFETY: prctl with numbers; a stand-in's memory is not for its user to read (GHOSTS.md, "Safety").
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    note_region(slots, u64::from(std::process::id()));
    taking::take_all_signals();
    let (stack, slot) = slots.prepare(0, file.as_raw_fd(), relay as *const Relay as u64);
    std::mem::forget(file);
    // SAFETY: the stack is the unused lower part of slot 0; this thread never comes back.
    unsafe { raw::enter(stack, run::run, slot as u64) }
}

/// Makes a first stand-in as a child that shares this process's memory; it makes the others as told.
///
/// Called once by a node's agent, which then gives out the slots but 0. The child keeps a copy of the caller's descriptors until
/// it is told to close them. Returns its PID.
///
/// # Errors
/// `Sys` from clone3(2): EEXIST when `pid` is taken.
pub fn make_first(slots: Slots, file: &OwnedFd, pid: vocab::Pid, name: &[u8; 16]) -> Result<vocab::Pid> {
    let (stack, slot) = slots.prepare(0, file.as_raw_fd(), 0);
    note_region(slots, 0);
    let mut before = 0u64;
    let all = !0u64;
    // SAFETY: live words for the mask; the child starts with all signals blocked, as `run` wants.
    unsafe {
        raw::call(
            libc::SYS_rt_sigprocmask,
            [libc::SIG_SETMASK as u64, (&raw const all) as u64, (&raw mut before) as u64, 8, 0, 0],
        );
        (*slot).name = *name;
    }
    let tid = pid.0;
    let start = slots.base;
    let args = raw::CloneArgs {
        flags: libc::CLONE_VM as u64 | libc::CLONE_FS as u64,
        exit_signal: libc::SIGCHLD as u64,
        stack: start,
        stack_size: stack - start,
        set_tid: if pid.0 != 0 { (&raw const tid) as u64 } else { 0 },
        set_tid_size: u64::from(pid.0 != 0),
        ..raw::CloneArgs::default()
    };
    // SAFETY: slot 0 is unused; `first` is code of the stand-in kind.
    let ret = unsafe { raw::clone(&args, first, slot as u64) };
    taking::block(before);
    if ret < 0 {
        return Err(vocab::Fault::sys(-ret as i32, format!("make the first stand-in as {pid}")));
    }
    Ok(vocab::Pid(ret as i32))
}

/// The first stand-in takes all signals for itself before it holds; the agent's own dispositions stay as they are.
///
/// Of the caller's descriptors it keeps the hold file alone: a stand-in with a copy of the FUSE device's would keep
/// the connection, and with it itself, alive after its daemon's death.
extern "C" fn first(slot: u64) -> ! {
    // SAFETY: the slot was prepared by `make_first` and is this process's own; the calls take numbers.
    unsafe {
        let fd = (*(slot as *const Slot)).fd as u64;
        raw::call(libc::SYS_close_range, [0, fd - 1, 0, 0, 0, 0]);
        raw::call(libc::SYS_close_range, [fd + 1, u32::MAX.into(), 0, 0, 0, 0]);
    }
    taking::take_all_signals();
    run::run(slot)
}
