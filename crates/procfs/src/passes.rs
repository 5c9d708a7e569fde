//! Who goes through all processes is to see each as it was at some time since he began: what was fetched for him does not become old under his hands.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use vocab::Pid;

/// Who has asked nothing for so long begins anew, in microseconds; and who has gone on for so long does.
const GAP_US: u64 = 200_000;
const LONGEST_US: u64 = 4_000_000;
/// So many are remembered before those are forgotten that have ended.
const MOST: usize = 256;

/// When each thread that looks has begun, and asked last.
#[derive(Debug, Default)]
pub(crate) struct Passes(Mutex<HashMap<Pid, (u64, u64)>>);

impl Passes {
    /// `who` asks now: since when does it?
    pub(crate) fn since(&self, who: Pid, now_us: u64) -> u64 {
        if who == Pid::NONE {
            return now_us;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.retain(|_, (_, last)| *last + GAP_US > now_us);
        }
        let (begun, last) = all.entry(who).or_insert((now_us, now_us));
        if *last + GAP_US <= now_us || *begun + LONGEST_US <= now_us {
            *begun = now_us;
        }
        *last = now_us;
        *begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_goes_on_until_it_pauses() {
        let passes = Passes::default();
        let all = [1_000_000, 1_100_000, 1_250_000, 1_500_000, 1_600_000].map(|now| passes.since(Pid(7), now));
        assert_eq!(all, [1_000_000, 1_000_000, 1_000_000, 1_500_000, 1_500_000]);
        assert_eq!(passes.since(Pid::NONE, 5), 5);
        let often: Vec<u64> = (0..50).map(|n| passes.since(Pid(8), n * 100_000)).collect();
        assert_eq!((often[39], often[40], often[49]), (0, 4_000_000, 4_000_000));
    }
}
