//! Of a ghost that stands for a while the kernel is to know what is in its directory before anybody looks there: else who looks first would wait for that. It is learnt
//! when there is nothing else to do, and nobody asks a node for it: that the names are there is known here, and what is in the files is asked for by who reads them.
//!
//! Here is whose names are to be learnt next; [`crate::ahead`] sees to it.

use crate::ghosts::Ghost;
use crate::names::{Place, ALL_READ, NOT_THERE};
use kern::fuse::tree::Named;
use kern::proc::{root, Proc};
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::debug;
use vocab::Pid;

/// One that has stood for so long may stand for long, in microseconds: most processes end sooner.
const AGE_US: u64 = 1_000_000;
/// From one look at who stands so long by now to the next, in microseconds.
const PAUSE_US: u64 = 250_000;
/// So many at a time: whoever goes through processes meanwhile waits for those.
const BATCH: usize = 16;
/// So many that are gone are told of in a packet.
const GONE: usize = 128;
/// What one costs here and in the kernel, in bytes (docs/decisions/cluster-in-proc.md), and the part of the machine's memory that all may cost.
const EACH: u64 = 8192;
const PART: u64 = 50;

/// What is to be done now.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Nothing, until one comes or goes.
    Nothing,
    /// Nothing for so long.
    Later(Duration),
    /// The directories of these are needed no longer, then the names in those of these are to be learnt.
    These { gone: Vec<Pid>, new: Vec<Pid> },
}

/// See above.
#[derive(Debug)]
pub(crate) struct Learning {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// With when they came (monotonic).
    coming: VecDeque<(u64, Arc<Ghost>)>,
    learnt: HashSet<Pid>,
    gone: Vec<Pid>,
    /// Some were told of, and it has not been said that these are all.
    busy: bool,
}

impl Default for Learning {
    fn default() -> Learning {
        let memory = Proc::open(root()).and_then(|proc| proc.memory()).map_or(0, |memory| memory.total);
        Learning { most: usize::try_from(memory / PART / EACH).unwrap_or(usize::MAX), state: Mutex::default() }
    }
}

/// What is learnt of each: what ps reads.
pub(crate) fn names() -> Vec<Named> {
    let named = |name: &&str| {
        let name = name.as_bytes();
        Some(Named { name: name.into(), mode: Place::Process.mode(name)? })
    };
    ALL_READ.iter().filter_map(named).collect()
}

/// And what is not there.
pub(crate) fn missing() -> Vec<Vec<u8>> {
    NOT_THERE.iter().map(|name| name.as_bytes().into()).collect()
}

impl Learning {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are bound now, and these are gone. True: there was nothing to be done before.
    pub(crate) fn change(&self, new: impl Iterator<Item = Arc<Ghost>>, gone: &[Pid], now_us: u64) -> bool {
        let mut state = self.state();
        let was_idle = state.is_idle();
        for pid in gone {
            if state.learnt.remove(pid) {
                state.gone.push(*pid);
            }
        }
        state.coming.extend(new.map(|ghost| (now_us, ghost)));
        was_idle && !state.is_idle()
    }

    /// What is to be done now.
    pub(crate) fn next(&self, now_us: u64) -> Next {
        let mut state = self.state();
        let mut new = Vec::new();
        while new.len() < BATCH && state.coming.front().is_some_and(|(came, _)| came + AGE_US <= now_us) {
            let Some((_, ghost)) = state.coming.pop_front() else { break };
            if !ghost.is_gone() && state.learnt.len() < self.most && state.learnt.insert(ghost.pid) {
                new.push(ghost.pid);
            }
        }
        let gone = state.takes_gone();
        if !new.is_empty() || !gone.is_empty() {
            state.busy = true;
            return Next::These { gone, new };
        }
        if std::mem::take(&mut state.busy) {
            debug!(ghosts = state.learnt.len(), "the kernel has learnt the names of what processes show");
        }
        match state.coming.front() {
            // Not once for each that comes.
            Some((came, _)) => Next::Later(Duration::from_micros((came + AGE_US - now_us).max(PAUSE_US))),
            None => Next::Nothing,
        }
    }
}

impl State {
    fn is_idle(&self) -> bool {
        self.coming.is_empty() && self.gone.is_empty()
    }

    fn takes_gone(&mut self) -> Vec<Pid> {
        let rest = self.gone.len().saturating_sub(GONE);
        self.gone.split_off(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ghosts::Ghosts;
    use vocab::NodeId;

    const FIRST_US: u64 = 5_000_000;

    fn ghosts(pids: std::ops::Range<i32>) -> (Ghosts, Vec<Arc<Ghost>>) {
        let ghosts = Ghosts::default();
        let stands = |pid| {
            ghosts.stand(Pid(pid), NodeId(0));
            ghosts.get(Pid(pid)).expect("it stands")
        };
        let all = pids.map(stands).collect();
        (ghosts, all)
    }

    fn all(learning: &Learning, now_us: u64) -> (Vec<i32>, Vec<i32>) {
        let (mut all_gone, mut all_new) = (Vec::new(), Vec::new());
        while let Next::These { gone, new } = learning.next(now_us) {
            assert!(new.len() <= BATCH && gone.len() <= GONE);
            all_gone.extend(gone.iter().map(|pid| pid.0));
            all_new.extend(new.iter().map(|pid| pid.0));
        }
        (all_gone, all_new)
    }

    #[test]
    fn only_those_who_have_stood_for_a_while_and_stand_still_are_learnt_once() {
        let learning = Learning::default();
        let (here, some) = ghosts(1..41);
        assert_eq!(learning.next(FIRST_US), Next::Nothing);
        assert!(learning.change(some[..20].iter().cloned(), &[], FIRST_US));
        assert!(!learning.change(some[20..].iter().cloned(), &[], FIRST_US + AGE_US / 2));
        assert_eq!(learning.next(FIRST_US + 1), Next::Later(Duration::from_micros(AGE_US - 1)));
        here.gone(Pid(7));
        assert!(!learning.change(std::iter::empty(), &[Pid(7)], FIRST_US + 2));
        let expected: Vec<i32> = (1..21).filter(|pid| *pid != 7).collect();
        assert_eq!(all(&learning, FIRST_US + AGE_US), (vec![], expected));
        // Not for each that comes.
        assert_eq!(learning.next(FIRST_US + 3 * AGE_US / 2 - 1), Next::Later(Duration::from_micros(PAUSE_US)));
        assert_eq!(all(&learning, FIRST_US + 2 * AGE_US), (vec![], (21..41).collect()));
        assert_eq!(learning.next(FIRST_US + 2 * AGE_US), Next::Nothing);
        // Only of those that were learnt there is anything to be forgotten, and it comes first.
        assert!(!learning.change(std::iter::empty(), &[Pid(99)], FIRST_US));
        assert!(learning.change(some[4..5].iter().cloned(), &[Pid(5), Pid(8)], FIRST_US));
        let these = Next::These { gone: vec![Pid(5), Pid(8)], new: vec![Pid(5)] };
        assert_eq!(learning.next(FIRST_US + 4 * AGE_US), these);
    }

    #[test]
    fn no_more_are_learnt_than_there_is_memory_for() {
        let learning = Learning { most: 3, state: Mutex::default() };
        let (_here, some) = ghosts(1..11);
        learning.change(some.iter().cloned(), &[], FIRST_US);
        assert_eq!(all(&learning, FIRST_US + AGE_US), (vec![], vec![1, 2, 3]));
        learning.change(some[8..].iter().cloned(), &[Pid(2)], FIRST_US + AGE_US);
        assert_eq!(all(&learning, FIRST_US + 2 * AGE_US), (vec![2], vec![9]));
        assert!(Learning::default().most > 1000);
    }

    #[test]
    fn what_is_learnt_is_there_and_what_is_not_there_is_not() {
        assert_eq!(names().len(), ALL_READ.len());
        assert!(missing().iter().all(|name| Place::Process.mode(name).is_none()));
    }
}
