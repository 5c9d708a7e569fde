//! Whether an interrupted stand-in is looked at in /proc: SIGKILL and SIGSTOP are held until the body has had them, all others are handed over.
//!
//! A look costs as much as all the rest of a signal, and more when the process ends (the kernel then takes its entries out of /proc one by one).
//! When many are signalled at once, as by Ctrl-C, it is nearly always the same signal. So after some that were handed over, only one in a few is
//! looked at. A SIGKILL that is missed so is told by the exit gate, a SIGSTOP by those that are late: as where they hit a stand-in that was not held.

/// So many in a row are looked at in any case.
const FEW: u32 = 64;
/// After these, one in so many (a power of two).
const SAMPLE: u32 = 16;
/// The next after so many microseconds begins another row.
const ROW_US: u64 = 20_000;

#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// Interrupted in this row, and no SIGKILL or SIGSTOP seen.
    row: u32,
    newest_us: u64,
}

impl Looks {
    /// One is interrupted. Is it to be looked at?
    pub(crate) fn wanted(&mut self, now_us: u64) -> bool {
        if now_us.saturating_sub(self.newest_us) > ROW_US {
            self.row = 0;
        }
        self.newest_us = now_us;
        self.row += 1;
        self.row <= FEW || self.row & (SAMPLE - 1) == 0
    }

    /// A SIGKILL or SIGSTOP was there: more may follow.
    pub(crate) fn caught(&mut self) {
        self.row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_a_few_are_looked_at_until_one_is_caught_or_it_is_quiet() {
        let mut looks = Looks::default();
        let mut wanted = |from: u64, count: u64| (from..from + count).filter(|now| looks.wanted(*now)).count() as u32;
        assert_eq!(wanted(100, u64::from(FEW)), FEW);
        assert_eq!(wanted(200, u64::from(SAMPLE) * 10), 10);
        assert_eq!(wanted(200 + ROW_US * 2, 5), 5);
        assert_eq!(wanted(300 + ROW_US * 2, u64::from(FEW) + 3), FEW - 5);
        looks.caught();
        assert!(looks.wanted(400 + ROW_US * 2));
    }
}
