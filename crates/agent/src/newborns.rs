//! Forks that race with a signal for the whole group, as Ctrl-C. Natively each process is in the group before the signal or made by one that has had
//! it (linux: `copy_process` begins anew when a signal is pending). Here the front end's kernel sends it to the ghosts that stand there: who was
//! forked just before, and may have none yet, gets it with its parent.

use crate::agent::Agent;
use crate::deliver::plain;
use kern::clock::monotonic_us;
use tracing::debug;
use vocab::{Pid, Sig};

/// From a fork until its ghost has surely been there for any signal that comes, in microseconds, but on a node that is late with everything.
const LATELY_US: u64 = 100_000;
/// What a terminal sends to a whole group and ends, stops or continues it.
const OF_TERMINAL: [Sig; 7] = [Sig::HUP, Sig::INT, Sig::QUIT, Sig::CONT, Sig::TSTP, Sig::TTIN, Sig::TTOU];

impl Agent {
    /// `target`, of `group`, has just been given `sig` by a terminal: those below it that were forked just before, and may have no ghost that has it, get it too.
    /// Whoever has had a signal forks no more before it has taken it.
    pub(crate) fn reach_newborns(&mut self, target: Pid, group: Pid, sig: Sig) {
        // Another signal of the kernel's may be for `target` alone.
        if group == Pid::NONE || !OF_TERMINAL.contains(&sig) {
            return;
        }
        let mut parents = vec![target];
        while let Some(parent) = parents.pop() {
            self.watch();
            let now = monotonic_us();
            let is_new = |pid: &Pid| self.bodies.get(*pid).is_some_and(|body| body.born_us + LATELY_US >= now);
            // The table may be behind: who has left the group before is not hit.
            let there = |pid: &Pid| kern::proc::group_and_session(*pid).is_some_and(|(pgid, _)| pgid == group);
            let comes = |pid: &Pid| self.sending.contains_key(pid) || self.elders.has_had(*pid, sig, now);
            let mut newborns = self.bodies.children(parent);
            newborns.retain(|pid| is_new(pid) && there(pid) && !comes(pid));
            for pid in newborns {
                debug!(%pid, %sig, "signal for one forked just before");
                self.elders.reached.note(pid, sig, now);
                // Gone meanwhile: it had no need of it.
                let _ = plain(pid, sig);
                parents.push(pid);
            }
        }
    }
}
