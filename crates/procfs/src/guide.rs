//! Who goes through all processes and the threads that serve him take turns, thousands of times. On two processors each turn wakes the other one, which costs 40 us in a
//! virtual machine; on one it costs 3. The kernel brings together those only that wake each other for it: a thread that is not more than idle work may stand where the
//! one is that it wakes (linux: `sched_idle_cpu` in `select_idle_sibling`). So while one goes through, the threads are such, on his processor. If others want that too they
//! would hardly get to run: then they run first there, which keeps him where he is as long as the other processors have something to do. What gets on better is tried.

use kern::others::{processors, set_processors, set_scheduling, Scheduling};
use kern::poll::poll_for;
use kern::proc::PROC;
use kern::sched;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;
use vocab::{Fault, Pid, Result};

/// Requests in a row of one who goes through.
const ROW: u64 = 48;
/// How often is looked where he is, and whether he gets on.
const LOOK: Duration = Duration::from_millis(4);
/// So many requests from one look to the next are getting on: what nodes are asked for takes 100 to 150 us.
const ON: u64 = 12;
/// So many looks after which the other way is tried for one.
const TRY: u32 = 32;
/// If he does not, they are as ever for at least so long; and for twice as long each time that he has not from the beginning: it may be that others want his processor.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(640));
/// SCHED_IDLE (sched(7)).
pub(crate) const IDLE: Scheduling = Scheduling { policy: 5, priority: 0, nice: 0 };

/// How they stand there: as idle work, or first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Idle,
    First,
}

/// What way gets on better.
#[derive(Debug)]
struct Ways {
    now: Way,
    looks: u32,
    /// Requests from one look to the next, when it was tried last.
    idle: u64,
    first: u64,
}

impl Ways {
    fn new() -> Ways {
        // The other one is worth a try.
        Ways { now: Way::Idle, looks: 0, idle: 0, first: u64::MAX }
    }

    fn scheduling(&self) -> Scheduling {
        match self.now {
            Way::Idle => IDLE,
            Way::First => sched::first(0),
        }
    }

    /// There were so many requests since the last look. False: he does not get on, either way.
    fn looks(&mut self, requests: u64) -> bool {
        match self.now {
            Way::Idle => self.idle = requests,
            Way::First => self.first = requests,
        }
        self.looks += 1;
        let goes_on = requests >= ON || self.now == Way::Idle;
        let better = self.idle >= self.first;
        let tries = self.looks.is_multiple_of(TRY);
        self.now = if better != tries { Way::Idle } else { Way::First };
        goes_on
    }
}

/// What the threads that serve and the one that looks after them share.
#[derive(Debug, Default)]
pub(crate) struct Guide {
    who: AtomicI32,
    /// Requests of him in a row.
    row: AtomicU64,
    looks: OnceLock<Thread>,
    /// Those that serve, with the processors on which they may be.
    threads: Mutex<Vec<(Pid, Vec<u8>)>>,
}

impl Guide {
    /// The calling thread serves.
    pub(crate) fn joins(&self) {
        let own = std::fs::read_link("/proc/thread-self").ok();
        let tid = own.and_then(|path| path.file_name()?.to_str()?.parse().ok()).map(Pid);
        if let Some((tid, may)) = tid.and_then(|tid| Some((tid, processors(tid).ok()?))) {
            self.threads.lock().unwrap_or_else(PoisonError::into_inner).push((tid, may));
        }
    }

    /// One asks.
    pub(crate) fn sees(&self, who: Pid) {
        if self.who.load(Ordering::Relaxed) != who.0 {
            self.who.store(who.0, Ordering::Relaxed);
            self.row.store(0, Ordering::Relaxed);
            return;
        }
        let row = self.row.fetch_add(1, Ordering::Relaxed);
        if row % ROW == ROW - 1 {
            self.looks.get().into_iter().for_each(Thread::unpark);
        }
    }

    /// Looks after those who serve, in a thread of its own, for ever.
    ///
    /// # Errors
    /// `Sys` when there is none to be had.
    pub(crate) fn start(self: std::sync::Arc<Self>) -> Result<()> {
        let thread = std::thread::Builder::new().name("guide".into());
        let started = thread.spawn(move || {
            crate::run_first();
            let _once = self.looks.set(std::thread::current());
            let mut pause = PAUSE.0;
            loop {
                std::thread::park();
                let (who, row) = (self.who.load(Ordering::Relaxed), self.row.load(Ordering::Relaxed));
                if who > 0 && row >= ROW {
                    let looks = self.follow(Pid(who));
                    pause = if looks < 2 { PAUSE.1.min(2 * pause) } else { PAUSE.0 };
                    let _ = poll_for(&[], Some(pause));
                }
            }
        });
        started.map(drop).map_err(|e| Fault::io(&e, "start a thread"))
    }

    /// For as long as he gets on: so many looks.
    fn follow(&self, who: Pid) -> u32 {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (mut at, mut row, mut looks, mut ways) = (None, self.row.load(Ordering::Relaxed), 0, Ways::new());
        while let Some(processor) = processor_of(who) {
            if at != Some((processor, ways.now)) {
                for (tid, may) in &threads {
                    let _ = set_processors(*tid, &only(processor, may))
                        .and_then(|()| set_scheduling(*tid, ways.scheduling()));
                }
                at = Some((processor, ways.now));
            }
            let _ = poll_for(&[], Some(LOOK));
            let now = self.row.load(Ordering::Relaxed);
            // Another one's row begins anew.
            if !ways.looks(now.saturating_sub(row)) || self.who.load(Ordering::Relaxed) != who.0 {
                break;
            }
            looks += u32::from(now >= row + ON);
            row = now;
        }
        for (tid, may) in &threads {
            let _ = set_scheduling(*tid, sched::first(0)).and_then(|()| set_processors(*tid, may));
        }
        looks
    }
}

/// This one of those.
fn only(processor: usize, may: &[u8]) -> Vec<u8> {
    let bit = |number: usize, byte: u8| if processor / 8 == number { byte & 1 << (processor % 8) } else { 0 };
    may.iter().enumerate().map(|(number, byte)| bit(number, *byte)).collect()
}

/// Where a thread is, or was last. The thread waits in the kernel for us, and so executes nothing for which stat would wait; and if it does, only this is late.
fn processor_of(tid: Pid) -> Option<usize> {
    let stat = std::fs::read(format!("{PROC}/{tid}/stat")).ok()?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(close + 2..)?).ok()?;
    // The 39th field (proc_pid_stat(5)), counted from the third on.
    rest.split_ascii_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_way_is_gone_and_the_other_one_tried_now_and_then() {
        let (mut ways, mut gone) = (Ways::new(), Vec::new());
        for _ in 0..3 * TRY {
            gone.push(ways.now);
            assert!(ways.looks(if ways.now == Way::Idle { 3 } else { 90 }));
        }
        assert_eq!(gone.iter().filter(|way| **way == Way::Idle).count(), 3);
        assert_eq!(ways.now, Way::Idle);
        assert!(ways.looks(200) && ways.now == Way::Idle);
        // Neither gets on.
        assert!(ways.looks(0) && ways.now == Way::First);
        assert!(!ways.looks(0));
    }

    #[test]
    fn one_processor_of_several_and_none_that_may_not_be() {
        assert_eq!(only(9, &[0xff, 0x03]), [0, 2]);
        assert_eq!(only(9, &[0xff, 0x01]), [0, 0]);
        assert!(processor_of(Pid(std::process::id() as i32)).is_some_and(|processor| processor < 8 * 1024));
    }

    #[test]
    fn those_who_serve_are_as_before_when_nobody_goes_on() {
        let guide = Guide::default();
        guide.joins();
        let (tid, may) = guide.threads.lock().expect("nobody else has it")[0].clone();
        for _ in 0..2 * ROW {
            guide.sees(Pid(std::process::id() as i32));
        }
        assert_eq!(guide.follow(Pid(std::process::id() as i32)), 0);
        assert_eq!(processors(tid), Ok(may));
        assert_ne!(kern::others::scheduling(tid).expect("it is this one").policy, IDLE.policy);
    }
}
