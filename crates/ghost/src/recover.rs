//! Taking over from a daemon that is gone: who stands here, and what each of them is doing.

use crate::life::State;
use crate::table::{Ghost, Ghosts, Happened};
use kern::pending;
use kern::proc::{root, PROC};
use std::collections::BTreeSet;
use vocab::{Pid, Result};

/// How long one wait for a request takes at most, in milliseconds, before those that are missing are looked for.
const LOOK_MS: i32 = 5;

impl Ghosts {
    /// After [`Ghosts::adopt`]: `found` are the processes that have the hold file open. Serves until each of them has held anew, is
    /// stopped, or is gone, but no longer than until `until_us` (monotonic). All that hold are appended to `happened` as
    /// [`Happened::Held`], all that die as [`Happened::Dying`]. Returns those that were stopped by command when this began: they hold
    /// when they are continued.
    ///
    /// Every hold is let go once (EINTR) and comes again: what a request from before says of slots may be out of date.
    ///
    /// # Errors
    /// `Sys` from a kernel without FUSE_NOTIFY_RESEND; `Gone` when the mount is gone.
    pub fn recover(&mut self, found: &[Pid], until_us: u64, happened: &mut Vec<Happened>) -> Result<BTreeSet<Pid>> {
        let mut stopped = BTreeSet::new();
        for pid in found {
            let mut ghost = Ghost::coming(0, None);
            if pending::read(*pid).is_some_and(|p| p.state == b'T') {
                stopped.insert(*pid);
                ghost.state = State::Away;
            }
            self.ghosts.insert(*pid, ghost);
        }
        self.unclaimed.extend(found);
        self.recovering = true;
        let served = self.serve_coming(until_us, happened);
        self.recovering = false;
        served.map(|()| stopped)
    }

    fn serve_coming(&mut self, until_us: u64, happened: &mut Vec<Happened>) -> Result<()> {
        self.device.resend()?;
        while self.read(1024, happened)? {}
        loop {
            let coming: Vec<Pid> =
                self.ghosts.iter().filter(|(_, g)| g.state == State::Coming).map(|(pid, _)| *pid).collect();
            if coming.is_empty() || pending::now_us() >= until_us {
                return Ok(());
            }
            pending::wait_readable(self.fd(), LOOK_MS);
            while self.read(1024, happened)? {}
            for pid in coming {
                self.look_for(pid, happened);
            }
        }
    }

    /// One that has not held: it may have stopped by a SIGSTOP that came meanwhile, or be gone.
    fn look_for(&mut self, pid: Pid, happened: &mut Vec<Happened>) {
        let Some(ghost) = self.ghosts.get_mut(&pid).filter(|g| g.state == State::Coming) else { return };
        match pending::read(pid).map(|p| p.state) {
            Some(b'T') => {
                ghost.state = State::Away;
                happened.extend([Happened::Held { pid }, Happened::StoppedItself { pid }]);
            }
            None | Some(b'Z' | b'X') => {
                self.ghosts.remove(&pid);
            }
            _ => {}
        }
    }

    /// A process in the exit gate has no open files any more, so it was not found.
    pub(crate) fn dying_unknown(&mut self, thread: Pid) -> Option<Pid> {
        if !self.recovering || !exiting(thread) {
            return None;
        }
        let text = std::fs::read_to_string(format!("{PROC}/{thread}/status")).ok()?;
        let number = text.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()?;
        self.ghosts.insert(Pid(number), Ghost::coming(0, None));
        Some(Pid(number))
    }
}

/// Is it on its way out, or gone?
pub(crate) fn exiting(pid: Pid) -> bool {
    let status = kern::proc::Proc::open(root()).ok().and_then(|proc| proc.status(pid).ok());
    // A process of which nothing can be read for want of a descriptor is not gone for that.
    status.map_or_else(|| !kern::proc::exists(pid), |status| !status.memory)
}
