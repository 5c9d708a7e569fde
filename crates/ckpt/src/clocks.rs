//! CLOCK_MONOTONIC and CLOCK_BOOTTIME of a process go on from where they were, on a machine that was started at another time too: there it is made
//! in a time namespace, in which what is missing is added (time_namespaces(7)).
//!
//! | what is known | what is added | the time between |
//! |---|---|---|
//! | the machine and its run are the same | what was added before | has gone by |
//! | the old machine answers (a move) | what the two clocks differ by, to within the way there and back | has gone by |
//! | only when it was written (a file) | what makes the clock go on from there | has not |
//!
//! A clock that is there and suits is taken as it is: nothing is made for who comes back to the machine whose clock it has, and nobody can tell the few
//! milliseconds by which that may be ahead from such for which the process got no processor. By so little as it may be behind, the process waits.

use crate::boot::boot;
use crate::bring::{bring, Wanted as Descriptor};
use image::process::{self, Clocks, Header};
use kern::epoll::Timer;
use kern::poll::{poll, Ready};
use kern::timens::{self, Times};
use puppet::{Arena, Loan};
use std::os::fd::{AsFd, OwnedFd};
use vocab::{Fault, Pid, Result};

/// Nanoseconds.
const MICROSECOND: i64 = 1000;
const MILLISECOND: i64 = 1000 * MICROSECOND;
/// A clock that is there suits if it is ahead by this at most; what two clocks differ by is seldom known better than to some tenths of that.
const AHEAD: i64 = 10 * MILLISECOND;
/// Or behind by this: a process stands still for longer when it moves.
const BEHIND: i64 = MILLISECOND;
/// What is known less well counts as known so well.
const MOST_WITHIN: i64 = 50 * MILLISECOND;
/// Between two looks at a clock that shows ticks.
const PAUSE_US: u64 = 200;

/// The clocks of a process, seen from this one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// Added to the machine's for it, and for us.
    its: Times,
    ours: Times,
}

impl Clock {
    /// # Errors
    /// `Gone`.
    pub(crate) fn of(pid: Pid) -> Result<Clock> {
        Ok(Clock { its: timens::offsets(pid)?, ours: timens::own_offsets()? })
    }

    pub(crate) fn now(&self) -> Times {
        self.machines() + self.its
    }

    /// What those of the machine show.
    pub(crate) fn machines(&self) -> Times {
        Times::now() - self.ours
    }

    /// Nanoseconds of CLOCK_MONOTONIC.
    pub(crate) fn monotonic(&self) -> u64 {
        self.now().monotonic as u64
    }

    /// Of CLOCK_MONOTONIC_COARSE.
    pub(crate) fn coarse(&self) -> i64 {
        timens::coarse() - self.ours.monotonic + self.its.monotonic
    }

    pub(crate) fn added(&self) -> process::Times {
        saved(self.its)
    }
}

/// What the clocks of the process showed when all had been read that is told of it: its timers and waits have what was left then.
fn shown(header: &Header) -> Times {
    Times { monotonic: header.monotonic as i64, boottime: header.boottime as i64 }
}

fn saved(times: Times) -> process::Times {
    process::Times { monotonic: times.monotonic, boottime: times.boottime }
}

fn times(saved: process::Times) -> Times {
    Times { monotonic: saved.monotonic, boottime: saved.boottime }
}

/// What the clocks of this machine, to which nothing is added, show.
fn machines() -> Result<Times> {
    Ok(Times::now() - timens::own_offsets()?)
}

/// The machine that has the process was asked for its clocks.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    at: Times,
}

impl Asked {
    /// It is asked now.
    ///
    /// # Errors
    /// Without /proc.
    pub fn now() -> Result<Asked> {
        let ours = timens::own_offsets()?;
        Ok(Asked { at: Times::now() - ours })
    }
}

/// The other machine has asked.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    clock: Clock,
    at: Times,
}

impl Question {
    pub(crate) fn comes(clock: Clock) -> Question {
        Question { clock, at: clock.now() }
    }

    /// What it is told, at once.
    ///
    /// # Errors
    /// Without /proc.
    pub fn answer(&self) -> Result<Clocks> {
        let boot = boot()?;
        Ok(Clocks { boot, added: self.clock.added(), asked: saved(self.at), told: saved(self.clock.now()) })
    }
}

/// What is to be added here to the clocks of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    added: Times,
    /// To the nanosecond: it is the same clock then.
    exact: bool,
    /// More or less, as far as it is known; nanoseconds.
    within: i64,
}

impl Wanted {
    /// What the machine has told that was asked, at this moment.
    pub(crate) fn told(asked: Asked, clocks: &Clocks) -> Result<Wanted> {
        match clocks.boot == boot()? {
            true => Ok(Wanted::exactly(clocks.added)),
            false => Ok(between(asked.at, clocks, machines()?)),
        }
    }

    /// What an image says, that was written some time. `None` where nothing is to be done.
    pub(crate) fn of(header: &Header) -> Result<Option<Wanted>> {
        match (header.boot == boot()?, header.added) {
            (true, added) => Ok(added.map(Wanted::exactly)),
            (false, _) => Ok(Some(Wanted { added: shown(header) - machines()?, exact: false, within: 0 })),
        }
    }

    fn exactly(added: process::Times) -> Wanted {
        Wanted { added: times(added), exact: true, within: 0 }
    }

    /// Is it the clock that the process had?
    pub(crate) fn is_exact(&self) -> bool {
        self.exact
    }

    fn suits(&self, added: Times) -> bool {
        let by = added - self.added;
        match self.exact {
            true => added == self.added,
            false => {
                let suited = -BEHIND - self.within..=AHEAD + self.within;
                [by.monotonic, by.boottime].iter().all(|by| suited.contains(by))
            }
        }
    }
}

/// The way there took as long as the way back, as far as anybody knows.
fn between(asked: Times, clocks: &Clocks, heard: Times) -> Wanted {
    let (there, back) = (times(clocks.asked) - asked, times(clocks.told) - heard);
    let middle = |one: i64, other: i64| one.midpoint(other);
    let added =
        Times { monotonic: middle(there.monotonic, back.monotonic), boottime: middle(there.boottime, back.boottime) };
    Wanted { added, exact: false, within: ((there - back).monotonic / 2).clamp(0, MOST_WITHIN) }
}

/// The clocks of an emptied process become those that are wanted. Its `loan` is of its only thread.
///
/// # Errors
/// `Refused` where they would go back and no time namespace can be made.
pub(crate) fn go_on(loan: &mut Loan<'_>, arena: Arena, pid: Pid, wanted: Wanted) -> Result<Clock> {
    let Clock { its, ours } = Clock::of(pid)?;
    if wanted.suits(its) {
        return Ok(Clock { its, ours });
    }
    if wanted.suits(ours) {
        enter(loan, arena, pid, &timens::own()?)?;
        return Ok(Clock { its: ours, ours });
    }
    make(loan, arena, pid, (wanted.added, its))?;
    Clock::of(pid)
}

/// Without the right to it, or on a kernel that has none, its clocks are this machine's if they do not go back.
fn make(loan: &mut Loan<'_>, arena: Arena, pid: Pid, (wanted, has): (Times, Times)) -> Result<()> {
    match loan.must("make a time namespace", libc::SYS_unshare, &[timens::CLONE_NEWTIME as u64]) {
        Ok(_) => {}
        Err(fault) if !matches!(fault.errno, libc::EPERM | libc::EINVAL | libc::ENOSPC | libc::EUSERS) => {
            return Err(fault)
        }
        Err(_) if has.reaches(wanted) => return Ok(()),
        Err(fault) => {
            let back = (wanted - has).monotonic.max((wanted - has).boottime) / (1000 * MILLISECOND);
            return Err(Fault::refused(format!("its clocks would go back by {back} s: {fault}")));
        }
    }
    timens::set_offsets(pid, wanted)?;
    enter(loan, arena, pid, &timens::of_children(pid)?)
}

/// Above what a program has that does nothing.
const BASE: i32 = 8;

fn enter(loan: &mut Loan<'_>, arena: Arena, pid: Pid, namespace: &OwnedFd) -> Result<()> {
    let come = bring(loan, arena, pid, &[Descriptor::Ours(namespace.as_fd())], BASE)?;
    let [number] = come[..] else { return Err(Fault::bug("other descriptors than were brought")) };
    loan.must("enter a time namespace", libc::SYS_setns, &[number as u64, timens::CLONE_NEWTIME as u64])?;
    loan.must("close a descriptor", libc::SYS_close, &[number as u64]).map(drop)
}

/// What the coarse clock of a process must show before it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) clock: Clock,
    coarse: i64,
}

/// The clocks of an emptied process that has them, when it is known what they showed last: when this returns they show no less, so that what is set now to
/// what was left then does not go off before its time. If they are further behind than it is worth to wait, they are made again: two machines whose clocks
/// run at different speeds differ by more when a process goes than when it was asked for.
///
/// # Errors
/// As [`go_on`].
pub(crate) fn settle(loan: &mut Loan<'_>, arena: Arena, pid: Pid, (header, clock): (&Header, Clock)) -> Result<Due> {
    let shown = shown(header);
    // One that is ahead of the clock of which it shows the ticks nobody has seen: it would be waited for.
    let coarse = (header.coarse as i64).min(shown.monotonic);
    let late = shown - clock.now();
    match late.monotonic.max(late.boottime) {
        late if late > BEHIND => {
            make(loan, arena, pid, (shown - machines()?, clock.its))?;
            return Ok(Due { clock: Clock::of(pid)?, coarse });
        }
        late if late > 0 => pause((late / MICROSECOND) as u64 + 1)?,
        _ => {}
    }
    Ok(Due { clock, coarse })
}

/// Microseconds.
pub(crate) fn pause(us: u64) -> Result<()> {
    let timer = Timer::new()?;
    timer.once(us)?;
    poll(&[(timer.as_fd(), Ready::READ)], -1).map(drop).map_err(|errno| Fault::sys(errno, "wait for a clock"))
}

impl Due {
    /// It is the clock that it had.
    pub(crate) fn at_once(clock: Clock) -> Due {
        Due { clock, coarse: 0 }
    }

    /// Waits until it shows no less than when the process was stopped, which it mostly does: not longer than until the next tick.
    pub(crate) fn wait(&self) -> Result<()> {
        while self.clock.coarse() < self.coarse {
            pause(PAUSE_US)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn both(monotonic: i64, boottime: i64) -> Times {
        Times { monotonic, boottime }
    }

    #[test]
    fn two_clocks_differ_by_the_middle_of_there_and_back() {
        // The other is 100 s ahead; 30 us there, 20 us until it answers, 50 us back.
        let there = |us: i64| saved(both(100 * SECOND + us * MICROSECOND, 200 * SECOND + us * MICROSECOND));
        let clocks = Clocks { asked: there(30), told: there(50), ..Clocks::default() };
        let found = between(both(0, 0), &clocks, both(100 * MICROSECOND, 100 * MICROSECOND));
        let added = both(100 * SECOND - 10 * MICROSECOND, 200 * SECOND - 10 * MICROSECOND);
        assert_eq!(found, Wanted { added, exact: false, within: 40 * MICROSECOND });
    }

    #[test]
    fn a_clock_suits_that_is_a_little_ahead_or_hardly_behind() {
        let wanted = Wanted { added: both(SECOND, 2 * SECOND), exact: false, within: 0 };
        let with = |by: i64| wanted.suits(wanted.added + both(by, 0)) && wanted.suits(wanted.added + both(0, by));
        assert!(with(0) && with(AHEAD) && with(-BEHIND));
        assert!(!with(AHEAD + 1) && !with(-BEHIND - 1));
        assert!(Wanted { within: 1, ..wanted }.suits(wanted.added + both(AHEAD + 1, -BEHIND - 1)));
        let exact = Wanted { exact: true, ..wanted };
        assert!(exact.suits(exact.added) && !exact.suits(exact.added + both(1, 0)));
    }

    #[test]
    fn a_tick_is_waited_for() {
        let clock = Clock::default();
        let due = Due { clock, coarse: clock.now().monotonic };
        assert_eq!(due.wait(), Ok(()));
        assert!(clock.coarse() >= due.coarse);
    }

    #[test]
    fn of_this_run_of_the_machine_it_is_known_what_was_added() {
        let boot = boot().expect("/proc");
        let added = both(7, -7);
        let header = Header { boot, added: Some(saved(added)), ..Header::default() };
        assert_eq!(Wanted::of(&header), Ok(Some(Wanted { added, exact: true, within: 0 })));
        assert_eq!(Wanted::of(&Header { added: None, ..header }), Ok(None));
        let other = Header { boot: "another".into(), monotonic: 5, boottime: 6, ..Header::default() };
        let wanted = Wanted::of(&other).expect("/proc").expect("another machine");
        let shows = machines().expect("/proc") + wanted.added;
        assert!(!wanted.exact && shows.reaches(both(5, 6)) && both(SECOND, SECOND).reaches(shows));
    }
}
