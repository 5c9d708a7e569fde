//! How a stand-in takes signals: its mask, its dispositions, its handler.

use super::room::Room;
use super::{raw, RawInfo, Slot};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// `struct sigaction` as the kernel has it (not libc's).
#[repr(C)]
struct KernelAction {
    handler: u64,
    flags: u64,
    restorer: u64,
    mask: u64,
}

const SA_RESTORER: u64 = 0x0400_0000;
const ALL: u64 = !0;

/// Blocks all signals of the calling thread, or none.
pub(super) fn block(mask: u64) {
    // SAFETY: SIG_SETMASK from a live 8-byte word.
    unsafe { raw::call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as u64, (&raw const mask) as u64, 0, 8, 0, 0]) };
}

/// Sets the disposition of `sig` for this process: 0 default, 1 ignore, or a handler's address.
pub(super) fn disposition(sig: u64, handler: u64) -> i64 {
    let taken = (libc::SA_SIGINFO | libc::SA_ONSTACK) as u64;
    act_on(sig, handler, if handler > 1 { taken } else { 0 })
}

fn act_on(sig: u64, handler: u64, flags: u64) -> i64 {
    let flags = SA_RESTORER | flags;
    let action = KernelAction { handler, flags, restorer: raw::restorer(), mask: ALL };
    // SAFETY: the kernel reads the action from a live struct; a handler is `on_signal`, which fits SA_SIGINFO.
    unsafe { raw::call(libc::SYS_rt_sigaction, [sig, (&raw const action) as u64, 0, 8, 0, 0]) }
}

/// Lets [`on_signal`] take every signal that can be taken.
pub(super) fn take_all_signals() {
    for sig in 1..=64u64 {
        match sig as i32 {
            libc::SIGKILL | libc::SIGSTOP => {}
            libc::SIGCHLD => {
                // The kernel's own SIGCHLD is dropped at first (`Slot::children`), so that of stops need not be made.
                let flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NOCLDSTOP;
                act_on(sig, on_signal as *const () as u64, flags as u64);
            }
            _ => {
                disposition(sig, on_signal as *const () as u64);
            }
        }
    }
}

/// The highest slot ever used in this address space.
///
/// # Safety
/// `room` is that of a live family: its slot 0 is never given back.
pub(super) unsafe fn top(room: &Room) -> &'static AtomicU32 {
    static NONE: AtomicU32 = AtomicU32::new(0);
    // SAFETY: by the caller's promise; every access to it is this one.
    room.slot(0).map_or(&NONE, |first| unsafe { AtomicU32::from_ptr(&raw mut (*first).top) })
}

/// The room of this address space, so that the handler can tell a relay thread's stack from a stand-in's: base, count, main thread.
static REGION: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Notes where the stand-ins of this address space are and which thread holds, for the signal handler.
pub(super) fn note_region(room: Room, main: u64) {
    REGION[0].store(room.base(), Ordering::Relaxed);
    REGION[1].store(room.count().into(), Ordering::Relaxed);
    REGION[2].store(main, Ordering::Relaxed);
}

/// Whose large stack an address lies in.
fn slot_of(stack: u64) -> Option<*mut Slot> {
    Room::new(REGION[0].load(Ordering::Relaxed), REGION[1].load(Ordering::Relaxed) as u32).whose(stack)
}

/// Takes one signal: notes its siginfo in the slot and blocks all others until the next hold. There is room for two: one that may be
/// handed over already, and one more.
///
/// In a relay thread (its stack is no slot) the signal is sent on to the main thread, which holds.
// SAFETY: (of a call) only the kernel calls it, as a SA_SIGINFO handler (sigaction(2)).
pub(super) unsafe extern "C" fn on_signal(sig: i32, info: *const RawInfo, context: *mut u64) {
    let Some(slot) = slot_of((&raw const sig) as u64) else {
        let main = REGION[2].load(Ordering::Relaxed);
        crate::relay::RELAY.on_signal(sig);
        // SAFETY: tgkill takes numbers.
        unsafe { raw::call(libc::SYS_tgkill, [main, main, sig as u64, 0, 0, 0]) };
        return;
    };
    // SAFETY: the kernel gave us its siginfo (128 bytes) and its ucontext, and the slot is this stand-in's own.
    unsafe {
        // The body hears of its children from its own kernel. A SIGCHLD that a process has sent is a signal like any other.
        if sig == libc::SIGCHLD && (*info).code > 0 && (&raw const (*slot).children).read_volatile() == 0 {
            return;
        }
        if (*info).code > 0
            && (*info).code != 0x80
            && matches!(sig, libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE)
        {
            disposition(sig as u64, 0);
            return;
        }
        if let Some(relay) = ((*slot).relay as *const crate::relay::Relay).as_ref() {
            relay.on_signal(sig);
        }
        if (&raw const (*slot).taken).read_volatile() == 0 {
            (&raw mut (*slot).info).write_volatile(*info);
            (&raw mut (*slot).seq).write_volatile((*slot).seq.wrapping_add(1));
            (&raw mut (*slot).taken).write_volatile(1);
        } else {
            (&raw mut (*slot).next_info).write_volatile(*info);
            (&raw mut (*slot).next_taken).write_volatile(1);
        }
        // struct ucontext (asm/ucontext.h): flags, link, stack (3 words), sigcontext (32 words), sigmask.
        const RIP: usize = 5 + 16;
        const SIGMASK: usize = 5 + 32;
        context.add(SIGMASK).write(ALL);
        let at = context.add(RIP).read();
        for (first, last, abort) in raw::windows() {
            if first <= at && at <= last {
                context.add(RIP).write(abort);
            }
        }
    }
}
