//! The nodes: bodies that do what they like, and tell it in order, node by node.

use super::tree::{pid, State, Tree};
use super::Rng;
use crate::{BodyEvent, Event, KillTarget, Person, Usage};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use vocab::{Creds, Exit, Ids, NodeId, Pid, Sig, SigInfo};

/// From the front end to a node.
#[derive(Clone, Debug)]
pub(super) enum Order {
    Start { person: Person, fails: bool },
    Signal { target: i32, info: SigInfo, turn: Option<u64> },
    Ended { target: i32, exit: Exit },
}

#[derive(Debug)]
pub(super) struct Bodies {
    pub(super) tree: Tree,
    /// What each node has still to tell.
    pub(super) told: BTreeMap<NodeId, VecDeque<Event>>,
    pub(super) inbox: BTreeMap<NodeId, VecDeque<Order>>,
    /// Processes whose end the front end knows.
    pub(super) known_ends: BTreeSet<i32>,
    pub(super) asked: BTreeSet<(NodeId, u64)>,
    pub(super) last: i32,
    /// Of bodies: the newest turn of a signal that they were given.
    turns: BTreeMap<i32, u64>,
    /// May have stopped or gone on, and nobody has looked yet.
    pub(super) unlooked: BTreeSet<i32>,
    /// What was told last.
    seen: BTreeMap<i32, (bool, Option<u64>)>,
    /// Families and jobs span nodes. No node sees then what another one does at the same moment, so nobody makes sessions or takes
    /// orphans, where one global order would be needed to say what is right.
    pub(super) spans: bool,
}

fn creds(uid: u32) -> Creds {
    Creds { uid: Ids::all(uid), gid: Ids::all(uid), groups: Vec::new() }
}

impl Bodies {
    pub(super) fn new() -> Bodies {
        Bodies {
            tree: Tree::new(),
            told: BTreeMap::new(),
            inbox: BTreeMap::new(),
            known_ends: BTreeSet::new(),
            asked: BTreeSet::new(),
            last: 1000,
            turns: BTreeMap::new(),
            unlooked: BTreeSet::new(),
            seen: BTreeMap::new(),
            spans: false,
        }
    }

    pub(super) fn fresh(&mut self) -> i32 {
        self.last += 1;
        self.last
    }

    fn tell(&mut self, node: NodeId, event: BodyEvent) {
        self.told.entry(node).or_default().push_back(Event::Body { node, event });
    }

    pub(super) fn person(&self, n: i32) -> Person {
        let p = &self.tree.procs[&n];
        Person {
            pid: pid(n),
            ppid: pid(p.ppid),
            pgid: pid(p.pgid),
            sid: pid(p.sid),
            creds: creds(p.uid),
            name: vec![p.name],
        }
    }

    pub(super) fn ready(&self) -> Vec<i32> {
        let ready = |p: &super::tree::Proc| p.state == State::Run && !p.node.is_front() && !p.blocked;
        self.tree.procs.iter().filter(|(_, p)| ready(p)).map(|(n, _)| *n).collect()
    }

    /// One body does something.
    pub(super) fn act(&mut self, n: i32, rng: &mut Rng, nodes: &[NodeId]) {
        let node = self.tree.procs[&n].node;
        match rng.below(16) {
            0..=3 => {
                let child = self.fresh();
                self.tree.fork(n, child);
                self.tell(node, BodyEvent::Forked { parent: pid(n), child: pid(child) });
            }
            4 => {
                self.tree.at(n).name = rng.below(100) as u8;
                let name = vec![self.tree.procs[&n].name];
                self.tell(node, BodyEvent::Named { pid: pid(n), name });
            }
            5 => {
                self.tree.at(n).uid = [0, 7, 8][rng.below(3)];
                let creds = creds(self.tree.procs[&n].uid);
                self.tell(node, BodyEvent::Credentials { pid: pid(n), creds });
            }
            6 | 7 => self.change_group(n, rng),
            8 if !self.spans => {
                if self.tree.setsid(n).is_ok() {
                    self.tell(node, BodyEvent::Session { pid: pid(n) });
                }
            }
            9 if !self.spans => {
                let on = !self.tree.procs[&n].subreaper;
                self.tree.at(n).subreaper = on;
                self.tell(node, BodyEvent::Subreaper { pid: pid(n), on });
            }
            10 => self.exit(n, Exit::Code(rng.below(256) as u8)),
            11 | 12 => self.wait(n, rng),
            13 => self.kill(n, rng),
            14 if self.spans => {
                let to = nodes[rng.below(nodes.len())];
                if to != node {
                    self.tree.at(n).blocked = true;
                    let run = Event::Run { person: self.person(n), at: node, to, kin: Vec::new() };
                    self.told.entry(node).or_default().push_back(run);
                }
            }
            _ => {
                let sig = [Sig::TERM, Sig::STOP, Sig::CONT, Sig::TSTP, Sig::KILL][rng.below(5)];
                let here: Vec<i32> = self.tree.procs.iter().filter(|(_, p)| p.node == node).map(|(n, _)| *n).collect();
                self.signal(node, here[rng.below(here.len())], SigInfo::kill(sig, pid(n), 0));
            }
        }
    }

    /// setpgid, of itself or a child, to a group whose members are on this node (others would need a word with the front end).
    fn change_group(&mut self, n: i32, rng: &mut Rng) {
        let me = self.tree.procs[&n].clone();
        let mut whom: Vec<i32> = self.tree.children(n).collect();
        whom.retain(|c| self.tree.alive(*c) && self.tree.procs[c].node == me.node && !self.tree.procs[c].blocked);
        whom.push(n);
        let whom = whom[rng.below(whom.len())];
        // Not one that only a zombie of a parent elsewhere keeps: that parent's end, and with it the zombie's, may be told first.
        let keeps = |n: i32| {
            let p = &self.tree.procs[&n];
            let reaper = self.tree.procs.get(&p.ppid);
            self.tree.alive(n) || reaper.is_some_and(|r| r.node == me.node && !r.blocked)
        };
        let members = self.tree.procs.iter().filter(|(_, p)| p.node == me.node && p.sid == me.sid && !p.blocked);
        let mut groups: Vec<i32> = members.filter(|(n, _)| keeps(**n)).map(|(_, p)| p.pgid).collect();
        groups.push(whom);
        let pgid = groups[rng.below(groups.len())];
        if self.tree.procs[&whom].pgid != pgid
            && self.tree.procs[&whom].sid == me.sid
            && self.tree.setpgid(whom, pgid).is_ok()
        {
            self.tell(me.node, BodyEvent::Group { pid: pid(whom), pgid: pid(pgid) });
        }
    }

    fn wait(&mut self, n: i32, rng: &mut Rng) {
        let node = self.tree.procs[&n].node;
        let mut dead: Vec<i32> = self.tree.children(n).filter(|c| !self.tree.alive(*c)).collect();
        dead.retain(|c| self.tree.procs[c].node == node || self.known_ends.contains(c));
        if let Some(child) = dead.get(rng.below(dead.len().max(1))).copied() {
            self.tree.reap(n, child).expect("a dead child");
            self.tell(node, BodyEvent::Reaped { pid: pid(child) });
        }
    }

    fn kill(&mut self, n: i32, rng: &mut Rng) {
        let node = self.tree.procs[&n].node;
        let all: Vec<i32> = self.tree.procs.keys().copied().collect();
        let any = Pid(all[rng.below(all.len())]);
        let target = match rng.below(8) {
            0 => KillTarget::All,
            1 => KillTarget::Group(Pid(self.tree.procs[&any.0].pgid)),
            2 => KillTarget::Thread { pid: any, tid: any },
            _ => KillTarget::Process(any),
        };
        let sig = [0, 10, 10, 15, 18, 19][rng.below(6)];
        let id = self.fresh() as u64;
        self.asked.insert((node, id));
        let asked = Event::KillAsked { node, id, sender: pid(n), target, sig };
        self.told.entry(node).or_default().push_back(asked);
    }

    pub(super) fn exit(&mut self, n: i32, exit: Exit) {
        let node = self.tree.procs[&n].node;
        let children: Vec<i32> = self.tree.children(n).collect();
        self.tree.exit(n, exit);
        self.tell(node, BodyEvent::Exited { pid: pid(n), exit, usage: Usage::default() });
        for child in children {
            if let Some(p) = self.tree.procs.get(&child).cloned().filter(|_| self.tree.alive(child)) {
                self.tell(p.node, BodyEvent::Adopted { pid: pid(child), ppid: pid(p.ppid) });
            }
        }
    }

    pub(super) fn signal(&mut self, node: NodeId, n: i32, info: SigInfo) {
        if !self.tree.alive(n) {
            return;
        }
        let p = self.tree.procs[&n].clone();
        if p.blocked || p.node != node {
            // It is becoming a stand-in here.
            let event = Event::StandInSignalled { node, target: pid(n), info, turn: None };
            self.told.entry(node).or_default().push_back(event);
            return;
        }
        match (info.sig, p.state) {
            (Sig::KILL, _) => self.exit(n, Exit::Killed { sig: Sig::KILL, core: false }),
            (Sig::TERM, State::Run) => self.exit(n, Exit::Killed { sig: Sig::TERM, core: false }),
            (Sig::CONT, State::Stop(_)) => {
                self.tree.at(n).state = State::Run;
                self.unlooked.insert(n);
            }
            (sig, State::Run) if sig.stops() => {
                self.tree.at(n).state = State::Stop(sig);
                self.unlooked.insert(n);
            }
            _ => {}
        }
    }

    /// The node looks at a body that may have stopped or gone on, late.
    pub(super) fn look(&mut self, n: i32) {
        self.unlooked.remove(&n);
        let Some(p) = self.tree.procs.get(&n).filter(|p| !p.blocked && self.tree.alive(n)) else { return };
        let (node, turn, stopped) = (p.node, self.turns.get(&n).copied(), p.state);
        let seen = (stopped != State::Run, turn);
        if self.seen.insert(n, seen).unwrap_or_default() == seen {
            return;
        }
        self.tell(
            node,
            match stopped {
                State::Stop(sig) => BodyEvent::Stopped { pid: pid(n), sig, turn },
                _ => BodyEvent::Continued { pid: pid(n), turn },
            },
        );
    }

    /// The node does what it was told next.
    pub(super) fn obey(&mut self, node: NodeId) {
        let Some(order) = self.inbox.get_mut(&node).and_then(VecDeque::pop_front) else { return };
        match order {
            Order::Signal { target, info, turn } => {
                self.signal(node, target, info);
                // A body on another node by now has that node's turns.
                let here = self.tree.procs.get(&target).is_some_and(|p| p.node == node);
                if let Some(turn) = turn.filter(|_| here) {
                    self.turns.insert(target, turn);
                    self.unlooked.insert(target);
                }
            }
            Order::Ended { target, exit } => {
                self.known_ends.insert(target);
                if self.tree.procs.get(&target).is_some_and(|p| p.blocked) {
                    self.tree.exit(target, exit);
                }
            }
            Order::Start { person, fails } => {
                let n = person.pid.0;
                if !self.tree.alive(n) {
                    return;
                }
                self.tree.at(n).blocked = false;
                // This node has told nothing of it yet.
                self.turns.remove(&n);
                self.seen.remove(&n);
                if fails {
                    self.tree.exit(n, Exit::Code(127));
                    let event = Event::NotStarted { node, pid: pid(n), status: 127 };
                    self.told.entry(node).or_default().push_back(event);
                } else {
                    self.tell(node, BodyEvent::Started { pid: pid(n) });
                }
            }
        }
    }

    /// Everything on it is dead, and what it had to tell is lost.
    pub(super) fn lose(&mut self, node: NodeId) {
        for event in self.told.remove(&node).unwrap_or_default() {
            let (Event::Body { event: BodyEvent::Exited { pid, .. }, .. } | Event::NotStarted { pid, .. }) = event
            else {
                continue;
            };
            self.tree.exits.insert(pid.0, Exit::NodeLost);
            if let Some(zombie) = self.tree.procs.get_mut(&pid.0) {
                zombie.state = State::Zombie(Exit::NodeLost);
            }
        }
        self.inbox.remove(&node);
        self.asked.retain(|(asker, _)| *asker != node);
        let here: Vec<i32> = self.tree.procs.iter().filter(|(_, p)| p.node == node).map(|(n, _)| *n).collect();
        for n in here {
            if self.tree.alive(n) {
                self.tree.exit(n, Exit::NodeLost);
            }
        }
    }
}
