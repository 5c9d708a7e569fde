//! The calling process becomes a stand-in, or makes room for stand-ins in its own address space.

use super::room::Room;
use super::{raw, run, taking, Slot};
use crate::relay::Relay;
use crate::sys;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use vocab::{Fault, Result};

/// Slots for stand-ins: address space only; memory is taken as slots are used.
#[derive(Clone, Copy, Debug)]
pub struct Slots(Room);

impl Slots {
    /// Reserves `wanted` slots, or fewer (never below `least`) where the address space is limited.
    pub fn reserve(wanted: u32, least: u32) -> Result<Slots> {
        let mut count = wanted;
        loop {
            let bytes = Room::bytes(count) + Room::ALIGNED as usize;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a fresh mapping at an address of the kernel's choice.
            let at =
                unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
            match sys::checked(at as i64, || format!("reserve room for {count} stand-ins")) {
                Ok(at) => {
                    let base = (at as u64).next_multiple_of(Room::ALIGNED);
                    // Of each stack a page at most is touched: a huge page would cost 2 MB for the first of them.
                    // SAFETY: advice on the mapping made above.
                    unsafe { libc::madvise(base as *mut _, Room::bytes(count), libc::MADV_NOHUGEPAGE) };
                    return Ok(Slots(Room::new(base, count)));
                }
                Err(fault) if count <= least => return Err(fault),
                Err(_) => count /= 2,
            }
        }
    }

    pub fn count(self) -> u32 {
        self.0.count()
    }

    /// The first slot, made ready: it, and lower end and bytes of its small stack.
    fn first(self, fd: i32, relay: u64) -> Result<(*mut Slot, (u64, u64))> {
        let Slots(room) = self;
        let slot = room.slot(0).ok_or_else(|| Fault::bug("no slot at all"))?;
        // SAFETY: the slot lies in our own mapping and nothing uses it yet.
        unsafe {
            slot.write_bytes(0, 1);
            (*slot).fd = fd;
            (*slot).room = room;
            (*slot).relay = relay;
        }
        Ok((slot, room.small_stack(0)))
    }
}

/// The descriptor of [`hold_in_place`].
const PLACE: i32 = 3;

/// The calling process, which has one thread and all of whose signals are blocked, becomes a stand-in that relays nothing. Its descriptor 3 is
/// the directory of the hold file.
///
/// # Errors
/// EACCES when the daemon does not expect it; when the address space has no room for the slots.
pub fn hold_in_place() -> Result<std::convert::Infallible> {
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as u64;
    // SAFETY: the path is live; the descriptor is nobody's value.
    let file = unsafe {
        let file = raw::call(libc::SYS_openat, [PLACE as u64, c"hold".as_ptr() as u64, flags, 0, 0, 0]);
        raw::call(libc::SYS_close, [PLACE as u64, 0, 0, 0, 0, 0]);
        OwnedFd::from_raw_fd(sys::checked(file, || "open the hold file".into())? as i32)
    };
    begin(file, 0)
}

/// The calling process becomes a stand-in; it ends only as the daemon tells it.
///
/// Called by the main thread of `shoal run`, whose other threads relay (they must have all signals blocked but SIGTTIN and
/// SIGTTOU) and are told by `relay` what it does. It takes over all signals of the process.
///
/// # Errors
/// Only when the address space has no room for the slots.
pub fn hold_here(file: OwnedFd, relay: &'static Relay) -> Result<std::convert::Infallible> {
    begin(file, relay as *const Relay as u64)
}

fn begin(file: OwnedFd, relay: u64) -> Result<std::convert::Infallible> {
    let slots = Slots::reserve(65_536, 64)?;
    let (slot, (stack, bytes)) = slots.first(file.as_raw_fd(), relay)?;
    taking::block(!0);
    // SAFETY: prctl with numbers; a stand-in's memory is not for its user to read (docs/mechanisms.md, "Safety").
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    taking::note_region(slots.0, u64::from(std::process::id()));
    taking::take_all_signals();
    std::mem::forget(file);
    // Nothing is said from here on, and standard error must not stay open in the stand-ins that are made.
    // SAFETY: takes a number; nobody owns descriptor 2 as a value.
    unsafe { raw::call(libc::SYS_close, [libc::STDERR_FILENO as u64, 0, 0, 0, 0, 0]) };
    // SAFETY: the stack is that of slot 0, unused; this thread never comes back.
    unsafe { raw::enter(stack + bytes, run::run, slot as u64) }
}

/// Makes a first stand-in as a child that shares this process's memory; it opens the hold file at `path`, and makes the others as told.
///
/// Called once by a node's agent, which then lets it open that file and gives out the slots but 0. Returns its PID.
///
/// # Errors
/// `Sys` from clone3(2): EEXIST when `pid` is taken. `Refused` for a path that is no path.
pub fn make_first(slots: Slots, path: &Path, pid: vocab::Pid, name: &[u8; 16]) -> Result<vocab::Pid> {
    let (slot, (stack, stack_size)) = slots.first(NO_FILE, 0)?;
    let path = sys::cstring(path.as_os_str().as_encoded_bytes())?;
    let bytes = path.as_bytes_with_nul();
    let (place, room) = slots.0.large_stack(0);
    if bytes.len() as u64 > room / 2 {
        return Err(Fault::refused(format!("make the first stand-in: a path of {} bytes", bytes.len())));
    }
    taking::note_region(slots.0, 0);
    let mut before = 0u64;
    let all = !0u64;
    // SAFETY: live words for the mask; the child starts with all signals blocked, as `run` wants. Slot 0 and its stacks are unused.
    unsafe {
        raw::call(
            libc::SYS_rt_sigprocmask,
            [libc::SIG_SETMASK as u64, (&raw const all) as u64, (&raw mut before) as u64, 8, 0, 0],
        );
        (*slot).name = *name;
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), place as *mut u8, bytes.len());
    }
    let tid = pid.0;
    let args = raw::CloneArgs {
        flags: libc::CLONE_VM as u64 | libc::CLONE_FS as u64,
        exit_signal: libc::SIGCHLD as u64,
        stack,
        stack_size,
        set_tid: if pid.0 != 0 { (&raw const tid) as u64 } else { 0 },
        set_tid_size: u64::from(pid.0 != 0),
        ..raw::CloneArgs::default()
    };
    // SAFETY: slot 0 is unused; `first` is code of the stand-in kind.
    let ret = unsafe { raw::clone(&args, first, slot as u64) };
    taking::block(before);
    if ret < 0 {
        return Err(Fault::sys(-ret as i32, format!("make the first stand-in as {pid}")));
    }
    Ok(vocab::Pid(ret as i32))
}

/// Of a first stand-in that has not opened the hold file.
const NO_FILE: i32 = -1;

/// The first stand-in takes all signals for itself before it holds; the agent's own dispositions stay as they are. Its path lies at the lower end
/// of its large stack, which it does not use before it holds.
///
/// It lets go of all of the agent's descriptors before it opens the hold file, which the agent itself never has open.
//
// ODDITY(flush-before-release): a dying process flushes its FUSE files (close_files) before it lets go of the device
// (exit_task_work), so whoever has a file of a mount open and is, or keeps open, that mount's server can never end once the server is killed.
// linux: do_exit. prog: tests/prog/odd_flush_self.c
extern "C" fn first(slot: u64) -> ! {
    // SAFETY: the slot was prepared by `make_first` and is this process's own, as is its large stack; the calls take numbers and that path.
    unsafe {
        let slot = slot as *mut Slot;
        raw::call(libc::SYS_close_range, [0, u32::MAX.into(), 0, 0, 0, 0]);
        let (path, _) = (*slot).room.large_stack(0);
        let flags = (libc::O_RDWR | libc::O_CLOEXEC) as u64;
        let fd = raw::call(libc::SYS_openat, [libc::AT_FDCWD as u64, path, flags, 0, 0, 0]);
        if fd < 0 {
            raw::call(libc::SYS_exit_group, [-fd as u64, 0, 0, 0, 0, 0]);
        }
        (*slot).fd = fd as i32;
    }
    taking::take_all_signals();
    run::run(slot)
}
