//! How often the agent wakes for records and tells the front end: at once when it is quiet, every millisecond in a storm of forks. So a fork
//! costs no wake-up each, and short lives have time to cancel out.

/// Microseconds between wakes, and between batches, in a storm.
const STORM_US: u64 = 1_000;
/// Wakes closer together than this, so many in a row, are a storm.
const CLOSE_US: u64 = 300;
const MANY: u32 = 4;

/// The state of both.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    last_wake_us: u64,
    close: u32,
    /// Records do not wake until then.
    resume_us: Option<u64>,
    next_tell_us: u64,
    hurry: bool,
}

impl Pace {
    /// Records have woken the loop. `true`: it is a storm, and they shall not do so until [`Pace::resume_us`].
    pub(crate) fn woken(&mut self, now_us: u64) -> bool {
        let close = now_us.saturating_sub(self.last_wake_us) < CLOSE_US;
        self.last_wake_us = now_us;
        self.close = if close { self.close + 1 } else { 0 };
        let storm = self.close >= MANY;
        if storm {
            self.resume_us = Some(now_us + STORM_US);
        }
        storm
    }

    pub(crate) fn resume_us(&self) -> Option<u64> {
        self.resume_us
    }

    /// Shall records wake again, from now on? If they do so at once, the storm goes on.
    pub(crate) fn resumes(&mut self, now_us: u64) -> bool {
        let due = self.resume_us.is_some_and(|at| at <= now_us);
        if due {
            self.resume_us = None;
            self.last_wake_us = now_us;
            self.close = MANY - 1;
        }
        due
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
        self.next_tell_us = now_us + STORM_US;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_wakes_every_millisecond_and_quiet_ends_it() {
        let mut pace = Pace::default();
        assert!(!pace.woken(10_000));
        assert!((1..MANY.into()).all(|n| !pace.woken(10_000 + n * 20)));
        assert!(pace.woken(10_100));
        assert_eq!(pace.resume_us(), Some(11_100));
        assert!(!pace.resumes(11_000) && pace.resumes(11_100) && !pace.resumes(11_200));
        assert!(pace.woken(11_150), "it goes on at once");
        assert!(pace.resumes(12_150));
        assert!(!pace.woken(20_000) && !pace.woken(20_100));
    }

    #[test]
    fn the_first_news_goes_at_once_the_next_waits_unless_somebody_does() {
        let mut pace = Pace::default();
        assert!(pace.may_tell(50_000));
        pace.told(50_000);
        assert!(!pace.may_tell(50_900) && pace.may_tell(51_000));
        pace.hurry();
        assert!(pace.may_tell(50_001));
        assert_eq!(pace.tell_us(), 0);
        pace.told(50_001);
        assert_eq!(pace.tell_us(), 51_001);
    }
}
