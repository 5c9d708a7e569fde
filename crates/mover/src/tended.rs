//! Movers are ordinary while the processes that they move run. Where ordinary threads starve, who has started a mover lets it run first now and
//! then: half of a processor at most, and behind movers of processes that stand still (docs/decisions/daemons-run-first.md).

use kern::proc::Proc;
use kern::ran::Share;
use kern::sched::{self, Standing};
use std::time::Duration;
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
}

/// What is to be done about a thread.
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

impl Tended {
    pub fn new(pid: Pid) -> Tended {
        Tended { pid, threads: Vec::new() }
    }

    /// Raises those of its threads that starve, and lowers those that were raised.
    pub fn look(&mut self, proc: &Proc) {
        let tids = proc.tasks(self.pid).unwrap_or_default();
        self.threads.retain(|one| tids.contains(&one.tid()));
        for tid in tids {
            match self.threads.iter_mut().find(|one| one.tid() == tid) {
                Some(thread) => look_at(thread),
                None => self.threads.push(Share::new(tid)),
            }
        }
    }
}

fn look_at(thread: &mut Share) {
    let starves = thread.starves(LITTLE);
    let tid = thread.tid();
    let Some(standing) = sched::standing(tid) else { return };
    let done = match change(standing, starves) {
        Change::Raise => sched::raise(tid),
        Change::Lower => sched::lower(tid),
        Change::Nothing => return,
    };
    match done {
        Ok(()) => debug!(%tid, "mover: {standing:?} -> {:?}", sched::standing(tid)),
        Err(fault) => debug!(%tid, %fault, "a mover stays {standing:?}"),
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
    fn many_are_looked_at_more_rarely() {
        assert_eq!(
            [0, 1, 100, 1000].map(|movers| look_again_us(7, movers) - 7),
            [100_000, 100_000, 100_000, 1_000_000]
        );
    }
}
