//! `shoal ps`: every node that is not down says what runs on it. What has come when the time is over is the answer; of those nodes of which nothing has it is
//! what they said last, with their names. A node that is known to be silent, or did not answer before, is waited for no longer than a moment; one that does not even
//! say that it has heard the question not much longer. So whoever looks is delayed by a tenth of a second at most.

use crate::front::Front;
use crate::places::State;
use crate::runs::Asker;
use kern::clock::monotonic_us;
use std::collections::{BTreeSet, HashMap, HashSet};
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::{shorten, Answer, ProcRow};
use wire::node::ToNode;

/// Nodes that have said that they are at it have this long to say what runs on them, in microseconds.
const PATIENCE_US: u64 = 1_000_000;
/// While others keep answering, those have so long after each, up to so long in all: their machine is slow, and none of them stuck.
const PROGRESS_US: u64 = 250_000;
const LONGEST_US: u64 = 3_000_000;
/// Those that have said nothing at all have this long, once all others have said it, and since anybody has said anything.
const SILENCE_US: u64 = 80_000;
/// Those of which it is to be expected that they do not have this long, once all others have said it.
const MOMENT_US: u64 = 40_000;

/// Those under way.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    all: HashMap<u64, Listing>,
    last: u64,
    /// What each node said last.
    known: HashMap<NodeId, Vec<ProcRow>>,
    /// Those that did not answer in time, and have said nothing since.
    late: BTreeSet<NodeId>,
}

#[derive(Debug)]
struct Listing {
    asker: Asker,
    rows: Vec<ProcRow>,
    /// Asked, and not heard yet.
    awaited: BTreeSet<NodeId>,
    /// Those that have said that they are at it.
    begun: BTreeSet<NodeId>,
    /// Not linked.
    cut: BTreeSet<NodeId>,
    deadline_us: u64,
    /// It is over by then, whoever may still be at it; and by this time however many still answer.
    end_us: u64,
    longest_us: u64,
    /// Asked, and not expected to answer.
    doubtful: BTreeSet<NodeId>,
}

impl Listing {
    /// How long those have of which nothing has come: something was just said, or the question asked.
    fn hurry(&mut self, now_us: u64) {
        let trusted = self.awaited.difference(&self.doubtful);
        self.deadline_us = match trusted.map(|node| self.begun.contains(node)).max() {
            None => self.deadline_us.min(now_us + MOMENT_US),
            Some(false) => self.end_us.min(now_us + SILENCE_US),
            Some(true) => self.end_us,
        };
    }

    /// One has answered.
    fn goes_on(&mut self, now_us: u64) {
        self.end_us = self.end_us.max(now_us + PROGRESS_US).min(self.longest_us);
        self.hurry(now_us);
    }

    fn answer(self, known: &HashMap<NodeId, Vec<ProcRow>>) -> (Asker, Answer) {
        let Listing { asker, mut rows, mut awaited, mut cut, .. } = self;
        cut.append(&mut awaited);
        if !cut.is_empty() {
            // Who has moved away from there is where it is now.
            let fresh: HashSet<Pid> = rows.iter().map(|row| row.pid).collect();
            let last = cut.iter().filter_map(|node| known.get(node)).flatten();
            rows.extend(last.filter(|row| !fresh.contains(&row.pid)).cloned());
        }
        shorten(&mut rows);
        (asker, Answer::Ps { rows, missing: cut.into_iter().collect() })
    }
}

impl Listings {
    /// # Errors
    /// `Refused` when `asker` has one under way.
    fn begin(
        &mut self,
        asker: Asker,
        (awaited, silent): (BTreeSet<NodeId>, BTreeSet<NodeId>),
        cut: BTreeSet<NodeId>,
        now_us: u64,
    ) -> Result<u64> {
        if self.all.values().any(|listing| listing.asker == asker) {
            return Err(Fault::refused("list processes: the same client is waiting for a list already"));
        }
        self.last += 1;
        let (doubtful, begun) = (silent.union(&self.late).copied().collect(), BTreeSet::new());
        let end_us = now_us + PATIENCE_US;
        let (rows, longest_us) = (Vec::new(), now_us + LONGEST_US);
        let mut listing =
            Listing { asker, rows, awaited, begun, cut, deadline_us: end_us, end_us, longest_us, doubtful };
        listing.hurry(now_us);
        self.all.insert(self.last, listing);
        Ok(self.last)
    }

    fn begun(&mut self, node: NodeId, id: u64, now_us: u64) {
        if let Some(listing) = self.all.get_mut(&id) {
            listing.begun.insert(node);
            listing.hurry(now_us);
        }
    }

    fn told(&mut self, node: NodeId, id: u64, rows: Vec<ProcRow>, now_us: u64) {
        self.late.remove(&node);
        if let Some(listing) = self.all.get_mut(&id) {
            if listing.awaited.remove(&node) {
                listing.rows.extend(rows.iter().cloned());
                listing.goes_on(now_us);
            }
        }
        self.known.insert(node, rows);
    }

    /// Everything there has ended.
    pub(crate) fn node_lost(&mut self, node: NodeId) {
        self.known.remove(&node);
        self.late.remove(&node);
    }

    /// Those that are complete, or late.
    fn over(&mut self, now_us: u64) -> Vec<(Asker, Answer)> {
        let over = |listing: &Listing| listing.awaited.is_empty() || now_us >= listing.deadline_us;
        let over: Vec<u64> = self.all.iter().filter(|(_, listing)| over(listing)).map(|(id, _)| *id).collect();
        let over: Vec<Listing> = over.into_iter().filter_map(|id| self.all.remove(&id)).collect();
        self.late.extend(over.iter().flat_map(|listing| &listing.awaited));
        over.into_iter().map(|listing| listing.answer(&self.known)).collect()
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
        let silent = linked.iter().filter(|(_, node)| node.state == State::Silent).map(|(number, _)| *number).collect();
        let (linked, cut) = (numbers(linked), numbers(cut));
        match self.listings.begin(asker, (linked.clone(), silent), cut, monotonic_us()) {
            Ok(id) => linked.into_iter().for_each(|node| self.send(node, &ToNode::Ps { id })),
            Err(fault) => return self.answer(asker, Answer::Failed(fault), true),
        }
        self.tell_listed();
    }

    pub(crate) fn on_ps_begun(&mut self, node: NodeId, id: u64) {
        self.listings.begun(node, id, monotonic_us());
    }

    pub(crate) fn on_ps_done(&mut self, node: NodeId, id: u64, mut rows: Vec<ProcRow>) {
        for row in &mut rows {
            row.birth = self.space.get(row.pid).map_or(0, |view| view.birth);
        }
        self.listings.told(node, id, rows, monotonic_us());
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
        let id = listings.begin(ASKER, (nodes(&[0, 2]), nodes(&[])), nodes(&[1]), 100).expect("the first");
        assert!(listings.begin(ASKER, (nodes(&[0]), nodes(&[])), nodes(&[]), 100).is_err(), "a second");
        listings.told(NodeId(0), id, vec![], 100);
        listings.told(NodeId(0), id, vec![], 100);
        listings.told(NodeId(2), id + 1, vec![], 100);
        assert_eq!((missing(listings.over(100)), listings.due_us()), (None, Some(100 + SILENCE_US)));
        listings.told(NodeId(2), id, vec![], 100);
        assert_eq!(missing(listings.over(100)), Some(vec![NodeId(1)]));
        assert_eq!(listings.due_us(), None);
    }

    #[test]
    fn a_late_list_names_those_of_which_nothing_has_come() {
        let mut listings = Listings::default();
        let id = listings.begin(ASKER, (nodes(&[0, 2]), nodes(&[])), nodes(&[]), 100).expect("the first");
        listings.told(NodeId(0), id, vec![], 100);
        listings.begun(NodeId(2), id, 101);
        assert_eq!(missing(listings.over(99 + PATIENCE_US)), None);
        assert_eq!(missing(listings.over(100 + PATIENCE_US)), Some(vec![NodeId(2)]));
        listings.told(NodeId(2), id, vec![], 100);
    }

    #[test]
    fn who_does_not_even_say_that_it_has_heard_is_not_waited_for() {
        let mut listings = Listings::default();
        let id = listings.begin(ASKER, (nodes(&[0, 1, 2]), nodes(&[])), nodes(&[]), 0).expect("the first");
        assert_eq!(listings.due_us(), Some(SILENCE_US), "nobody says anything");
        listings.told(NodeId(0), id, vec![], 50_000);
        assert_eq!(listings.due_us(), Some(50_000 + SILENCE_US), "they may be one after the other");
        listings.begun(NodeId(1), id, 60_000);
        assert_eq!(listings.due_us(), Some(PATIENCE_US), "one is at it");
        listings.told(NodeId(1), id, vec![], 300_000);
        assert_eq!(missing(listings.over(299_999 + SILENCE_US)), None);
        assert_eq!(missing(listings.over(300_000 + SILENCE_US)), Some(vec![NodeId(2)]));
        listings.begun(NodeId(2), id, 400_000);
        assert_eq!(listings.due_us(), None, "too late");
    }

    #[test]
    fn while_nodes_keep_answering_the_others_are_waited_for_but_not_for_ever() {
        let mut listings = Listings::default();
        let all: Vec<i32> = (0..40).collect();
        let id = listings.begin(ASKER, (nodes(&all), nodes(&[])), nodes(&[]), 0).expect("the first");
        all.iter().for_each(|node| listings.begun(NodeId(*node), id, 1_000));
        for node in 0..40 {
            let now_us = 60_000 * node as u64;
            assert!(listings.due_us() > Some(now_us), "node {node}");
            listings.told(NodeId(node), id, vec![], now_us);
        }
        assert_eq!(missing(listings.over(60_000 * 39)), Some(vec![]), "all, in 2.3 s");
        let id = listings.begin(ASKER, (nodes(&all), nodes(&[])), nodes(&[]), 0).expect("a second");
        all.iter().for_each(|node| listings.begun(NodeId(*node), id, 1_000));
        (0..30).for_each(|node| listings.told(NodeId(node), id, vec![], 99_000 * node as u64));
        assert_eq!(listings.due_us(), Some(LONGEST_US));
        assert_eq!(missing(listings.over(LONGEST_US)).map(|missing| missing.len()), Some(10));
    }

    fn row(pid: i32, node: i32) -> ProcRow {
        let (pid, node, ppid) = (Pid(pid), NodeId(node), Pid(1));
        ProcRow { pid, node, uid: 0, state: 'S', cpu_ms: 0, rss_kb: 0, command: String::new(), ppid, birth: 0 }
    }

    /// Of each row its process and its node.
    fn rows(over: Vec<(Asker, Answer)>) -> Vec<(i32, i32)> {
        match &over[..] {
            [(ASKER, Answer::Ps { rows, .. })] => rows.iter().map(|row| (row.pid.0, row.node.0)).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_silent_node_has_a_moment_and_its_last_rows_are_told() {
        let mut listings = Listings::default();
        let id = listings.begin(ASKER, (nodes(&[0, 2]), nodes(&[])), nodes(&[]), 0).expect("the first");
        listings.told(NodeId(0), id, vec![row(5, 0)], 10);
        listings.told(NodeId(2), id, vec![row(6, 2), row(7, 2)], 10);
        assert_eq!(rows(listings.over(10)), [(5, 0), (6, 2), (7, 2)]);
        let id = listings.begin(ASKER, (nodes(&[0, 2]), nodes(&[2])), nodes(&[]), 1000).expect("a second");
        listings.begun(NodeId(0), id, 1000);
        assert_eq!(listings.due_us(), Some(1000 + PATIENCE_US), "one is at it");
        listings.told(NodeId(0), id, vec![row(5, 0), row(6, 0)], 2000);
        assert_eq!(listings.due_us(), Some(2000 + MOMENT_US));
        assert_eq!(rows(listings.over(2000 + MOMENT_US)), [(5, 0), (6, 0), (7, 2)], "6 has moved");
        // It counts as up again, and has yet to answer.
        let id = listings.begin(ASKER, (nodes(&[0, 2]), nodes(&[])), nodes(&[]), 900_000).expect("a third");
        listings.told(NodeId(0), id, vec![], 900_000);
        assert_eq!(listings.due_us(), Some(900_000 + MOMENT_US));
        listings.told(NodeId(2), id - 1, vec![row(8, 2)], 900_001);
        assert_eq!(rows(listings.over(900_000 + MOMENT_US)), [(8, 2)], "what came late is known");
        listings.node_lost(NodeId(2));
        let id = listings.begin(ASKER, (nodes(&[0]), nodes(&[])), nodes(&[2]), 0).expect("a fourth");
        listings.told(NodeId(0), id, vec![], 0);
        assert_eq!(rows(listings.over(0)), []);
    }
}
