//! Lines of the log that strangers cause: so many in a second, and how many were dropped.

/// Lines in one second.
const LINES: u32 = 20;
const SECOND_US: u64 = 1_000_000;

/// Counts lines of one kind.
#[derive(Debug, Default)]
pub struct Rarely {
    since_us: u64,
    written: u32,
    dropped: u64,
}

impl Rarely {
    /// May a line be written at `now_us` (monotonic)? Then also how many were dropped since the last one.
    pub fn may(&mut self, now_us: u64) -> Option<u64> {
        if now_us >= self.since_us + SECOND_US {
            (self.since_us, self.written) = (now_us, 0);
        }
        if self.written == LINES {
            self.dropped += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_in_a_second_and_the_rest_is_counted() {
        let mut lines = Rarely::default();
        let start = 5 * SECOND_US;
        assert_eq!((0..100).filter_map(|n| lines.may(start + n)).collect::<Vec<_>>(), [0; LINES as usize]);
        assert_eq!(lines.may(start + SECOND_US), Some(100 - u64::from(LINES)));
        assert_eq!(lines.may(start + SECOND_US), Some(0));
    }
}
