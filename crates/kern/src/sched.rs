//! Scheduling of the own process (sched(7)).

use crate::others::Scheduling;
use crate::sys;
use vocab::{Pid, Result};

const FIRST: i32 = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;

/// Of the daemons, by which nodes live. Nobody of ours runs before them.
const DAEMONS: i32 = 3;
/// Of what works for one user's process that stands still.
const MOVERS: i32 = 2;
/// Of what would not run at all as an ordinary thread.
const RAISED: i32 = 1;
/// As [`FIRST`], told apart by who looks.
const RAISED_FIRST: i32 = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;

/// Makes the calling thread run before all ordinary ones (SCHED_FIFO). What it forks is ordinary again. For daemons and what they wait for
/// (docs/decisions/daemons-run-first.md).
///
/// # Errors
/// EPERM without CAP_SYS_NICE, or where the thread's cpu cgroup has no real-time share.
pub fn set_fifo() -> Result<()> {
    sys::checked(set(FIRST, DAEMONS).into(), || "take real-time priority".into()).map(drop)
}

/// The same behind the daemons: users decide how many such threads there are.
///
/// # Errors
/// As [`set_fifo`].
pub fn set_fifo_behind() -> Result<()> {
    sys::checked(set(FIRST, MOVERS).into(), || "take real-time priority".into()).map(drop)
}

/// Makes the calling thread ordinary again (SCHED_OTHER): for long work that nobody waits for.
///
/// # Errors
/// `Sys`, which sched_setscheduler(2) does not foresee for this.
pub fn set_ordinary() -> Result<()> {
    sys::checked(ordinary(Pid(0)).into(), || "be an ordinary thread again".into()).map(drop)
}

/// How a thread of ours is scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Among those of all others.
    Ordinary,
    /// Before ordinary ones since it would starve, by who looks after it.
    Raised,
    /// Before ordinary ones since it has asked for that itself.
    First,
}

/// `None` when it is gone.
pub fn standing(tid: Pid) -> Option<Standing> {
    // SAFETY: takes a number.
    match unsafe { libc::sched_getscheduler(tid.0) } {
        -1 => None,
        RAISED_FIRST => Some(Standing::Raised),
        policy if policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_OTHER => Some(Standing::Ordinary),
        _ => Some(Standing::First),
    }
}

/// Lets another thread run before all ordinary ones, behind those of ours that asked for it themselves.
///
/// # Errors
/// As [`set_fifo`].
pub fn raise(tid: Pid) -> Result<()> {
    let param = libc::sched_param { sched_priority: RAISED };
    // SAFETY: `param` is a live sched_param.
    let ret = unsafe { libc::sched_setscheduler(tid.0, RAISED_FIRST, &param) };
    sys::checked(ret.into(), || format!("raise thread {tid}")).map(drop)
}

/// Makes a thread that was raised ordinary again.
///
/// # Errors
/// `Sys`, when it is gone.
pub fn lower(tid: Pid) -> Result<()> {
    sys::checked(ordinary(tid).into(), || format!("lower thread {tid}")).map(drop)
}

/// Who may take a priority by RLIMIT_RTPRIO alone may give that back, but not SCHED_RESET_ON_FORK (sched(7)).
fn ordinary(tid: Pid) -> i32 {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: `param` is a live sched_param.
    let set = |policy| unsafe { libc::sched_setscheduler(tid.0, policy, &param) };
    match set(libc::SCHED_OTHER) {
        0 => 0,
        _ => set(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK),
    }
}

/// As [`set_fifo`], for another thread (`others::set_scheduling`).
pub fn first(nice: i32) -> Scheduling {
    Scheduling { policy: FIRST, priority: DAEMONS, nice }
}

/// Calls `clone`, whose child has the caller's policy even where [`set_fifo`] would make it an ordinary one: a caller that waits for the
/// child, or for its exec, must not wait behind every ordinary thread of the machine.
pub fn with_children_as_first<T>(clone: impl FnOnce() -> T) -> T {
    // SAFETY: takes a number; 0 is the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    if policy != FIRST {
        return clone();
    }
    let mut param = libc::sched_param { sched_priority: DAEMONS };
    // SAFETY: `param` is a live sched_param; 0 is the calling thread.
    unsafe { libc::sched_getparam(0, &mut param) };
    // Each fails only where the policy could not have been taken either; then the child is ordinary, which is right too.
    set(libc::SCHED_FIFO, param.sched_priority);
    let made = clone();
    // SAFETY: as above.
    if unsafe { libc::sched_getscheduler(0) } == libc::SCHED_FIFO {
        // Else who looks after this thread has made it an ordinary one meanwhile, and would not do so again.
        set(FIRST, param.sched_priority);
    }
    made
}

fn set(policy: i32, priority: i32) -> i32 {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: `param` is a live sched_param; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &param) }
}

/// The processor on which the calling thread is at the moment, as a set of one ([`crate::others::set_processors`]).
pub fn this_processor() -> Vec<u8> {
    // SAFETY: takes nothing, and fails on no kernel that we run on (getcpu(2)).
    let number = unsafe { libc::sched_getcpu() }.max(0) as usize;
    let mut set = vec![0; number / 64 * 8 + 8];
    set[number / 8] = 1 << (number % 8);
    set
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn policy_of_a_child(make: impl Fn(&mut Command) -> std::io::Result<std::process::Child>) -> i32 {
        let mut child = make(Command::new("sleep").arg("60")).expect("a child");
        let policy = crate::others::scheduling(Pid(child.id() as i32)).expect("a child that sleeps").policy;
        child.kill().and_then(|()| child.wait()).expect("a child of ours");
        policy
    }

    #[test]
    fn a_thread_is_ordinary_again() {
        let policies = std::thread::spawn(|| {
            // SAFETY: takes a number; 0 is the calling thread.
            let policy = || unsafe { libc::sched_getscheduler(0) };
            let before = set_fifo().is_ok().then(policy);
            set_ordinary().expect("allowed to all");
            (before, policy())
        });
        let (before, after) = policies.join().expect("the thread ends");
        assert!(before.is_none_or(|before| before == FIRST), "{before:?}");
        assert_eq!(after, libc::SCHED_OTHER);
    }

    #[test]
    fn a_thread_that_was_raised_is_lowered_and_one_that_asked_itself_is_told_apart() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = Pid(child.id() as i32);
        let mut shown = vec![standing(pid)];
        if raise(pid).is_ok() {
            shown.push(standing(pid));
            lower(pid).expect("allowed to all");
            shown.push(standing(pid));
            crate::others::set_scheduling(pid, first(0)).expect("as before");
            shown.push(standing(pid));
        }
        child.kill().and_then(|()| child.wait()).expect("a child of ours");
        shown.push(standing(pid));
        let all =
            [Some(Standing::Ordinary), Some(Standing::Raised), Some(Standing::Ordinary), Some(Standing::First), None];
        // Without the right to it nobody is raised.
        assert!(shown == all || shown == [all[0], None], "{shown:?}");
    }

    #[test]
    fn children_are_ordinary_unless_they_are_waited_for() {
        let shown = std::thread::spawn(|| {
            if set_fifo().is_err() {
                return None; // Without the right to it the daemons are ordinary, and so is all they fork.
            }
            let plain = policy_of_a_child(Command::spawn);
            let waited = policy_of_a_child(|command| with_children_as_first(|| command.spawn()));
            Some((plain, waited, policy_of_a_child(Command::spawn)))
        });
        let shown = shown.join().expect("the thread ends");
        let meant = (libc::SCHED_OTHER, libc::SCHED_FIFO, libc::SCHED_OTHER);
        assert!(shown.is_none_or(|shown| shown == meant), "{shown:?}");
    }

    #[test]
    fn who_is_made_ordinary_while_it_makes_a_child_stays_so() {
        let shown = std::thread::spawn(|| {
            if set_fifo().is_err() {
                return None;
            }
            with_children_as_first(set_ordinary).expect("allowed to all");
            // SAFETY: takes a number; 0 is the calling thread.
            Some(unsafe { libc::sched_getscheduler(0) })
        });
        let shown = shown.join().expect("the thread ends");
        assert!(shown.is_none_or(|shown| shown == libc::SCHED_OTHER), "{shown:?}");
    }

    /// As where RLIMIT_RTPRIO alone gives the right to a priority.
    #[test]
    fn who_has_no_right_to_a_priority_any_more_gives_it_back() {
        let shown = std::thread::spawn(|| {
            let had = set_fifo().is_ok();
            crate::capability::give_up().expect("allowed to all");
            set_ordinary().expect("allowed to all");
            had.then(|| standing(Pid(0)))
        });
        let shown = shown.join().expect("the thread ends");
        assert!(shown.is_none_or(|shown| shown == Some(Standing::Ordinary)), "{shown:?}");
    }
}
