//! Moves that a daemon before this one had begun, and what nodes say of moves that are over.
//!
//! This one knows nothing of them; each node tells how far it is when it is back. The old node alone knows whether the process has left it:
//!
//! | the old node says | the new one says | what is done |
//! |---|---|---|
//! | it was not to leave yet | anything | it stays: `Stay` there, `Abandon` here |
//! | it is here | it has arrived | `Abandon` |
//! | it has left | it has arrived | it is on the new node: `Go` |
//! | it has left | it is here | that is so: `Forget` |
//! | it has left, or is about to | it runs here because the old node has let it | it is on the new node, and the signals that came follow |
//! | it is about to leave | it has arrived | the old node will say more |
//! | nothing, and its time is over | it has arrived | it has ended with the old node, where it may have run on since: `Abandon` |
//! | it has left | nothing, and its time is over | it has ended with the new node |

use crate::front::Front;
use crate::move_one::Move;
use space::{BodyEvent, Event};
use std::collections::HashMap;
use tracing::{debug, info, warn};
use vocab::{Exit, NodeId, Pid, SigInfo};
use wire::node::ToNode;
use wire::way::Way;

/// What one node has said of processes, and the other has not yet.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// The old node is about to end them.
    leaving: HashMap<Pid, NodeId>,
    /// The old node has ended them.
    left: HashMap<Pid, Left>,
    /// They wait on the new node.
    arrived: HashMap<Pid, NodeId>,
    /// They run on the new node because the old one has let them.
    ran: HashMap<Pid, NodeId>,
}

/// What a node has said of one that has left it.
#[derive(Debug)]
struct Left {
    node: NodeId,
    signals: Vec<SigInfo>,
    stands: bool,
}

/// What is known of where a process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// It has ended, or never was.
    Nowhere,
    /// There is a ghost, and its node is not back yet.
    Unknown,
    On(NodeId),
}

impl Front {
    fn place(&self, pid: Pid) -> Place {
        match self.space.get(pid) {
            Some(view) if view.ended.is_some() => Place::Nowhere,
            Some(view) if view.node.is_front() && self.settle_at_us.is_some() && !self.aways.stayed.contains(&pid) => {
                Place::Unknown
            }
            Some(view) => Place::On(view.node),
            None => Place::Nowhere,
        }
    }

    /// Is it known to be on another node than this one?
    pub(crate) fn is_elsewhere(&self, pid: Pid, node: NodeId) -> bool {
        matches!(self.place(pid), Place::On(place) if place != node)
    }

    /// A node is back with these bodies, and is so far with these that it moves. Those of which this daemon knows have been dealt with.
    pub(crate) fn doubts_of(&mut self, node: NodeId, bodies: &[Pid], ways: Vec<Way>) {
        for way in ways {
            match way {
                way if self.moves.contains_key(&way.pid()) => {}
                Way::Leaves(pid) if self.doubts.ran.contains_key(&pid) => {
                    info!(%pid, %node, "move: it runs where a daemon before this one has had it go");
                    let to = self.doubts.ran.remove(&pid).unwrap_or(node);
                    self.moves.insert(pid, Move::decided(node, to, true));
                }
                Way::Departs(pid) => self.send(node, &ToNode::Stay { pid }),
                Way::Leaves(pid) => self.leaves_in_doubt(node, pid),
                Way::Left { pid, signals, stands } => self.left_in_doubt(node, pid, signals, stands),
                Way::Arrived(pid) => self.arrived_in_doubt(node, pid),
                Way::Runs(pid) => self.ran_in_doubt(node, pid),
            }
        }
        self.settle();
        for pid in bodies {
            if self.moves.contains_key(pid) {
                continue;
            }
            if let Some(left) = self.doubts.left.remove(pid) {
                self.has_left(*pid, left);
            }
            if !self.doubts.leaving.contains_key(pid) {
                self.abandon_arrived(*pid);
            }
        }
    }

    /// It is about to leave this node, or has.
    pub(crate) fn leaves_in_doubt(&mut self, node: NodeId, pid: Pid) {
        self.doubts.leaving.insert(pid, node);
        self.events.push_back(Event::Leaves { pid });
    }

    /// It is known where it is: the signals that have come where it was.
    pub(crate) fn left_no_doubt(&mut self, pid: Pid) -> Vec<SigInfo> {
        self.doubts.leaving.remove(&pid);
        self.doubts.left.remove(&pid).map_or(Vec::new(), |left| left.signals)
    }

    /// Before it is heard who is on a node: who runs there because the old node has let them, which that had yet to tell. Those of them that have ended are not among
    /// the bodies, which would be their end: that comes with the news.
    pub(crate) fn landed_in_doubt(&mut self, node: NodeId, ways: &[Way], bodies: &[Pid]) {
        let run = ways.iter().filter_map(|way| if let Way::Runs(pid) = way { Some(*pid) } else { None });
        self.landed(node, run.filter(|pid| bodies.contains(pid)));
    }

    /// Before it is heard that these have ended on a node: so they had landed there.
    pub(crate) fn ended_in_doubt(&mut self, node: NodeId, ended: &[Pid]) {
        self.landed(node, ended.iter().copied());
    }

    fn landed(&mut self, node: NodeId, all: impl Iterator<Item = Pid>) {
        for pid in all {
            let Some(from) = self.doubts.leaving.get(&pid).copied().filter(|from| *from != node) else { continue };
            self.doubts.leaving.remove(&pid);
            info!(%pid, %from, to = %node, "move: it runs where a daemon before this one has had it go");
            self.moves.insert(pid, Move::decided(from, node, true));
            // To a node that is not there it would be lost.
            self.events.push_back(Event::NodeUp { node });
            self.events.push_back(Event::Moved { pid, to: node });
            self.settle();
            self.let_run(node, pid);
        }
    }

    /// The old node has let it run on this one, and there is no move.
    fn ran_in_doubt(&mut self, node: NodeId, pid: Pid) {
        if self.place(pid) == Place::Nowhere {
            return self.send(node, &ToNode::Abandon { pid });
        }
        self.let_run(node, pid);
        if let Some(left) = self.doubts.left.remove(&pid) {
            self.signals_follow(left.node, pid, left.signals.clone());
            self.has_left(pid, left);
        } else if self.settle_at_us.is_some() {
            self.doubts.ran.insert(pid, node);
        }
    }

    /// It is on the front end, and nothing of it on any node.
    pub(crate) fn here_in_doubt(&mut self, pid: Pid) {
        if let Some(left) = self.doubts.left.remove(&pid) {
            self.signals_follow(left.node, pid, left.signals.clone());
            self.has_left(pid, left);
        } else {
            self.doubts.ran.insert(pid, NodeId::FRONT);
        }
    }

    /// The old node has ended it, and there is no move.
    pub(crate) fn left_in_doubt(&mut self, node: NodeId, pid: Pid, signals: Vec<SigInfo>, stands: bool) {
        self.doubts.leaving.remove(&pid);
        let left = Left { node, signals, stands };
        if self.doubts.ran.remove(&pid).is_some() {
            self.signals_follow(node, pid, left.signals.clone());
            return self.has_left(pid, left);
        }
        match self.place(pid) {
            Place::Unknown => {}
            Place::On(here) if here == node => {}
            Place::On(_) | Place::Nowhere => return self.has_left(pid, left),
        }
        match self.doubts.arrived.remove(&pid) {
            Some(to) => self.lands(pid, to, left),
            None => {
                info!(%pid, %node, "has left, nobody has said where to");
                self.doubts.left.insert(pid, left);
            }
        }
    }

    /// What has become of it is known.
    fn has_left(&mut self, pid: Pid, left: Left) {
        if left.stands {
            self.stands_where_it_was(pid, left.node);
        }
        self.send(left.node, &ToNode::Forget { pid });
    }

    /// It waits on the new node, and there is no move.
    pub(crate) fn arrived_in_doubt(&mut self, node: NodeId, pid: Pid) {
        if let Some(left) = self.doubts.left.remove(&pid) {
            return self.lands(pid, node, left);
        }
        match self.place(pid) {
            // It was called off, and a program is to run there under its number, of which the node has not read yet.
            Place::On(here) if here == node && self.space.get(pid).is_some_and(|view| view.starting) => {
                debug!(%node, %pid, "what has arrived was called off");
            }
            Place::On(here) if here == node => self.let_run(node, pid),
            Place::Unknown => drop(self.doubts.arrived.insert(pid, node)),
            Place::On(_) if self.doubts.leaving.contains_key(&pid) => drop(self.doubts.arrived.insert(pid, node)),
            Place::On(_) | Place::Nowhere => {
                warn!(%node, %pid, "nobody waits for what has arrived");
                self.send(node, &ToNode::Abandon { pid });
            }
        }
    }

    /// The old node could not end it, and there is no move.
    pub(crate) fn stays_in_doubt(&mut self, node: NodeId, pid: Pid) {
        if self.doubts.leaving.get(&pid) == Some(&node) {
            self.doubts.leaving.remove(&pid);
            self.events.push_back(Event::Stays { pid });
            self.settle();
            self.abandon_arrived(pid);
        }
    }

    fn abandon_arrived(&mut self, pid: Pid) {
        if let Some(to) = self.doubts.arrived.remove(&pid) {
            self.send(to, &ToNode::Abandon { pid });
        }
    }

    /// Both nodes have said that it has moved.
    fn lands(&mut self, pid: Pid, to: NodeId, left: Left) {
        let Left { node: from, signals, stands } = left;
        info!(%pid, %from, %to, "move: goes on where a daemon before this one has left it");
        self.moves.insert(pid, Move::decided(from, to, false));
        self.left(from, pid, signals, stands);
    }

    /// A node is lost, and everything on it has ended.
    pub(crate) fn doubts_lose(&mut self, node: NodeId) {
        let on_it = self.doubts.leaving.iter().filter(|(_, from)| **from == node);
        for pid in on_it.map(|(pid, _)| *pid).collect::<Vec<_>>() {
            self.doubts.leaving.remove(&pid);
            self.abandon_arrived(pid);
        }
        self.doubts.arrived.retain(|_, to| *to != node);
        self.doubts.ran.retain(|_, to| *to != node);
    }

    /// The time in which nodes could come back is over.
    pub(crate) fn doubts_over(&mut self) {
        for pid in self.doubts.arrived.keys().copied().collect::<Vec<_>>() {
            if !self.doubts.leaving.contains_key(&pid) {
                self.abandon_arrived(pid);
            }
        }
        self.doubts.ran.clear();
        for (pid, left) in std::mem::take(&mut self.doubts.left) {
            let node = left.node;
            self.has_left(pid, left);
            let (exit, usage) = (Exit::NodeLost, Default::default());
            self.events.push_back(Event::Body { node, event: BodyEvent::Exited { pid, exit, usage } });
        }
    }
}
