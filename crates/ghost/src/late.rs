//! Stand-ins that were answered and do not come back: SIGSTOP took them on the way.

use crate::command::Command;
use crate::life::State;
use crate::table::{Ghosts, Happened};

/// A stand-in that was answered and is not back after this many microseconds may have stopped without telling.
const LATE_US: u64 = 5_000;
/// So many are looked at in one go. When thousands are late the machine is busy, and most of them are back by the time it is their turn.
const LOOKS: usize = 32;

impl Ghosts {
    /// Looks after stand-ins that were answered and have not come back; to be called every few milliseconds while
    /// [`Ghosts::late`] says so.
    pub fn look_after(&mut self, now_us: u64, happened: &mut Vec<Happened>) {
        let mut looks = 0;
        while let Some(&(since, pid)) = self.late.front() {
            if now_us < since + LATE_US || looks == LOOKS {
                return;
            }
            self.late.pop_front();
            let Some(ghost) = self.ghosts.get(&pid) else { continue };
            let told = matches!(ghost.working, Some((_, Command::Stop(_), _)));
            if ghost.state != State::Away || ghost.away_since_us != since || told {
                continue;
            }
            looks += 1;
            if kern::pending::read(pid).is_some_and(|p| p.state == b'T') {
                happened.push(Happened::StoppedItself { pid });
            }
        }
    }

    /// Is anybody away whom [`Ghosts::look_after`] should look for?
    pub fn late(&self) -> bool {
        !self.late.is_empty()
    }
}
