//! Clocks, in microseconds.

/// Microseconds of CLOCK_MONOTONIC (clock_gettime(2)): never set back, stands still while the machine is suspended.
///
/// For measuring and for deadlines within one machine.
pub fn monotonic_us() -> u64 {
    now_us(libc::CLOCK_MONOTONIC)
}

/// Microseconds of CLOCK_BOOTTIME (clock_gettime(2)): as [`monotonic_us`], but goes on while the machine is suspended.
///
/// For promises between machines: a node that wakes from suspend must see that its time has run out meanwhile.
pub fn boottime_us() -> u64 {
    now_us(libc::CLOCK_BOOTTIME)
}

/// Microseconds of processor time that the calling thread has used (CLOCK_THREAD_CPUTIME_ID, clock_gettime(2)).
pub fn thread_us() -> u64 {
    now_us(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Microseconds of processor time that a process has used, with all its threads; `None` when it is gone (clock_getcpuclockid(3)).
pub fn processor_us(pid: vocab::Pid) -> Option<u64> {
    let mut clock = 0;
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both results are live.
    let ret = unsafe { libc::clock_getcpuclockid(pid.0, &mut clock).max(-libc::clock_gettime(clock, &mut used)) };
    (ret == 0).then_some(used.tv_sec as u64 * 1_000_000 + used.tv_nsec as u64 / 1000)
}

/// Nanoseconds of CLOCK_REALTIME.
pub fn realtime_ns() -> u64 {
    let now = now(libc::CLOCK_REALTIME);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// PR_TIMER_CREATE_RESTORE_IDS (prctl(2), linux/prctl.h; since Linux 6.15): 1 has timer_create(2) take a timer's number from where it would write it, 0
/// no more, 2 asks.
pub const RESTORE_IDS: u64 = 77;

/// Can a timer be made with a chosen number?
pub fn timers_take_numbers() -> bool {
    // SAFETY: only asks, by numbers.
    unsafe { libc::prctl(RESTORE_IDS as i32, 2, 0, 0, 0) >= 0 }
}

/// Nanoseconds between two ticks of the kernel's (1/HZ), for which the resolution of the coarse clocks stands (clock_getres(2), linux: `hrtimer_resolution`,
/// `KTIME_LOW_RES`).
pub fn tick_ns() -> u64 {
    let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live timespec; the clock exists since Linux 2.6.32.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut tick) };
    tick.tv_nsec as u64
}

fn now_us(clock: libc::clockid_t) -> u64 {
    let now = now(clock);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

pub(crate) fn now(clock: libc::clockid_t) -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a live timespec for the kernel to fill; it fails only for an unknown clock, and these always
    // exist.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now
}

/// A span of microseconds as the kernel wants it.
pub(crate) fn timespec(us: u64) -> libc::timespec {
    // More seconds than a time_t holds is more than anybody waits: cut it there.
    let seconds = libc::time_t::try_from(us / 1_000_000).unwrap_or(libc::time_t::MAX);
    libc::timespec { tv_sec: seconds, tv_nsec: (us % 1_000_000) as libc::c_long * 1000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward_and_boottime_is_not_behind() {
        let first = monotonic_us();
        let boot = boottime_us();
        assert!(monotonic_us() >= first && first > 0);
        assert!(boot + 1_000 >= first);
    }

    #[test]
    fn a_process_has_used_some_time() {
        let me = vocab::Pid(std::process::id() as i32);
        assert!(processor_us(me).expect("I live") > 0);
        assert_eq!(processor_us(vocab::Pid(0x3f_fff0)), None);
    }

    #[test]
    fn a_span_keeps_its_microseconds() {
        let span = timespec(3_000_017);
        assert_eq!((span.tv_sec, span.tv_nsec), (3, 17_000));
    }
}
