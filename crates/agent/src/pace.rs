//! How often the agent wakes for records and tells the front end: at once when it is quiet, every few milliseconds in a storm of forks. So a
//! fork costs no wake-up each, and short lives have time to cancel out.

/// Microseconds between looks at the records, and between batches, in a storm. Whoever is alive at a batch costs the front end a ghost, though
/// it be gone a moment later; and a hundred agents on one machine that looked every millisecond would be a tenth of its work.
const STORM_US: u64 = 4_000;
/// The same where a look finds only a few records, as when so many ends are to come that the processors are late with them.
const LATE_STORM_US: u64 = 16_000;
const FEW: usize = 4;
/// Microseconds between batches otherwise.
const QUIET_US: u64 = 1_000;
/// Wakes closer together than this, so many in a row, are a storm.
const CLOSE_US: u64 = 2_000;
const MANY: u32 = 16;
/// After so many microseconds without a record it is over: switching the wakes off and on costs about as much as ten of them.
const CALM_US: u64 = 20_000;

/// The state of both.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    last_wake_us: u64,
    close: u32,
    /// It is a storm: when to look next.
    look_us: Option<u64>,
    /// From one look to the next.
    step_us: u64,
    /// Records since the last look, and when there were some last.
    found: usize,
    some_us: u64,
    next_tell_us: u64,
    hurry: bool,
}

impl Pace {
    /// Records have woken the loop. `true`: from now on it is a storm, and they are to be looked at when [`Pace::look_us`] says.
    pub(crate) fn woken(&mut self, now_us: u64) -> bool {
        let close = now_us.saturating_sub(self.last_wake_us) < CLOSE_US;
        self.last_wake_us = now_us;
        self.close = if close { self.close + 1 } else { 0 };
        self.close >= MANY && self.expects(now_us)
    }

    /// There will be many records. `true`: from now on it is a storm, as for [`Pace::woken`].
    pub(crate) fn expects(&mut self, now_us: u64) -> bool {
        let begins = self.look_us.is_none();
        if begins {
            self.step_us = STORM_US;
            self.look_us = Some(now_us + STORM_US);
            self.some_us = now_us;
        }
        begins
    }

    /// There were records.
    pub(crate) fn recorded(&mut self, count: usize) {
        self.found += count;
    }

    pub(crate) fn look_us(&self) -> Option<u64> {
        self.look_us
    }

    /// It is time to look.
    pub(crate) fn look_due(&self, now_us: u64) -> bool {
        self.look_us.is_some_and(|at| at <= now_us)
    }

    /// They have been looked at. `true`: the storm is over, and they shall wake again.
    pub(crate) fn looked(&mut self, now_us: u64) -> bool {
        let found = std::mem::take(&mut self.found);
        if found > 0 {
            self.some_us = now_us;
            self.step_us = if found < FEW { LATE_STORM_US } else { STORM_US };
        }
        let over = now_us.saturating_sub(self.some_us) >= CALM_US;
        self.look_us = (!over).then_some(now_us + self.step_us);
        self.close = 0;
        over
    }

    /// Somebody waits for what will be told: `shoal run` for its program, a shell for its job.
    pub(crate) fn hurry(&mut self) {
        self.hurry = true;
    }

    pub(crate) fn may_tell(&self, now_us: u64) -> bool {
        self.hurry || now_us >= self.next_tell_us
    }

    pub(crate) fn tell_us(&self) -> u64 {
        if self.hurry {
            0
        } else {
            self.next_tell_us
        }
    }

    pub(crate) fn told(&mut self, now_us: u64) {
        self.hurry = false;
        self.next_tell_us = now_us + if self.look_us.is_some() { self.step_us } else { QUIET_US };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_storm_it_looks_now_and_then_and_calm_ends_it() {
        let mut pace = Pace::default();
        assert!(!pace.woken(10_000));
        assert!((1..MANY.into()).all(|n| !pace.woken(10_000 + n * 20)));
        assert!(pace.woken(10_100));
        assert!(!pace.woken(10_110), "it has begun already");
        let mut now = 10_100 + STORM_US;
        assert_eq!(pace.look_us(), Some(now));
        pace.recorded(FEW);
        assert!(!pace.look_due(now - 1) && pace.look_due(now));
        assert!(!pace.looked(now));
        assert_eq!(pace.look_us(), Some(now + STORM_US));
        for _ in 1..CALM_US / STORM_US {
            now += STORM_US;
            assert!(!pace.looked(now));
        }
        assert!(pace.looked(now + STORM_US));
        assert_eq!(pace.look_us(), None);
        assert!(!pace.woken(50_000) && !pace.woken(60_000));
    }

    #[test]
    fn looks_that_find_little_are_rare() {
        let mut pace = Pace::default();
        assert!(pace.expects(0));
        let mut now = STORM_US;
        for (found, step) in [(1, LATE_STORM_US), (0, LATE_STORM_US), (FEW, STORM_US), (0, STORM_US)] {
            pace.recorded(found);
            assert!(!pace.looked(now));
            assert_eq!(pace.look_us(), Some(now + step));
            now += step;
        }
    }

    #[test]
    fn a_storm_that_is_expected_begins_before_its_first_wake() {
        let mut pace = Pace::default();
        assert!(pace.expects(10_000) && !pace.expects(10_010));
        assert_eq!(pace.look_us(), Some(10_000 + STORM_US));
        assert!((0..9).all(|n| !pace.woken(10_020 + n)));
    }

    #[test]
    fn the_first_news_goes_at_once_the_next_waits_unless_somebody_does() {
        let mut pace = Pace::default();
        assert!(pace.may_tell(50_000));
        pace.told(50_000);
        assert!(!pace.may_tell(49_999 + QUIET_US) && pace.may_tell(50_000 + QUIET_US));
        pace.hurry();
        assert!(pace.may_tell(50_001));
        assert_eq!(pace.tell_us(), 0);
        pace.told(50_001);
        assert_eq!(pace.tell_us(), 50_001 + QUIET_US);
    }
}
