//! timerfd_create(2): set going where the process is.

use super::{All, Seen, Verdict};
use crate::clocks::{pause, Clock};
use crate::{proc, timers};
use image::files::Kind;
use image::process::Interval;
use kern::clock::realtime_ns;
use puppet::Script;
use rustix::time::{TimerfdClockId, TimerfdFlags};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use vocab::{Fault, Pid, Result};

pub(super) fn look(seen: &Seen, all: &All) -> Result<Verdict> {
    if seen.link != b"anon_inode:[timerfd]" {
        return Ok(Verdict::Other);
    }
    let clock = seen.number_of("clockid", 10)? as i32;
    let flags = seen.number_of("settime flags", 8)? as u32;
    let State { ticks, interval } = match all.left {
        Some(_) => settled(seen, all.seen_at)?,
        // The process runs: nothing of the timer is used yet.
        None => State::of(seen)?,
    };
    let absolute = flags & libc::TFD_TIMER_ABSTIME as u32 != 0 && interval.left != 0;
    let due = absolute.then(|| shown(clock, seen.pid)).transpose()?.map(|now| now.saturating_add(interval.left));
    Ok(Verdict::Carried(Kind::TimerFd { clock, ticks, interval, flags, due }))
}

/// What a clock shows the process, in nanoseconds. Read after the time that is left: no timer becomes early by that.
fn shown(clock: i32, pid: Pid) -> Result<u64> {
    Ok(match clock {
        libc::CLOCK_MONOTONIC => Clock::of(pid)?.now().monotonic as u64,
        libc::CLOCK_BOOTTIME | libc::CLOCK_BOOTTIME_ALARM => Clock::of(pid)?.now().boottime as u64,
        _ => realtime_ns(),
    })
}

/// What fdinfo says of a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    ticks: u64,
    interval: Interval,
}

/// The meaning of two looks at a timer, one after the other.
#[derive(PartialEq, Eq, Debug)]
enum Step {
    Known(State),
    /// The timer must be looked at again.
    Again,
    /// The timer has gone off, and stands still. Asked how long it has, the kernel counts how often it would have gone off since, and it runs (linux:
    /// `do_timerfd_gettime`).
    Ask,
}

/// How long the interrupt of a timer may take that was due when it was looked at. Until then such a timer looks like one that is not set.
const INTERRUPT: Duration = Duration::from_millis(1);
/// The same for a timer with an interval: few programs take a timer back and keep its interval.
const INTERRUPT_OF_PERIODIC: Duration = Duration::from_millis(20);

impl State {
    fn of(seen: &Seen) -> Result<State> {
        let time = |name| -> Result<u64> {
            let pair = seen.field(name)?.strip_prefix('(').and_then(|pair| pair.strip_suffix(')'));
            let (seconds, ns) = pair.and_then(|pair| pair.split_once(", ")).ok_or_else(|| seen.strange(name))?;
            let number = |text: &str| text.parse::<u64>().map_err(|_| seen.strange(name));
            Ok(number(seconds)? * 1_000_000_000 + number(ns)?)
        };
        let interval = Interval { left: time("it_value")?, every: time("it_interval")? };
        Ok(State { ticks: seen.number_of("ticks", 10)?, interval })
    }

    /// `since`: how long ago the first look at a stopped process was. `asked`: the kernel was asked already how long it has.
    fn step(self, before: State, since: Duration, asked: bool) -> Step {
        let Interval { left, every } = self.interval;
        match self {
            // Between a time and a count that are of two moments it may have gone off.
            _ if self.ticks != before.ticks => Step::Again,
            _ if left != 0 => Step::Known(self),
            State { ticks: 0, .. } if since < if every == 0 { INTERRUPT } else { INTERRUPT_OF_PERIODIC } => Step::Again,
            State { ticks: 0, .. } => Step::Known(self),
            _ if every == 0 => Step::Known(self),
            _ if !asked => Step::Ask,
            // It goes off as fast as it can be asked. No time left would stop it.
            _ => Step::Known(State { interval: Interval { left: 1, every }, ..self }),
        }
    }
}

/// Microseconds between two looks at a timer that may be due.
const PAUSE_US: u64 = 50;
/// More looks are never needed: a timer that has gone off stands still until it is read or asked.
const LOOKS: u32 = 100_000;

/// The state of a timer whose process stands still, and was looked at first at `since`.
fn settled(seen: &Seen, since: Instant) -> Result<State> {
    let mut before = State::of(seen)?;
    let mut asked = false;
    for _ in 0..LOOKS {
        // Before the look: between the two the caller may have no processor.
        let waited = since.elapsed();
        let info = proc::file(seen.pid, &format!("fdinfo/{}", seen.number))?;
        let info = String::from_utf8_lossy(&info).into_owned();
        let now = State::of(&Seen { pid: seen.pid, number: seen.number, link: seen.link.clone(), info })?;
        match now.step(before, waited, asked) {
            Step::Known(state) => return Ok(state),
            // Whoever sleeps on a busy machine gets its processor back much later, and the process stands still for that.
            Step::Again if now == before && waited > INTERRUPT => pause(PAUSE_US)?,
            Step::Again => {}
            Step::Ask => {
                let left = rustix::time::timerfd_gettime(super::copy(seen)?);
                left.map_err(|e| Fault::sys(e.raw_os_error(), "ask a timerfd how long it has"))?;
                asked = true;
            }
        }
        before = now;
    }
    Err(Fault::changed(seen.obstacle("is a timer that goes off all the time")))
}

pub(super) fn reopen(clock: i32, flags: u32) -> Result<OwnedFd> {
    let clock = match clock {
        libc::CLOCK_REALTIME => TimerfdClockId::Realtime,
        libc::CLOCK_MONOTONIC => TimerfdClockId::Monotonic,
        libc::CLOCK_BOOTTIME => TimerfdClockId::Boottime,
        libc::CLOCK_REALTIME_ALARM => TimerfdClockId::RealtimeAlarm,
        libc::CLOCK_BOOTTIME_ALARM => TimerfdClockId::BoottimeAlarm,
        other => return Err(Fault::wire(format!("a timerfd of clock {other}"))),
    };
    let mut how = TimerfdFlags::CLOEXEC;
    how.set(TimerfdFlags::NONBLOCK, flags & libc::O_NONBLOCK as u32 != 0);
    rustix::time::timerfd_create(clock, how).map_err(|e| Fault::sys(e.raw_os_error(), "make a timerfd"))
}

/// `TFD_IOC_SET_TICKS`, `_IOW('T', 0, __u64)`.
const SET_TICKS: u64 = (1 << 30) | (8 << 16) | (0x54 << 8);

/// The timer runs as it did: until a time of its clock (`due`), or for as long as it had left.
pub(super) fn set(script: &mut Script, number: i32, timer: &Kind) {
    let Kind::TimerFd { ticks, interval, flags, due, .. } = timer else { return };
    let start = Interval { left: due.unwrap_or(interval.left), ..*interval };
    if start != Interval::default() || *flags != 0 {
        let spec = script.bytes(&timers::spec_bytes(&start));
        let args = [number as u64, (*flags).into(), spec, 0];
        if flags & libc::TFD_TIMER_CANCEL_ON_SET as u32 != 0 {
            // The clock may have been set since the timer was made: the first call alone fails for that.
            script.attempt(libc::SYS_timerfd_settime, &args);
        }
        script.call("set a timerfd", libc::SYS_timerfd_settime, &args);
    }
    if *ticks != 0 {
        let at = script.bytes(&ticks.to_ne_bytes());
        script.call("set a timerfd's ticks", libc::SYS_ioctl, &[number as u64, SET_TICKS, at]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(ticks: u64, left: u64, every: u64) -> State {
        State { ticks, interval: Interval { left, every } }
    }

    #[test]
    fn a_timer_that_is_due_is_waited_for_and_never_taken_for_one_that_is_not_set() {
        let (soon, late) = (Duration::ZERO, Duration::from_secs(1));
        let step = |now: State, before: State, since| now.step(before, since, false);
        for every in [0, 100] {
            let due = state(0, 0, every);
            assert_eq!(step(due, due, soon), Step::Again);
            assert_eq!(step(due, due, late), Step::Known(due));
            let gone_off = state(1, 0, every);
            assert_eq!(step(gone_off, due, soon), Step::Again);
            let known = if every == 0 { Step::Known(gone_off) } else { Step::Ask };
            assert_eq!(step(gone_off, gone_off, soon), known);
            let runs = state(7, 5, every);
            assert_eq!(step(runs, runs, soon), Step::Known(runs));
            assert_eq!(step(runs, state(6, 1, every), soon), Step::Again);
        }
        // A program that takes a timer back and keeps its interval is rare enough to be waited for.
        assert_eq!(step(state(0, 0, 9), state(0, 0, 9), 2 * INTERRUPT), Step::Again);
    }

    #[test]
    fn a_timer_with_an_interval_that_has_gone_off_has_time_left() {
        let asked = state(9, 0, 1);
        assert_eq!(asked.step(asked, Duration::ZERO, true), Step::Known(state(9, 1, 1)));
    }
}
