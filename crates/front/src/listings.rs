//! `shoal ps`: every node that is not down says what runs on it. What has come when the time is over is the answer, with the names of those nodes of
//! which nothing has.

use crate::front::Front;
use crate::places::State;
use crate::runs::Asker;
use kern::clock::monotonic_us;
use std::collections::{BTreeSet, HashMap};
use vocab::{Fault, NodeId, Result};
use wire::ask::{shorten, Answer, ProcRow};
use wire::node::ToNode;

/// Nodes have this long to say what runs on them, in microseconds.
const PATIENCE_US: u64 = 1_000_000;

/// Those under way.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    all: HashMap<u64, Listing>,
    last: u64,
}

#[derive(Debug)]
struct Listing {
    asker: Asker,
    rows: Vec<ProcRow>,
    /// Asked, and not heard yet.
    awaited: BTreeSet<NodeId>,
    /// Not linked.
    cut: BTreeSet<NodeId>,
    deadline_us: u64,
}

impl Listing {
    fn answer(self) -> (Asker, Answer) {
        let Listing { asker, mut rows, mut awaited, mut cut, .. } = self;
        cut.append(&mut awaited);
        shorten(&mut rows);
        (asker, Answer::Ps { rows, missing: cut.into_iter().collect() })
    }
}

impl Listings {
    /// # Errors
    /// `Refused` when `asker` has one under way.
    fn begin(&mut self, asker: Asker, awaited: BTreeSet<NodeId>, cut: BTreeSet<NodeId>, now_us: u64) -> Result<u64> {
        if self.all.values().any(|listing| listing.asker == asker) {
            return Err(Fault::refused("list processes: the same client is waiting for a list already"));
        }
        self.last += 1;
        let listing = Listing { asker, rows: Vec::new(), awaited, cut, deadline_us: now_us + PATIENCE_US };
        self.all.insert(self.last, listing);
        Ok(self.last)
    }

    fn told(&mut self, node: NodeId, id: u64, rows: Vec<ProcRow>) {
        if let Some(listing) = self.all.get_mut(&id) {
            if listing.awaited.remove(&node) {
                listing.rows.extend(rows);
            }
        }
    }

    /// Those that are complete, or late.
    fn over(&mut self, now_us: u64) -> Vec<(Asker, Answer)> {
        let over = |listing: &Listing| listing.awaited.is_empty() || now_us >= listing.deadline_us;
        let over: Vec<u64> = self.all.iter().filter(|(_, listing)| over(listing)).map(|(id, _)| *id).collect();
        over.into_iter().filter_map(|id| self.all.remove(&id)).map(Listing::answer).collect()
    }

    /// When the first of them is late.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.all.values().map(|listing| listing.deadline_us).min()
    }
}

impl Front {
    pub(crate) fn on_ps(&mut self, asker: Asker) {
        let there = self.nodes.iter().filter(|(_, node)| node.state != State::Down);
        let (linked, cut): (Vec<_>, Vec<_>) = there.partition(|(_, node)| node.link.is_some());
        let numbers = |nodes: Vec<(NodeId, _)>| nodes.into_iter().map(|(number, _)| number).collect::<BTreeSet<_>>();
        let (linked, cut) = (numbers(linked), numbers(cut));
        match self.listings.begin(asker, linked.clone(), cut, monotonic_us()) {
            Ok(id) => linked.into_iter().for_each(|node| self.send(node, &ToNode::Ps { id })),
            Err(fault) => return self.answer(asker, Answer::Failed(fault), true),
        }
        self.tell_listed();
    }

    pub(crate) fn on_ps_done(&mut self, node: NodeId, id: u64, rows: Vec<ProcRow>) {
        self.listings.told(node, id, rows);
        self.tell_listed();
    }

    pub(crate) fn tell_listed(&mut self) {
        for (asker, answer) in self.listings.over(monotonic_us()) {
            self.answer(asker, answer, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKER: Asker = Asker::Local(7);

    fn nodes(numbers: &[i32]) -> BTreeSet<NodeId> {
        numbers.iter().map(|n| NodeId(*n)).collect()
    }

    fn missing(over: Vec<(Asker, Answer)>) -> Option<Vec<NodeId>> {
        match &over[..] {
            [] => None,
            [(ASKER, Answer::Ps { missing, .. })] => Some(missing.clone()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_list_is_complete_when_all_that_are_linked_have_told() {
        let mut listings = Listings::default();
        let id = listings.begin(ASKER, nodes(&[0, 2]), nodes(&[1]), 100).expect("the first");
        assert!(listings.begin(ASKER, nodes(&[0]), nodes(&[]), 100).is_err(), "a second");
        listings.told(NodeId(0), id, vec![]);
        listings.told(NodeId(0), id, vec![]);
        listings.told(NodeId(2), id + 1, vec![]);
        assert_eq!((missing(listings.over(100)), listings.due_us()), (None, Some(100 + PATIENCE_US)));
        listings.told(NodeId(2), id, vec![]);
        assert_eq!(missing(listings.over(100)), Some(vec![NodeId(1)]));
        assert_eq!(listings.due_us(), None);
    }

    #[test]
    fn a_late_list_names_those_of_which_nothing_has_come() {
        let mut listings = Listings::default();
        let id = listings.begin(ASKER, nodes(&[0, 2]), nodes(&[]), 100).expect("the first");
        listings.told(NodeId(0), id, vec![]);
        assert_eq!(missing(listings.over(99 + PATIENCE_US)), None);
        assert_eq!(missing(listings.over(100 + PATIENCE_US)), Some(vec![NodeId(2)]));
        listings.told(NodeId(2), id, vec![]);
    }
}
