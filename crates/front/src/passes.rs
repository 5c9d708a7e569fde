//! Where a number must be known: a kill of it there is not asked about (docs/mechanisms.md, "The gate"), so the process that has it is there, or stands there.

use crate::front::Front;
use space::Event;
use std::collections::{BTreeMap, BTreeSet};
use vocab::{NodeId, Pid};

/// The front end's own numbers that pass the gates of nodes, beside what is leased to these; and whether the node has said what has become of the
/// newest program that it was to start under that number.
#[derive(Debug, Default)]
pub(crate) struct Passes(BTreeMap<(Pid, NodeId), Started>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Started {
    Asked,
    /// It has, or will never.
    Known,
}

impl Passes {
    /// The node is told to start it.
    fn ask(&mut self, pid: Pid, node: NodeId) {
        self.0.insert((pid, node), Started::Asked);
    }

    pub(crate) fn started(&mut self, pid: Pid, node: NodeId) {
        if let Some(started) = self.0.get_mut(&(pid, node)) {
            *started = Started::Known;
        }
    }

    /// The node says so; of one that it is to start it has not known then.
    pub(crate) fn no_more(&mut self, pid: Pid, node: NodeId) {
        if self.0.get(&(pid, node)) == Some(&Started::Known) {
            self.0.remove(&(pid, node));
        }
    }

    /// What the processes on `node` were behind is gone with them.
    pub(crate) fn node_lost(&mut self, node: NodeId) {
        self.0.retain(|(_, at), _| *at != node);
    }

    fn of(&self, node: NodeId) -> impl Iterator<Item = Pid> + '_ {
        self.0.keys().filter(move |(_, at)| *at == node).map(|(pid, _)| *pid)
    }

    fn nodes(&self, pid: Pid) -> impl Iterator<Item = NodeId> + '_ {
        let all = self.0.range((pid, NodeId(i32::MIN))..=(pid, NodeId(i32::MAX)));
        all.map(|((_, node), _)| *node)
    }
}

impl Front {
    /// `node` is told to start `pid`, and its gate will let that number pass.
    pub(crate) fn passes_there(&mut self, pid: Pid, node: NodeId) {
        if pid < self.config.front_top {
            self.passes.ask(pid, node);
        }
    }

    /// What a node says that has joined.
    pub(crate) fn passes_again(&mut self, node: NodeId, passes: &[Pid], starting: &[Pid]) {
        self.passes.node_lost(node);
        for pid in passes {
            self.passes.ask(*pid, node);
            self.passes.started(*pid, node);
        }
        starting.iter().for_each(|pid| self.passes_there(*pid, node));
    }

    /// `node` is back and the space knows what it has said, `here` are its processes, `stands` its stand-ins. Somebody else may have got a number that
    /// passes there since it was heard last.
    pub(crate) fn stand_where_they_pass(&mut self, node: NodeId, here: &[Pid], stands: &[Pid]) {
        let passing = self.passes.of(node).chain(here.iter().copied().filter(|pid| *pid < self.config.front_top));
        for pid in passing.collect::<BTreeSet<_>>() {
            if let Some(at) = self.space.get(pid).map(|view| view.node) {
                self.stands_where_it_passes(pid, at, stands.contains(&pid).then_some(node));
            }
        }
    }

    /// It runs on `node`, to which it has come from `from`, if that does not stand for it itself. Where else its number comes from or passes it stands from
    /// now on: so the number stays taken there, and a kill finds it.
    pub(crate) fn stands_where_it_passes(&mut self, pid: Pid, node: NodeId, from: Option<NodeId>) {
        if self.space.get(pid).is_none_or(|view| view.ended.is_some()) {
            return;
        }
        let passes = self.passes.nodes(pid).filter(|at| Some(*at) != from);
        let nodes: BTreeSet<NodeId> = passes.chain(self.leases.owner(pid)).filter(|at| *at != node).collect();
        if nodes.is_empty() {
            return;
        }
        self.events.extend(nodes.into_iter().map(|node| Event::StandInWanted { node, pid, native: None }));
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_pass_on_several_nodes_and_is_forgotten_with_each() {
        let mut passes = Passes::default();
        let all = |passes: &Passes, pid| passes.nodes(Pid(pid)).map(|node| node.0).collect::<Vec<_>>();
        [(7, 0), (8, 0), (7, 2), (6, 1)].into_iter().for_each(|(pid, node)| passes.ask(Pid(pid), NodeId(node)));
        assert_eq!((all(&passes, 7), all(&passes, 8), all(&passes, 9)), (vec![0, 2], vec![0], vec![]));
        passes.started(Pid(7), NodeId(1));
        passes.node_lost(NodeId(0));
        assert_eq!((all(&passes, 7), all(&passes, 8), all(&passes, 6)), (vec![2], vec![], vec![1]));
    }

    #[test]
    fn what_is_said_of_one_before_is_not_said_of_one_that_starts() {
        let mut passes = Passes::default();
        let (pid, node) = (Pid(7), NodeId(3));
        passes.ask(pid, node);
        passes.no_more(pid, node);
        assert_eq!(passes.nodes(pid).count(), 1);
        passes.started(pid, node);
        passes.no_more(pid, node);
        assert_eq!(passes.nodes(pid).count(), 0);
    }
}
