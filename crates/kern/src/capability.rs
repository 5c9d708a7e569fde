//! Capabilities (capabilities(7)): their numbers, and which the calling thread has.

use crate::sys::checked;
use vocab::Result;

/// linux/capability.h
pub(crate) const DAC_READ_SEARCH: u32 = 2;
pub const KILL: u32 = 5;
pub const SETGID: u32 = 6;
pub const SETUID: u32 = 7;
pub const SETPCAP: u32 = 8;
pub const SYS_CHROOT: u32 = 18;
pub const SYS_ADMIN: u32 = 21;
pub const SYS_RESOURCE: u32 = 24;
pub const CHECKPOINT_RESTORE: u32 = 40;

/// Is it one of this set, as /proc/PID/status shows one (proc_pid_status(5))?
pub const fn has(set: u64, capability: u32) -> bool {
    set >> capability & 1 == 1
}

/// May the calling thread make processes of numbers that it chooses, in the PID namespace of the machine's own user namespace? CAP_CHECKPOINT_RESTORE or
/// CAP_SYS_ADMIN among its permitted capabilities (linux: `checkpoint_restore_ns_capable`).
pub fn may_choose_pids() -> bool {
    let permitted = permitted();
    has(permitted, SYS_ADMIN) || has(permitted, CHECKPOINT_RESTORE)
}

/// struct __user_cap_header_struct of version 3 for ourselves.
const HEAD: [u32; 2] = [0x2008_0522, 0];

/// Of the calling thread: effective, permitted, inheritable (struct __user_cap_data_struct), of the lower half and of the upper.
pub(crate) type Sets = [[u32; 3]; 2];

/// None where they cannot be read.
pub(crate) fn sets() -> Sets {
    let mut sets = Sets::default();
    // SAFETY: both structs live through the call, and have the layout of version 3.
    let ret = unsafe { libc::syscall(libc::SYS_capget, HEAD.as_ptr(), sets.as_mut_ptr()) };
    if ret == 0 {
        sets
    } else {
        Sets::default()
    }
}

pub(crate) fn set(sets: &Sets) -> Result<()> {
    // SAFETY: both structs live through the call, and have the layout of version 3.
    let ret = unsafe { libc::syscall(libc::SYS_capset, HEAD.as_ptr(), sets.as_ptr()) };
    checked(ret, || "set capabilities".into()).map(drop)
}

/// The permitted capabilities of the calling thread; none where they cannot be read.
pub(crate) fn permitted() -> u64 {
    let sets = sets();
    u64::from(sets[0][1]) | u64::from(sets[1][1]) << 32
}

/// Gives up all capabilities, for good.
///
/// # Errors
/// `Sys` as capset(2), which is not expected.
pub fn give_up() -> Result<()> {
    keep_of(0)
}

/// Gives up all capabilities but that to signal everybody (CAP_KILL), which stays if it is there. Of the calling thread, and of those that it makes later.
///
/// # Errors
/// As [`give_up`].
pub fn keep_to_signal() -> Result<()> {
    keep_of(permitted() & 1 << KILL)
}

fn keep_of(kept: u64) -> Result<()> {
    let [low, high] = [kept as u32, (kept >> 32) as u32];
    set(&[[low, low, 0], [high, high, 0]])
}
