//! Asking again of a process that changes all the time.

use std::time::{Duration, Instant};
use vocab::{Kind, Result};

/// One that forks and waits all the time is tried for so long: most find it between two of its changes.
const AGAIN: Duration = Duration::from_secs(5);
/// It stands still for some of each try, and runs between two: milliseconds, twice as many each time, up to the second.
const PAUSES_MS: (i32, i32) = (10, 160);

/// Tries it until that does not fail because something has changed meanwhile.
///
/// # Errors
/// That of the last try; `Changed` only after some seconds of trying.
pub fn again<T>(mut once: impl FnMut() -> Result<T>) -> Result<T> {
    let (end, mut pause) = (Instant::now() + AGAIN, PAUSES_MS.0);
    loop {
        match once() {
            Err(fault) if fault.kind == Kind::Changed && Instant::now() < end => {
                // Interrupted, it is tried earlier.
                let _ready = kern::poll::poll(&[], pause);
                pause = PAUSES_MS.1.min(2 * pause);
            }
            done => return done,
        }
    }
}
