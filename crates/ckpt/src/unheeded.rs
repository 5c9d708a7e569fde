//! A process that ignores SIGCHLD, or has SA_NOCLDWAIT, leaves the ends of its children to the kernel, which takes them at once, and nobody is told of them (linux:
//! `do_notify_parent`). While it moves there are two of it, of which only one is the process, and children end below either: none of these ends may be lost before it is
//! known which. So from when it cannot run any more where it was, and until it runs where it is made, both keep them as others do, in a handler that never runs.

use crate::{children, sigstate};
use image::process::{Action, Process};
use image::Bytes;
use puppet::{Arena, Loan, Script};
use vocab::{Pid, Result, Sig};

/// Any address will do: what has it does not run before it has another.
const NEVER_RUNS: u64 = 4096;

/// What such a process has.
#[derive(Clone)]
pub(crate) struct Unheeded {
    action: Action,
    /// Children that had ended before it did so: they wait to be waited for.
    ended: Vec<i32>,
    /// SIGCHLD that waits all the same, as it is blocked.
    queue: Vec<Bytes>,
}

fn is_left_to_the_kernel(action: &Action) -> bool {
    let Action { signal, handler, flags, .. } = *action;
    signal == Sig::CHLD.number() && (handler == libc::SIG_IGN as u64 || flags & libc::SA_NOCLDWAIT as u64 != 0)
}

impl Unheeded {
    /// `None` for one that waits for its children.
    pub(crate) fn of(process: &Process) -> Option<Unheeded> {
        let action = *process.actions.iter().find(|action| is_left_to_the_kernel(action))?;
        let is_of_children = |info: &&Bytes| info.0.first() == Some(&Sig::CHLD.number());
        let queue = process.queue.iter().filter(is_of_children).cloned().collect();
        Some(Unheeded { action, ended: process.ended.clone(), queue })
    }

    /// Its actions but for that.
    pub(crate) fn kept(process: &Process) -> Vec<Action> {
        let kept = |action: &Action| if is_left_to_the_kernel(action) { keeps(action) } else { *action };
        process.actions.iter().map(kept).collect()
    }

    /// From now on those that end stay.
    pub(crate) fn keep(&self, script: &mut Script) {
        sigstate::set_action(script, &keeps(&self.action));
    }

    /// The kernel takes them again, and what has ended meanwhile is taken as it would have been: looked for when no other can stay.
    ///
    /// # Errors
    /// `Wire` for a broken image; `Gone` when it was killed.
    pub(crate) fn leave(&self, loan: &mut Loan<'_>, arena: Arena, pid: Pid) -> Result<()> {
        let mut script = arena.script();
        sigstate::set_action(&mut script, &self.action);
        // It is dropped with what ignores it (linux: `do_sigaction`).
        let queue = if self.action.handler == libc::SIG_IGN as u64 { &self.queue[..] } else { &[] };
        sigstate::set_queue(&mut script, queue, pid.0 as u64, None)?;
        loan.run(arena, script)?;
        let new = |child: &&Pid| !self.ended.contains(&child.0) && children::has_ended_by_signal(**child, Sig::CHLD);
        for child in children::of(pid)?.iter().filter(new) {
            loan.call(libc::SYS_wait4, &[child.0 as u64, 0, libc::WNOHANG as u64, 0])?;
        }
        Ok(())
    }
}

fn keeps(action: &Action) -> Action {
    Action { handler: NEVER_RUNS, flags: action.flags & !(libc::SA_NOCLDWAIT as u64), ..*action }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_the_kernel_is_what_linux_takes() {
        let of = |signal: Sig, handler: usize, flags: i32| Action {
            signal: signal.number(),
            handler: handler as u64,
            flags: flags as u64,
            ..Action::default()
        };
        let is = |handler, flags| is_left_to_the_kernel(&of(Sig::CHLD, handler, flags));
        assert!(is(libc::SIG_IGN, 0) && is(libc::SIG_DFL, libc::SA_NOCLDWAIT) && is(4711, libc::SA_NOCLDWAIT));
        assert!(!is(libc::SIG_DFL, 0) && !is(4711, libc::SA_NOCLDSTOP));
        assert!(!is_left_to_the_kernel(&of(Sig::HUP, libc::SIG_IGN, libc::SA_NOCLDWAIT)));
        assert!(!is_left_to_the_kernel(&keeps(&of(Sig::CHLD, libc::SIG_IGN, libc::SA_NOCLDWAIT))));
    }
}
