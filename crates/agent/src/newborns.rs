//! Forks that race with a signal for the whole group, as Ctrl-C. Natively each process is in the group before the signal or made by one that has had
//! it (linux: `copy_process` begins anew when a signal is pending). Here the front end's kernel sends it to the ghosts that stand there: who was
//! forked just before, and may have none yet, gets it with its parent.

use crate::agent::Agent;
use crate::deliver::plain;
use kern::clock::monotonic_us;
use kern::proc::Status;
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
        self.elders.struck.note(target, sig, monotonic_us());
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
                self.hit_newborn(pid, sig, now);
                parents.push(pid);
            }
        }
    }

    /// The record of a fork is read. It is written last (linux: `copy_process`, `perf_event_fork`), so the forker may have been given a terminal's signal while it
    /// forked, when nobody could see the child yet. Of a group's signal the kernel leaves one for such a child (`signal->multiprocess`), of ours for one process not; and
    /// as fork(3) blocks signals meanwhile, ours does not begin the fork anew either.
    pub(crate) fn reach_late(&mut self, forker: Pid, child: Pid) {
        let now = monotonic_us();
        for sig in self.elders.struck.all(forker, now) {
            let group = self.bodies.person(forker).map(|person| person.pgid);
            if self.forked_before(forker, sig) && group == kern::proc::group_and_session(child).map(|(pgid, _)| pgid) {
                self.hit_newborn(child, sig, now);
            }
        }
    }

    /// Was what it has forked there before it took this signal? It has not taken it yet, or forks no more when it has. Whoever handles it may, and for that child it
    /// is not.
    fn forked_before(&self, pid: Pid, sig: Sig) -> bool {
        let waits = |s: &Status| s.pending.has(sig) || s.shared_pending.has(sig);
        let survives = |s: &Status| s.caught.has(sig) || s.ignored.has(sig) || s.blocked.has(sig);
        !self.proc.status(pid).is_ok_and(|s| !waits(&s) && survives(&s))
    }

    fn hit_newborn(&mut self, pid: Pid, sig: Sig, now: u64) {
        debug!(%pid, %sig, "signal for one forked just before");
        self.elders.reached.note(pid, sig, now);
        self.elders.struck.note(pid, sig, now);
        // Gone meanwhile: it had no need of it.
        let _ = plain(pid, sig);
    }
}
