//! The clocks that send signals: interval timers and those of timer_create(2).

use crate::obstacle::Obstacle;
use crate::proc;
use crate::queued::{raw, since};
use image::process::{Interval, Process, Timer};
use image::thread::Thread;
use image::Bytes;
use kern::clock;
use kern::ptrace::RawInfo;
use puppet::script::Outcome;
use puppet::{Arena, Loan, Script};
use vocab::{Fault, Pid, Result, SigInfo};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// `struct itimerval` and `struct itimerspec`, the interval first.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
struct Spec {
    every: [u64; 2],
    left: [u64; 2],
}

/// Nanoseconds in the second number of a `struct timeval` or `struct timespec`.
const MICRO: u64 = 1000;
const NANO: u64 = 1;
const SECOND: u64 = 1_000_000_000;

impl Spec {
    fn interval(&self, unit: u64) -> Interval {
        let ns = |[seconds, part]: [u64; 2]| seconds * SECOND + part * unit;
        Interval { left: ns(self.left), every: ns(self.every) }
    }

    fn from(interval: &Interval, unit: u64) -> Spec {
        // What is left must not become nothing: that would stop the timer.
        let split = |ns: u64| [ns / SECOND, (ns % SECOND).div_ceil(unit).min(SECOND / unit - 1)];
        Spec { every: split(interval.every), left: split(interval.left) }
    }
}

const ITIMERS: u64 = 3;

/// Asks for the interval timers; where the answers will be.
pub(crate) fn ask_itimers(script: &mut Script) -> u64 {
    let room = script.room(size_of::<Spec>() * ITIMERS as usize);
    for which in 0..ITIMERS {
        let at = room + which * size_of::<Spec>() as u64;
        script.call("read an interval timer", libc::SYS_getitimer, &[which, at]);
    }
    room
}

pub(crate) fn itimers(outcome: &Outcome, room: u64) -> Result<Vec<Interval>> {
    let one = |which| Ok(outcome.value::<Spec>(room + which * size_of::<Spec>() as u64)?.interval(MICRO));
    (0..ITIMERS).map(one).collect()
}

/// A program that is moved often enough would otherwise never have one of those that count its CPU time expire: the kernel adds a tick to what it is set to
/// (linux: `set_cpu_itimer`, kernel/time/itimer.c).
/// `ringing`: those of [`take_ringing`].
pub(crate) fn set_itimers(script: &mut Script, process: &Process, ringing: &[i32]) {
    // While its signal waits one stands still, and is set for nothing; where that is taken it is set anew (linux: `posixtimer_rearm_itimer`). Whoever has sent the
    // signal: of two that do there is but one.
    let of_timer = |timer: &Timer| {
        let to_all = timer.notify & libc::SIGEV_THREAD_ID == 0;
        to_all && timer.signal == libc::SIGALRM && ringing.contains(&timer.id)
    };
    let waits = process.queue.iter().filter_map(raw).any(is_alarm) || process.timers.iter().any(of_timer);
    for (which, interval) in process.itimers.iter().enumerate() {
        let is_real = which == libc::ITIMER_REAL as usize;
        let rings = is_real && interval.left == 0 && waits;
        let left = if rings { interval.every } else { interval.left };
        if left == 0 {
            continue;
        }
        let added = if is_real { 0 } else { clock::tick_ns() };
        let interval = &Interval { left: left.saturating_sub(added).max(MICRO), every: interval.every };
        let at = script.bytes(Spec::from(interval, MICRO).as_bytes());
        script.call("set an interval timer", libc::SYS_setitimer, &[which as u64, at, 0]);
    }
}

fn is_alarm(info: RawInfo) -> bool {
    info[0] as i32 == libc::SIGALRM
}

/// The timers of the process, from /proc/PID/timers: without the times, which [`ask_timers`] asks for.
pub(crate) fn timers(pid: Pid) -> Result<Vec<Timer>> {
    let text = proc::file(pid, "timers")?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut timers: Vec<Timer> = Vec::new();
    for line in text.lines() {
        let wrong = || Fault::bug(format!("a line of /proc/{pid}/timers: {line}"));
        let (name, value) = line.split_once(':').ok_or_else(wrong)?;
        let value = value.trim();
        if name == "ID" {
            timers.push(Timer { id: value.parse().map_err(|_| wrong())?, ..Timer::default() });
            continue;
        }
        let timer = timers.last_mut().ok_or_else(wrong)?;
        match name {
            "ClockID" => timer.clock = value.parse().map_err(|_| wrong())?,
            // `signal: 14/00000000deadbeef`
            "signal" => {
                let (signal, data) = value.split_once('/').ok_or_else(wrong)?;
                timer.signal = signal.parse().map_err(|_| wrong())?;
                timer.value = u64::from_str_radix(data.trim_start_matches("0x"), 16).map_err(|_| wrong())?;
            }
            // `notify: signal/pid.4711`, or none, or with tid.
            "notify" => {
                let (how, whom) = value.split_once('/').ok_or_else(wrong)?;
                let (kind, number) = whom.split_once('.').ok_or_else(wrong)?;
                let to_thread = kind == "tid";
                timer.notify = if how == "none" { libc::SIGEV_NONE } else { libc::SIGEV_SIGNAL };
                if to_thread {
                    timer.notify |= libc::SIGEV_THREAD_ID;
                    timer.thread = number.parse().map_err(|_| wrong())?;
                }
            }
            _ => {}
        }
    }
    Ok(timers)
}

/// Asks how long each has; where the answers will be.
pub(crate) fn ask_timers(script: &mut Script, timers: &[Timer]) -> Vec<u64> {
    let ask = |timer: &Timer| {
        let room = script.room(size_of::<Spec>());
        script.call("read a timer", libc::SYS_timer_gettime, &[timer.id as u64, room]);
        room
    };
    timers.iter().map(ask).collect()
}

pub(crate) fn fill_timers(outcome: &Outcome, asked: &[u64], timers: &mut [Timer]) -> Result<()> {
    for (timer, room) in timers.iter_mut().zip(asked) {
        timer.interval = outcome.value::<Spec>(*room)?.interval(NANO);
    }
    Ok(())
}

/// `struct sigevent` (sigevent(3type)), as far as it is used.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
struct SigEvent {
    value: u64,
    signal: i32,
    notify: i32,
    thread: i32,
    pad: [i32; 11],
}

/// Before Linux 6.15 a timer's number is how many were made before it, and one with a higher number takes too long (0.1 s) to make.
const MOST: i32 = 100_000;
/// Timers that are made for their numbers' sake in one script.
const AT_ONCE: i32 = 2000;

/// Those of a running process that would not be made again with their numbers by a kernel like this one.
pub(crate) fn survey(pid: Pid, obstacles: &mut Vec<Obstacle>) -> Result<()> {
    obstacles.extend(too_high(&timers(pid)?, clock::timers_take_numbers()));
    Ok(())
}

fn too_high(timers: &[Timer], chosen: bool) -> Option<Obstacle> {
    let timer = timers.iter().find(|timer| timer.id > MOST && !chosen)?;
    let why = "cannot be made again with that number by this kernel (before Linux 6.15)";
    Some(format!("timer {} (timer_create) {why}", timer.id))
}

/// The clock that another thread may name too: the CPU time of the thread that calls is that of whom the timer signals, as far as it tells
/// (linux: `MAKE_THREAD_CPUCLOCK`).
fn clock_of(timer: &Timer) -> u64 {
    const OF_THREAD: i32 = 4;
    const USED: i32 = 2;
    let of = |thread: i32| !thread << 3 | OF_THREAD | USED;
    // As such a timer has it (linux: `thread_cpu_timer_create`).
    let own = timer.clock == of(0) && timer.notify & libc::SIGEV_THREAD_ID != 0;
    let clock = if own { of(timer.thread) } else { timer.clock };
    clock as u64
}

/// Takes away the signals that wait of timers which go off again and again; the numbers of these. Such a timer stands still until its signal is taken, and then counts what
/// it has missed (timer_getoverrun(2)): sent as any other signal this would be one more, which it does not know.
pub(crate) fn take_ringing(process: &mut Process, threads: &mut [Thread]) -> Vec<i32> {
    // With more than one turn to come it was set anew since.
    let again = |timer: &&Timer| timer.interval.left != 0 && timer.interval.left <= timer.interval.every;
    let running: Vec<i32> = process.timers.iter().filter(again).map(|timer| timer.id).collect();
    let mut ringing = Vec::new();
    let mut take = |queue: &mut Vec<Bytes>| {
        queue.retain(|info| {
            let of = raw(info).filter(|info| info[1] as i32 == libc::SI_TIMER).map(|info| info[2] as i32);
            let rings = of.filter(|id| running.contains(id));
            ringing.extend(rings);
            rings.is_none()
        });
    };
    take(&mut process.queue);
    threads.iter_mut().for_each(|thread| take(&mut thread.queue));
    ringing
}

/// Sets timers that ring so that they have gone off a moment ago, and go off next when they would have.
fn ring(loan: &mut Loan<'_>, arena: Arena, timers: &[&Timer]) -> Result<()> {
    let mut script = arena.script();
    let ask = |timer: &&Timer| {
        let room = script.room(size_of::<[u64; 2]>());
        script.call("read the clock of a timer", libc::SYS_clock_gettime, &[clock_of(timer), room]);
        room
    };
    let asked: Vec<u64> = timers.iter().map(ask).collect();
    let outcome = loan.run(arena, script)?;
    let mut script = arena.script();
    for (timer, room) in timers.iter().zip(asked) {
        let [seconds, part] = outcome.value::<[u64; 2]>(room)?;
        let Interval { left, every } = timer.interval;
        let last = (seconds * SECOND + part + left).saturating_sub(every).max(NANO);
        let spec = script.bytes(Spec::from(&Interval { left: last, every }, NANO).as_bytes());
        let args = [timer.id as u64, libc::TIMER_ABSTIME as u64, spec, 0];
        script.call("set a timer that has gone off", libc::SYS_timer_settime, &args);
    }
    loan.run(arena, script).map(drop)
}

/// Makes the timers with their numbers, and sets them going. `ringing`: those of [`take_ringing`].
///
/// # Errors
/// `Refused` for numbers that this kernel does not give.
pub(crate) fn make(loan: &mut Loan<'_>, arena: Arena, timers: &[Timer], ringing: &[i32]) -> Result<()> {
    if timers.is_empty() {
        return Ok(());
    }
    let chosen = clock::timers_take_numbers();
    if let Some(obstacle) = too_high(timers, chosen) {
        return Err(Fault::refused(obstacle));
    }
    let mut timers: Vec<&Timer> = timers.iter().collect();
    timers.sort_unstable_by_key(|timer| timer.id);
    let mut script = arena.script();
    if chosen {
        script.call("have timers made with their ids", libc::SYS_prctl, &[clock::RESTORE_IDS, 1, 0, 0, 0]);
    }
    let mut next = 0;
    for timer in &timers {
        while next < timer.id && !chosen {
            let upto = timer.id.min(next + AT_ONCE);
            skip(&mut script, next, upto);
            loan.run(arena, std::mem::replace(&mut script, arena.script()))?;
            next = upto;
        }
        let Timer { value, signal, notify, thread, .. } = **timer;
        let event = script.bytes(SigEvent { value, signal, notify, thread, pad: [0; 11] }.as_bytes());
        let id = script.bytes(&timer.id.to_ne_bytes());
        script.call("make a timer", libc::SYS_timer_create, &[clock_of(timer), event, id]);
        if timer.interval.left != 0 && !ringing.contains(&timer.id) {
            let spec = script.bytes(Spec::from(&timer.interval, NANO).as_bytes());
            script.call("set a timer", libc::SYS_timer_settime, &[timer.id as u64, 0, spec, 0]);
        }
        next = timer.id + 1;
    }
    if chosen {
        script.call("have timers made as usual", libc::SYS_prctl, &[clock::RESTORE_IDS, 0, 0, 0, 0]);
    }
    loan.run(arena, script)?;
    timers.retain(|timer| ringing.contains(&timer.id));
    if timers.is_empty() {
        return Ok(());
    }
    ring(loan, arena, &timers)
}

/// Uses up numbers: a process has each of them once (linux: `posix_timer_add`, which counts on from the last).
fn skip(script: &mut Script, from: i32, to: i32) {
    let none = script.bytes(SigEvent { notify: libc::SIGEV_NONE, ..SigEvent::default() }.as_bytes());
    let made = script.room(size_of::<i32>());
    for id in from..to {
        script.call("make a timer", libc::SYS_timer_create, &[libc::CLOCK_MONOTONIC as u64, none, made]);
        script.call("take a timer away", libc::SYS_timer_delete, &[id as u64]);
    }
}

/// The timers that ran when they were read. One that goes off in a process that stands still goes off where that runs again, and its signal here is none.
#[derive(Default)]
pub(crate) struct RunningTimers {
    /// Of timer_create, by their numbers.
    timers: Vec<i32>,
    /// Those of setitimer, by their signals.
    itimers: Vec<i32>,
}

/// By these the interval timers signal, in their order (setitimer(2)).
const ITIMER_SIGNALS: [i32; ITIMERS as usize] = [libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF];

impl RunningTimers {
    pub(crate) fn of(process: &Process) -> RunningTimers {
        let timers = process.timers.iter().filter(|timer| timer.interval.left != 0).map(|timer| timer.id).collect();
        let itimers = ITIMER_SIGNALS.into_iter().zip(&process.itimers).filter(|(_, interval)| interval.left != 0);
        RunningTimers { timers, itimers: itimers.map(|(signal, _)| signal).collect() }
    }

    /// Does one of them signal so? (siginfo: number, code, and the timer's number in the third word; sigaction(2))
    pub(crate) fn signal(&self, info: &RawInfo) -> bool {
        match info[1] as i32 {
            libc::SI_TIMER => self.timers.contains(&(info[2] as i32)),
            SigInfo::SI_KERNEL => self.itimers.contains(&(info[0] as i32)),
            _ => false,
        }
    }

    /// Those of `now` that are not new since `before`, or not theirs.
    pub(crate) fn without_theirs(&self, before: &[Bytes], now: Vec<Bytes>) -> Vec<Bytes> {
        let raw = |infos: &[Bytes]| infos.iter().filter_map(raw).collect::<Vec<_>>();
        let mut theirs = since(&raw(before), raw(&now));
        theirs.retain(|info| self.signal(info));
        // The new ones are behind those that are known.
        let mut kept = now;
        kept.reverse();
        kept.retain(|info| {
            let at = theirs.iter().position(|one| one.as_bytes() == info.0);
            at.map(|at| theirs.remove(at)).is_none()
        });
        kept.reverse();
        kept
    }
}

/// For timerfd: the same structure, in a script's memory.
pub(crate) fn spec_bytes(interval: &Interval) -> Vec<u8> {
    Spec::from(interval, NANO).as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_running_timer_sends_after_it_was_read_is_left_to_it() {
        let info = |signal: i32, code: i32, id: u64| {
            let mut info = RawInfo::default();
            (info[0], info[1], info[2]) = (signal as u64, code as u32 as u64, id);
            Bytes(info.as_bytes().to_vec())
        };
        let runs = Interval { left: 1, every: 0 };
        let timers =
            [(3, runs), (4, Interval::default())].map(|(id, interval)| Timer { id, interval, ..Timer::default() });
        let itimers = vec![runs, Interval::default(), Interval::default()];
        let running = RunningTimers::of(&Process { timers: timers.to_vec(), itimers, ..Process::default() });
        let (of_3, of_4) = (info(libc::SIGUSR1, libc::SI_TIMER, 3), info(libc::SIGUSR1, libc::SI_TIMER, 4));
        let (alarm, kill) = (info(libc::SIGALRM, SigInfo::SI_KERNEL, 0), info(libc::SIGALRM, 0, 3));
        let now = vec![of_3.clone(), of_4.clone(), alarm.clone(), kill.clone(), of_3.clone()];
        assert_eq!(running.without_theirs(&[], now.clone()), [of_4.clone(), kill.clone()]);
        // One has come before, and is not sent again.
        assert_eq!(running.without_theirs(std::slice::from_ref(&of_3), now), [of_3, of_4, kill]);
        assert_eq!(running.without_theirs(std::slice::from_ref(&alarm), vec![alarm.clone()]), [alarm]);
    }

    #[test]
    fn what_waits_of_one_that_goes_off_again_is_its_own_to_send() {
        let info = |code: i32, id: u64| {
            let mut info = RawInfo::default();
            (info[0], info[1], info[2]) = (40, code as u32 as u64, id);
            Bytes(info.as_bytes().to_vec())
        };
        let timer = |(id, every)| Timer { id, interval: Interval { left: 5, every }, ..Timer::default() };
        let timers = [(1, 9), (2, 9), (3, 0), (4, 4)].map(timer).to_vec();
        let queue =
            vec![info(libc::SI_TIMER, 1), info(libc::SI_QUEUE, 1), info(libc::SI_TIMER, 3), info(libc::SI_TIMER, 4)];
        let mut process = Process { timers, queue, ..Process::default() };
        let mut threads = [Thread { queue: vec![info(libc::SI_TIMER, 2)], ..Thread::default() }];
        assert_eq!(take_ringing(&mut process, &mut threads), [1, 2]);
        assert_eq!(process.queue, [info(libc::SI_QUEUE, 1), info(libc::SI_TIMER, 3), info(libc::SI_TIMER, 4)]);
        assert!(threads[0].queue.is_empty());
    }

    #[test]
    fn the_time_of_a_thread_is_that_of_whom_its_timer_signals() {
        let timer = |clock, notify| Timer { clock, notify, thread: 0x123, ..Timer::default() };
        let to_thread = libc::SIGEV_SIGNAL | libc::SIGEV_THREAD_ID;
        assert_eq!(clock_of(&timer(-2, to_thread)) as i32, !0x123 * 8 + 6);
        assert_eq!(clock_of(&timer(-2, libc::SIGEV_SIGNAL)) as i32, -2);
        assert_eq!(clock_of(&timer(libc::CLOCK_MONOTONIC, to_thread)) as i32, libc::CLOCK_MONOTONIC);
    }

    #[test]
    fn numbers_that_take_too_long_are_refused_where_they_are_counted() {
        let timers = [MOST, MOST + 1].map(|id| Timer { id, ..Timer::default() });
        assert_eq!(too_high(&timers, true), None);
        assert_eq!(too_high(&timers[..1], false), None);
        assert!(too_high(&timers, false).is_some_and(|obstacle| obstacle.starts_with("timer 100001 (timer_create)")));
    }
}
