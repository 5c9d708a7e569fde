//! The threads that serve: a few at a time, so that one after the other is not woken for every request, and others for those that wait for nodes.

use kern::clock::monotonic_us;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// All of them.
pub(crate) const THREADS: usize = 16;
/// Those of them that do not wait.
const AT_WORK: isize = 2;
/// Those that may wait long, and for one user.
const SLOW: usize = 12;
const SLOW_OF_ONE: usize = 4;
/// No request takes so long, in microseconds.
const STUCK_US: u64 = 10_000_000;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
pub(crate) struct Crew {
    /// Below 0: one that waits has begun to wait for something else meanwhile.
    at_work: Mutex<isize>,
    room: Condvar,
    /// How many wait long, by who has them wait.
    slow: Mutex<HashMap<u32, usize>>,
    /// Since when each has been at its request (monotonic); 0: it has none.
    since_us: [AtomicU64; THREADS],
}

/// Another thread may work meanwhile.
pub(crate) struct Waits<'a>(&'a Crew);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        *locked(&self.0.at_work) += 1;
    }
}

/// It has taken a place among those that wait long.
pub(crate) struct Slow<'a>(&'a Crew, u32);

impl Drop for Slow<'_> {
    fn drop(&mut self) {
        let mut slow = locked(&self.0.slow);
        if let Some(count) = slow.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                slow.remove(&self.1);
            }
        }
    }
}

impl Crew {
    /// A thread begins to work, as soon as there is need.
    pub(crate) fn begin(&self) {
        let at_work = locked(&self.at_work);
        let room = self.room.wait_while(at_work, |at_work| *at_work >= AT_WORK);
        *room.unwrap_or_else(PoisonError::into_inner) += 1;
    }

    /// Between two requests: if there are more at work than need be, until there are not.
    pub(crate) fn go_on(&self) {
        let mut at_work = locked(&self.at_work);
        if *at_work > AT_WORK {
            *at_work -= 1;
            drop(at_work);
            self.begin();
        }
    }

    /// The thread waits until what is returned is dropped.
    pub(crate) fn waits(&self) -> Waits<'_> {
        let mut at_work = locked(&self.at_work);
        *at_work -= 1;
        // To wake one costs as much as a request, and is for when there is nobody else.
        if *at_work <= 0 {
            self.room.notify_one();
        }
        Waits(self)
    }

    /// May one that waits for this user wait on? `None`: so many do that others would find nobody.
    pub(crate) fn slow(&self, uid: u32) -> Option<Slow<'_>> {
        let mut slow = locked(&self.slow);
        let of_one = slow.get(&uid).copied().unwrap_or_default();
        if slow.values().sum::<usize>() >= SLOW || of_one >= SLOW_OF_ONE {
            return None;
        }
        slow.insert(uid, of_one + 1);
        Some(Slow(self, uid))
    }

    pub(crate) fn takes(&self, thread: usize) {
        self.since_us[thread].store(monotonic_us(), Ordering::Relaxed);
    }

    pub(crate) fn is_done(&self, thread: usize) {
        self.since_us[thread].store(0, Ordering::Relaxed);
    }

    /// Has a thread been at one request for longer than it can be?
    pub(crate) fn is_stuck(&self) -> bool {
        let now = monotonic_us();
        let mut all = self.since_us.iter().map(|since| since.load(Ordering::Relaxed));
        all.any(|since| since != 0 && since + STUCK_US < now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn one_more_works_while_all_wait_and_not_all_wait_long_for_one_user() {
        let crew = Arc::new(Crew::default());
        (0..AT_WORK).for_each(|_| crew.begin());
        let (began, more) = std::sync::mpsc::channel();
        let another = crew.clone();
        std::thread::spawn(move || {
            another.begin();
            began.send(()).expect("somebody waits");
        });
        assert!(more.recv_timeout(Duration::from_millis(50)).is_err());
        let waits: Vec<_> = (0..AT_WORK).map(|_| crew.waits()).collect();
        more.recv_timeout(Duration::from_secs(20)).expect("there was room");
        // One of them waits for something else meanwhile, and so does the other one.
        drop([crew.waits(), crew.waits(), crew.waits()]);
        drop(waits);
        assert_eq!(*locked(&crew.at_work), AT_WORK + 1);
        drop(more);
        let slow: Vec<_> = (0..SLOW_OF_ONE).map_while(|_| crew.slow(7)).collect();
        assert_eq!(slow.len(), SLOW_OF_ONE);
        assert!(crew.slow(7).is_none() && crew.slow(8).is_some());
        drop(slow);
        assert!(crew.slow(7).is_some());
        crew.takes(3);
        assert!(!crew.is_stuck());
        crew.since_us[3].store(1, Ordering::Relaxed);
        assert!(crew.is_stuck());
    }
}
