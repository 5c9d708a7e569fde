//! timerfd_create(2): set going where the process is.

use super::{All, Seen, Verdict};
use crate::{proc, timers};
use image::files::Kind;
use image::process::Interval;
use puppet::Script;
use rustix::time::{TimerfdClockId, TimerfdFlags};
use std::os::fd::OwnedFd;
use vocab::{Fault, Result};

pub(super) fn look(seen: &Seen, _: &All) -> Result<Verdict> {
    if seen.link != b"anon_inode:[timerfd]" {
        return Ok(Verdict::Other);
    }
    let time = |name| -> Result<u64> {
        let pair = seen.field(name)?.strip_prefix('(').and_then(|pair| pair.strip_suffix(')'));
        let (seconds, ns) = pair.and_then(|pair| pair.split_once(", ")).ok_or_else(|| seen.strange(name))?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| seen.strange(name));
        Ok(number(seconds)? * 1_000_000_000 + number(ns)?)
    };
    let mut interval = Interval { left: time("it_value")?, every: time("it_interval")? };
    let clock = seen.number_of("clockid", 10)? as i32;
    let mut ticks = seen.number_of("ticks", 10)?;
    if interval.left == 0 && interval.every != 0 && ticks != 0 {
        (interval.left, ticks) = counted(seen, interval.every, ticks)?;
    }
    Ok(Verdict::Carried(Kind::TimerFd { clock, ticks, interval }))
}

/// One that goes off again and again stands still from when it has, until somebody reads it or asks how long it has yet: then the kernel counts how often it would have gone off
/// since, and it runs (linux: `do_timerfd_gettime`). How long it has, and how often it has gone off.
fn counted(seen: &Seen, every: u64, ticks: u64) -> Result<(u64, u64)> {
    let asked = rustix::time::timerfd_gettime(super::copy(seen)?);
    let left = asked.map_err(|e| Fault::sys(e.raw_os_error(), "ask a timerfd how long it has"))?.it_value;
    let left = left.tv_sec as u64 * 1_000_000_000 + left.tv_nsec as u64;
    let info = proc::file(seen.pid, &format!("fdinfo/{}", seen.number))?;
    let info = String::from_utf8_lossy(&info).into_owned();
    let now = Seen { pid: seen.pid, number: seen.number, link: seen.link.clone(), info };
    // Read meanwhile, by a process that runs, it has none.
    Ok((left.min(every), now.number_of("ticks", 10).unwrap_or(ticks)))
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

pub(super) fn set(script: &mut Script, number: i32, ticks: u64, interval: &Interval) {
    if interval.left != 0 {
        let spec = script.bytes(&timers::spec_bytes(interval));
        script.call("set a timerfd", libc::SYS_timerfd_settime, &[number as u64, 0, spec, 0]);
    }
    if ticks != 0 {
        let at = script.bytes(&ticks.to_ne_bytes());
        script.call("set a timerfd's ticks", libc::SYS_ioctl, &[number as u64, SET_TICKS, at]);
    }
}
