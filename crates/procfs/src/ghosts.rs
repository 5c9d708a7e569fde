//! Who stands here for whom.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use vocab::{NodeId, Pid};

/// [`Ghost::owner`] before any is known.
const NOBODY: u64 = u64::MAX;

/// A process that stands here for one elsewhere, for as long as it does: another one of the same number is another ghost.
#[derive(Debug)]
pub(crate) struct Ghost {
    pub(crate) pid: Pid,
    node: AtomicI32,
    /// Nothing stands on this machine for it: it is shown all the same.
    pub(crate) apart: bool,
    /// It stands for nobody any more, and its number may be any process's.
    dead: AtomicBool,
    /// Another one each time that its body may have become another program's or user's.
    turn: AtomicU64,
    owner: AtomicU64,
    /// What the process is here, as it was looked at last.
    pub(crate) here: Mutex<Option<crate::here::Here>>,
}

impl Ghost {
    pub(crate) fn node(&self) -> NodeId {
        NodeId(self.node.load(Ordering::Relaxed))
    }

    /// As far as has been heard.
    pub(crate) fn is_gone(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// What was guarded in another turn is nobody's any more.
    pub(crate) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Acquire)
    }

    pub(crate) fn turns(&self) {
        self.turn.fetch_add(1, Ordering::AcqRel);
    }

    /// Its body's files are this user's.
    pub(crate) fn is_of(&self, uid: u32, gid: u32) {
        let now = u64::from(uid) << 32 | u64::from(gid);
        let before = self.owner.swap(now, Ordering::AcqRel);
        if before != now && before != NOBODY {
            self.turns();
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Ghosts {
    all: Mutex<BTreeMap<Pid, Arc<Ghost>>>,
    /// The numbers of all, until one comes or goes.
    order: Mutex<Option<Arc<Vec<Pid>>>>,
    /// None of them stands on this machine.
    apart: bool,
}

impl Ghosts {
    /// Those of a node, for which nothing stands there.
    pub(crate) fn apart() -> Ghosts {
        Ghosts { apart: true, ..Ghosts::default() }
    }

    pub(crate) fn are_apart(&self) -> bool {
        self.apart
    }

    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<Pid, Arc<Ghost>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It stands for a process of this node. What is returned is the node before, if it stood there already.
    pub(crate) fn stand(&self, pid: Pid, node: NodeId) -> Option<NodeId> {
        let mut all = self.all();
        if let Some(ghost) = all.get(&pid) {
            return Some(NodeId(ghost.node.swap(node.0, Ordering::Relaxed)));
        }
        let ghost = Ghost {
            pid,
            node: AtomicI32::new(node.0),
            apart: self.apart,
            dead: AtomicBool::new(false),
            turn: AtomicU64::new(0),
            owner: AtomicU64::new(NOBODY),
            here: Mutex::default(),
        };
        all.insert(pid, Arc::new(ghost));
        drop(all);
        self.changed();
        None
    }

    pub(crate) fn gone(&self, pid: Pid) -> Option<Arc<Ghost>> {
        let ghost = self.all().remove(&pid)?;
        ghost.dead.store(true, Ordering::Release);
        self.changed();
        Some(ghost)
    }

    /// All that stand here now, in the order of their numbers.
    pub(crate) fn pids(&self) -> Arc<Vec<Pid>> {
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(order) = &*order {
            return order.clone();
        }
        // Who changes them forgets the order afterwards, and waits until it is known.
        let now = Arc::new(self.all().keys().copied().collect());
        order.insert(now).clone()
    }

    fn changed(&self) {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// How many have lower numbers, and how many there are.
    pub(crate) fn place(&self, pid: Pid) -> (usize, usize) {
        let all = self.pids();
        (all.partition_point(|one| *one < pid), all.len())
    }

    /// The nodes of all, in the order of the first of each that comes after `pid`; those behind that have none.
    pub(crate) fn nodes_after(&self, pid: Pid) -> Vec<NodeId> {
        let mut firsts = HashMap::new();
        for (one, ghost) in self.all().iter() {
            let place = (*one <= pid, *one);
            let first = firsts.entry(ghost.node()).or_insert(place);
            *first = place.min(*first);
        }
        let mut nodes: Vec<_> = firsts.into_iter().map(|(node, first)| (first, node)).collect();
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, node)| node).collect()
    }

    pub(crate) fn get(&self, pid: Pid) -> Option<Arc<Ghost>> {
        self.all().get(&pid).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_in_the_order_of_what_comes_next() {
        let ghosts = Ghosts::default();
        for (pid, node) in [(1, 0), (2, 1), (3, 2), (10, 2), (11, 2), (20, 0)] {
            ghosts.stand(Pid(pid), NodeId(node));
        }
        let after = |pid| ghosts.nodes_after(Pid(pid)).into_iter().map(|node| node.0).collect::<Vec<_>>();
        assert_eq!((after(0), after(3), after(15)), (vec![0, 1, 2], vec![2, 0, 1], vec![0, 1, 2]));
    }

    #[test]
    fn one_that_is_gone_is_dead_and_another_owner_is_another_turn() {
        let ghosts = Ghosts::default();
        assert_eq!(ghosts.stand(Pid(7), NodeId(0)), None);
        assert_eq!(ghosts.stand(Pid(7), NodeId(1)), Some(NodeId(0)));
        let ghost = ghosts.get(Pid(7)).expect("it stands");
        assert_eq!((ghost.node(), ghost.is_dead(), ghost.turn()), (NodeId(1), false, 0));
        ghost.is_of(1000, 1000);
        ghost.is_of(1000, 1000);
        assert_eq!(ghost.turn(), 0);
        ghost.is_of(0, 0);
        assert_eq!(ghost.turn(), 1);
        ghosts.gone(Pid(7));
        assert!(ghost.is_dead());
    }
}
