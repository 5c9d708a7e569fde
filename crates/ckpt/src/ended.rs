//! Why something that was tried with a process has failed, if that is because it ends.

use kern::pending;
use kern::proc::{exists, root, Proc, Stat};
use vocab::errno::{ENOENT, ESRCH};
use vocab::{Fault, Kind, Pid, Sig};

/// Of a process that has ended, or was killed and is about to, whatever was tried with it has failed for that reason. Of one whose first thread alone has, another thread
/// may be about to execute a program, and to become the first by that.
pub fn reason(pid: Pid, fault: Fault) -> Fault {
    match look(pid) {
        _ if is_killed(pid) => ended(),
        Found::There(stat) if stat.exiting() && stat.threads > 1 => {
            // The failed call says nothing more: most of /proc/PID is of the first thread.
            Fault::changed("its first thread has ended, and others have not, which is not carried")
        }
        // A thread is gone, or what the process executed.
        Found::There(stat) if !stat.exiting() && fault.root_errno() == ESRCH => {
            Fault { kind: Kind::Changed, ..fault.doing("it has changed meanwhile") }
        }
        Found::There(stat) if !stat.exiting() && !stat.ended() => fault,
        Found::Unseen => fault,
        Found::There(_) | Found::Gone => ended(),
    }
}

/// Has it ended, or does it end?
pub fn is_over(pid: Pid) -> bool {
    is_killed(pid)
        || match look(pid) {
            Found::There(stat) => stat.ended() || (stat.exiting() && stat.threads <= 1),
            Found::Gone => true,
            Found::Unseen => false,
        }
}

enum Found {
    There(Stat),
    Gone,
    /// It is there, and could not be looked at: what fails says nothing of it, but of whoever looks (EMFILE, ENOMEM).
    Unseen,
}

fn look(pid: Pid) -> Found {
    match Proc::open(root()).map(|proc| proc.stat(pid)) {
        Ok(Ok(stat)) => Found::There(stat),
        Ok(Err(ENOENT | ESRCH)) => Found::Gone,
        _ if exists(pid) => Found::Unseen,
        _ => Found::Gone,
    }
}

pub fn ended() -> Fault {
    Fault::gone("the process has ended")
}

/// It has yet to take the signal.
fn is_killed(pid: Pid) -> bool {
    pending::read(pid).is_some_and(|waits| waits.signals.has(Sig::KILL))
}
