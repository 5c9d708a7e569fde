//! Who goes through all processes comes to one node after the other, and those to which he comes next are asked before he does. Not all at once: the first would answer no
//! sooner than all, where they share a machine, and what the last have said would be old.

use crate::tables::Key;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vocab::NodeId;

/// So many nodes to which he has yet to come are asked at most: one more with each to which he has come, since he waits for the first.
const AHEAD: usize = 8;

/// The round in which one goes through all, as the last one has begun.
#[derive(Debug, Default)]
pub(crate) struct Rounds(Mutex<Round>);

#[derive(Debug, Default)]
struct Round {
    number: u64,
    key: Key,
    /// Who has yet to be asked.
    rest: VecDeque<NodeId>,
    /// So many have been asked to whom he has yet to come.
    ahead: usize,
    come: usize,
    /// He is waiting for one that says nothing.
    stalled: bool,
}

/// One to be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Next {
    pub(crate) key: Key,
    pub(crate) node: NodeId,
    /// For [`Rounds::comes`].
    pub(crate) round: u64,
}

impl Rounds {
    fn round(&self) -> MutexGuard<'_, Round> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One begins to go through these, in this order.
    pub(crate) fn begin(&self, key: Key, rest: Vec<NodeId>) {
        let mut round = self.round();
        *round = Round { number: round.number + 1, key, rest: rest.into(), ahead: 0, come: 0, stalled: false };
    }

    /// Who is to be asked now, if anybody is. One that need not be asked counts as one to which he has come.
    pub(crate) fn next(&self) -> Option<Next> {
        let mut round = self.round();
        if !round.stalled && round.ahead >= AHEAD.min(1 + round.come) {
            return None;
        }
        let node = round.rest.pop_front()?;
        round.ahead += 1;
        Some(Next { key: round.key, node, round: round.number })
    }

    /// He waits for one that says nothing: all others are to be asked meanwhile, so that he need wait for none of those that say nothing either.
    pub(crate) fn stalls(&self) {
        self.round().stalled = true;
    }

    /// He has come to one that was asked in this round.
    pub(crate) fn comes(&self, number: u64) {
        let mut round = self.round();
        if round.number == number {
            round.ahead = round.ahead.saturating_sub(1);
            round.come += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_asked_ahead_and_no_more() {
        let rounds = Rounds::default();
        assert_eq!(rounds.next(), None);
        rounds.begin("io", (0..20).map(NodeId).collect());
        assert_eq!(rounds.next(), Some(Next { key: "io", node: NodeId(0), round: 1 }));
        assert_eq!(rounds.next(), None);
        rounds.comes(1);
        let all = || std::iter::from_fn(|| rounds.next().map(|next| next.node.0)).collect::<Vec<_>>();
        assert_eq!(all(), [1, 2]);
        (0..2).for_each(|_| rounds.comes(1));
        assert_eq!(all(), [3, 4, 5, 6]);
        (0..4).for_each(|_| rounds.comes(1));
        assert_eq!(all(), (7..7 + AHEAD as i32).collect::<Vec<_>>());
        rounds.begin("", vec![NodeId(5)]);
        // To one of the round before.
        rounds.comes(1);
        assert_eq!(rounds.next().map(|next| (next.node, next.round)), Some((NodeId(5), 2)));
        assert_eq!(rounds.next(), None);
        rounds.begin("", (0..20).map(NodeId).collect());
        rounds.stalls();
        assert_eq!(std::iter::from_fn(|| rounds.next()).count(), 20);
    }
}
