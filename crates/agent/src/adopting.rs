//! Orphans elsewhere whose subreaper runs here. Only a process itself can have children, so the stand-in of the parent that ends makes
//! theirs while it is there; when it ends, this kernel gives them to the subreaper as it would give processes (linux: `find_new_reaper`).
//!
//! | state of an orphan | next |
//! |---|---|
//! | coming | its stand-in is made: waiting; it cannot be: forgotten, and the front end is told |
//! | (it stands here already) | waiting |
//! | waiting | its former parent's stand-in is gone: a child of the subreaper, which stops and ends as its body does |
//!
//! Until then stops and ends are put off: they would be told to the former parent. So is the end of that parent until all are made ([`crate::ends`]).
//!
//! A subreaper that becomes one, or is one no more, does so here when those below it that had ended before have: their orphans are whose they were there.

use crate::agent::Agent;
use crate::bodies::Life;
use crate::standing::WAIT;
use crate::stands::{Stand, Why};
use crate::starts::{persons, Work};
use ghost::Command;
use kern::clock::monotonic_us;
use std::collections::{HashMap, HashSet};
use vocab::{Exit, Pid, Sig};
use wire::event::Usage;
use wire::node::{Kin, ToFront};

/// One orphan, until it is the subreaper's.
#[derive(Debug)]
struct Orphan {
    /// Its former parent.
    from: Pid,
    /// Who takes it.
    taker: Pid,
    made: bool,
    stopped: Option<Sig>,
    ended: Option<(Exit, Usage)>,
}

/// A subreaper's stand-in is to be one, or one no more, when these have ended.
#[derive(Debug)]
struct Switch {
    on: bool,
    after: HashSet<Pid>,
}

/// All orphans on their way.
#[derive(Debug, Default)]
pub(crate) struct Adopting {
    orphans: HashMap<Pid, Orphan>,
    switches: HashMap<Pid, Switch>,
}

impl Adopting {
    /// Is this an orphan on its way?
    pub(crate) fn has(&self, pid: Pid) -> bool {
        self.orphans.contains_key(&pid)
    }

    /// Puts off a stop, or takes it back. `false` when `pid` is no orphan on its way.
    pub(crate) fn stops(&mut self, pid: Pid, stopped: Option<Sig>) -> bool {
        match self.orphans.get_mut(&pid) {
            Some(orphan) => {
                orphan.stopped = stopped;
                true
            }
            None => false,
        }
    }

    /// Puts off the end of an orphan. Returns its former parent, if `pid` is an orphan on its way.
    pub(crate) fn ends(&mut self, pid: Pid, end: (Exit, Usage)) -> Option<Pid> {
        let orphan = self.orphans.get_mut(&pid)?;
        orphan.ended = Some(end);
        Some(orphan.from)
    }

    /// Are orphans of `from` to be made yet?
    pub(crate) fn waits(&self, from: Pid) -> bool {
        self.orphans.values().any(|orphan| orphan.from == from && !orphan.made)
    }

    /// The orphan stands here, or cannot.
    fn made(&mut self, pid: Pid, made: bool) {
        match self.orphans.get_mut(&pid) {
            Some(orphan) if made => orphan.made = true,
            _ => drop(self.orphans.remove(&pid)),
        }
    }

    /// Those that the end of `from` has given to another.
    fn given(&mut self, from: Pid) -> Vec<(Pid, Orphan)> {
        self.orphans.extract_if(|_, orphan| orphan.from == from && orphan.made).collect()
    }
}

impl Agent {
    /// Lets an orphan of `from` stand here, so that its subreaper gets it.
    pub(crate) fn adopt(&mut self, kin: Kin, from: Pid, others: Vec<Kin>) {
        let pid = kin.person.pid;
        // What ends here is waited for here by what stands for its parent, which never has: it is made once more for the subreaper.
        // It may be about to stand here, where it was.
        self.hear_movers();
        let body = self.bodies.get(pid).map(|body| body.life);
        if body.is_some_and(|life| life != Life::Ended) {
            return self.spare(kin, from, others); // it is somebody's child here already, and will stay that
        }
        let taker = kin.person.ppid;
        let stood = self.stands.get(pid).filter(|stand| !stand.ending).map(|stand| stand.native_parent());
        // Nor does what stands here for what was to come: the parent has ended on the way, and waits for that as soon as it is what stands for it again.
        if (stood.is_some() || self.starts.has_yet(pid)) && !self.moving.arrives(from) {
            if stood == Some(from) && self.stands.get(from).is_some_and(|stand| !stand.ending) {
                self.adopting.orphans.insert(pid, Orphan { from, taker, made: true, stopped: None, ended: None });
            }
            return;
        }
        let ended = if body.is_none() { self.unheard.end(from, pid) } else { None };
        if kin.node == self.number && body.or(ended.map(|_| Life::Ended)).is_none() {
            return; // and when it did is not known any more
        }
        self.adopting.orphans.insert(pid, Orphan { from, taker, made: false, stopped: None, ended });
        self.starts.queue.push_back(Work::Orphan { person: kin.person, from, kin: persons(others) });
        self.next_start();
    }

    /// It is here, and its parent's process has ended before it was told of an end of it: nor is what stands for that to wait for it.
    fn spare(&mut self, kin: Kin, from: Pid, others: Vec<Kin>) {
        if self.stands.get(from).is_some_and(|stand| !stand.ending) {
            // It may have ended already, and have been left to that.
            self.leaving.insert(kin.person.pid);
            self.unheard.spare(kin, from, others);
            while self.ghosts.take_back(from, |command| *command == WAIT) {}
        }
    }

    /// Is nobody of ours to wait for it, and does nobody who did so before?
    pub(crate) fn is_spared(&self, pid: Pid) -> bool {
        let waits = |parent: Pid| self.ghosts.works_on(parent, |command| *command == WAIT);
        self.unheard.is_spared(pid) && !self.bodies.person(pid).is_some_and(|person| waits(person.ppid))
    }

    /// What stands for `by`, or did, has waited for this one, which has ended so.
    pub(crate) fn waited_here(&mut self, by: Pid, pid: Pid, end: (Exit, Usage)) {
        if self.adopting.ends(pid, end).is_some() {
            return;
        }
        self.unheard.waited(by, pid, end, monotonic_us());
        if let Some((kin, from, others)) = self.unheard.take_spared(pid) {
            self.adopt(kin, from, others);
        }
    }

    pub(crate) fn orphan_made(&mut self, pid: Pid, from: Pid, made: bool) {
        self.adopting.made(pid, made);
        if !made {
            self.uplink.send(&ToFront::StandInGone { pid });
        }
        self.end_goes_on(from);
    }

    /// The stand-in `from` ends now, and the kernel gives its children to the subreaper.
    pub(crate) fn adopted_here(&mut self, from: Pid) {
        for (pid, orphan) in self.adopting.given(from) {
            let Some(stand) = self.stands.get_mut(pid) else { continue };
            stand.why = Why::Adopted;
            self.stands.set_native_parent(pid, orphan.taker);
            if let Some(sig) = orphan.stopped {
                self.mirror(pid, Some(sig));
            }
            if let Some((exit, usage)) = orphan.ended {
                self.end_stand_in(pid, exit, usage);
            }
        }
    }

    /// A process elsewhere takes orphans, or no more: so does its stand-in.
    pub(crate) fn stand_in_takes_orphans(&mut self, pid: Pid, on: bool) {
        self.stands.take_orphans(pid, on);
        let ends = |stand: &&Stand| stand.ending || self.ends.wait_for(stand.person.pid);
        let ending = self.stands.iter().filter(ends).map(|stand| stand.person.pid);
        let after = ending.filter(|one| self.stands.is_below(*one, pid)).collect();
        self.adopting.switches.insert(pid, Switch { on, after });
        self.switches(pid);
    }

    /// Nobody stands here any more who was to end before that.
    pub(crate) fn switches_go_on(&mut self, ended: Pid) {
        let waits = |switch: &mut Switch| switch.after.remove(&ended) && switch.after.is_empty();
        let all = self.adopting.switches.iter_mut();
        let ready: Vec<Pid> = all.filter_map(|(pid, switch)| waits(switch).then_some(*pid)).collect();
        ready.into_iter().for_each(|pid| self.switches(pid));
        self.adopting.switches.remove(&ended);
    }

    fn switches(&mut self, pid: Pid) {
        if !self.adopting.switches.get(&pid).is_some_and(|switch| switch.after.is_empty()) {
            return;
        }
        let Some(Switch { on, .. }) = self.adopting.switches.remove(&pid) else { return };
        if self.stands.get(pid).is_some_and(|stand| !stand.ending) {
            self.ghosts.command(pid, Command::Subreaper(on));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orphan(from: i32) -> Orphan {
        Orphan { from: Pid(from), taker: Pid(1), made: false, stopped: None, ended: None }
    }

    fn end(code: u8) -> (Exit, Usage) {
        (Exit::Code(code), Usage::default())
    }

    #[test]
    fn a_parent_waits_until_all_its_orphans_stand_and_they_end_after_it() {
        let mut adopting = Adopting::default();
        assert!(!adopting.waits(Pid(10)) && !adopting.stops(Pid(11), Some(Sig::STOP)));
        adopting.orphans = HashMap::from([(Pid(11), orphan(10)), (Pid(12), orphan(10)), (Pid(21), orphan(20))]);
        assert!(adopting.waits(Pid(10)) && adopting.ends(Pid(10), end(3)).is_none());
        assert!(adopting.ends(Pid(11), end(4)) == Some(Pid(10)) && adopting.stops(Pid(12), Some(Sig::STOP)));
        adopting.made(Pid(11), true);
        assert!(adopting.waits(Pid(10)));
        adopting.made(Pid(12), true);
        assert!(!adopting.waits(Pid(10)));
        let mut given = adopting.given(Pid(10));
        given.sort_by_key(|(pid, _)| *pid);
        let given: Vec<_> = given.iter().map(|(pid, o)| (pid.0, o.stopped, o.ended)).collect();
        assert_eq!(given, [(11, None, Some(end(4))), (12, Some(Sig::STOP), None)]);
        assert!(adopting.ends(Pid(11), end(4)).is_none());
    }

    #[test]
    fn an_orphan_that_cannot_stand_keeps_nobody() {
        let mut adopting = Adopting::default();
        adopting.orphans.insert(Pid(11), orphan(10));
        assert!(adopting.waits(Pid(10)));
        adopting.made(Pid(11), false);
        assert!(!adopting.waits(Pid(10)));
        assert!(adopting.given(Pid(10)).is_empty());
    }
}
