//! Movers are ordinary while the processes that they move run. Where ordinary threads starve, who has started a mover lets it run first now and
//! then: half of a processor at most, for all of its movers together, and behind movers of processes that stand still (docs/decisions/daemons-run-first.md).

use kern::proc::Proc;
use kern::ran::Share;
use kern::sched::{self, Standing};
use std::time::{Duration, Instant};
use tracing::debug;
use vocab::Pid;

/// Between two looks, in microseconds, and how long a thread is raised.
const LOOK_US: u64 = 100_000;
/// For each mover of many, in microseconds: their looks are no burden, however many there are.
const EACH_US: u64 = 1000;
/// Who has had more than this between two looks does not starve. Ordinary threads that share a processor with a hundred others have as much.
const LITTLE: Duration = Duration::from_micros(1000);

/// One mover, for who has started it.
#[derive(Debug)]
pub struct Tended {
    pid: Pid,
    threads: Vec<Share>,
    /// When it began, or was raised last.
    since: Instant,
}

/// What a look finds that is to be done about a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Raise,
    Lower,
    Nothing,
}

fn change(standing: Standing, starves: bool) -> Change {
    match (standing, starves) {
        (Standing::Ordinary, true) => Change::Raise,
        // So it does not have more than half.
        (Standing::Raised, _) => Change::Lower,
        (Standing::Ordinary, false) | (Standing::First, _) => Change::Nothing,
    }
}

/// Lowers those that were raised; else raises the one that has waited longest of those that starve: users decide how many there are.
pub fn tend<'a>(all: impl Iterator<Item = &'a mut Tended>, proc: &Proc) {
    let (mut lowered, mut starving) = (false, Vec::new());
    for mover in all {
        let found = mover.look(proc);
        lowered |= !with(&found, Change::Lower).is_empty();
        with(&found, Change::Lower).into_iter().for_each(|tid| told(tid, Change::Lower, sched::lower(tid)));
        let raise = with(&found, Change::Raise);
        if !raise.is_empty() {
            starving.push((mover, raise));
        }
    }
    let Some(turn) = turn(lowered, starving.iter().map(|(mover, _)| mover.since)) else { return };
    let (mover, threads) = starving.swap_remove(turn);
    mover.since = Instant::now();
    threads.into_iter().for_each(|tid| told(tid, Change::Raise, sched::raise(tid)));
}

/// Which of those that have waited since then is raised, if none was until now.
fn turn(lowered: bool, waiting: impl Iterator<Item = Instant>) -> Option<usize> {
    let first = waiting.enumerate().min_by_key(|(_, since)| *since);
    first.filter(|_| !lowered).map(|(at, _)| at)
}

fn with(found: &[(Pid, Change)], wanted: Change) -> Vec<Pid> {
    found.iter().filter(|(_, change)| *change == wanted).map(|(tid, _)| *tid).collect()
}

fn told(tid: Pid, change: Change, done: vocab::Result<()>) {
    match done {
        Ok(()) => debug!(%tid, "mover: {change:?} -> {:?}", sched::standing(tid)),
        Err(fault) => debug!(%tid, %fault, "mover: {change:?} fails"),
    }
}

impl Tended {
    pub fn new(pid: Pid) -> Tended {
        Tended { pid, threads: Vec::new(), since: Instant::now() }
    }

    fn look(&mut self, proc: &Proc) -> Vec<(Pid, Change)> {
        let tids = proc.tasks(self.pid).unwrap_or_default();
        self.threads.retain(|one| tids.contains(&one.tid()));
        let new: Vec<Pid> = tids.into_iter().filter(|tid| self.threads.iter().all(|one| one.tid() != *tid)).collect();
        let known = self.threads.iter_mut().filter_map(|thread| {
            let starves = thread.starves(LITTLE);
            Some((thread.tid(), change(sched::standing(thread.tid())?, starves)))
        });
        let found = known.collect();
        self.threads.extend(new.into_iter().map(Share::new));
        found
    }
}

/// When those of who has started this many are to be looked at next.
pub fn look_again_us(now_us: u64, movers: usize) -> u64 {
    now_us + LOOK_US.max(EACH_US * movers as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_starves_is_raised_for_one_look_and_who_asked_itself_is_left_alone() {
        let all = [Standing::Ordinary, Standing::Raised, Standing::First]
            .map(|standing| [true, false].map(|starves| change(standing, starves)));
        assert_eq!(all, [[Change::Raise, Change::Nothing], [Change::Lower; 2], [Change::Nothing; 2]]);
    }

    #[test]
    fn of_many_that_starve_one_is_raised_and_then_none_for_one_look() {
        let now = Instant::now();
        let waiting = [2, 1, 3].map(|late| now + LITTLE * late);
        assert_eq!(turn(false, waiting.into_iter()), Some(1));
        assert_eq!(turn(true, waiting.into_iter()), None);
        assert_eq!(turn(false, std::iter::empty()), None);
    }

    #[test]
    fn many_are_looked_at_more_rarely() {
        assert_eq!(
            [0, 1, 100, 1000].map(|movers| look_again_us(7, movers) - 7),
            [100_000, 100_000, 100_000, 1_000_000]
        );
    }
}
