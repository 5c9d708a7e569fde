//! Renunciations of a process before it executes somebody's program: capabilities that the program is never to have, and limits of the user's own.

use crate::others::{self, Scheduling};
use crate::{capability, sys};
use vocab::{Capabilities, Pid, Result};

/// The numbers that a set of capabilities has room for.
const CAPABILITIES: u64 = 64;

/// Keeps of the bounding set no more than `most` has, and gains nothing by exec any more if `most` says so; no capability is inheritable. For root that is about to
/// become a user.
///
/// # Errors
/// `Sys` as prctl(2) and capset(2).
pub fn to(most: &Capabilities) -> Result<()> {
    let mut sets = capability::sets();
    sets.iter_mut().for_each(|half| half[2] = 0);
    capability::set(&sets)?;
    for capability in (0..CAPABILITIES).filter(|capability| most.bounding & (1 << capability) == 0) {
        // SAFETY: takes numbers. The answer is 1 for a capability that is still there, and a failure for one that this kernel does not know.
        let there = unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability, 0, 0, 0) } == 1;
        if there {
            // SAFETY: takes numbers.
            let ret = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
            sys::checked(ret.into(), || format!("drop capability {capability}"))?;
        }
    }
    if most.no_new_privs {
        // SAFETY: takes numbers.
        let ret = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        sys::checked(ret.into(), || "set no_new_privs".into())?;
    }
    Ok(())
}

/// Takes this resource limit; a limit above what this process may have becomes what it may have.
pub fn take_limit(resource: u32, (soft, hard): (u64, u64)) {
    let own = Pid::NONE;
    if others::set_limit(own, resource, (soft, hard)).is_err() {
        let most = others::limit(own, resource).map_or(0, |(_, most)| most);
        // Lowering needs no right.
        let _ = others::set_limit(own, resource, (soft.min(most), hard.min(most)));
    }
}

/// Becomes an ordinary process of this niceness.
///
/// # Errors
/// `Sys` as sched_setscheduler(2) and setpriority(2).
pub fn take_niceness(nice: i32) -> Result<()> {
    let ordinary = Scheduling { policy: libc::SCHED_OTHER, priority: 0, nice };
    others::set_scheduling(Pid(0), ordinary).map_err(|errno| vocab::Fault::sys(errno, format!("take niceness {nice}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_is_gone() {
        crate::testing::in_namespace(|proc| {
            let most = Capabilities { inheritable: !0, bounding: 1 << capability::KILL, no_new_privs: true };
            to(&most).expect("root");
            take_limit(libc::RLIMIT_NOFILE, (50, 60));
            take_niceness(7).expect("nicer");
            let own = Pid(std::process::id() as i32);
            let has = proc.status(own).expect("this process").capabilities;
            let bounding = has.bounding & !(1 << capability::KILL);
            assert_eq!((bounding, has.inheritable, has.no_new_privs), (0, 0, true));
            assert_eq!(others::limit(Pid::NONE, libc::RLIMIT_NOFILE), Ok((50, 60)));
            assert_eq!(crate::own::nice(), Ok(7));
        });
    }
}
