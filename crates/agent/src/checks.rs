//! Looking again: calls that were let go on at the gate change something a moment later, and nobody tells when.

use kern::ran::Waited;
use std::collections::{BTreeMap, BTreeSet};
use vocab::Pid;

/// What may change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum What {
    /// Group or session.
    Group,
    /// User, group and supplementary groups.
    Creds,
    /// Running or stopped.
    State,
}

/// Microseconds between looks. A call that fails changes nothing, so this ends: after 60 ms nobody waits for a change any more, but of those
/// whose callers have not run since.
const DELAYS_US: [u64; 10] = [0, 20, 50, 100, 200, 500, 1_000, 4_000, 15_000, 40_000];
/// And between those that follow, of groups and ids: on a machine that is starved a call takes seconds from the gate to its end.
const RARELY_US: [u64; 4] = [200_000, 1_000_000, 5_000_000, 25_000_000];

/// What is to be looked at again, and when.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    table: BTreeMap<(Pid, What), Look>,
    rarely: Rarely,
}

#[derive(Debug)]
struct Look {
    /// When next.
    at_us: u64,
    /// How often, since the newest call.
    looks: usize,
    /// Calls of which no change has been seen.
    calls: u32,
    /// The callers, as they waited at the gate.
    callers: Vec<Waited>,
}

/// What most likely will not change any more: when it is looked at next, and for the how manieth time.
#[derive(Debug, Default)]
struct Rarely {
    table: BTreeMap<(Pid, What), (u64, usize)>,
    order: BTreeSet<(u64, (Pid, What))>,
}

impl Rarely {
    fn add(&mut self, key: (Pid, What), looks: usize, now_us: u64) {
        if let Some(delay) = RARELY_US.get(looks) {
            self.table.insert(key, (now_us + delay, looks));
            self.order.insert((now_us + delay, key));
        }
    }

    fn remove(&mut self, key: (Pid, What)) {
        if let Some((at, _)) = self.table.remove(&key) {
            self.order.remove(&(at, key));
        }
    }

    fn due(&mut self, now_us: u64, due: &mut Vec<(Pid, What)>) {
        while let Some((_, key)) = self.order.first().copied().filter(|(at, _)| *at <= now_us) {
            let looks = self.table.get(&key).map_or(0, |(_, looks)| *looks);
            self.remove(key);
            self.add(key, looks + 1, now_us);
            due.push(key);
        }
    }
}

impl Checks {
    /// Looks from now on; anew when it is looked at already, since another call has come, of `caller` where that is known.
    pub(crate) fn add(&mut self, pid: Pid, what: What, caller: Option<Waited>, now_us: u64) {
        self.rarely.remove((pid, what));
        let new = Look { at_us: now_us, looks: 0, calls: 0, callers: Vec::new() };
        let look = self.table.entry((pid, what)).or_insert(new);
        (look.at_us, look.looks, look.calls) = (now_us, 0, look.calls + 1);
        look.callers.extend(caller);
    }

    /// The same where no call is known to have come, but those that are looked for anyway.
    pub(crate) fn again(&mut self, pid: Pid, what: What, now_us: u64) {
        let look =
            self.table.entry((pid, what)).or_insert(Look { at_us: now_us, looks: 0, calls: 1, callers: Vec::new() });
        (look.at_us, look.looks) = (now_us, 0);
    }

    /// What of it may change any moment.
    pub(crate) fn of(&self, pid: Pid) -> Vec<What> {
        self.table.range((pid, What::Group)..=(pid, What::State)).map(|((_, what), _)| *what).collect()
    }

    /// All that may change any moment.
    pub(crate) fn all(&self) -> Vec<(Pid, What)> {
        self.table.keys().copied().collect()
    }

    /// Is there nothing that may change any moment?
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// What is to be looked at now. `is_in_it`: may this caller's call not be done?
    pub(crate) fn due(&mut self, now_us: u64, is_in_it: impl Fn(&Waited) -> bool) -> Vec<(Pid, What)> {
        let mut due = Vec::new();
        let mut over = Vec::new();
        self.table.retain(|key, look| {
            if look.at_us > now_us {
                return true;
            }
            due.push(*key);
            look.looks = (look.looks + 1).min(DELAYS_US.len());
            // Asked before the look: what is done by then is seen by it.
            let is_called = || look.callers.iter().any(&is_in_it);
            match DELAYS_US.get(look.looks).or_else(|| DELAYS_US.last().filter(|_| is_called())) {
                Some(delay) => {
                    look.at_us = now_us + delay;
                    true
                }
                None => {
                    over.push(*key);
                    false
                }
            }
        });
        self.rarely.due(now_us, &mut due);
        for key in over.into_iter().filter(|(_, what)| *what != What::State) {
            self.rarely.add(key, 0, now_us);
        }
        due
    }

    /// It has changed. A second call that came before the first one's change was seen is still looked for.
    pub(crate) fn settled(&mut self, pid: Pid, what: What) {
        self.rarely.remove((pid, what));
        if let Some(look) = self.table.get_mut(&(pid, what)) {
            look.calls -= 1;
            look.looks = 0;
            if look.calls == 0 {
                self.table.remove(&(pid, what));
            }
        }
    }

    /// There is nothing to look at any more.
    pub(crate) fn drop(&mut self, pid: Pid, what: What) {
        self.table.remove(&(pid, what));
        self.rarely.remove((pid, what));
    }

    pub(crate) fn next_us(&self) -> Option<u64> {
        let rarely = self.rarely.order.first().map(|(at, _)| *at);
        self.table.values().map(|look| look.at_us).chain(rarely).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_at_growing_distances_and_then_no_more() {
        for (what, rarely) in [(What::State, &[][..]), (What::Group, &RARELY_US)] {
            let mut checks = Checks::default();
            checks.add(Pid(7), what, None, 1000);
            let mut at = Vec::new();
            while let Some(next) = checks.next_us() {
                assert_eq!(checks.is_empty(), at.len() >= DELAYS_US.len(), "then nobody waits for it");
                assert_eq!(checks.due(next - 1, |_| false), []);
                assert_eq!(checks.due(next, |_| false), [(Pid(7), what)]);
                at.push(next);
            }
            assert_eq!(at.len(), DELAYS_US.len() + rarely.len());
            assert_eq!(at.last(), Some(&(1000 + DELAYS_US.iter().chain(rarely).sum::<u64>())));
        }
    }

    #[test]
    fn what_is_looked_at_rarely_begins_anew_with_a_call_and_ends_with_a_change() {
        let late = DELAYS_US.iter().sum::<u64>();
        let mut checks = Checks::default();
        for (pid, change) in [(Pid(7), true), (Pid(8), false)] {
            checks.add(pid, What::Creds, None, 0);
            while !checks.is_empty() {
                checks.due(checks.next_us().expect("it is looked at"), |_| false);
            }
            match change {
                true => checks.settled(pid, What::Creds),
                false => checks.add(pid, What::Creds, None, late),
            }
        }
        assert_eq!((checks.of(Pid(7)), checks.of(Pid(8))), (vec![], vec![What::Creds]));
        assert_eq!(checks.due(late + RARELY_US[0], |_| false), [(Pid(8), What::Creds)]);
    }

    #[test]
    fn who_has_not_run_since_is_looked_at_for_as_long() {
        let caller = Waited::now(Pid(std::process::id() as i32));
        let mut checks = Checks::default();
        checks.add(Pid(7), What::Creds, caller, 0);
        for _ in 0..50 {
            let next = checks.next_us().expect("its call is not done");
            assert_eq!(checks.due(next, |_| true), [(Pid(7), What::Creds)]);
        }
        let next = checks.next_us().expect("its call is not done");
        assert_eq!(checks.due(next, |_| false), [(Pid(7), What::Creds)], "once more when it is");
        assert!(checks.is_empty(), "then nobody waits for it");
    }

    #[test]
    fn what_has_changed_is_settled() {
        let mut checks = Checks::default();
        checks.add(Pid(7), What::Group, None, 0);
        checks.add(Pid(7), What::Creds, None, 0);
        assert_eq!(checks.of(Pid(7)), [What::Group, What::Creds]);
        checks.settled(Pid(7), What::Group);
        assert_eq!(checks.of(Pid(7)), [What::Creds]);
        assert_eq!(checks.of(Pid(8)), []);
    }

    #[test]
    fn a_second_call_is_looked_for_when_the_first_has_settled() {
        let mut checks = Checks::default();
        checks.add(Pid(7), What::Creds, None, 0);
        checks.add(Pid(7), What::Creds, None, 5);
        checks.settled(Pid(7), What::Creds);
        assert_eq!(checks.of(Pid(7)), [What::Creds]);
        checks.settled(Pid(7), What::Creds);
        assert_eq!(checks.of(Pid(7)), []);
    }
    #[test]
    fn what_is_looked_at_again_without_a_call_settles_with_the_calls_there_are() {
        let mut checks = Checks::default();
        checks.again(Pid(7), What::State, 0);
        checks.again(Pid(7), What::State, 5);
        assert_eq!(checks.next_us(), Some(5));
        checks.settled(Pid(7), What::State);
        assert_eq!(checks.of(Pid(7)), []);
        checks.add(Pid(7), What::State, None, 10);
        checks.again(Pid(7), What::State, 10);
        checks.settled(Pid(7), What::State);
        assert!(checks.is_empty());
    }
}
