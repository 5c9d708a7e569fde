//! After a restart of the front daemon, or a node's absence: what is known on one side only must end.

use crate::effect::Effect;
use crate::person::{Person, Usage};
use crate::run::FAILED;
use crate::signal::{our_kill, our_signal};
use crate::space::Space;
use crate::step::{Act, What};
use crate::table::{Body, Entry};
use std::collections::{BTreeSet, HashMap};
use vocab::{Exit, NodeId, Pid, Sig};

impl Space {
    pub(crate) fn ghost_found(&mut self, person: Person, stopped: bool) {
        let pid = person.pid;
        if self.table.get(pid).is_some_and(|e| e.body != Body::Native) {
            return;
        }
        self.become_ghost(person, NodeId::FRONT, Body::Unclaimed);
        if let Some(entry) = self.table.get_mut(pid) {
            entry.ghost = entry.ghost.next(crate::life::Turn::Held);
            entry.asleep = stopped;
        }
    }

    pub(crate) fn node_back(&mut self, node: NodeId, bodies: Vec<Person>, stand_ins: &[Pid], natives: Vec<Person>) {
        self.nodes.insert(node);
        self.natives(natives);
        self.log(Pid::NONE, node, "node back", 0);
        let there: BTreeSet<Pid> = bodies.iter().map(|p| p.pid).collect();
        for pid in self.table.which(|e| e.lives_on(node) && !there.contains(&e.person.pid)) {
            if self.table.get(pid).is_some_and(|e| e.body != Body::Starting) {
                self.exited(pid, Exit::NodeLost, Usage::default());
            }
        }
        for person in parents_first(bodies) {
            self.signals_lost(node, person.pid);
            self.claim(node, person);
        }
        for pid in stand_ins {
            self.stands_again(node, *pid);
        }
    }

    /// What the node was told to start, or told of a start, may have been lost with the link: it knows what it has yet to do.
    pub(crate) fn not_to_begin(&mut self, node: NodeId, bodies: &[Person], starting: &[Pid]) {
        let known: BTreeSet<Pid> = bodies.iter().map(|person| person.pid).chain(starting.iter().copied()).collect();
        let lost = |e: &Entry| e.place == node && e.body == Body::Starting && !known.contains(&e.person.pid);
        for pid in self.table.which(lost) {
            self.out.push(Effect::NotStarted { node, pid });
            self.not_started(node, pid, FAILED);
        }
        for pid in starting {
            self.signals_lost(node, *pid);
        }
    }

    /// Signals to a body may have been lost with the link, and nobody answers them then. A SIGSTOP or SIGKILL still keeps its ghost.
    fn signals_lost(&mut self, node: NodeId, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid).filter(|e| e.place == node && e.has_body()) else { return };
        (entry.awaited, entry.known) = (0, 0);
        let (stop, kill) = (entry.stop_pending, entry.killed);
        if stop {
            self.deliver(pid, our_signal(Sig::STOP));
        }
        if kill {
            self.deliver(pid, our_kill());
        }
    }

    /// Their ghosts have been told; after a restart it was only not known any more.
    pub(crate) fn subreapers(&mut self, node: NodeId, pids: &[Pid]) {
        for pid in pids {
            if let Some(entry) = self.table.get_mut(*pid).filter(|e| e.place == node && e.has_body()) {
                entry.subreaper = true;
            }
        }
    }

    /// `person` is on `node`, as that says, or as follows from what it and others say.
    pub(crate) fn claim(&mut self, node: NodeId, person: Person) {
        let pid = person.pid;
        match self.table.get_mut(pid) {
            None => {
                self.forked(node, person.ppid, pid);
                let fits = person.sid == pid || self.table.get(pid).is_some_and(|e| e.person.sid == person.sid);
                if self.table.get(pid).is_some() && !fits {
                    self.not_cloned(pid, vocab::errno::EPERM);
                }
            }
            Some(entry) if entry.body == Body::Unclaimed => {
                entry.place = node;
                // A ghost stops by itself only as its body has; the end of that is told, if it has ended.
                let stopped = entry.asleep && !entry.stop_pending;
                entry.body = if stopped { Body::Stopped(Sig::STOP) } else { Body::Running };
                let early = std::mem::take(&mut entry.early);
                entry.stands.remove(&node);
                let ppid = entry.person.ppid;
                let asks = |p: &Entry| matches!(p.body, Body::Native | Body::Many(_));
                let asked = self.table.get(ppid).is_none_or(asks);
                if let Some(entry) = self.table.get_mut(pid) {
                    entry.asked = asked;
                }
                for info in early {
                    self.deliver(pid, info);
                }
            }
            Some(entry) if entry.place == node && entry.body == Body::Starting => self.started(pid),
            Some(entry) if entry.place == node && entry.has_body() => {}
            // Its end is known here already, or it stands there for a body elsewhere.
            Some(_) => return,
        }
        self.follow(person);
    }

    /// The end of a body that was waited for on its node while the front daemon was away, so that the node did not count it any more
    /// when it came back.
    pub(crate) fn claim_ended(&mut self, node: NodeId, pid: Pid) {
        if let Some(entry) = self.table.get_mut(pid).filter(|e| e.body == Body::Unclaimed) {
            entry.place = node;
            entry.body = Body::Running;
        }
    }

    /// Brings the ghost to where the body is by now.
    fn follow(&mut self, person: Person) {
        let pid = person.pid;
        if person.sid == pid {
            self.session(pid);
        }
        self.group(pid, person.pgid);
        self.credentials(pid, person.creds);
        self.named(pid, person.name);
    }

    /// Ghosts that no node knows end.
    pub(crate) fn settled(&mut self) {
        for pid in self.table.which(|e| e.body == Body::Unclaimed) {
            self.log(pid, NodeId::FRONT, "ghost without body ends", 0);
            self.exited(pid, Exit::NodeLost, Usage::default());
        }
    }
}

/// The same, each after its parent if that is among them.
fn parents_first(bodies: Vec<Person>) -> Vec<Person> {
    let mut left: HashMap<Pid, Person> = bodies.into_iter().map(|p| (p.pid, p)).collect();
    let mut order: Vec<Pid> = left.keys().copied().collect();
    order.sort_unstable();
    let mut sorted = Vec::with_capacity(order.len());
    for pid in order {
        let mut line = Vec::new();
        let mut at = pid;
        while let Some(person) = left.remove(&at) {
            at = person.ppid;
            line.push(person);
        }
        sorted.extend(line.into_iter().rev());
    }
    sorted
}

impl Entry {
    /// Nobody waits any more for the answers to what `node` has asked.
    pub(crate) fn drop_asks(&mut self, node: NodeId) {
        for given in &mut self.given {
            if let What::Kill(ask) = &mut given.what {
                *ask = ask.filter(|(asker, _)| *asker != node);
            }
        }
        for step in &mut self.queue {
            if let Act::Kill { ask, .. } = &mut step.act {
                *ask = ask.filter(|(asker, _)| *asker != node);
            }
        }
    }
}
