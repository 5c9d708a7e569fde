//! Processes on their way from one node to another (docs/mechanisms.md, "Moving"): who is told what, and when a move counts. The states and their table: [`crate::move_states`].
//!
//! What a daemon that ends had begun the next one learns from the two nodes ([`crate::doubts`]).

use crate::branches::BRANCH_US;
use crate::fetching::NODE_LOST;
use crate::front::Front;
use crate::move_one::Move;
use crate::move_states::{next, Change, Next, State};
use crate::persons::{all_to_wire, to_wire};
use crate::runs::{Again, Asker};
use kern::clock::monotonic_us;
use kern::faultpoint::reach;
use space::{BodyEvent, Event, Kin, Person};
use std::collections::HashMap;
use std::net::SocketAddr;
use tracing::info;
use vocab::{Exit, Fault, NodeId, Pid, Result, SigInfo};
use wire::ask::Answer;
use wire::feed::Happening;
use wire::look::Progress;
use wire::node::ToNode;
use wire::run::Caller;
use wire::way::Way;

/// What it hears first of the two nodes, and what then, it cannot choose.
const HAS_LEFT: &str = "front knows that it has left";
const RUNS: &str = "front knows that it runs";

/// All of them.
pub(crate) type Moves = HashMap<Pid, Move>;

impl Front {
    /// A client wants `pid` on node `to`.
    pub(crate) fn on_move(
        &mut self,
        asker: Asker,
        caller: &Caller,
        (pid, to): (Pid, NodeId),
        (progress, lazy): (bool, bool),
        executes: Vec<u8>,
    ) {
        let user = caller.ordinary();
        let wanted = |decided| Move { asker: Some(asker), progress, lazy, user, executes, ..decided };
        match self.begin_move(caller, (pid, to), lazy, wanted) {
            Ok(true) => {}
            Ok(false) => self.answer(asker, Answer::Moved { pid, node: to }, true),
            Err(fault) => self.answer(asker, Answer::Failed(fault.doing(format!("move {pid} to node {to}"))), true),
        }
    }

    /// `false`: it is there.
    fn begin_move(
        &mut self,
        caller: &Caller,
        (pid, to): (Pid, NodeId),
        lazy: bool,
        wanted: impl FnOnce(Move) -> Move,
    ) -> Result<bool> {
        let from = self.is_movable(caller, pid)?;
        let has_its_streams_from = self.space.streams_of(pid).unwrap_or(pid);
        if [pid, has_its_streams_from].iter().any(|pid| self.aways.has_no_ghost_yet(*pid)) {
            // Who has moved it is told when it runs there, which may be before.
            return Err(Fault::changed("what takes its place on the front end has yet to relay its streams"));
        }
        if to.is_front() {
            self.not_to_come_home(pid, lazy).map_or(Ok(()), |why| Err(Fault::refused(why)))?;
        } else {
            self.nodes.takes_processes(to)?;
        }
        self.uses(to, &caller.creds)?;
        // Also where it runs already: with memory to come of one that moves lazily, its old node is not done with it.
        if self.moves.contains_key(&pid) {
            return Err(Fault::refused(format!("{pid} is on its way already")));
        }
        if from == to {
            return Ok(false);
        }
        if from.is_front() && lazy {
            return Err(Fault::refused("--lazy is between nodes only"));
        }
        self.may_move_more(caller)?;
        let key = link::random()?;
        let streams = self.relayed_with(pid);
        let new = Move { state: State::Preparing, key, streams, ..wanted(Move::decided(from, to, false)) };
        if from.is_front() {
            self.begin_away(pid, to)?;
        }
        self.moves.insert(pid, new);
        info!(%pid, %from, %to, "move: begins");
        self.happened(&Happening::Begun { pid, from, to });
        reach("front begins");
        self.events.push_back(Event::Arrive { pid, to });
        self.settle();
        // A process that has no body (yet) is not prepared for.
        if self.moves.get(&pid).is_some_and(|one| one.person.is_none()) {
            self.moves.remove(&pid);
            self.forget_away(pid);
            let why = Fault::refused(format!("{pid} does not run yet, or no more"));
            self.happened(&Happening::Stayed { pid, from, to, why: why.to_string() });
            return Err(why);
        }
        Ok(true)
    }

    /// The space knows who it is and whom it needs.
    pub(crate) fn arrive(&mut self, node: NodeId, person: Person, kin: Vec<Kin>, children: Vec<Pid>) {
        let pid = person.pid;
        let Some(one) = self.moves.get_mut(&pid) else { return };
        one.person = Some(person.clone());
        one.children.clone_from(&children);
        let (key, from, lazy, user) = (one.key.to_vec(), one.from, one.lazy, one.user.clone());
        if node.is_front() {
            let begun = self.begin_home(pid, key, user);
            let noted = begun.map(|branch| self.moves.get_mut(&pid).map_or((), |one| one.branch = branch));
            return noted.unwrap_or_else(|fault| self.move_fails(pid, fault));
        }
        let channel = match one.streams.map(|program| self.runs.again(program, pid, (from, node))).transpose() {
            Ok(Some(Again { to, branch, relay })) => {
                one.branch = Some(branch);
                relay.into_iter().for_each(|(relay, told)| self.send(relay, &told));
                Some(to)
            }
            Ok(None) => self.aways.channel(pid),
            Err(fault) => return self.move_fails(pid, fault),
        };
        let (kin, name) = (all_to_wire(kin), kern::users::name(person.creds.uid.effective));
        self.send(node, &ToNode::Arrive { person: to_wire(person), kin, channel, key, children, lazy, user, name });
    }

    /// One of the two nodes says something of a move, in the order of what else it says.
    pub(crate) fn move_says(&mut self, node: NodeId, pid: Pid, change: Change, why: Option<Fault>) {
        self.settle();
        let why = why.map_or_else(|| Fault::bug(format!("{change:?}")), |fault| fault.on(node));
        match change {
            _ if self.moves.contains_key(&pid) => self.move_changes(node, pid, change, why),
            Change::Arrived => self.arrived_in_doubt(node, pid),
            Change::NotLeft => self.stays_in_doubt(node, pid),
            _ => {}
        }
    }

    pub(crate) fn move_changes(&mut self, node: NodeId, pid: Pid, change: Change, why: Fault) {
        let Some(one) = self.moves.get_mut(&pid) else { return };
        let side = match change {
            Change::Arriving | Change::Arrived | Change::NotArrived => one.to,
            Change::NewCut | Change::NewWaits | Change::NewBack | Change::NewLost => one.to,
            Change::Runs | Change::RunsAhead | Change::Whole => one.to,
            Change::Ready | Change::Left | Change::NotLeft | Change::OldWaits | Change::OldCut | Change::OldLost => {
                one.from
            }
        };
        if side != node {
            return;
        }
        let change = if one.lazy && change == Change::Runs { Change::RunsAhead } else { change };
        let state = one.state;
        one.nowhere |= change == Change::NewLost;
        let next = next(state, change);
        info!(%pid, "move: {state:?} -> {change:?} -> {next:?}");
        let to = one.to;
        if change == Change::OldLost && state.has_run() {
            self.send(to, &ToNode::RestLost { pid });
        }
        if change == Change::NewLost && state == State::Fetching {
            self.comes_nowhere(pid);
        }
        let Some(one) = self.moves.get_mut(&pid) else { return };
        match next {
            Next::Waits => {}
            Next::To(State::Leaving) => self.leave(pid),
            Next::To(State::Pending) => {
                self.has_settled(pid);
                self.come_no_more(to);
            }
            Next::To(to @ State::Landed) if state == State::Fetching => one.state = to,
            Next::To(to @ (State::Going | State::Landed | State::Fetching)) => self.goes(pid, to),
            Next::To(_) => {}
            Next::Again if state == State::Leaving => match one.nowhere {
                true => self.move_fails(pid, Fault::gone("the node to which it was to go is lost")),
                false => self.tell_to_leave(pid),
            },
            Next::CallOff => {
                one.why.get_or_insert(why);
                let from = one.from;
                self.send(from, &ToNode::Stay { pid });
            }
            Next::Again => self.let_run(node, pid),
            Next::Stays => {
                let why = one.why.take().unwrap_or(why);
                self.move_fails(pid, why);
            }
            Next::Moved => {
                self.has_settled(pid);
                self.has_moved(pid)
            }
        }
    }

    /// The new node takes the image at this port.
    pub(crate) fn arriving(&mut self, node: NodeId, pid: Pid, port: u16) {
        reach("front knows where");
        self.move_changes(node, pid, Change::Arriving, Fault::bug("arriving"));
        let address = match node.is_front() {
            true => Some(format!(":{port}")),
            false => self.nodes.get(node).map(|node| SocketAddr::new(node.address.ip(), port).to_string()),
        };
        let Some(one) = self.moves.get_mut(&pid).filter(|one| one.state == State::Preparing && one.to == node) else {
            return;
        };
        one.state = State::Carrying;
        let (from, key, streams, progress, lazy) = (one.from, one.key.to_vec(), one.branch, one.progress, one.lazy);
        let (address, user, executes) = (address.unwrap_or_default(), one.user.clone(), one.executes.clone());
        self.send(from, &ToNode::Depart { pid, address, key, streams, progress, lazy, user, executes });
    }

    /// It has kept none of the streams for which there is a branch.
    pub(crate) fn no_streams(&mut self, node: NodeId, pid: Pid) {
        let Some(one) = self.moves.get_mut(&pid).filter(|one| one.from == node) else { return };
        if let Some((asker, answer)) = one.streams.take().and_then(|program| self.runs.stays(program, pid)) {
            self.answer(asker, answer, false);
        }
        self.has_no_streams(pid);
    }

    /// The old node says how far it is.
    pub(crate) fn move_goes_on(&mut self, node: NodeId, pid: Pid, progress: Progress) {
        let asker = self.moves.get(&pid).filter(|one| one.from == node && one.progress).and_then(|one| one.asker);
        if let Some(asker) = asker {
            self.answer(asker, Answer::Moving(progress), false);
        }
    }

    pub(crate) fn leave(&mut self, pid: Pid) {
        reach("front lets it leave");
        let Some(one) = self.moves.get_mut(&pid) else { return };
        let now = self.space.get(pid).map(|view| view.person);
        let place = |person: &Person| (person.ppid, person.pgid, person.sid);
        if now.map(place) != one.person.as_ref().map(place) {
            return self.move_fails(pid, Fault::changed("its parent, group or session has changed on the way"));
        }
        if one.children != self.space.unwaited_children(pid) {
            return self.move_fails(pid, Fault::changed("its children have changed on the way"));
        }
        if one.streams.is_some_and(|program| self.runs.is_to_connect(program, pid)) {
            one.branch_until_us = Some(monotonic_us() + BRANCH_US);
            return;
        }
        if one.streams.is_some_and(|program| !self.runs.is_connected(program, pid)) {
            return self.move_fails(pid, Fault::changed("its streams are not connected, or their program has ended"));
        }
        one.state = State::Leaving;
        self.events.push_back(Event::Leaves { pid });
        self.settle();
        self.tell_to_leave(pid);
    }

    fn tell_to_leave(&mut self, pid: Pid) {
        let Some((from, mut children)) = self.moves.get(&pid).map(|one| (one.from, one.children.clone())) else {
            return;
        };
        children.retain(|child| !self.space.is_unheard_of(*child));
        self.send(from, &ToNode::Leave { pid, children });
    }

    /// It does not run on the old node any more: from now on it is on the new one.
    fn goes(&mut self, pid: Pid, state: State) {
        reach(if state == State::Going { HAS_LEFT } else { RUNS });
        let Some(one) = self.moves.get_mut(&pid) else { return };
        one.state = state;
        let (from, to, nowhere, streams) = (one.from, one.to, one.nowhere, one.streams);
        if self.space.get(pid).is_none_or(|view| view.ended.is_some()) {
            // It has been killed on the way, and that is known already.
            self.send(to, &ToNode::Abandon { pid });
            self.stays_if_said(pid);
            self.send(from, &ToNode::Forget { pid });
            self.hear_ghost(pid);
            return self.move_ends(pid, Err(Fault::gone("it has ended")));
        }
        if to.is_front() {
            // The rest when both have said it.
            return self.goes_home(pid);
        }
        if !nowhere {
            self.let_run(to, pid);
        }
        if let Some(program) = streams {
            self.runs.moved(program, pid, to);
        }
        self.count_moved(from, to);
        self.forget_native(pid);
        self.events.push_back(Event::Moved { pid, to });
        self.hear_ghost(pid);
        if state == State::Going {
            self.events.push_back(Event::Left { pid });
        }
        if nowhere {
            let (exit, usage) = (Exit::NodeLost, Default::default());
            let event = BodyEvent::Exited { pid, exit, usage };
            self.events.push_back(Event::Body { node: to, event });
        }
        self.settle();
        self.lies_on(pid, to);
        if state == State::Going {
            self.stays_if_said(pid);
            self.stands_elsewhere(pid, to);
        }
        if nowhere {
            self.has_settled(pid);
            self.has_moved(pid);
        }
    }

    /// The old node has said whether it stands there.
    fn stays_if_said(&mut self, pid: Pid) {
        if let Some(from) = self.moves.get(&pid).filter(|one| one.stays).map(|one| one.from) {
            self.stands_where_it_was(pid, from);
        }
    }

    /// It has left this node, and stands there since.
    pub(crate) fn stands_where_it_was(&mut self, pid: Pid, node: NodeId) {
        self.events.push_back(Event::Stands { pid, node });
        self.settle();
    }

    /// It is a process of the front end from now on.
    pub(crate) fn is_home(&mut self, pid: Pid) {
        let Some(from) = self.moves.get(&pid).map(|one| one.from) else { return };
        self.count_moved(from, NodeId::FRONT);
        self.stays_if_said(pid);
        self.stands_elsewhere(pid, NodeId::FRONT);
        self.send(from, &ToNode::Forget { pid });
    }

    fn stands_elsewhere(&mut self, pid: Pid, to: NodeId) {
        let leaves = self.moves.get(&pid).filter(|one| !one.stays).map(|one| one.from);
        self.stands_where_it_passes(pid, to, leaves);
    }

    pub(crate) fn let_run(&mut self, to: NodeId, pid: Pid) {
        if let Some(person) = self.space.get(pid).map(|view| to_wire(view.person.clone())) {
            self.send(to, &ToNode::Go { person });
        }
    }

    /// The front end has heard of both nodes where it is.
    fn has_settled(&mut self, pid: Pid) {
        let Some(one) = self.moves.get_mut(&pid).filter(|one| !one.to.is_front() && one.state != State::Pending) else {
            return;
        };
        let (state, from, to) = (one.state, one.from, one.to);
        one.state = State::Pending;
        if state.has_run() {
            reach(HAS_LEFT);
            // Before all is said of it there.
            self.stays_if_said(pid);
            self.events.push_back(Event::Left { pid });
            self.stands_elsewhere(pid, to);
        } else {
            reach(RUNS);
        }
        self.send(from, &ToNode::Forget { pid });
    }

    /// Where it went, it is or was.
    fn has_moved(&mut self, pid: Pid) {
        let Some(one) = self.moves.get(&pid) else { return };
        let (state, to, nowhere, lost) = (one.state, one.to, one.nowhere, one.lost);
        if to.is_front() {
            reach(if state == State::Landed { HAS_LEFT } else { RUNS });
            return self.come_home(pid);
        }
        let outcome = match (nowhere, lost) {
            (true, _) => Err(Fault::gone(NODE_LOST)),
            (_, true) => Err(Fault::gone("it is lost: not all of its memory had come")),
            _ => Ok(to),
        };
        self.move_ends(pid, outcome);
    }

    /// The move is over, and who asked is told.
    pub(crate) fn move_ends(&mut self, pid: Pid, outcome: Result<NodeId>) {
        let Some(Move { asker, from, to, .. }) = self.moves.remove(&pid) else { return };
        self.early_again();
        self.happened(&match &outcome {
            Ok(_) => Happening::Moved { pid, from, to },
            Err(why) => Happening::Stayed { pid, from, to, why: why.to_string() },
        });
        if let Some(asker) = asker {
            self.answer_of_move(asker, (pid, to), outcome);
        }
    }

    pub(crate) fn answer_of_move(&mut self, asker: Asker, (pid, to): (Pid, NodeId), outcome: Result<NodeId>) {
        let answer = match outcome {
            Ok(node) => Answer::Moved { pid, node },
            Err(why) => Answer::Failed(why.doing(format!("move {pid} to node {to}"))),
        };
        self.answer(asker, answer, true);
    }

    fn count_moved(&mut self, from: NodeId, to: NodeId) {
        if let Some(node) = self.nodes.get_mut(from) {
            node.bodies = node.bodies.saturating_sub(1);
        }
        if let Some(node) = self.nodes.get_mut(to) {
            node.bodies += 1;
        }
    }

    pub(crate) fn move_fails(&mut self, pid: Pid, why: Fault) {
        let Some(Move { state, from, to, streams, .. }) = self.moves.get(&pid) else { return };
        let (state, from, to, streams) = (*state, *from, *to, *streams);
        info!(%pid, %why, "move: it stays");
        self.send(to, &ToNode::Abandon { pid });
        if state != State::Preparing {
            self.send(from, &ToNode::Stay { pid });
        }
        if let Some((asker, answer)) = streams.and_then(|program| self.runs.stays(program, pid)) {
            self.answer(asker, answer, false);
        }
        self.events.push_back(Event::Stays { pid });
        // What was to become it stands for it now, if it needs one there: the space has not known of it.
        if !to.is_front() {
            self.events.push_back(Event::Stands { pid, node: to });
        }
        self.settle();
        self.forget_away(pid);
        self.move_ends(pid, Err(why));
    }

    /// Nobody waits for it any more (Ctrl-C): it stays where it is. One that may leave already stays if it has not been bound yet.
    pub(crate) fn moves_asker_gone(&mut self, asker: Asker) {
        let its = self.moves.iter().filter(|(_, one)| one.asker == Some(asker));
        for (pid, state, from) in its.map(|(pid, one)| (*pid, one.state, one.from)).collect::<Vec<_>>() {
            match state {
                _ if state.can_end() => self.move_fails(pid, Fault::gone("who has asked for it is gone")),
                State::Leaving => self.send(from, &ToNode::Stay { pid }),
                _ => {}
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
                (false, true) => Change::NewLost,
                (false, false) => Change::NewCut,
            };
            self.move_changes(node, pid, change, Fault::gone(format!("node {node} does not answer")));
        }
    }

    /// A node is back, and says who is on the way there.
    pub(crate) fn moves_back(&mut self, node: NodeId, ways: &[Way]) {
        let concerned = self.moves.iter().filter(|(_, one)| one.from == node || one.to == node);
        for (pid, old) in concerned.map(|(pid, one)| (*pid, one.from == node)).collect::<Vec<_>>() {
            let way = ways.iter().find(|way| way.pid() == pid);
            let change = match (old, way) {
                (true, Some(Way::Departs(_))) => Change::OldWaits,
                (true, Some(Way::Leaves(_))) => continue,
                (true, Some(Way::Left { signals, stands, .. })) => {
                    self.left(node, pid, signals.clone(), *stands);
                    continue;
                }
                (true, _) => Change::NotLeft,
                (false, Some(Way::Arrived(_))) => Change::NewWaits,
                (false, Some(Way::Runs(_))) if self.moves.get(&pid).is_some_and(|one| one.state.has_run()) => {
                    self.let_run(node, pid);
                    continue;
                }
                (false, Some(Way::Runs(_))) => Change::Runs,
                (false, _) => Change::NewBack,
            };
            self.move_changes(node, pid, change, Fault::gone(format!("the link to node {node} was cut")));
        }
    }

    /// The old node has ended it; these signals had come there meanwhile.
    pub(crate) fn left(&mut self, node: NodeId, pid: Pid, signals: Vec<SigInfo>, stands: bool) {
        let Some(one) = self.moves.get_mut(&pid) else { return self.left_in_doubt(node, pid, signals, stands) };
        one.stays = stands;
        if one.from == node && next(one.state, Change::Left) != Next::Waits {
            self.signals_follow(node, pid, signals);
        }
        self.move_changes(node, pid, Change::Left, Fault::bug("left"));
    }

    /// They are kept with those that came here.
    pub(crate) fn signals_follow(&mut self, node: NodeId, target: Pid, signals: Vec<SigInfo>) {
        self.events.push_back(Event::Follows { node, target, signals });
        self.settle();
    }
}
