//! The nodes: which there are, what state they are in, what is known of their load.

use crate::connection::Token;
use crate::roster::record::Record;
use crate::roster::Roster;
use link::allow::Allow;
use link::beat::FrontWatch;
use policy::NodeView;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use vocab::{Fault, NodeId, Result};
use wire::ask::NodeRow;
use wire::node::Load;

/// The life of a node, as the front end sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Linked, and it beats.
    Up,
    /// Its link is cut or silent; until its time is over its processes count as alive.
    Silent,
    /// Its time is over; everything on it has ended.
    Down,
}

impl State {
    /// As a sentence has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Up => "up",
            State::Silent => "silent",
            State::Down => "down",
        }
    }

    /// As `shoal nodes` has it, with what else is said of the node.
    pub(crate) fn word(self, record: Option<&Record>) -> &str {
        match (self, record) {
            (State::Up, Some(record)) => record.word.text(),
            _ => self.name(),
        }
    }
}

/// What happens to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Joined,
    Beat,
    LinkCut,
    Quiet,
    TimeOver,
}

/// The table of a node's life; every pair has an answer.
pub(crate) fn next(state: State, change: Change) -> State {
    match (state, change) {
        (_, Change::Joined) => State::Up,
        (State::Down, _) | (_, Change::TimeOver) => State::Down,
        (State::Up | State::Silent, Change::Beat) => State::Up,
        (State::Up | State::Silent, Change::LinkCut | Change::Quiet) => State::Silent,
    }
}

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) state: State,
    pub(crate) link: Option<Token>,
    pub(crate) address: SocketAddr,
    pub(crate) channel_port: u16,
    pub(crate) load: Load,
    pub(crate) watch: FrontWatch,
    pub(crate) bodies: u32,
    /// Programs placed on it since its last beat.
    pub(crate) pending: u32,
    /// When it could make no process for a program (monotonic); 0: never.
    pub(crate) full_us: u64,
    /// What it says of itself in its Hello; 0: nothing.
    pub(crate) identity: u64,
    /// The users whose programs it takes, as it says.
    pub(crate) allow: Allow,
}

/// So long, in microseconds, other nodes are preferred to one that could make no process.
const FULL_US: u64 = 5_000_000;

impl Node {
    /// Could it make no process lately, for want of numbers, memory or what its cgroup allows?
    fn is_full(&self, now_us: u64) -> bool {
        self.full_us != 0 && now_us < self.full_us + FULL_US
    }

    /// Changes the state and logs the transition.
    pub(crate) fn change(&mut self, node: NodeId, change: Change) {
        let to = next(self.state, change);
        if to != self.state {
            tracing::info!(%node, "{change:?}: {:?}->{to:?}", self.state);
            self.state = to;
        }
    }
}

/// All nodes that have ever joined.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    pub(crate) turn: policy::Turn,
}

impl Nodes {
    pub(crate) fn get(&self, node: NodeId) -> Option<&Node> {
        self.nodes.get(&node)
    }

    pub(crate) fn get_mut(&mut self, node: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(&node)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (NodeId, &mut Node)> {
        self.nodes.iter_mut().map(|(number, node)| (*number, node))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().map(|(number, node)| (*number, node))
    }

    /// May processes be moved to this one?
    ///
    /// # Errors
    /// `Refused`; `Changed` while it is silent, which a busy one may be for a moment.
    pub(crate) fn takes_processes(&self, to: NodeId) -> Result<()> {
        match self.get(to).map(|node| (node.state, node.link)) {
            Some((State::Up, Some(_))) => Ok(()),
            Some((State::Up | State::Silent, _)) => Err(Fault::changed(format!("node {to} is silent"))),
            Some((State::Down, _)) | None => Err(Fault::refused(format!("node {to} is not up"))),
        }
    }

    /// When the first of them is lost if nothing is heard of it.
    pub(crate) fn next_deadline_us(&self) -> Option<u64> {
        self.nodes.values().filter(|n| n.state != State::Down).map(|n| n.watch.lost_at()).min()
    }

    /// As placement wants it.
    pub(crate) fn view(&self, now_us: u64) -> Vec<NodeView> {
        let view = |(number, node): (NodeId, &Node)| NodeView {
            node: number,
            up: node.state != State::Down && node.link.is_some(),
            quiet: node.state == State::Silent || node.is_full(now_us),
            bodies: node.bodies,
            pending: node.pending,
            cores: node.load.cores,
            load: node.load.load,
        };
        self.iter().map(view).collect()
    }

    pub(crate) fn rows(&self, roster: &Roster) -> Vec<NodeRow> {
        let row = |(number, node): (NodeId, &Node)| {
            let record = roster.of(number);
            NodeRow {
                node: number,
                state: node.state.word(Some(&record)).into(),
                address: node.address.ip().to_string(),
                processes: node.bodies,
                cores: node.load.cores,
                memory: node.load.memory,
                memory_free: node.load.memory_free,
                load: node.load.load,
                uid: record.uid,
                gid: record.gid,
                mode: record.mode,
                name: record.name,
            }
        };
        self.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_could_make_no_process_is_passed_over_for_a_while() {
        let mut nodes = Nodes::default();
        for number in 0..2 {
            let watch = FrontWatch::new(0, link::beat::Agreed::within(std::time::Duration::from_secs(5)));
            let address = ([127, 0, 0, 1], 1).into();
            let (load, full_us) = (Load::default(), u64::from(number == 0) * 1_000);
            let node = Node {
                state: State::Up,
                link: Some(1),
                address,
                channel_port: 0,
                load,
                watch,
                bodies: 0,
                pending: 0,
                full_us,
                identity: 0,
                allow: Allow::default(),
            };
            nodes.take_in(NodeId(number), node);
        }
        let quiet = |now_us| nodes.view(now_us).iter().map(|node| node.quiet).collect::<Vec<_>>();
        assert_eq!(quiet(2_000), [true, false]);
        assert_eq!(quiet(1_000 + FULL_US), [false, false]);
    }

    #[test]
    fn only_joining_brings_a_lost_node_back() {
        for state in [State::Up, State::Silent, State::Down] {
            assert_eq!(next(state, Change::Joined), State::Up);
            assert_eq!(next(state, Change::TimeOver), State::Down);
            for change in [Change::Beat, Change::LinkCut, Change::Quiet] {
                assert_eq!(next(State::Down, change), State::Down);
                assert_ne!(next(State::Up, change), State::Down);
                assert_ne!(next(State::Silent, change), State::Down);
            }
        }
    }
}
