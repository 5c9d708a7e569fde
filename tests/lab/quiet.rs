//! Scenes that look at the whole machine for what a sandbox leaves must be alone; all others may run side by side.

use super::{Doing, Res};
use std::sync::{Condvar, Mutex};

/// How many sessions there are; -1: one scene is alone.
static SESSIONS: Mutex<i32> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

/// Held as long as one is part of the crowd, or alone.
pub(crate) struct Held(i32);

/// Waits until nobody is alone.
pub(crate) fn together() -> Res<Held> {
    change(|sessions| sessions >= 0, 1)
}

/// Waits until there is no session.
pub(crate) fn alone() -> Res<Held> {
    change(|sessions| sessions == 0, -1)
}

fn change(may: fn(i32) -> bool, by: i32) -> Res<Held> {
    let sessions = SESSIONS.lock().doing("count sessions")?;
    let mut sessions = CHANGED.wait_while(sessions, |sessions| !may(*sessions)).doing("wait for other sessions")?;
    *sessions += by;
    Ok(Held(by))
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Ok(mut sessions) = SESSIONS.lock() {
            *sessions -= self.0;
        }
        CHANGED.notify_all();
    }
}
