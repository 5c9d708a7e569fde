//! Chores of nodes (their power, their root): each node says whether it does its own, and the asker is answered when all have.

use crate::front::Front;
use crate::runs::Asker;
use kern::clock::monotonic_us;
use std::collections::{BTreeSet, HashMap};
use vocab::{Fault, NodeId, Result};
use wire::ask::Answer;
use wire::node::ToNode;
use wire::nodes::{Chore, NodeChange};

/// A node has this long to say so, in microseconds.
const PATIENCE_US: u64 = 5_000_000;

/// Those under way.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    all: HashMap<u64, Open>,
    last: u64,
}

#[derive(Debug)]
struct Open {
    asker: Asker,
    awaited: BTreeSet<NodeId>,
    /// The first that was told.
    fault: Option<Fault>,
    deadline_us: u64,
}

impl Chores {
    fn begin(&mut self, asker: Asker, nodes: &[NodeId], now_us: u64) -> u64 {
        self.last += 1;
        let (awaited, deadline_us) = (nodes.iter().copied().collect(), now_us + PATIENCE_US);
        self.all.insert(self.last, Open { asker, awaited, fault: None, deadline_us });
        self.last
    }

    fn told(&mut self, node: NodeId, id: u64, fault: Option<Fault>) {
        let Some(open) = self.all.get_mut(&id) else { return };
        if open.awaited.remove(&node) {
            open.fault = open.fault.take().or_else(|| fault.map(|fault| fault.on(node)));
        }
    }

    /// The node says nothing any more.
    fn lost(&mut self, node: NodeId) {
        let fault = Fault::gone(format!("the link to node {node} was cut before the node had answered"));
        for open in self.all.values_mut() {
            if open.awaited.remove(&node) {
                open.fault.get_or_insert(fault.clone());
            }
        }
    }

    fn over(&mut self, now_us: u64) -> Vec<(Asker, Answer)> {
        let is_over = |open: &Open| open.awaited.is_empty() || now_us >= open.deadline_us;
        let over = self.all.extract_if(|_, open| is_over(open));
        let answer = |open: Open| {
            let late = open.awaited.first().map(|node| Fault::gone(format!("node {node} has not answered in time")));
            (open.asker, open.fault.or(late).map_or(Answer::NodesChanged, Answer::Failed))
        };
        over.map(|(_, open)| answer(open)).collect()
    }

    /// When the first of them is late.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.all.values().map(|open| open.deadline_us).min()
    }
}

impl Front {
    /// # Errors
    /// `Gone` with the first node that is not linked: then none was told.
    pub(crate) fn begin_chore(&mut self, asker: Asker, nodes: &[NodeId], change: &NodeChange) -> Result<()> {
        let chore = match change {
            NodeChange::Power(power) => Chore::Power(*power),
            NodeChange::Chroot(path) => Chore::Chroot(path.clone()),
            _ => return Err(Fault::bug("no chore")),
        };
        let linked = |node: &NodeId| self.nodes.get(*node).is_some_and(|node| node.link.is_some());
        if let Some(cut) = nodes.iter().find(|node| !linked(node)) {
            return Err(Fault::gone(format!("node {cut} is down")));
        }
        let id = self.admin.chores.begin(asker, nodes, monotonic_us());
        nodes.iter().for_each(|node| self.send(*node, &ToNode::Administer { id, chore: chore.clone() }));
        Ok(())
    }

    pub(crate) fn administered(&mut self, node: NodeId, id: u64, fault: Option<Fault>) {
        self.admin.chores.told(node, id, fault);
        self.tell_chores();
    }

    pub(crate) fn chores_lose(&mut self, node: NodeId) {
        self.admin.chores.lost(node);
        self.tell_chores();
    }

    pub(crate) fn tell_chores(&mut self) {
        for (asker, answer) in self.admin.chores.over(monotonic_us()) {
            self.answer(asker, answer, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKER: Asker = Asker::Local(7);

    #[test]
    fn all_have_to_say_so_and_the_first_failure_is_told() {
        let mut chores = Chores::default();
        let nodes = [NodeId(0), NodeId(1)];
        let id = chores.begin(ASKER, &nodes, 100);
        chores.told(NodeId(0), id, None);
        chores.told(NodeId(0), id, Some(Fault::refused("a second word")));
        assert_eq!(chores.over(100), []);
        chores.told(NodeId(1), id, None);
        assert_eq!(chores.over(100), [(ASKER, Answer::NodesChanged)]);
        let id = chores.begin(ASKER, &nodes, 100);
        chores.told(NodeId(1), id, Some(Fault::refused("no")));
        chores.lost(NodeId(0));
        assert_eq!(chores.over(100), [(ASKER, Answer::Failed(Fault::refused("no").on(NodeId(1))))]);
    }

    #[test]
    fn who_does_not_answer_in_time_is_named() {
        let mut chores = Chores::default();
        chores.begin(ASKER, &[NodeId(3)], 100);
        assert_eq!((chores.due_us(), chores.over(99 + PATIENCE_US)), (Some(100 + PATIENCE_US), vec![]));
        let over = chores.over(100 + PATIENCE_US);
        assert!(matches!(&over[..], [(ASKER, Answer::Failed(fault))] if fault.to_string().contains("node n3")));
        assert_eq!(chores.due_us(), None);
    }
}
