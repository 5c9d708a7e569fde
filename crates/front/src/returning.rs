//! Nodes that start afresh, and nodes that never will: who gets which number, and how long a number is kept.

use crate::places::{Node, Nodes, State};
use std::net::IpAddr;
use tracing::info;
use vocab::{Fault, NodeId, Result};

impl Nodes {
    /// The node has joined under this number, and has no other one.
    pub(crate) fn take_in(&mut self, number: NodeId, node: Node) {
        if node.identity != 0 {
            self.iter_mut()
                .filter(|(_, other)| other.identity == node.identity)
                .for_each(|(_, other)| other.identity = 0);
        }
        self.nodes.insert(number, node);
    }

    /// The number of a node that asks for none: the number that the node of this identity had, or a free one (`owned`: the number has leases).
    ///
    /// A copy of a machine may have its identity. While the node that has joined first may live, only a node from the same address is that one.
    pub(crate) fn number_for(&self, identity: u64, from: IpAddr, owned: impl Fn(NodeId) -> bool) -> NodeId {
        let same = |node: &Node| node.identity == identity && (node.state == State::Down || node.address.ip() == from);
        let known = self.iter().find(|(_, node)| identity != 0 && same(node));
        known.map_or_else(|| self.free_number(owned), |(number, _)| number)
    }

    /// The lowest number that no node has, or that only a lost one has which nobody would know again.
    fn free_number(&self, owned: impl Fn(NodeId) -> bool) -> NodeId {
        let kept = |node: &Node| node.state != State::Down || node.identity != 0;
        let taken = |n: &i32| owned(NodeId(*n)) || self.get(NodeId(*n)).is_some_and(kept);
        NodeId((0..).find(|n| !taken(n)).unwrap_or(0))
    }

    /// These are no nodes any more; all of them, or none.
    ///
    /// # Errors
    /// `Refused` with the first of them that is unknown, or not down.
    pub(crate) fn forget(&mut self, numbers: &[NodeId]) -> Result<()> {
        let down = |number: &NodeId| match self.get(*number).map(|node| node.state) {
            Some(State::Down) => Ok(()),
            Some(state) => Err(Fault::refused(format!(
                "node {number} is {}: only one that is down can be forgotten",
                state.name()
            ))),
            None => Err(Fault::refused(format!("unknown node {number}"))),
        };
        numbers.iter().try_for_each(down)?;
        for number in numbers {
            self.nodes.remove(number);
            info!(node = %number, "forgotten");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::allow::Allow;
    use link::beat::{Agreed, FrontWatch};
    use std::time::Duration;
    use wire::node::Load;

    const NONE_OWNED: fn(NodeId) -> bool = |_| false;

    fn node(state: State, identity: u64, last: u8) -> Node {
        Node {
            state,
            link: None,
            address: ([10, 0, 0, last], 1).into(),
            channel_port: 0,
            load: Load::default(),
            watch: FrontWatch::new(0, Agreed::within(Duration::from_secs(5))),
            bodies: 0,
            pending: 0,
            full_us: 0,
            identity,
            allow: Allow::default(),
        }
    }

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn a_node_that_starts_afresh_has_its_number_again() {
        for state in [State::Up, State::Silent, State::Down] {
            let mut nodes = Nodes::default();
            nodes.take_in(NodeId(0), node(state, 70, 1));
            nodes.take_in(NodeId(1), node(State::Up, 71, 2));
            assert_eq!(nodes.number_for(70, ip(1), NONE_OWNED), NodeId(0), "{state:?}");
            assert_eq!(nodes.number_for(72, ip(1), NONE_OWNED), NodeId(2), "another node on its machine, {state:?}");
            assert_eq!(nodes.number_for(0, ip(1), NONE_OWNED), NodeId(2), "nobody known, {state:?}");
            let elsewhere = if state == State::Down { NodeId(0) } else { NodeId(2) };
            assert_eq!(nodes.number_for(70, ip(9), NONE_OWNED), elsewhere, "from another address, {state:?}");
        }
    }

    #[test]
    fn a_machine_has_one_number_and_the_one_before_is_free() {
        let mut nodes = Nodes::default();
        nodes.take_in(NodeId(0), node(State::Down, 70, 1));
        nodes.take_in(NodeId(5), node(State::Up, 70, 1));
        assert_eq!(nodes.number_for(71, ip(2), NONE_OWNED), NodeId(0));
        assert_eq!(nodes.number_for(71, ip(2), |n| n == NodeId(0)), NodeId(1), "its processes may live");
    }

    #[test]
    fn only_those_that_are_down_are_forgotten_and_all_or_none() {
        let mut nodes = Nodes::default();
        nodes.take_in(NodeId(0), node(State::Down, 70, 1));
        nodes.take_in(NodeId(1), node(State::Up, 71, 2));
        nodes.take_in(NodeId(2), node(State::Silent, 72, 3));
        for (numbers, word) in [([0, 1], "is up"), ([0, 2], "is silent"), ([0, 7], "unknown node n7")] {
            let fault = nodes.forget(&numbers.map(NodeId)).expect_err("one of them stays");
            assert!(fault.to_string().contains(word), "{fault}");
        }
        nodes.forget(&[NodeId(0)]).expect("it is down");
        assert!(nodes.get(NodeId(0)).is_none());
        assert_eq!(nodes.number_for(79, ip(9), NONE_OWNED), NodeId(0));
    }
}
