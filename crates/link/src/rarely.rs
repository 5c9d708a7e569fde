//! Lines of the log that strangers cause: so many in a second, and how many were dropped.

use std::collections::HashMap;
use std::net::IpAddr;
use vocab::{Fault, Kind};

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

/// From one line about a peer to the next for the same reason.
const REPEATED_US: u64 = 60 * SECOND_US;
/// Peers and reasons that are remembered.
const MOST: usize = 256;

/// Lines about strangers. Of a peer that is refused: the first for each peer and reason at once, then one a minute, which says how many there were, since a
/// daemon with a wrong key dials for days. Of bytes that are no messages, and of the rest: as [`Rarely`].
#[derive(Debug, Default)]
pub struct Refusals {
    lines: Rarely,
    /// When the next line may be written, and how many were not since the last.
    peers: HashMap<(IpAddr, String), (u64, u64)>,
}

impl Refusals {
    /// May a line be written at `now_us` (monotonic) about what is no refusal? As [`Rarely::may`].
    pub fn may(&mut self, now_us: u64) -> Option<u64> {
        self.lines.may(now_us)
    }

    /// May a line about what `peer` was dropped for be written? Then also how many were dropped since the last one.
    pub fn may_about(&mut self, peer: IpAddr, why: &Fault, now_us: u64) -> Option<u64> {
        if why.kind != Kind::Refused {
            return self.may(now_us);
        }
        if self.peers.len() >= MOST {
            self.peers.retain(|_, (next_us, _)| now_us < *next_us);
        }
        if self.peers.len() >= MOST {
            self.peers.clear();
        }
        let (next_us, repeated) = self.peers.entry((peer, why.to_string())).or_default();
        if now_us < *next_us {
            *repeated += 1;
            return None;
        }
        let dropped = self.lines.may(now_us)?;
        *next_us = now_us + REPEATED_US;
        Some(dropped + std::mem::take(repeated))
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

    #[test]
    fn a_peer_that_is_refused_for_the_same_reason_has_a_line_a_minute() {
        let (mut lines, start, key) = (Refusals::default(), 5 * SECOND_US, Fault::refused("key"));
        let [one, other] = [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])];
        assert_eq!(lines.may_about(one, &key, start), Some(0));
        assert_eq!((0..100).filter_map(|n| lines.may_about(one, &key, start + n * SECOND_US / 2)).count(), 0);
        assert_eq!(lines.may_about(one, &Fault::refused("version"), start), Some(0));
        assert_eq!(lines.may_about(other, &key, start), Some(0));
        assert_eq!(lines.may_about(one, &key, start + REPEATED_US), Some(100));
        let garbage = Fault::wire("no message");
        assert_eq!((0..3).filter_map(|n| lines.may_about(one, &garbage, start + 2 * REPEATED_US + n)).count(), 3);
    }

    #[test]
    fn strangers_without_end_take_no_memory_without_end() {
        let (mut lines, start, key) = (Refusals::default(), 5 * SECOND_US, Fault::refused("key"));
        let of = |n: u32| IpAddr::from(n.to_be_bytes());
        assert_eq!((0..10_000).filter_map(|n| lines.may_about(of(n), &key, start)).count(), LINES as usize);
        assert!(lines.peers.len() <= MOST);
    }
}
