//! What an image begins with: where it is from, and when.

use crate::boot::boot;
use crate::clocks::Clock;
use crate::cpu;
use image::process::Header;
use vocab::Result;

/// Of a process with so many threads and this clock. `tick`: what CLOCK_MONOTONIC_COARSE has shown it last. `known`: who reads it knows this processor already.
///
/// # Errors
/// As [`boot`].
pub(crate) fn header(threads: usize, clock: &Clock, tick: i64, known: bool) -> Result<Header> {
    let real = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    // What is left of timers and waits has been read by now.
    let now = clock.now();
    Ok(Header {
        release: rustix::system::uname().release().to_string_lossy().into_owned(),
        taken_at: real.tv_sec as u64 * 1_000_000_000 + real.tv_nsec as u64,
        monotonic: now.monotonic as u64,
        boottime: now.boottime as u64,
        boot: boot()?,
        threads: threads as u32,
        cpu: (!known).then(cpu::here),
        added: Some(clock.added()),
        coarse: tick as u64,
    })
}
