//! Parents and children: fork, exit, who takes orphans. And what a process is called and may do.

use crate::effect::{Command, Effect};
use crate::life::Ghost;
use crate::person::{KillTarget, Usage};
use crate::space::Space;
use crate::step::{Act, Mark, Step, StepId, What};
use crate::table::{Body, End, Entry};
use std::collections::BTreeSet;
use vocab::{Creds, Exit, NodeId, Pid, Sig, SigInfo};

impl Space {
    pub(crate) fn forked(&mut self, node: NodeId, parent: Pid, child: Pid) {
        if self.table.get(child).is_some() {
            // A repetition after a reconnect.
            return;
        }
        let Some(entry) = self.table.get(parent).filter(|e| e.acts_on(node)) else {
            return self.stray(node, child);
        };
        let mut person = entry.person.clone();
        (person.pid, person.ppid) = (child, parent);
        let (asker, streams) = (entry.asker, entry.streams);
        self.table.insert(Entry { asker, streams, ..Entry::new(person, node, Body::Running, Ghost::Wanted) });
        match self.push(parent, Act::Command(Command::Clone { pid: child, orphan: false }), Mark::default()) {
            Some(id) => {
                if let Some(entry) = self.table.get_mut(child) {
                    entry.clone = Some(id);
                }
            }
            None => self.clone_otherwise(child),
        }
    }

    /// A body that cannot be shown on the front end may not be.
    pub(crate) fn stray(&mut self, node: NodeId, pid: Pid) {
        self.log(pid, node, "body of nobody: killed", 0);
        self.out.push(Effect::Signal { node, target: pid, info: crate::signal::our_kill(), thread: None, turn: None });
    }

    /// Its parent's ghost died before it could clone this one: the one who has taken it does, or another of the session, for an orphan.
    pub(crate) fn clone_otherwise(&mut self, pid: Pid) {
        let Some(entry) = self.table.get(pid) else { return };
        if entry.ended() {
            return self.not_cloned(pid, 0);
        }
        let Some(cloner) = self.cloner_for(entry) else {
            return self.not_cloned(pid, vocab::errno::ESRCH);
        };
        let (ppid, own_session) = (entry.person.ppid, entry.person.sid == pid);
        let person = entry.born.as_deref().unwrap_or(&entry.person).clone();
        let group = self.table.get(cloner).map(|c| c.person.pgid);
        // Who takes it is decided when it is cloned: its ancestors must be by then what they were.
        let behind = self.held_up_by(pid);
        for of in &behind {
            if self.is_ancestor(*of, pid) {
                self.bring_subreaper_forward(*of);
            }
        }
        let after = self.steps.subreapers(|of, step| {
            self.is_ancestor(of, pid) && (!behind.contains(&of) || self.next_is_subreaper(of, step))
        });
        let mark = Mark { after, orphaned: true, ..Mark::default() };
        let orphan = cloner != ppid;
        let Some(id) = self.push(cloner, Act::Command(Command::Clone { pid, orphan }), mark) else {
            return self.not_cloned(pid, vocab::errno::ESRCH);
        };
        let mut first = vec![Act::Command(Command::Name(person.name)), Act::Command(Command::Ids(person.creds))];
        if !own_session && group != Some(person.pgid) {
            first.push(Act::Command(Command::Setpgid(person.pgid)));
        }
        for act in first {
            let id = self.steps.add(pid, Mark::default());
            if let Some(entry) = self.table.get_mut(pid) {
                entry.queue.push_front(Step { id, act });
            }
        }
        if let Some(entry) = self.table.get_mut(pid) {
            entry.clone = Some(id);
            entry.cloned_again = true;
            if entry.ghost == Ghost::Coming {
                entry.ghost = Ghost::Wanted;
            }
        }
    }

    /// Who can clone this ghost as an orphan: of its session and user, with the same process taking its orphans.
    fn cloner_for(&self, entry: &Entry) -> Option<Pid> {
        let person = &entry.person;
        let dead = |p: &&Entry| p.kill_pending || !p.ghost.will_obey();
        let heir = self.table.get(person.ppid).filter(dead).map_or(person.ppid, |p| p.person.ppid);
        let taker = self.taker(heir);
        let behind = self.held_up_by(person.pid);
        let fits = |e: &Entry| {
            // One that is still to come might be a child of this very one.
            e.ghost == Ghost::Held
                && e.end == End::No
                && !e.ended()
                && !e.kill_pending
                && e.person.creds.uid == person.creds.uid
                && (person.sid == person.pid || e.person.sid == person.sid)
                && self.taker(e.person.pid) == taker
                && !behind.contains(&e.person.pid)
        };
        if let Some(near) = self.table.get(heir).filter(|e| fits(e)) {
            return Some(near.person.pid);
        }
        self.table.which(fits).first().copied()
    }

    /// Ghosts with commands that may wait, through others or not, until `pid` has done something. `pid` must not wait for them.
    fn held_up_by(&self, pid: Pid) -> BTreeSet<Pid> {
        let mut found = BTreeSet::from([pid]);
        let mut from = vec![pid];
        while let Some(entry) = from.pop().and_then(|pid| self.table.get(pid)) {
            for step in &entry.queue {
                let child = match step.act {
                    Act::Command(Command::Clone { pid, .. }) => Some(pid),
                    _ => None,
                };
                for later in self.steps.held_up(step.id).chain(child) {
                    if found.insert(later) {
                        from.push(later);
                    }
                }
            }
        }
        found
    }

    /// Changes of who takes orphans that wait only for what `pid` does before come before that: they change nothing for it.
    fn bring_subreaper_forward(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        let steps = &self.steps;
        let (first, rest): (Vec<Step>, Vec<Step>) =
            entry.queue.drain(..).partition(|step| step.is_subreaper() && steps.free(step.id));
        entry.queue.extend(first.into_iter().chain(rest));
        self.ready.push(pid);
    }

    /// Is `step` of `pid` carried out whatever else waits?
    fn next_is_subreaper(&self, pid: Pid, step: StepId) -> bool {
        let Some(entry) = self.table.get(pid).filter(|e| e.ghost.obeys()) else { return false };
        let first = entry.queue.iter().take_while(|s| s.is_subreaper() && self.steps.free(s.id));
        first.map(|s| s.id).chain(entry.given.iter().map(|g| g.id)).any(|id| id == step)
    }

    fn is_ancestor(&self, of: Pid, pid: Pid) -> bool {
        let mut at = pid;
        while let Some(entry) = self.table.get(at) {
            at = entry.person.ppid;
            if at == of {
                return true;
            }
        }
        false
    }

    /// Who takes the orphans of a process whose parent is `from` (linux: `find_new_reaper`, kernel/exit.c).
    pub fn taker(&self, from: Pid) -> Pid {
        let mut at = from;
        while let Some(entry) = self.table.get(at) {
            if entry.subreaper && !entry.ended() {
                return at;
            }
            at = entry.person.ppid;
        }
        Pid::INIT
    }

    pub(crate) fn exited(&mut self, pid: Pid, exit: Exit, usage: Usage) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        let exit = match entry.runner {
            Some((_, Some(before))) if entry.killed => before,
            _ => exit,
        };
        entry.body = Body::Ended(exit);
        entry.early.clear();
        entry.went_on = None;
        let stop_pending = std::mem::take(&mut entry.stop_pending);
        let (place, killed, asked, ppid) = (entry.place, entry.kill_pending, entry.asked, entry.person.ppid);
        let reaped = std::mem::take(&mut entry.reaped_early);
        self.stand_ins_of_orphans(pid, self.taker(ppid));
        let Some(entry) = self.table.get_mut(pid) else { return };
        let mut stands = std::mem::take(&mut entry.stands);
        stands.extend(entry.comes_to.take());
        let from = entry.came_from.filter(|from| !from.is_front() && !stands.contains(from));
        for node in stands {
            self.end_stand_in(node, pid, exit, usage);
        }
        from.into_iter().for_each(|node| self.unsaid.ended(node, pid, ppid, exit));
        self.steps.follows_no_more(|who, _| who == pid);
        self.log(pid, place, "ended, wait status", exit.to_status());
        if asked {
            self.out.push(Effect::Ended { pid, exit });
        }
        if stop_pending {
            self.discard_stop(pid);
        }
        self.drop_stops(pid);
        if killed {
            self.flush(pid);
        }
        self.queue_end(pid);
        self.orphan_children(pid);
        self.copy_ended(ppid, pid, exit);
        if let (true, Some(parent)) = (reaped, self.table.get(ppid)) {
            self.reaped(parent.place, pid);
        }
        self.bury(pid);
    }

    /// The ghost is to end once everything before is done.
    pub(crate) fn queue_end(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        if entry.end != End::No || matches!(entry.ghost, Ghost::Absent | Ghost::Gone) {
            return;
        }
        let (pgid, orphans, lasts) = (entry.person.pgid, !entry.children.is_empty(), entry.asked);
        // With it go its zombies, which may be the last of their groups.
        let mut leaves = vec![pgid];
        let zombies =
            entry.children.clone().into_iter().filter_map(|child| self.table.get(child)).filter(|c| c.ended());
        leaves.extend(zombies.map(|zombie| zombie.person.pgid));
        let mark = Mark { leaves, orphans, lasts, ..Mark::default() };
        let id = self.steps.add(pid, mark);
        let Some(entry) = self.table.get_mut(pid) else { return };
        // Its ghost may end first, and is then a zombie until theirs have.
        for parent in &entry.orphaned_by {
            self.steps.leaves_too(*parent, pgid);
        }
        entry.end = End::Queued(id);
        entry.queue.push_back(Step { id, act: Act::End });
        self.ready.push(pid);
    }

    /// `pid` has ended: its children go to who takes them.
    pub(crate) fn orphan_children(&mut self, pid: Pid) {
        let Some(entry) = self.table.get(pid) else { return };
        let (children, end) = (entry.children.clone(), entry.end);
        if children.is_empty() {
            return;
        }
        let ppid = self.taker(entry.person.ppid);
        for child in children {
            self.table.set_parent(child, ppid);
            if let (Some(entry), End::Queued(id)) = (self.table.get_mut(child), end) {
                let steps = &self.steps;
                entry.orphaned_by.retain(|id| steps.is_open(*id));
                entry.orphaned_by.push(id);
            }
            if self.unawaited(child) {
                self.wait_otherwise(child);
            } else {
                self.bury(child);
            }
        }
    }

    /// The node's kernel decides as ours does; where it cannot see the taker, ours counts.
    pub(crate) fn adopted(&mut self, node: NodeId, pid: Pid, ppid: Pid) {
        let by_body = self.table.get(ppid).is_some_and(|p| p.place == node && p.has_body());
        let Some(entry) = self.table.get_mut(pid).filter(|e| e.place == node) else { return };
        entry.left = !by_body;
        let own = entry.person.ppid;
        let parent_lives = self.table.get(own).is_some_and(|p| !p.ended());
        if own != ppid && !parent_lives {
            self.log(pid, node, "adopted by another process than here:", ppid.0);
        }
    }

    pub(crate) fn subreaper(&mut self, pid: Pid, on: bool) {
        // Where it has come to it is told again.
        let Some(entry) = self.table.get_mut(pid).filter(|e| e.subreaper != on) else { return };
        entry.subreaper = on;
        for node in entry.stands.iter().filter(|node| **node != entry.place) {
            self.out.push(Effect::Subreaper { node: *node, pid, on });
        }
        let mark = Mark { subreaper: true, ..Mark::default() };
        self.push(pid, Act::Command(Command::Subreaper(on)), mark);
    }

    pub(crate) fn named(&mut self, pid: Pid, name: Vec<u8>) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        if entry.person.name != name {
            entry.remember();
            entry.person.name.clone_from(&name);
            self.push(pid, Act::Command(Command::Name(name)), Mark::default());
            self.stand_ins_follow(pid);
        }
    }

    pub(crate) fn credentials(&mut self, pid: Pid, creds: Creds) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        if entry.person.creds == creds {
            return;
        }
        entry.remember();
        entry.person.creds.clone_from(&creds);
        let id = self.push(pid, Act::Command(Command::Ids(creds)), Mark::default());
        if let Some(entry) = self.table.get_mut(pid) {
            entry.ids = id;
        }
        self.stand_ins_follow(pid);
    }

    /// Nothing but the end will be carried out by this ghost any more.
    pub(crate) fn flush(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        let mut lost: Vec<(StepId, What)> = entry.given.drain(..).map(|g| (g.id, g.what)).collect();
        let queue = std::mem::take(&mut entry.queue);
        let mut unsent = Vec::new();
        for step in queue {
            unsent.extend(unsent_kill(pid, entry.person.creds.uid.real, &step.act));
            match step.act.what() {
                Some(what) => lost.push((step.id, what)),
                None => entry.queue.push_back(step),
            }
        }
        (entry.stops, entry.woken) = (0, 0);
        for (target, info) in unsent {
            self.deliver(target, info);
        }
        // What is left, the end, may be due now.
        self.ready.push(pid);
        for (id, what) in lost {
            self.steps.finish(id, &mut self.ready);
            match what {
                What::Clone(child) if self.table.get(child).is_some_and(|e| e.clone == Some(id)) => {
                    self.clone_otherwise(child);
                }
                What::Copy(copy) => self.copied(pid, copy, Err(vocab::errno::ESRCH)),
                What::Reap(child) => self.wait_otherwise(child),
                What::Kill(Some((node, id))) => {
                    self.out.push(Effect::KillDone { node, id, errno: vocab::errno::ESRCH, left: Vec::new() })
                }
                _ => {}
            }
        }
    }

    pub(crate) fn native_ended(&mut self, pid: Pid, exit: Option<Exit>, unwaited: &[Pid]) {
        let Some(entry) = self.table.get(pid).filter(|e| e.body == Body::Native) else { return };
        let ppid = entry.person.ppid;
        // Nobody has told of its waits. What it has waited for is not left to who takes its orphans.
        for child in entry.children.clone() {
            let gone = self.table.get(child).is_some_and(|e| e.ended() && e.ghost == Ghost::Gone);
            if gone && !unwaited.contains(&child) {
                self.forget(child);
            }
        }
        self.stand_ins_of_orphans(pid, self.taker(ppid));
        let Some(entry) = self.table.get_mut(pid) else { return };
        let exit = exit.unwrap_or(Exit::Code(0));
        entry.body = Body::Ended(exit);
        if self.table.get(ppid).is_some_and(Entry::waits_by_ghost) {
            // It is left as a ghost that has ended is.
            if let Some(entry) = self.table.get_mut(pid) {
                entry.ghost = Ghost::Gone;
            }
        }
        let Some(entry) = self.table.get_mut(pid) else { return };
        let mut stands = std::mem::take(&mut entry.stands);
        stands.extend(entry.comes_to.take());
        for node in stands {
            self.end_stand_in(node, pid, exit, Usage::default());
        }
        self.orphan_children(pid);
        self.bury(pid);
    }

    pub(crate) fn not_started(&mut self, node: NodeId, pid: Pid, status: u8) {
        let starting = |e: &&mut Entry| e.place == node && e.body == Body::Starting;
        if let Some(entry) = self.table.get_mut(pid).filter(starting) {
            // It may have stood there, and was to become the program.
            entry.stands.insert(node);
            self.exited(pid, Exit::Code(status), Usage::default());
        }
    }
}

/// A kill that nobody waits for and that `pid` will not send any more: to whom, and what.
fn unsent_kill(pid: Pid, uid: u32, act: &Act) -> Option<(Pid, SigInfo)> {
    let Act::Kill { command: Command::Kill { target, sig }, ask: None } = act else { return None };
    let KillTarget::Process(target) = target else { return None };
    Sig::new(*sig).map(|sig| (*target, SigInfo::kill(sig, pid, uid)))
}
