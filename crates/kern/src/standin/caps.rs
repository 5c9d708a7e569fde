//! A stand-in's capabilities: which are in effect is who it stands for.

use super::raw;

const CAP_CHECKPOINT_RESTORE: u32 = 40;

/// All permitted capabilities take effect.
pub(super) fn raise() {
    change_effective(|permitted| permitted);
}

/// For root all permitted capabilities are in effect, for others what a clone with a chosen PID needs.
pub(super) fn lower() {
    // SAFETY: geteuid takes nothing.
    let root = unsafe { raw::call(libc::SYS_geteuid, [0; 6]) } == 0;
    let kept = if root { [!0, !0] } else { [0, 1 << (CAP_CHECKPOINT_RESTORE - 32)] };
    change_effective(|permitted| [permitted[0] & kept[0], permitted[1] & kept[1]]);
}

fn change_effective(which: impl Fn([u32; 2]) -> [u32; 2]) {
    // Two of struct __user_cap_data_struct: effective, permitted, inheritable.
    let mut caps = [[0u32; 3]; 2];
    let head = [0x2008_0522u32, 0];
    // SAFETY: capget and capset with live structs of version 3.
    unsafe {
        raw::call(libc::SYS_capget, [(&raw const head) as u64, (&raw mut caps) as u64, 0, 0, 0, 0]);
        [caps[0][0], caps[1][0]] = which([caps[0][1], caps[1][1]]);
        raw::call(libc::SYS_capset, [(&raw const head) as u64, (&raw const caps) as u64, 0, 0, 0, 0]);
    }
}
