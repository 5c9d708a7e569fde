//! Processes on their way from one node to another (DESIGN 4.6): who is told what, and when a move counts.
//!
//! The new node makes a process that is to become the one that moves; the old one stops its own, sends the image and keeps it still. Only when
//! all of it is there is the old node told to end its own, and only when it has is the new one told to let its process run. So at most
//! one of them can ever run, and until the old one has ended nothing is lost by giving up.
//!
//! | state | what happens | next |
//! |---|---|---|
//! | Preparing | the new node waits for the image | Carrying: the old node is to send it |
//! | Carrying | all of it is there | Leaving: the old node is to end its own |
//! | Preparing, Carrying | anything fails, or a link is cut | over: it stays |
//! | Leaving | the old node has ended it, or is lost | over: it has moved |
//! | Leaving | the old node could not, or is back with it | over: it stays |

use crate::front::Front;
use crate::persons::{kin_to_wire, to_wire};
use crate::places::State as NodeState;
use crate::runs::Asker;
use space::{Event, Kin, Person};
use std::collections::HashMap;
use std::net::SocketAddr;
use tracing::{info, warn};
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::Answer;
use wire::node::ToNode;
use wire::run::Caller;

/// How far a move is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Preparing,
    Carrying,
    Leaving,
}

/// What moves a move on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// The new node takes the image.
    Arriving,
    /// The new node has all of it.
    Arrived,
    /// The new node could not.
    NotArrived,
    /// The old node has ended its own.
    Left,
    /// The old node could not, or has it still.
    NotLeft,
    /// The link to the old node is cut.
    OldCut,
    /// The link to the new node is cut.
    NewCut,
    /// The old node is lost, and has ended everything on it.
    OldLost,
}

/// What follows from a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Nothing (yet).
    Waits,
    To(State),
    Stays,
    Moves,
}

/// The table of a move; every pair has an answer.
pub(crate) fn next(state: State, change: Change) -> Next {
    match (state, change) {
        (State::Preparing, Change::Arriving) => Next::To(State::Carrying),
        (State::Carrying, Change::Arrived) => Next::To(State::Leaving),
        (State::Leaving, Change::Left | Change::OldLost) => Next::Moves,
        (_, Change::NotLeft) => Next::Stays,
        // Whether it was told before is known when it is back, or lost.
        (State::Leaving, _) => Next::Waits,
        (State::Preparing | State::Carrying, Change::Arriving | Change::Arrived) => Next::Waits,
        (State::Preparing | State::Carrying, _) => Next::Stays,
    }
}

/// One process on its way.
#[derive(Debug)]
pub(crate) struct Move {
    state: State,
    asker: Asker,
    from: NodeId,
    to: NodeId,
    /// As it was when the new node was told of it.
    person: Option<Person>,
    key: [u8; 32],
    streams: bool,
}

/// All of them.
pub(crate) type Moves = HashMap<Pid, Move>;

impl Front {
    /// A client wants `pid` on node `to`.
    pub(crate) fn on_move(&mut self, asker: Asker, caller: &Caller, pid: Pid, to: NodeId) {
        match self.begin_move(asker, caller, pid, to) {
            Ok(true) => {}
            Ok(false) => self.answer(asker, Answer::Moved { pid, node: to }, true),
            Err(fault) => self.answer(asker, Answer::Failed(fault.doing(format!("move {pid} to node {to}"))), true),
        }
    }

    /// `false`: it is there.
    fn begin_move(&mut self, asker: Asker, caller: &Caller, pid: Pid, to: NodeId) -> Result<bool> {
        let view = self.space.get(pid).ok_or_else(|| Fault::gone(format!("{pid} is no process of the space")))?;
        let owner = &view.person.creds;
        let its = [owner.uid.real, owner.uid.effective, owner.uid.saved];
        if caller.creds.uid.effective != 0 && its != [caller.creds.uid.effective; 3] {
            return Err(Fault::refused(format!("{pid} is another user's")));
        }
        if !self.nodes.get(to).is_some_and(|node| node.state == NodeState::Up && node.link.is_some()) {
            return Err(Fault::refused(format!("node {to} is not up")));
        }
        let from = view.node;
        if from == to {
            return Ok(false);
        }
        if from.is_front() {
            return Err(Fault::refused(format!("{pid} runs on the front end, from which nothing is moved")));
        }
        if view.ended.is_some() {
            return Err(Fault::gone(format!("{pid} has ended")));
        }
        if self.moves.contains_key(&pid) {
            return Err(Fault::refused(format!("{pid} is on its way already")));
        }
        self.has_no_kin_there(pid, from)?;
        let key = link::random()?;
        let streams = self.runs.relays(pid);
        let new = Move { state: State::Preparing, asker, from, to, person: None, key, streams };
        self.moves.insert(pid, new);
        info!(%pid, %from, %to, "move: begins");
        self.events.push_back(Event::Arrive { pid, to });
        self.settle();
        // A process that has no body (yet) is not prepared for.
        if self.moves.get(&pid).is_some_and(|one| one.person.is_none()) {
            self.moves.remove(&pid);
            return Err(Fault::refused(format!("{pid} does not run yet, or no more")));
        }
        Ok(true)
    }

    /// Nobody stands yet for a process on a node that it has left, so those who would miss it there keep it.
    fn has_no_kin_there(&self, pid: Pid, node: NodeId) -> Result<()> {
        let there = |other: &space::View<'_>| other.node == node && other.person.pid != pid && other.ended.is_none();
        let Some(own) = self.space.get(pid).map(|view| view.person.clone()) else { return Ok(()) };
        let why = |other: &Person| match other {
            other if other.pid == own.ppid => Some("its parent runs on its node"),
            other if other.ppid == pid => Some("it has a child on its node"),
            other if other.pgid == pid => Some("it leads a group that others on its node are in"),
            other if other.sid == pid => Some("it leads a session that others on its node are in"),
            _ => None,
        };
        let others = self.space.iter().filter(there);
        match others.filter_map(|other| why(other.person).map(|why| (why, other.person.pid))).next() {
            Some((why, other)) => Err(Fault::refused(format!("{why}: {other}"))),
            None => Ok(()),
        }
    }

    /// The space knows who it is and whom it needs.
    pub(crate) fn arrive(&mut self, node: NodeId, person: Person, kin: Vec<Kin>) {
        let pid = person.pid;
        let Some(one) = self.moves.get_mut(&pid) else { return };
        one.person = Some(person.clone());
        let key = one.key.to_vec();
        let channel = match one.streams.then(|| self.runs.again(pid, node)).transpose() {
            Ok(channel) => channel,
            Err(fault) => return self.move_fails(pid, fault),
        };
        let kin = kin.into_iter().map(kin_to_wire).collect();
        self.send(node, &ToNode::Arrive { person: to_wire(person), kin, channel, key });
    }

    /// One of the two nodes says something of a move, in the order of what else it says.
    pub(crate) fn move_says(&mut self, node: NodeId, pid: Pid, change: Change, why: Option<Fault>) {
        self.settle();
        let why = why.map_or_else(|| Fault::bug(format!("{change:?}")), |fault| fault.on(node));
        self.move_changes(node, pid, change, why);
    }

    fn move_changes(&mut self, node: NodeId, pid: Pid, change: Change, why: Fault) {
        let Some(one) = self.moves.get(&pid) else { return self.not_moving(node, pid, change) };
        let side = match change {
            Change::Arriving | Change::Arrived | Change::NotArrived | Change::NewCut => one.to,
            Change::Left | Change::NotLeft | Change::OldCut | Change::OldLost => one.from,
        };
        if side != node {
            return;
        }
        let state = one.state;
        let next = next(state, change);
        info!(%pid, "move: {state:?} -> {change:?} -> {next:?}");
        match next {
            Next::Waits => {}
            Next::To(State::Leaving) => self.leave(pid),
            Next::To(_) => {}
            Next::Stays => self.move_fails(pid, why),
            Next::Moves => self.has_moved(pid),
        }
    }

    /// The new node takes the image at this port.
    pub(crate) fn arriving(&mut self, node: NodeId, pid: Pid, port: u16) {
        self.move_changes(node, pid, Change::Arriving, Fault::bug("arriving"));
        let address = self.nodes.get(node).map(|node| SocketAddr::new(node.address.ip(), port).to_string());
        let Some(one) = self.moves.get_mut(&pid).filter(|one| one.state == State::Preparing && one.to == node) else {
            return;
        };
        one.state = State::Carrying;
        let (from, key, streams) = (one.from, one.key.to_vec(), one.streams);
        let address = address.unwrap_or_default();
        self.send(from, &ToNode::Depart { pid, address, key, streams });
    }

    fn leave(&mut self, pid: Pid) {
        let Some(one) = self.moves.get_mut(&pid) else { return };
        let now = self.space.get(pid).map(|view| view.person);
        let place = |person: &Person| (person.ppid, person.pgid, person.sid);
        if now.map(place) != one.person.as_ref().map(place) {
            let what = "its parent, group or session has changed on the way: try again";
            return self.move_fails(pid, Fault::refused(what));
        }
        one.state = State::Leaving;
        let from = one.from;
        self.events.push_back(Event::Leaves { pid });
        self.settle();
        self.send(from, &ToNode::Leave { pid });
    }

    fn has_moved(&mut self, pid: Pid) {
        let Some(Move { asker, from, to, .. }) = self.moves.remove(&pid) else { return };
        let person = self.space.get(pid).map(|view| to_wire(view.person.clone()));
        let Some(person) = person else { return self.send(to, &ToNode::Abandon { pid }) };
        self.send(to, &ToNode::Go { person });
        self.runs.moved(pid, to);
        self.count_moved(from, to);
        self.events.push_back(Event::Moved { pid, to });
        // Where its number comes from it stands from now on: so the number stays taken there, and a kill finds it.
        if let Some(owner) = self.leases.owner(pid).filter(|owner| *owner != to) {
            self.events.push_back(Event::StandInWanted { node: owner, pid, native: None });
        }
        self.settle();
        self.answer(asker, Answer::Moved { pid, node: to }, true);
    }

    fn count_moved(&mut self, from: NodeId, to: NodeId) {
        if let Some(node) = self.nodes.get_mut(from) {
            node.bodies = node.bodies.saturating_sub(1);
        }
        if let Some(node) = self.nodes.get_mut(to) {
            node.bodies += 1;
        }
    }

    fn move_fails(&mut self, pid: Pid, why: Fault) {
        let Some(Move { state, asker, from, to, streams, .. }) = self.moves.remove(&pid) else { return };
        info!(%pid, %why, "move: it stays");
        self.send(to, &ToNode::Abandon { pid });
        if state != State::Preparing {
            self.send(from, &ToNode::Stay { pid });
        }
        if let Some((asker, answer)) = streams.then(|| self.runs.stays(pid)).flatten() {
            self.answer(asker, answer, false);
        }
        self.events.push_back(Event::Stays { pid });
        self.settle();
        self.answer(asker, Answer::Failed(why.doing(format!("move {pid} to node {to}"))), true);
    }

    /// Nobody waits for it any more (Ctrl-C): what nobody was told to end yet stays where it is.
    pub(crate) fn moves_asker_gone(&mut self, asker: Asker) {
        let stays = self.moves.iter().filter(|(_, one)| one.asker == asker && one.state != State::Leaving);
        for pid in stays.map(|(pid, _)| *pid).collect::<Vec<_>>() {
            self.move_fails(pid, Fault::gone("who has asked for it is gone"));
        }
    }

    /// A node speaks of a move that is over, or that a daemon before this one had begun.
    fn not_moving(&mut self, node: NodeId, pid: Pid, change: Change) {
        if change != Change::Arrived {
            return;
        }
        match self.space.get(pid) {
            Some(view) if view.node == node && view.ended.is_none() => {
                let person = to_wire(view.person.clone());
                self.send(node, &ToNode::Go { person });
            }
            _ => {
                warn!(%node, %pid, "move: nobody waits for what has arrived");
                self.send(node, &ToNode::Abandon { pid });
            }
        }
    }

    /// The link to a node is cut (`lost`: and its time is over).
    pub(crate) fn moves_lose(&mut self, node: NodeId, lost: bool) {
        let concerned = self.moves.iter().filter(|(_, one)| one.from == node || one.to == node);
        let concerned: Vec<(Pid, bool)> = concerned.map(|(pid, one)| (*pid, one.from == node)).collect();
        for (pid, old) in concerned {
            let change = match (old, lost) {
                (true, true) => Change::OldLost,
                (true, false) => Change::OldCut,
                (false, _) => Change::NewCut,
            };
            self.move_changes(node, pid, change, Fault::gone(format!("node {node} does not answer")));
        }
    }

    /// A node is back with these bodies: those that were to leave it have, or not.
    pub(crate) fn moves_back(&mut self, node: NodeId, bodies: &[Pid]) {
        let leaving = self.moves.iter().filter(|(_, one)| one.from == node && one.state == State::Leaving);
        for pid in leaving.map(|(pid, _)| *pid).collect::<Vec<_>>() {
            let change = if bodies.contains(&pid) { Change::NotLeft } else { Change::Left };
            self.move_changes(node, pid, change, Fault::gone(format!("the link to node {node} was cut")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 3] = [State::Preparing, State::Carrying, State::Leaving];
    const CHANGES: [Change; 8] = [
        Change::Arriving,
        Change::Arrived,
        Change::NotArrived,
        Change::Left,
        Change::NotLeft,
        Change::OldCut,
        Change::NewCut,
        Change::OldLost,
    ];

    /// Columns as in `CHANGES`.
    const TABLE: [[Next; 8]; 3] = {
        use Next::{Moves, Stays, To, Waits};
        [
            [To(State::Carrying), Waits, Stays, Stays, Stays, Stays, Stays, Stays],
            [Waits, To(State::Leaving), Stays, Stays, Stays, Stays, Stays, Stays],
            [Waits, Waits, Waits, Moves, Stays, Waits, Waits, Moves],
        ]
    };

    #[test]
    fn every_change_in_every_state_is_as_the_table_says() {
        for (row, state) in STATES.into_iter().enumerate() {
            for (column, change) in CHANGES.into_iter().enumerate() {
                assert_eq!(next(state, change), TABLE[row][column], "{state:?} {change:?}");
            }
        }
    }

    #[test]
    fn once_the_old_node_was_told_to_end_it_only_that_node_decides() {
        for change in [Change::Arriving, Change::Arrived, Change::NotArrived, Change::NewCut, Change::OldCut] {
            assert_eq!(next(State::Leaving, change), Next::Waits);
        }
    }
}
