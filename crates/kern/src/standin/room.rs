//! Where the stand-ins of one address space live: for each a [`Slot`] with a small stack, on which it holds, and a large one, on
//! which it does what it is told and takes signals.
//!
//! Almost all of them hold almost always, and what is not touched costs nothing: two small stacks share a page. Signals come on the large one
//! (sigaltstack(2)), since a signal frame with AVX-512 state takes 3.8 KB.

use super::{raw, Slot};

/// Bytes of a large stack.
const LARGE: u64 = 16 * 1024;
/// Bytes of a slot: a small stack, and the [`Slot`] at its upper end.
const SMALL: u64 = 2 * 1024;

/// The large stacks of all, then the slots of all.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Room {
    base: u64,
    count: u64,
}

impl Room {
    /// Bytes that `count` stand-ins need; they begin at a multiple of [`Room::ALIGNED`].
    pub(super) fn bytes(count: u32) -> usize {
        (u64::from(count) * (LARGE + SMALL)) as usize
    }

    pub(super) const ALIGNED: u64 = LARGE;

    /// In memory at `base` that nothing else uses, [`Room::bytes`] of it.
    pub(super) const fn new(base: u64, count: u32) -> Room {
        Room { base, count: count as u64 }
    }

    pub(super) fn count(&self) -> u32 {
        self.count as u32
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// `None` when there is no such slot.
    pub(super) fn slot(&self, index: u64) -> Option<*mut Slot> {
        let after = self.base + self.count * LARGE + (index + 1) * SMALL;
        (index < self.count).then_some((after - size_of::<Slot>() as u64) as *mut Slot)
    }

    /// Lower end and bytes of a large stack.
    pub(super) fn large_stack(&self, index: u64) -> (u64, u64) {
        (self.base + index * LARGE, LARGE)
    }

    /// The same of a small one; its upper end is the [`Slot`].
    pub(super) fn small_stack(&self, index: u64) -> (u64, u64) {
        (self.base + self.count * LARGE + index * SMALL, SMALL - size_of::<Slot>() as u64)
    }

    /// Whose large stack an address lies in.
    pub(super) fn whose(&self, address: u64) -> Option<*mut Slot> {
        self.slot(address.checked_sub(self.base)? / LARGE)
    }
}

/// From now on the calling stand-in takes signals on its large stack.
// SAFETY: (of a call) `slot` is the calling stand-in's own, and it runs on its small stack.
pub(super) unsafe fn take_signals_on_large_stack(slot: *mut Slot) {
    // struct stack_t: base, flags, size.
    let (base, bytes) = unsafe { (*slot).room.large_stack((*slot).index.into()) };
    let stack = [base, 0, bytes];
    // SAFETY: the stack is this stand-in's own, and read from a live struct.
    unsafe { raw::call(libc::SYS_sigaltstack, [(&raw const stack) as u64, 0, 0, 0, 0, 0]) };
}

/// Runs `code` on the large stack. All signals are blocked meanwhile: their frames go to its upper end.
// SAFETY: (of a call) `slot` is the calling stand-in's own, and it runs on its small stack.
pub(super) unsafe fn on_large_stack(slot: *mut Slot, code: extern "C" fn(*mut Slot)) {
    // SAFETY: as for the caller.
    unsafe {
        let (base, bytes) = (*slot).room.large_stack((*slot).index.into());
        raw::on_stack(base + bytes, code, slot);
    }
}

const _: () = assert!(size_of::<Slot>() < SMALL as usize / 4 && size_of::<Slot>() & 15 == 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_and_slots_do_not_overlap_and_tell_whose_they_are() {
        let room = Room::new(Room::ALIGNED * 3, 5);
        let mut parts: Vec<(u64, u64)> = (0..5).flat_map(|i| [room.large_stack(i), room.small_stack(i)]).collect();
        parts.extend((0..5).map(|i| (room.slot(i).expect("a slot") as u64, size_of::<Slot>() as u64)));
        parts.sort_unstable();
        assert!(parts.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "{parts:?}");
        let end = parts.last().map(|(at, bytes)| at + bytes);
        assert_eq!(end, Some(Room::ALIGNED * 3 + Room::bytes(5) as u64));
        for i in 0..5 {
            let (at, bytes) = room.large_stack(i);
            assert_eq!((room.whose(at), room.whose(at + bytes - 1)), (room.slot(i), room.slot(i)));
        }
        let elsewhere = [0, Room::ALIGNED * 3 - 1, room.small_stack(0).0].map(|at| room.whose(at));
        assert!(elsewhere.iter().all(Option::is_none) && room.slot(5).is_none());
    }
}
