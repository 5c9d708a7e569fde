//! Which ranges of PIDs are given to which node (docs/mechanisms.md, "Numbers").

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use vocab::{Fault, NodeId, Pid, Result};
use wire::node::Lease;

/// One above the largest PID of the kernel (PID_MAX_LIMIT).
const TOP: i32 = 4_194_304;
/// The most nodes for each of which there could be two of the smallest ranges in half of all numbers.
const MOST_NODES: u32 = 4_096;
/// The smallest range: a node keeps a quarter of it in hand for forks of which it has not read yet.
pub(crate) const LEAST: i32 = 256;

/// Are these settings possible: at least one range above the front end's own numbers?
///
/// # Errors
/// `Refused`, with what is possible.
pub(crate) fn check(front_top: Pid, size: i32, nodes: u32) -> Result<()> {
    if !(1..=MOST_NODES).contains(&nodes) {
        return Err(Fault::refused(format!("max_nodes {nodes}: 1 to {MOST_NODES} are possible")));
    }
    if !(LEAST..=TOP / 2).contains(&size) {
        return Err(Fault::refused(format!("lease_size {size}: {LEAST} to {} are possible", TOP / 2)));
    }
    if !(LOWEST_TOP..=TOP - size).contains(&front_top.0) {
        let most = TOP - size;
        return Err(Fault::refused(format!("front_top {}: {LOWEST_TOP} to {most} are possible", front_top.0)));
    }
    Ok(())
}

/// Below it the front end's cursor could not be brought back in time ([`crate::cursor`]).
const LOWEST_TOP: i32 = 262_144;

/// All ranges above the front end's own numbers.
///
/// A node that has none is given one as long as there is one. One that has some is given another only while at least as many as it has would be
/// left to others, beside one for each node that is yet to come ([`Leases::is_fair`]): so whoever forks without end leaves room for the others, and
/// those that have least are served longest.
#[derive(Debug)]
pub(crate) struct Leases {
    size: i32,
    /// So many nodes are counted on.
    nodes: usize,
    /// Ranges, free or given.
    all: usize,
    /// Free ranges by their first number; one that came back goes to the end.
    free: VecDeque<i32>,
    given: BTreeMap<i32, NodeId>,
    /// Nodes that have asked in vain since they were last given one.
    denied: BTreeSet<NodeId>,
    /// Where it is written who has what, so that a restart gives nobody another one's range before that one is back.
    kept: Option<PathBuf>,
}

impl Leases {
    /// Ranges of `size` numbers from `first` up, made smaller where `nodes` nodes with two ranges each would not fit.
    pub(crate) fn new(first: Pid, size: i32, nodes: u32) -> Leases {
        let room = TOP - first.0;
        let fits = i64::from(room) / (2 * i64::from(nodes.max(1)));
        let size = i64::from(size).min(fits).max(LEAST.into()) as i32;
        let free: VecDeque<i32> = (0..room / size).map(|i| first.0 + i * size).collect();
        let (all, nodes) = (free.len(), nodes as usize);
        Leases { size, nodes, all, free, given: BTreeMap::new(), denied: BTreeSet::new(), kept: None }
    }

    /// Keeps who has what in the file `path` from now on; takes over first what a daemon before this one has left there (`again`).
    pub(crate) fn keep(&mut self, path: PathBuf, again: bool) {
        let text = if again { std::fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
        for line in text.lines() {
            let Some((first, node)) = line.split_once(' ') else { continue };
            let (Ok(first), Ok(node)) = (first.parse(), node.parse()) else { continue };
            self.claim(NodeId(node), self.lease(first));
        }
        self.kept = Some(path);
        self.write();
    }

    /// Does this node have a range?
    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.given.values().any(|n| *n == node)
    }

    /// The node whose range this PID is in.
    pub(crate) fn owner(&self, pid: Pid) -> Option<NodeId> {
        let (first, node) = self.given.range(..=pid.0).next_back()?;
        self.lease(*first).has(pid).then_some(*node)
    }

    /// The nodes that have ranges.
    pub(crate) fn owners(&self) -> BTreeSet<NodeId> {
        self.given.values().copied().collect()
    }

    fn write(&self) {
        let Some(path) = &self.kept else { return };
        let text: String = self.given.iter().map(|(first, node)| format!("{first} {}\n", node.0)).collect();
        let new = path.with_extension("new");
        if let Err(e) = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path)) {
            tracing::warn!("keep {}: {e}", path.display());
        }
    }

    /// The next free range for `node`; `None` when what is left is for others.
    pub(crate) fn give(&mut self, node: NodeId) -> Option<Lease> {
        if !self.is_fair(node) {
            return None;
        }
        let first = self.free.pop_front()?;
        self.given.insert(first, node);
        self.denied.remove(&node);
        self.write();
        Some(self.lease(first))
    }

    /// May this node have another one? What is kept for nodes to come is at most half of all, where there are few.
    fn is_fair(&self, node: NodeId) -> bool {
        let has = self.given.values().filter(|owner| **owner == node).count();
        let kept = self.nodes.saturating_sub(self.owners().len()).min(self.all / 2);
        has == 0 || self.free.len().saturating_sub(kept) > has
    }

    /// Is there one for a node that has none?
    pub(crate) fn any_for(&self, node: NodeId) -> bool {
        !self.free.is_empty() || self.has(node)
    }

    /// There was none for `node`: for the first time since it was last given one?
    pub(crate) fn first_denial(&mut self, node: NodeId) -> bool {
        self.denied.insert(node)
    }

    /// `node` has this range from before: after a restart of this daemon. False when it is another node's or none of ours, as one of another size
    /// is.
    pub(crate) fn claim(&mut self, node: NodeId, lease: Lease) -> bool {
        if self.lease(lease.first.0) != lease {
            return false;
        }
        if let Some(owner) = self.given.get(&lease.first.0) {
            return *owner == node;
        }
        let Some(at) = self.free.iter().position(|first| *first == lease.first.0) else { return false };
        self.free.remove(at);
        self.given.insert(lease.first.0, node);
        self.write();
        true
    }

    /// Takes back all ranges of a node that is lost.
    pub(crate) fn take_back(&mut self, node: NodeId) {
        let back: Vec<i32> = self.given.iter().filter(|(_, n)| **n == node).map(|(first, _)| *first).collect();
        for first in back {
            self.given.remove(&first);
            self.free.push_back(first);
        }
        self.write();
    }

    fn lease(&self, first: i32) -> Lease {
        Lease { first: Pid(first), last: Pid(first.saturating_add(self.size - 1)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn no_number_is_given_to_two_nodes_and_all_are_legal() {
        let mut leases = Leases::new(Pid(1_048_576), 16_384, 100);
        let mut last = Pid(1_048_575);
        let mut count = 0;
        while let Some(lease) = leases.give(NodeId(count)) {
            assert!(lease.first > last && lease.last.0 < TOP);
            last = lease.last;
            count += 1;
        }
        assert!(count >= 200, "{count} ranges for 100 nodes");
    }

    proptest! {
        #[test]
        fn however_nodes_ask_each_gets_its_first_and_nobody_goes_before_who_has_fewer(
            size in LEAST..65_536,
            nodes in 1..200u32,
            asks in vec((0..200i32, 1..40), 1..100),
        ) {
            let mut leases = Leases::new(Pid(1_048_576), size, nodes);
            let mut has = BTreeMap::<i32, usize>::new();
            for (node, times) in asks {
                let node = node % nodes as i32;
                for _ in 0..times {
                    let mine = has.get(&node).copied().unwrap_or(0);
                    let fewer: Vec<i32> = has.iter().filter(|(_, n)| **n < mine).map(|(node, _)| *node).collect();
                    let denied = fewer.into_iter().find(|other| !leases.is_fair(NodeId(*other)));
                    match leases.give(NodeId(node)) {
                        Some(_) => *has.entry(node).or_default() += 1,
                        None => prop_assert!(mine > 0, "node {} has none", node),
                    }
                    let now = has.get(&node).copied().unwrap_or(0);
                    prop_assert!(denied.is_none() || now == mine, "{} before {:?}", node, denied);
                }
            }
            for node in 0..nodes as i32 {
                prop_assert!(leases.has(NodeId(node)) || leases.give(NodeId(node)).is_some(), "node {} gets none", node);
            }
        }
    }

    #[test]
    fn who_forks_without_end_leaves_as_much_as_it_has() {
        let mut leases = Leases::new(Pid(1_048_576), 16_384, 96);
        let given = |leases: &mut Leases, node| (0..).take_while(|_| leases.give(NodeId(node)).is_some()).count();
        assert_eq!(given(&mut leases, 0), 49);
        assert_eq!(given(&mut leases, 1), 25);
        assert_eq!((2..96).filter(|node| leases.give(NodeId(*node)).is_some()).count(), 94);
        // Few ranges: half of them are for nodes to come.
        assert_eq!(given(&mut Leases::new(Pid(TOP - 8 * LEAST), LEAST, 96), 0), 2);
    }

    #[test]
    fn a_range_comes_back_last_and_can_be_claimed_by_its_owner_only() {
        let mut leases = Leases::new(Pid(1_048_576), 16_384, 2);
        let first = leases.give(NodeId(0)).expect("free");
        assert!(leases.claim(NodeId(0), first) && !leases.claim(NodeId(1), first));
        leases.take_back(NodeId(0));
        assert_ne!(leases.give(NodeId(1)), Some(first));
        assert!(leases.claim(NodeId(1), first));
        assert!(!leases.claim(NodeId(1), Lease { first: Pid(7), last: Pid(9) }));
        // Of a daemon that was set up otherwise.
        assert!(!leases.claim(NodeId(1), Lease { last: Pid(first.last.0 + 1), ..first }));
        assert!(!leases.claim(NodeId(1), Lease { first: Pid(i32::MAX), last: Pid(i32::MAX) }));
    }

    #[test]
    fn settings_without_any_range_are_refused() {
        assert!(check(Pid(1_048_576), 16_384, 1).is_ok() && check(Pid(TOP - LEAST), LEAST, MOST_NODES).is_ok());
        for nodes in [0, MOST_NODES + 1, u32::MAX] {
            assert!(check(Pid(1_048_576), 16_384, nodes).is_err(), "{nodes} nodes");
        }
        for (top, size) in [(1_048_576, 255), (1_048_576, -1), (TOP, LEAST), (300, 16_384), (TOP - LEAST + 1, LEAST)] {
            assert!(check(Pid(top), size, 96).is_err(), "{top} {size}");
        }
        for nodes in [0, 1, 1 << 30, 1 << 31, u32::MAX] {
            let least = if nodes < 2 { 16_384 } else { LEAST };
            assert_eq!(Leases::new(Pid(1_048_576), 16_384, nodes).size, least, "{nodes}");
        }
    }

    #[test]
    fn when_all_are_given_that_is_noticed_once_and_no_other_node_gets_in() {
        let mut leases = Leases::new(Pid(TOP - LEAST), LEAST, 1);
        assert!(leases.any_for(NodeId(0)) && leases.give(NodeId(0)).is_some());
        assert!(leases.any_for(NodeId(0)) && !leases.any_for(NodeId(1)));
        assert!(leases.give(NodeId(0)).is_none());
        assert!(leases.first_denial(NodeId(0)) && !leases.first_denial(NodeId(0)));
    }
}
