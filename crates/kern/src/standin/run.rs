//! The loop of a stand-in: hand over, hold, do as told.

use super::room::{on_large_stack, take_signals_on_large_stack};
use super::taking::{block, top};
use super::{act, raw, Hold, Op, Slot};
use std::sync::atomic::Ordering;

const EINTR: i64 = -4;
const ALL: u64 = !0;

/// The life of a stand-in, on its small stack. All signals are blocked when it starts.
pub(super) extern "C" fn run(slot: u64) -> ! {
    let slot = slot as *mut Slot;
    // SAFETY: the slot is this stand-in's own; only it and its signal handler touch it, the handler by volatile writes.
    unsafe {
        take_signals_on_large_stack(slot);
        if (*slot).name[0] != 0 {
            raw::call(libc::SYS_prctl, [libc::PR_SET_NAME as u64, (&raw const (*slot).name) as u64, 0, 0, 0, 0]);
        }
        loop {
            if (&raw const (*slot).next_taken).read_volatile() == 0 {
                block(0);
            }
            if hold_once(slot) {
                on_large_stack(slot, act_here);
            }
        }
    }
}

extern "C" fn act_here(slot: *mut Slot) {
    // SAFETY: only `run` calls it, with its own slot.
    unsafe { act::act(slot, run) };
}

/// Holds until there is a command; false when it was a signal instead.
// SAFETY: (of a call) `slot` is the calling stand-in's own.
unsafe fn hold_once(slot: *mut Slot) -> bool {
    static NOTHING: u32 = 0;
    // SAFETY: as in `run`.
    unsafe {
        let hold: *mut Hold = &raw mut (*slot).hold;
        let handing = (&raw const (*slot).taken).read_volatile() != 0;
        let closed = (&raw const (*slot).next_taken).read_volatile() != 0;
        (*hold).signals = match (handing, closed) {
            (false, _) => 0,
            (true, true) => Hold::CLOSED,
            (true, false) => Hold::OPEN,
        };
        if handing {
            (*hold).seq = (&raw const (*slot).seq).read_volatile();
            (*hold).info = (&raw const (*slot).info).read_volatile();
        }
        (*hold).slots = (*slot).room.count();
        (*hold).slot = (*slot).index;
        (*hold).top = top(&(*slot).room).load(Ordering::SeqCst);
        // A signal that comes from here on, before the kernel has the call, is to be told by the next one.
        let guard = match (handing, closed) {
            (false, _) => &raw const (*slot).taken,
            (true, false) => &raw const (*slot).next_taken,
            (true, true) => &raw const NOTHING,
        };
        let ret = raw::hold((*slot).fd, hold, guard);
        block(ALL);
        if ret == EINTR {
            return false;
        }
        if ret < 0 {
            act::abandoned(slot);
        }
        if handing {
            handed_over(slot);
        }
        (*hold).op != Op::Ack as u32
    }
}

/// The signal in the slot is: on with the next one, if there is one.
// SAFETY: (of a call) `slot` is the calling stand-in's own, and all signals are blocked.
unsafe fn handed_over(slot: *mut Slot) {
    // SAFETY: as in `run`.
    unsafe {
        let more = (&raw const (*slot).next_taken).read_volatile();
        if more != 0 {
            (&raw mut (*slot).info).write_volatile((&raw const (*slot).next_info).read_volatile());
            (&raw mut (*slot).seq).write_volatile((*slot).seq.wrapping_add(1));
        }
        (&raw mut (*slot).next_taken).write_volatile(0);
        (&raw mut (*slot).taken).write_volatile(more);
    }
}
