//! The exit gate: a dying stand-in closes its hold file and waits for the answer to that FLUSH (docs/mechanisms.md, "The hold").

use crate::command::Command;
use crate::life::{Input, State};
use crate::recover::exiting;
use crate::table::{Ghost, Ghosts, Happened};
use kern::proc::PROC;
use std::path::Path;
use vocab::Pid;

/// The kernel gives no request this number.
const NO_REQUEST: u64 = 0;

impl Ghosts {
    /// Lets a dying stand-in end.
    pub fn release(&mut self, pid: Pid, happened: &mut Vec<Happened>) {
        let Some(ghost) = self.ghosts.get_mut(&pid) else { return };
        if ghost.state != State::Dying {
            return;
        }
        ghost.step(pid, Input::Released);
        let unique = ghost.unique;
        if unique != NO_REQUEST {
            self.device.done(unique);
        }
        self.forget(pid, happened);
    }

    /// One that was told to become a program has done so, or has ended: its number is no stand-in's any more.
    /// Whom it was yet to clone is expected no more.
    pub fn left(&mut self, pid: Pid) {
        let queue = self.ghosts.get_mut(&pid).map(|ghost| std::mem::take(&mut ghost.queue)).unwrap_or_default();
        for command in queue {
            if let Command::Clone { pid: child, .. } = command {
                if self.is_coming(child) {
                    self.ghosts.remove(&child);
                }
            }
        }
        self.forget(pid, &mut Vec::new());
    }

    /// `pid` was expected, and cannot come any more if it has not come: then it dies as one that has.
    pub fn comes_no_more(&mut self, pid: Pid, happened: &mut Vec<Happened>) {
        if self.came(pid) {
            self.ended_unseen(pid, happened);
        }
    }

    /// It has ended, or is as good as that, and does not come to the exit gate, since it has not the hold file open.
    pub(crate) fn ended_unseen(&mut self, pid: Pid, happened: &mut Vec<Happened>) {
        self.came(pid);
        let Some(ghost) = self.ghosts.get_mut(&pid) else { return };
        if ghost.ending {
            return self.forget(pid, happened);
        }
        self.uniques.remove(&ghost.unique);
        ghost.unique = NO_REQUEST;
        if ghost.step(pid, Input::Flushes) {
            happened.push(Happened::Dying { pid });
        }
    }

    /// A FLUSH: the request by which a process closes the hold file, also when it ends.
    pub(crate) fn flushes(&mut self, unique: u64, pid: Pid, fh: u64, happened: &mut Vec<Happened>) {
        let Some(who) = self.whose_flush(pid, fh).or_else(|| self.dying_unknown(pid)) else {
            // Somebody who has the file by inheritance and is no stand-in: a program just before its exec.
            self.device.done(unique);
            return;
        };
        let Some(ghost) = self.ghosts.get_mut(&who) else { return };
        tracing::trace!(%pid, %who, fh, family = ghost.family, state = ?ghost.state, "flush");
        // A clone that fails late (a number in use) closes the child's copy of the descriptors in the
        // cloner's name. linux: copy_process, bad_fork_cleanup_files.
        let clones = matches!(ghost.working, Some((_, Command::Clone { .. } | Command::Spawn(_), _)));
        // One that becomes a program closes the file before it execs; its slot is in use until `left`.
        let becomes = matches!(ghost.working, Some((_, Command::Exec(_), _)));
        if becomes || clones && !exiting(who) {
            self.device.done(unique);
            return;
        }
        self.uniques.remove(&ghost.unique);
        ghost.step(who, Input::Flushes);
        ghost.unique = unique;
        // A user's own program in place of `shoal run` may close the file, or execute another one, which closes it: that is its end as a
        // stand-in, but it does not wait for ours, since others wait for whoever executes (`kern::proc::Stat`).
        if !ghost.ending && !ghost.killed && !exiting(who) {
            self.device.done(unique);
        }
        if ghost.ending {
            self.device.done(unique);
            self.forget(who, happened);
        } else {
            happened.push(Happened::Dying { pid: who });
        }
    }

    /// The last thread to exit closes the file, and the request has its TID: look for the process it belongs to.
    fn whose_flush(&self, pid: Pid, fh: u64) -> Option<Pid> {
        if self.ghosts.contains_key(&pid) {
            return Some(pid);
        }
        let may = |g: &Ghost| g.family == 0 || (g.family == fh && g.slot == Some(0));
        let mut firsts = self.ghosts.iter().filter(|(_, g)| may(g)).map(|(pid, _)| *pid);
        firsts.find(|first| Path::new(&format!("{PROC}/{first}/task/{pid}")).exists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Name;

    #[test]
    fn whom_one_that_became_a_program_was_yet_to_clone_is_expected_no_more() {
        let mut ghosts = Ghosts::adopt(kern::sys::memory_file(b"").expect("a descriptor"));
        let (maker, child) = (Pid(7), Pid(8));
        ghosts.ghosts.insert(maker, Ghost::coming(1, Some(0)));
        ghosts.command(maker, Command::Exec(0));
        ghosts.command(maker, Command::Clone { pid: child, sibling: false, name: Name::default() });
        assert!(ghosts.has(child));
        ghosts.left(maker);
        assert!(!ghosts.has(maker) && !ghosts.has(child));
    }
}
