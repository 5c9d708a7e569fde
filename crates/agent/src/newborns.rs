//! Forks that race with a signal for the whole group, as Ctrl-C. Natively each process is in the group before the signal or made by one that has had
//! it (linux: `copy_process` begins anew when a signal is pending). Here the front end's kernel sends it to the ghosts that stand there: who was
//! forked just before, and may have none yet, gets it with its parent.

use crate::agent::Agent;
use crate::deliver::plain;
use kern::clock::monotonic_us;
use kern::proc::{group_and_session, Status};
use std::collections::BTreeSet;
use tracing::debug;
use vocab::{Pid, Sig};

/// What a terminal sends to a whole group and ends, stops or continues it.
const OF_TERMINAL: [Sig; 7] = [Sig::HUP, Sig::INT, Sig::QUIT, Sig::CONT, Sig::TSTP, Sig::TTIN, Sig::TTOU];

impl Agent {
    /// `target`, of `group`, has just been given `sig` by a terminal: those below it that were forked just before, and may have no ghost that has it, get it too;
    /// also those whose parents have ended meanwhile. Whoever has had a signal forks no more before it has taken it.
    pub(crate) fn reach_newborns(&mut self, target: Pid, group: Pid, sig: Sig) {
        // Another signal of the kernel's may be for `target` alone.
        if group == Pid::NONE || !OF_TERMINAL.contains(&sig) {
            return;
        }
        self.elders.struck.note(target, sig, monotonic_us());
        let mut parents = vec![target];
        let mut seen = BTreeSet::from([target]);
        while let Some(parent) = parents.pop() {
            self.watch();
            let now = monotonic_us();
            for pid in self.elders.births.of(parent, now) {
                if self.reaches(pid, group, sig, now) && seen.insert(pid) {
                    parents.push(pid);
                }
            }
        }
    }

    /// A child forked lately gets it, if nothing else brings it; `true`: and so those below it do. The table may be behind: who has left the group before is not hit.
    fn reaches(&mut self, pid: Pid, group: Pid, sig: Sig, now: u64) -> bool {
        match group_and_session(pid) {
            Some((pgid, _)) if pgid != group => return false,
            Some(_) if self.sending.contains_key(&pid) || self.elders.has_had(pid, sig, now) => return false,
            Some(_) => self.hit_newborn(pid, sig, now),
            // Its orphans may be there, or their records not be read yet.
            None => self.elders.struck.note(pid, sig, now),
        }
        true
    }

    /// The record of a fork is read. It is written last (linux: `copy_process`, `perf_event_fork`), so the forker may have been given a terminal's signal while it
    /// forked, when nobody could see the child yet. Of a group's signal the kernel leaves one for such a child (`signal->multiprocess`), of ours for one process not; and
    /// as fork(3) blocks signals meanwhile, ours does not begin the fork anew either.
    pub(crate) fn reach_late(&mut self, forker: Pid, child: Pid) {
        let now = monotonic_us();
        let group = self.bodies.person(forker).map_or(Pid::NONE, |person| person.pgid);
        self.elders.births.note(forker, group, child, self.events.changes(), now);
        for sig in self.elders.struck.all(forker, now) {
            if self.forked_before(forker, sig) {
                self.reaches(child, group, sig, now);
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
