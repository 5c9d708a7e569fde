//! Where processes stand for bodies that are elsewhere.

use crate::effect::Effect;
use crate::person::{Kin, Person, Usage};
use crate::space::Space;
use crate::table::{Body, Entry};
use vocab::errno::ESRCH;
use vocab::{NodeId, Pid};

/// A line of ancestors that is longer is cut.
const MOST_KIN: usize = 12;

impl Space {
    /// Who takes its orphans, session leader, parent and group leader of `pid`, as far as they live and are not on `node` themselves.
    /// From now on they stand there.
    pub(crate) fn kin_on(&mut self, node: NodeId, pid: Pid) -> Vec<Kin> {
        let Some(entry) = self.table.get(pid) else { return Vec::new() };
        let person = &entry.person;
        let mut kin = Vec::new();
        let mut seen = vec![pid];
        let (mut all, mut at) = (vec![self.taker(person.ppid), person.sid, person.ppid, person.pgid], person.ppid);
        // Further ancestors may come there too, also from the front end, and are to be parents of those that stand there then. The leaders of each come with it: what
        // stands in their place, a number without a process, would keep them out later.
        let mut leaders = Vec::new();
        while let Some(entry) = self.table.get(at).filter(|_| all.len() < MOST_KIN) {
            leaders.extend([entry.person.sid, entry.person.pgid]);
            at = entry.person.ppid;
            all.push(at);
        }
        all.append(&mut leaders);
        for pid in all {
            if seen.contains(&pid) {
                continue;
            }
            seen.push(pid);
            let Some(entry) = self.table.get_mut(pid).filter(|e| !e.ended() && e.place != node) else { continue };
            entry.stands.insert(node);
            if entry.subreaper {
                self.out.push(Effect::Subreaper { node, pid, on: true });
            }
            kin.push(Kin { person: entry.person.clone(), node: entry.place });
        }
        kin
    }

    /// `pid` is another than it was: its stand-ins follow.
    pub(crate) fn stand_ins_follow(&mut self, pid: Pid) {
        let Some(entry) = self.table.get(pid) else { return };
        for node in entry.stands.iter().filter(|node| **node != entry.place) {
            self.out.push(Effect::StandInIs { node: *node, person: entry.person.clone() });
            self.steps.follow(pid, *node);
        }
    }

    /// `pid` ends, and its children go to `taker`: they are to stand where that runs, and where it is about to.
    pub(crate) fn stand_ins_of_orphans(&mut self, pid: Pid, taker: Pid) {
        let Some(entry) = self.table.get(taker).filter(|e| e.has_body()) else { return };
        let nodes = [Some(entry.place), entry.comes_to];
        nodes.into_iter().flatten().for_each(|node| self.stand_ins_of_orphans_on(node, pid, taker));
    }

    /// From now on they stand on `node` as children of the stand-in of `pid`: when it ends, the kernel there gives them to `taker`.
    fn stand_ins_of_orphans_on(&mut self, node: NodeId, pid: Pid, taker: Pid) {
        // Or that has yet to say that it stands there since it left.
        let stands = |e: &&Entry| e.place != node && (e.stands.contains(&node) || e.came_from == Some(node));
        let Some(entry) = self.table.get(pid).filter(stands) else { return };
        for child in entry.children.clone() {
            // One that `pid` has waited for is nobody's, though its ghost may be there yet.
            let Some(entry) = self.table.get_mut(child).filter(|e| !e.reaped && !e.reaped_early) else { continue };
            let person = Person { ppid: taker, ..entry.person.clone() };
            let (body, kin) = (entry.body.clone(), Kin { person, node: entry.place });
            if entry.place == node && !entry.ended() {
                // That kernel gives it to who takes it; if it has ended there just now, `pid` has not heard of it.
                if entry.has_body() {
                    self.out.push(Effect::Adopt { node, kin, from: pid, others: Vec::new() });
                }
                continue;
            }
            if !entry.stands.insert(node) {
                // It does already, and an end of it from now on is none that `pid` has heard of, either.
                self.out.push(Effect::Adopt { node, kin, from: pid, others: Vec::new() });
                continue;
            }
            // For one that has ended there what stands for `pid` has waited, or will: it is made once more.
            entry.left = false;
            if entry.ended() {
                entry.stands.remove(&node);
            }
            let others = self.kin_on(node, child);
            self.out.push(Effect::Adopt { node, kin, from: pid, others });
            match body {
                Body::Ended(exit) => {
                    self.out.push(Effect::EndStandIn { node, pid: child, exit, usage: Usage::default() });
                }
                Body::Stopped(sig) => self.out.push(Effect::StopStandIn { node, pid: child, sig, turn: None }),
                _ => {}
            }
        }
    }

    /// `pid` stands on `node`, which is back: what became of it meanwhile could not be told there.
    pub(crate) fn stands_again(&mut self, node: NodeId, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        if let Body::Ended(exit) = entry.body {
            return self.out.push(Effect::EndStandIn { node, pid, exit, usage: Usage::default() });
        }
        if entry.place == node {
            return;
        }
        entry.stands.insert(node);
        // Of others it is not known yet, or it is what their own machine shows.
        if !matches!(entry.body, Body::Starting | Body::Running | Body::Stopped(_)) {
            return;
        }
        self.out.push(Effect::StandInIs { node, person: entry.person.clone() });
        self.stand_in_stops(node, pid);
    }

    pub(crate) fn stand_in_followed(&mut self, node: NodeId, pid: Pid) {
        self.steps.followed(pid, node);
    }

    pub(crate) fn stand_in_gone(&mut self, node: NodeId, pid: Pid) {
        self.steps.follows_no_more(|who, at| who == pid && at == node);
        if let Some(entry) = self.table.get_mut(pid) {
            entry.stands.remove(&node);
        }
    }

    pub(crate) fn stand_in_wanted(&mut self, node: NodeId, pid: Pid, native: Option<Person>) {
        self.natives(native.into_iter().collect());
        match self.table.get_mut(pid).filter(|e| !e.ended() && e.place != node) {
            Some(entry) => {
                entry.stands.insert(node);
                let kin = Kin { person: entry.person.clone(), node: entry.place };
                let others = self.kin_on(node, pid);
                self.out.push(Effect::StandIn { node, kin, others });
            }
            None => self.out.push(Effect::NoStandIn { node, pid, errno: ESRCH }),
        }
    }
}
