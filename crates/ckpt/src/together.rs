//! Threads that stand still, and whoever has them make calls, take turns: on one processor. To wake another one takes longer than most calls (30 to 60 us in a
//! virtual machine), and it is done twice for each.
//!
//! Not as urgent as the caller, too: a thread of a real-time policy has no timer slack, and loses the one that it had (linux: `__setscheduler_params`).

use kern::others;
use vocab::Pid;

/// The calling thread stays on the processor on which it is. Dropped, it may go where it could before.
pub(crate) struct Together {
    here: Vec<u8>,
    before: Option<Vec<u8>>,
}

impl Together {
    /// Where that may not be, nothing changes but the time that it takes.
    pub(crate) fn here() -> Together {
        let here = kern::sched::this_processor();
        let before = others::processors(Pid::NONE).ok();
        let stays = before.filter(|_| others::set_processors(Pid::NONE, &here).is_ok());
        Together { here, before: stays }
    }

    /// The calling thread, which whoever stays here has made to do a part of what takes long, may run where that one might before.
    pub(crate) fn lets_go(&self) {
        if let Some(before) = &self.before {
            // Here it does as well, only not at the same time.
            let _ = others::set_processors(Pid::NONE, before);
        }
    }

    /// A thread that stands still is to run here only; where it might before, which whoever lets it go on sets again. `None` where it stays as it was.
    pub(crate) fn bring(&self, tid: Pid) -> Option<Vec<u8>> {
        self.before.as_ref()?;
        let before = others::processors(tid).ok()?;
        others::set_processors(tid, &self.here).ok().map(|()| before)
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // They were ours a moment ago.
            let _ = others::set_processors(Pid::NONE, before);
        }
    }
}
