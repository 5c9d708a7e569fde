//! Forks that race with a signal for the whole group, as Ctrl-C. Natively each process is in the group before the signal or made by one that has had
//! it (linux: `copy_process` begins anew when a signal is pending). Here the front end's kernel sends it to the ghosts that stand there: who was forked just before, and has
//! none yet, gets it with its parent.

use crate::agent::Agent;
use crate::deliver::plain;
use kern::clock::monotonic_us;
use std::collections::HashMap;
use tracing::debug;
use vocab::{Pid, Sig};

/// A ghost that was made in time has the signal too; what it brings so soon after, in microseconds, is the same one.
const SAME_US: u64 = 100_000;

/// Who has had which signal with its parent, and when.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    had: HashMap<(Pid, Sig), u64>,
}

impl Reached {
    fn note(&mut self, pid: Pid, sig: Sig, now_us: u64) {
        self.had.retain(|_, at| *at + SAME_US >= now_us);
        self.had.insert((pid, sig), now_us);
    }

    /// Has it had what comes now? Once.
    pub(crate) fn has(&mut self, pid: Pid, sig: Sig, now_us: u64) -> bool {
        !self.had.is_empty() && self.had.remove(&(pid, sig)).is_some_and(|at| at + SAME_US >= now_us)
    }
}

impl Agent {
    /// Those of `group` below `target` of whose forks the front end shows nothing yet. None for what is no signal of a terminal: that may be for `target` alone.
    pub(crate) fn newborns(&mut self, target: Pid, group: Pid, sig: Sig) -> Vec<Pid> {
        if !(sig.stops() || [Sig::HUP, Sig::INT, Sig::QUIT, Sig::CONT].contains(&sig)) || group == Pid::NONE {
            return Vec::new();
        }
        self.watch();
        let shown = self.events.shown();
        if shown == self.events.changes() {
            return Vec::new();
        }
        let mut found = vec![target];
        let mut at = 0;
        while let Some(parent) = found.get(at).copied() {
            at += 1;
            let is_new = |pid: &Pid| self.bodies.get(*pid).is_some_and(|body| body.born > shown);
            // The table may be behind: who has left the group before is not hit.
            let there = |pid: &Pid| kern::proc::group_and_session(*pid).is_some_and(|(pgid, _)| pgid == group);
            found.extend(self.bodies.children(parent).into_iter().filter(|pid| is_new(pid) && there(pid)));
        }
        found.split_off(1)
    }

    /// Their parent has had it.
    pub(crate) fn reach_newborns(&mut self, newborns: Vec<Pid>, sig: Sig) {
        for pid in newborns {
            debug!(%pid, %sig, "signal for one whose fork is not shown");
            self.reached.note(pid, sig, monotonic_us());
            // Gone meanwhile: it had no need of it.
            let _ = plain(pid, sig);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_with_the_parents_is_given_once() {
        let mut reached = Reached::default();
        reached.note(Pid(7), Sig::INT, 10);
        assert!(!reached.has(Pid(7), Sig::QUIT, 20) && !reached.has(Pid(8), Sig::INT, 20));
        assert!(reached.has(Pid(7), Sig::INT, 20));
        assert!(!reached.has(Pid(7), Sig::INT, 30), "another one");
        reached.note(Pid(7), Sig::INT, 10);
        assert!(!reached.has(Pid(7), Sig::INT, 11 + SAME_US), "that is over");
    }
}
