//! Scheduling of the own process (sched(7)).

use crate::sys;
use vocab::Result;

/// Makes the calling thread run before all ordinary ones (SCHED_FIFO, `priority` 1 to 99). What it forks is ordinary again.
///
/// # Errors
/// EPERM without CAP_SYS_NICE, or where the thread's cpu cgroup has no real-time share.
pub fn set_fifo(priority: i32) -> Result<()> {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: `param` is a live sched_param; 0 is the calling thread.
    let ret = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &param) };
    sys::checked(ret.into(), || format!("take real-time priority {priority}")).map(drop)
}

/// Makes the calling process unreadable for other processes of its user (PR_SET_DUMPABLE 0): no ptrace, no /proc/PID/mem.
///
/// # Errors
/// `Sys`, which prctl(2) does not foresee.
pub fn set_not_dumpable() -> Result<()> {
    // SAFETY: takes a number.
    let ret = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    sys::checked(ret.into(), || "make the process unreadable".into()).map(drop)
}
