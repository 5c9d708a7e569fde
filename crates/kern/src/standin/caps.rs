//! A stand-in's capabilities: which are in effect is who it stands for.

use super::raw;
use crate::capability::CHECKPOINT_RESTORE;

/// More than any kernel has (a set is 64 bits).
const CAPABILITIES: u64 = 64;

/// All permitted capabilities take effect.
pub(super) fn raise() {
    change_effective(|permitted| permitted);
}

/// Of the permitted capabilities those of this set are in effect, with bit n for capability n. 0, or `-errno`.
pub(super) fn only(which: u64) -> i64 {
    let kept = [which as u32, (which >> 32) as u32];
    change(|[_, permitted, inheritable]| {
        [[0, 1].map(|half: usize| permitted[half] & kept[half]), permitted, inheritable]
    })
}

/// For root all permitted capabilities are in effect, for others what a clone with a chosen PID needs.
pub(super) fn lower() {
    // SAFETY: geteuid takes nothing.
    let root = unsafe { raw::call(libc::SYS_geteuid, [0; 6]) } == 0;
    let kept = if root { [!0, !0] } else { [0, 1 << (CHECKPOINT_RESTORE - 32)] };
    change_effective(|permitted| [permitted[0] & kept[0], permitted[1] & kept[1]]);
}

/// All permitted capabilities take effect, and stay so when a program is executed that has none of its own (capabilities(7), ambient).
pub(super) fn keep_across_exec() {
    change(|[_, permitted, _]| [permitted; 3]);
    for capability in 0..CAPABILITIES {
        raise_ambient(capability);
    }
}

/// Leaves `bounding` of the bounding set, and makes `inheritable` the inheritable set, but for what is not there to be had. 0, or `-errno`.
///
/// Who has no CAP_SETPCAP (a `shoal run` on this node, which is a user's) has lost these capabilities already, or they cannot be taken from it.
pub(super) fn bound(inheritable: u64, bounding: u64) -> i64 {
    let wanted = [inheritable as u32, (inheritable >> 32) as u32];
    let ret = change(|[effective, permitted, before]| {
        [effective, permitted, [0, 1].map(|half: usize| wanted[half] & (permitted[half] | before[half]))]
    });
    if ret < 0 {
        return ret;
    }
    for capability in (0..CAPABILITIES).filter(|capability| bounding & (1 << capability) == 0) {
        // SAFETY: both take numbers. PR_CAPBSET_READ says 1 for one that is still there, and fails for one that this kernel does not know.
        unsafe {
            if raw::call(libc::SYS_prctl, [libc::PR_CAPBSET_READ as u64, capability, 0, 0, 0, 0]) == 1 {
                let ret = raw::call(libc::SYS_prctl, [libc::PR_CAPBSET_DROP as u64, capability, 0, 0, 0, 0]);
                if ret < 0 {
                    return ret;
                }
            }
        }
    }
    0
}

/// No capability is in effect any more, and none outlives the exec of a program of a user's (capabilities(7)). 0, or `-errno`.
///
/// The permitted ones stay until then, for as long as the caller has the agent's memory: a user may neither trace nor schedule a process of theirs that is
/// permitted more than they are (linux: `cap_ptrace_access_check`, `cap_safe_nice`), whatever that memory's dumpable flag says meanwhile.
pub(super) fn lay_down() -> i64 {
    change(|[_, permitted, _]| [[0; 2], permitted, [0; 2]])
}

fn raise_ambient(capability: u64) {
    // SAFETY: takes numbers. It fails for those that are not permitted.
    unsafe {
        raw::call(
            libc::SYS_prctl,
            [libc::PR_CAP_AMBIENT as u64, libc::PR_CAP_AMBIENT_RAISE as u64, capability, 0, 0, 0],
        );
    }
}

fn change_effective(which: impl Fn([u32; 2]) -> [u32; 2]) {
    change(|[_, permitted, inheritable]| [which(permitted), permitted, inheritable]);
}

/// Effective, permitted and inheritable ones become what `which` makes of them, each in two halves. 0, or `-errno`.
fn change(which: impl Fn([[u32; 2]; 3]) -> [[u32; 2]; 3]) -> i64 {
    // Two of struct __user_cap_data_struct: effective, permitted, inheritable.
    let mut caps = [[0u32; 3]; 2];
    let head = [0x2008_0522u32, 0];
    // SAFETY: capget and capset with live structs of version 3.
    unsafe {
        raw::call(libc::SYS_capget, [(&raw const head) as u64, (&raw mut caps) as u64, 0, 0, 0, 0]);
        let [low, high] = caps;
        let [effective, permitted, inheritable] = which([[low[0], high[0]], [low[1], high[1]], [low[2], high[2]]]);
        caps = [0, 1].map(|half: usize| [effective[half], permitted[half], inheritable[half]]);
        raw::call(libc::SYS_capset, [(&raw const head) as u64, (&raw const caps) as u64, 0, 0, 0, 0])
    }
}
