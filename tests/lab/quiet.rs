//! Who runs beside whom. Scenes that look at the whole machine for what a sandbox leaves must be alone. Of those that measure time or load the machine,
//! and of programs, two run at a time; of all others, which wait most of the time, more.

use super::{Doing, Res};
use std::sync::{Condvar, Mutex};

/// How many run beside each other that take little: so two processors are half busy.
pub(crate) const ROOM: usize = 6;
/// How much room those take that measure time or load the machine.
pub(crate) const DEMANDING: usize = 3;

static FREE: Mutex<usize> = Mutex::new(ROOM);
static FREED: Condvar = Condvar::new();

/// So much room, for as long as this is held.
pub(crate) struct Room(usize);

/// Waits until there is so much.
pub(crate) fn room(wanted: usize) -> Res<Room> {
    let free = FREE.lock().doing("count who runs")?;
    let mut free = FREED.wait_while(free, |free| *free < wanted).doing("wait for others to end")?;
    *free -= wanted;
    Ok(Room(wanted))
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Ok(mut free) = FREE.lock() {
            *free += self.0;
        }
        FREED.notify_all();
    }
}

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
