//! What is read of many processes, and so asked for of all.

use crate::tables::Key;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vocab::Pid;

/// Who reads the same of another process within this time, in microseconds, reads it of all.
const ROW_US: u64 = 300_000;
/// What somebody has read of two in a row is asked for together for so long.
pub(crate) const WANTED_US: u64 = 60_000_000;

/// A file of many: who was asked for it last, and when; until when it is wanted of all.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    pid: Pid,
    at_us: u64,
    until_us: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Readings(Mutex<HashMap<Key, Reading>>);

impl Readings {
    fn all(&self) -> MutexGuard<'_, HashMap<Key, Reading>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody reads this of `pid`. True: it is wanted of all.
    pub(crate) fn reads(&self, key: Key, pid: Pid, now_us: u64) -> bool {
        let mut all = self.all();
        let reading = all.entry(key).or_default();
        let in_a_row = reading.pid != Pid::NONE && reading.pid != pid && now_us < reading.at_us + ROW_US;
        (reading.pid, reading.at_us) = (pid, now_us);
        if in_a_row {
            reading.until_us = now_us + WANTED_US;
        }
        now_us < reading.until_us
    }

    /// All of those.
    pub(crate) fn wanted(&self, now_us: u64) -> Vec<Key> {
        self.all().iter().filter(|(_, reading)| now_us < reading.until_us).map(|(key, _)| *key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_of_two_is_wanted_of_all() {
        let readings = Readings::default();
        let reads = |key, pid| readings.reads(key, Pid(pid), 1000);
        assert_eq!([reads("environ", 7), reads("environ", 7), reads("io", 8)], [false; 3]);
        assert_eq!([reads("environ", 8), reads("environ", 8)], [true; 2]);
        assert_eq!((readings.wanted(1000), readings.wanted(1000 + WANTED_US)), (vec!["environ"], vec![]));
        assert!(!readings.reads("io", Pid(9), 1000 + ROW_US));
    }
}
