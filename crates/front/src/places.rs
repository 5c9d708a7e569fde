//! The nodes: which there are, what state they are in, what is known of their load.

use crate::connection::Token;
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
    /// As users read it.
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
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
}

impl Node {
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
    nodes: BTreeMap<NodeId, Node>,
    pub(crate) turn: policy::Turn,
}

impl Nodes {
    pub(crate) fn get(&self, node: NodeId) -> Option<&Node> {
        self.nodes.get(&node)
    }

    pub(crate) fn get_mut(&mut self, node: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(&node)
    }

    pub(crate) fn insert(&mut self, number: NodeId, node: Node) {
        self.nodes.insert(number, node);
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

    /// The lowest number that no node has (`owned`: it has leases), or that only a lost one has.
    pub(crate) fn free_number(&self, owned: impl Fn(NodeId) -> bool) -> NodeId {
        let taken =
            |n: i32| owned(NodeId(n)) || self.nodes.get(&NodeId(n)).is_some_and(|node| node.state != State::Down);
        NodeId((0..).find(|n| !taken(*n)).unwrap_or(0))
    }

    /// When the first of them is lost if nothing is heard of it.
    pub(crate) fn next_deadline_us(&self) -> Option<u64> {
        self.nodes.values().filter(|n| n.state != State::Down).map(|n| n.watch.lost_at()).min()
    }

    /// As placement wants it.
    pub(crate) fn view(&self) -> Vec<NodeView> {
        let view = |(number, node): (NodeId, &Node)| NodeView {
            node: number,
            up: node.state != State::Down && node.link.is_some(),
            quiet: node.state == State::Silent,
            bodies: node.bodies,
            pending: node.pending,
            cores: node.load.cores,
            load: node.load.load,
        };
        self.iter().map(view).collect()
    }

    pub(crate) fn rows(&self) -> Vec<NodeRow> {
        let row = |(number, node): (NodeId, &Node)| NodeRow {
            node: number,
            state: node.state.name(),
            address: node.address.ip().to_string(),
            processes: node.bodies,
            cores: node.load.cores,
            memory: node.load.memory,
            memory_free: node.load.memory_free,
            load: node.load.load,
        };
        self.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
