//! Why something that was tried with a process has failed, if that is because it ends.

use kern::pending;
use kern::proc::{root, Proc};
use vocab::errno::ESRCH;
use vocab::{Fault, Kind, Pid, Sig};

/// Of a process that has ended, or was killed and is about to, whatever was tried with it has failed for that reason. Of one whose first thread alone has, another thread
/// may be about to execute a program, and to become the first by that.
pub fn reason(pid: Pid, fault: Fault) -> Fault {
    let found = Proc::open(root()).ok().and_then(|proc| proc.stat(pid).ok());
    match found {
        _ if is_killed(pid) => ended(),
        Some(stat) if stat.exiting() && stat.threads > 1 => {
            Fault { kind: Kind::Changed, ..fault.doing("its first thread has ended, and others have not") }
        }
        // A thread is gone, or what the process executed.
        Some(stat) if !stat.exiting() && fault.root_errno() == ESRCH => {
            Fault { kind: Kind::Changed, ..fault.doing("it has changed meanwhile") }
        }
        Some(stat) if !stat.exiting() && !stat.ended() => fault,
        _ => ended(),
    }
}

/// Has it ended, or does it end?
pub fn is_over(pid: Pid) -> bool {
    let found = Proc::open(root()).ok().and_then(|proc| proc.stat(pid).ok());
    is_killed(pid) || found.is_none_or(|stat| stat.ended() || (stat.exiting() && stat.threads <= 1))
}

pub fn ended() -> Fault {
    Fault::gone("the process has ended")
}

/// It has yet to take the signal.
fn is_killed(pid: Pid) -> bool {
    pending::read(pid).is_some_and(|waits| waits.signals.has(Sig::KILL))
}
