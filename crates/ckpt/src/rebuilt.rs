//! What an image has been made into, before it runs.

use crate::ahead::Ahead;
use crate::prepared::Prepared;
use crate::queued::stops_by;
use crate::remain::{remain, stop_again, Done, Remains};
use crate::timers::RunningTimers;
use crate::together::Together;
use crate::unheeded::Unheeded;
use kern::remote_memory::RemoteMemory;
use puppet::{Arena, Loan, Stopped};
use vocab::{Fault, Pid, Result, Sig};

/// A process that is as the image says, and stands still. Dropped, it is killed.
pub struct Rebuilt {
    pub(crate) pid: Pid,
    /// The leader first; none when it runs.
    pub(crate) threads: Vec<Stopped>,
    pub(crate) stopped: Option<Sig>,
    /// Signals of the image that wait for it, or for its leader.
    pub(crate) queued: Vec<Sig>,
    pub(crate) running: RunningTimers,
    /// Its locks are taken when it goes, as the original has them until it has ended.
    pub(crate) ahead: Option<Ahead>,
    /// It leaves the ends of its children to the kernel when it goes; where there is a script of it to be.
    pub(crate) unheeded: Option<(Unheeded, Arena)>,
    /// Closed with this.
    pub(crate) prepared: Prepared,
    /// Until it goes its maker stays where it is: whoever it wakes then runs elsewhere at once, and not here in its place (linux: `select_task_rq_rt`).
    pub(crate) _together: Together,
}

/// What could not be made what the image says. Dropped, it is killed.
pub struct Broken {
    pub fault: Fault,
    pub(crate) rebuilt: Rebuilt,
}

impl Broken {
    /// Another program takes its place.
    ///
    /// # Errors
    /// As [`remain`].
    pub fn remain(self, with: &Remains<'_>) -> Result<()> {
        self.rebuilt.remain(with)
    }
}

impl Rebuilt {
    /// What of its memory is not there; from now on its pages are the caller's to bring.
    pub fn ahead(&mut self) -> Option<Ahead> {
        self.ahead.take()
    }

    /// It does not become what the image says after all: another program takes its place.
    ///
    /// # Errors
    /// As [`remain`].
    pub fn remain(mut self, with: &Remains<'_>) -> Result<()> {
        let Done { stops, .. } = remain(std::mem::take(&mut self.threads), with, &self.queued, &self.running, false)?;
        stop_again(self.pid, stops)
    }

    /// It runs, or (what is returned) stops at once by this. What it was made with lasts as long as this does: to close that takes a while.
    ///
    /// # Errors
    /// `Gone` when it was killed.
    pub fn go(&mut self) -> Result<Option<Sig>> {
        if let Some((unheeded, arena)) = self.unheeded.take() {
            self.leave_ends_to_kernel(&unheeded, arena)?;
        }
        self.prepared.opened().watch();
        let mut threads = std::mem::take(&mut self.threads).into_iter();
        let leader = threads.next();
        threads.try_for_each(|thread| thread.release(None))?;
        let Some(leader) = leader else { return Ok(None) };
        if leader.group().is_none() {
            let stops = stops_by(self.stopped, &leader)?;
            return leader.release(stops).map(|()| stops);
        }
        // What was stopped before it was made stops by itself; what has come since may have come after a SIGCONT.
        let now = leader.is_at_rest()?;
        let goes_on = leader.is_to_continue()?;
        let again = leader.take_stop() && !goes_on;
        stop_again(self.pid, again)?;
        let stops = stops_by(self.stopped, &leader)?.or(again.then_some(Sig::STOP)).or(now).filter(|_| !goes_on);
        leader.release(None).map(|()| stops)
    }

    fn leave_ends_to_kernel(&self, unheeded: &Unheeded, arena: Arena) -> Result<()> {
        let Some(leader) = self.threads.first() else { return Ok(()) };
        let remote = RemoteMemory::open(self.pid)?;
        let mut loan = Loan::take(leader, &remote, &kern::areas::areas(self.pid, false)?)?;
        unheeded.leave(&mut loan, arena, self.pid)?;
        loan.unmap_arena(arena)?;
        loan.give_back()
    }
}

impl Drop for Rebuilt {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            let _gone_already = kern::signal::send(self.pid, Sig::KILL);
            std::mem::take(&mut self.threads).into_iter().rev().for_each(Stopped::dies);
        }
    }
}
