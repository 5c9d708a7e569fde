//! Who goes through all processes is to see each as it was at some time since he began: what was fetched for him does not become old under his hands. And who goes
//! through them once more at once is to find it fresh, however long that took: it counts from when he will be through.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use vocab::Pid;

/// Who has asked nothing for so long begins anew, in microseconds; and who has gone on for so long does.
const GAP_US: u64 = 200_000;
const LONGEST_US: u64 = 4_000_000;
/// So many are remembered before those are forgotten that have ended.
const MOST: usize = 256;
/// Who has looked at fewer processes may be about to look at no other one. How far he is, is found out each time that he has looked at so many more.
const FEW: usize = 16;
/// Who takes longer for each, in microseconds, does not do so because he asks, but for what he does besides or because he has waited for a node, or has been through
/// without asking much: what he was shown would count for seconds after he is through.
const EACH_US: u64 = 300;

/// What is known of one who looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pass {
    /// Since when he has gone through processes (monotonic).
    pub(crate) since_us: u64,
    /// How long it will be until he has been through all, as fast as he has been until now.
    pub(crate) left_us: u64,
    /// How many he has been through.
    pub(crate) seen: usize,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    at_us: u64,
    last_us: u64,
    /// Who was looked at last, and how many there were before.
    pid: Pid,
    seen: usize,
    /// When he had looked at [`FEW`], at which one he was, and how many are before that one.
    few: (u64, Pid, usize),
    /// When he will be through.
    end_us: u64,
}

impl Begun {
    fn now(at_us: u64, pid: Pid) -> Begun {
        Begun { at_us, last_us: at_us, pid, seen: 0, few: (0, Pid(i32::MAX), 0), end_us: 0 }
    }

    /// So many are before the one at which he is, of so many.
    fn is_at(&mut self, (place, all): (usize, usize), now_us: u64) {
        if self.seen == FEW {
            self.few = (now_us, self.pid, place);
            return;
        }
        let (since, _, from) = self.few;
        if place > from {
            let left = all.saturating_sub(place) as u64;
            let expected = (now_us - since) * left / (place - from) as u64;
            self.end_us = now_us + expected.min(EACH_US * left);
        }
    }

    /// He goes through them once more: he is where he was at the beginning. Of those of which all is fresh he asks nothing, so that may be soon.
    fn is_over(&self, pid: Pid) -> bool {
        pid < self.pid && pid <= self.few.1
    }

    fn pass(&self, now_us: u64) -> Pass {
        let left_us = self.end_us.saturating_sub(now_us).min(LONGEST_US);
        Pass { since_us: self.at_us, left_us, seen: self.seen }
    }

    /// Has he gone on until now?
    fn goes_on(&self, now_us: u64) -> bool {
        now_us < self.last_us + GAP_US && now_us < self.at_us + LONGEST_US
    }
}

/// When each thread that looks has begun, and asked last.
#[derive(Debug, Default)]
pub(crate) struct Passes(Mutex<HashMap<Pid, Begun>>);

impl Passes {
    /// `who` looks at process `pid` now. `place`: how many are before it, and how many there are.
    pub(crate) fn looks(&self, who: Pid, pid: Pid, place: impl FnOnce() -> (usize, usize), now_us: u64) -> Pass {
        if who == Pid::NONE {
            return Pass { since_us: now_us, left_us: 0, seen: 0 };
        }
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if begun.len() >= MOST {
            begun.retain(|_, one| one.last_us + GAP_US > now_us);
        }
        let one = begun.entry(who).or_insert(Begun::now(now_us, pid));
        if !one.goes_on(now_us) || one.is_over(pid) {
            *one = Begun::now(now_us, pid);
        }
        one.last_us = now_us;
        if std::mem::replace(&mut one.pid, pid) != pid {
            one.seen += 1;
            if one.seen.is_multiple_of(FEW) {
                one.is_at(place(), now_us);
            }
        }
        one.pass(now_us)
    }

    /// Of somebody ahead of whom another one looks.
    pub(crate) fn of(&self, who: Pid, now_us: u64) -> Pass {
        let begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = begun.get(&who).filter(|one| one.goes_on(now_us));
        one.map_or(Pass { since_us: now_us, left_us: 0, seen: 0 }, |one| one.pass(now_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_goes_on_until_it_pauses() {
        let passes = Passes::default();
        let since = |who, now| passes.looks(Pid(who), Pid(1), || (0, 1), now).since_us;
        let all = [1_000_000, 1_100_000, 1_250_000, 1_500_000, 1_600_000].map(|now| since(7, now));
        assert_eq!(all, [1_000_000, 1_000_000, 1_000_000, 1_500_000, 1_500_000]);
        assert_eq!(since(0, 5), 5);
        let often: Vec<u64> = (0..50).map(|n| since(8, n * 100_000)).collect();
        assert_eq!((often[39], often[40], often[49]), (0, 4_000_000, 4_000_000));
    }

    #[test]
    fn who_begins_once_more_without_a_pause_begins_anew() {
        let passes = Passes::default();
        let looks = |n: u64| {
            let place = (n % 100) as usize;
            passes.looks(Pid(7), Pid(1 + place as i32), || (place, 100), 1_000 * n)
        };
        for n in 0..1000 {
            let pass = looks(n);
            assert!(pass.since_us == 1_000 * (n - n % 100) && pass.left_us <= 100_000, "{n}: {pass:?}");
            assert_eq!(passes.of(Pid(7), 1_000 * n), pass);
        }
        assert_eq!(passes.of(Pid(7), 2_000_000), Pass { since_us: 2_000_000, left_us: 0, seen: 0 });
        // One who looks back now and then goes on.
        let back = |n: i32| {
            passes.looks(
                Pid(8),
                Pid(100 + n - 7 * i32::from(n > 40 && n % 2 == 0)),
                || (n as usize, 1000),
                1_000 * n as u64,
            )
        };
        assert!((0..900).all(|n| back(n).since_us == 0));
    }

    #[test]
    fn it_is_through_when_it_has_looked_at_all_as_fast_as_before() {
        let passes = Passes::default();
        let looks = |who, n: i32, all, now| passes.looks(Pid(who), Pid(1 + n), || (n as usize, all), now).left_us;
        // Three files of each of ten thousand, 50 us after the one before.
        let left: Vec<u64> = (0..30_000u64).map(|n| looks(7, n as i32 / 3, 10_000, 50 * n)).collect();
        assert!(left[..3 * FEW].iter().all(|left| *left == 0));
        for n in [6 * FEW, 4000, 15_000, 27_000] {
            let expected = 50 * (30_000 - n as u64);
            assert!(left[n].abs_diff(expected) < expected / 20 + 3000, "{n}: {} of {expected}", left[n]);
        }
        // One who has waited at the beginning, or takes his time, is not expected to do so for each of the rest.
        let slow = |n: u64| looks(10, n as i32, 300, 10_000 * n);
        assert!((0..300).map(slow).all(|left| left <= 300 * EACH_US));
        // Never for ever; and not known of one who goes backwards.
        assert_eq!((0..200).map(|n| looks(8, n, 1_000_000, 10_000 * n as u64)).max(), Some(LONGEST_US));
        assert_eq!((0..200).map(|n| looks(9, 200 - n, 1000, 1000 * n as u64)).max(), Some(0));
    }
}
