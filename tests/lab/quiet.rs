//! Who runs beside whom. Scenes that look at the whole machine for what a sandbox leaves must be alone. Of those that load it, and of programs,
//! two run at a time; of all others, which wait most of the time, more.

use super::{Doing, Res};
use std::sync::{Condvar, Mutex};

/// How many run beside each other that take little: so two processors are half busy.
pub(crate) const ROOM: usize = 6;
/// How much room those take that load the machine.
pub(crate) const DEMANDING: usize = 3;

struct Rooms {
    free: usize,
    /// How many have asked, and how many of them have been let in: in the order of their asking, so that nobody waits for ever who wants much.
    asked: u64,
    let_in: u64,
}

static ROOMS: Mutex<Rooms> = Mutex::new(Rooms { free: ROOM, asked: 0, let_in: 0 });
static CHANGED_ROOMS: Condvar = Condvar::new();

/// So much room, for as long as this is held.
pub(crate) struct Room(usize);

/// Waits until there is so much.
pub(crate) fn room(wanted: usize) -> Res<Room> {
    let mut rooms = ROOMS.lock().doing("count who runs")?;
    let turn = rooms.asked;
    rooms.asked += 1;
    let full = |rooms: &mut Rooms| rooms.free < wanted || rooms.let_in != turn;
    rooms = CHANGED_ROOMS.wait_while(rooms, full).doing("wait for others to end")?;
    rooms.free -= wanted;
    rooms.let_in += 1;
    CHANGED_ROOMS.notify_all();
    Ok(Room(wanted))
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Ok(mut rooms) = ROOMS.lock() {
            rooms.free += self.0;
        }
        CHANGED_ROOMS.notify_all();
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
