//! A test that waits for something that never comes would keep the run from ending, and nobody would learn which test that was. After [`MOST`] the run ends instead, names the test, and keeps what
//! /proc tells of all its processes.

use super::evidence;
use rustix::process::getpid;
use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::thread::spawn;
use std::time::{Duration, Instant};

/// Longer than any test needs on a machine that is three times as slow as others.
const MOST: Duration = Duration::from_secs(600);
/// As of timeout(1).
const STATUS: i32 = 124;

struct Watched {
    number: u64,
    name: String,
    until: Instant,
}

static ALL: Mutex<Vec<Watched>> = Mutex::new(Vec::new());
static CHANGED: Condvar = Condvar::new();

/// As long as this is held, the test has to end in time.
pub(crate) struct Watch(u64);

/// Begins to watch; `evidence`: a folder for what is found.
pub(crate) fn watch(name: &str, evidence: &Path) -> Watch {
    let folder = evidence.join("hangs");
    let Ok(mut all) = ALL.lock() else { return Watch(0) };
    let number = all.iter().map(|one| one.number).max().unwrap_or(0) + 1;
    all.push(Watched { number, name: name.to_owned(), until: Instant::now() + MOST });
    drop(all);
    spawn(move || wait_for(number, &folder));
    Watch(number)
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Ok(mut all) = ALL.lock() {
            all.retain(|one| one.number != self.0);
        }
        CHANGED.notify_all();
    }
}

/// Returns when the test has ended.
fn wait_for(number: u64, folder: &Path) {
    let Ok(mut all) = ALL.lock() else { return };
    while let Some(one) = all.iter().find(|one| one.number == number) {
        let left = one.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            println!("\n{} has not ended for {} s: evidence is in {}", one.name, MOST.as_secs(), folder.display());
            evidence::collect(getpid().as_raw_nonzero().get(), folder);
            std::process::exit(STATUS);
        }
        let Ok((next, _)) = CHANGED.wait_timeout(all, left) else { return };
        all = next;
    }
}
