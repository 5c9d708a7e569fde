//! Signals of stand-ins: holds that they interrupt, and the answer to those that are handed over.

use crate::command::ack;
use crate::life::{Input, State};
use crate::table::{Ghosts, Happened};
use tracing::trace;
use vocab::{Pid, Sig, SigSet};

impl Ghosts {
    /// Lets a caught stand-in go on: it dies of its SIGKILL or stops by its SIGSTOP.
    pub fn interrupt(&mut self, pid: Pid) {
        if self.ghosts.get(&pid).is_some_and(|g| g.state == State::Caught) {
            self.answer_eintr(pid);
        }
    }

    pub(crate) fn interrupted(&mut self, unique: u64, happened: &mut Vec<Happened>) {
        let Some(&pid) = self.uniques.get(&unique) else {
            trace!(unique, "interrupt of a request that is answered already");
            return;
        };
        let signals = self.pending.read(pid).map_or(SigSet(0), |p| p.signals);
        if signals.has(Sig::KILL) || signals.has(Sig::STOP) {
            if let Some(ghost) = self.ghosts.get_mut(&pid) {
                if ghost.step(pid, Input::Caught) {
                    happened.push(Happened::Caught { pid, signals });
                }
            }
        } else {
            self.answer_eintr(pid);
        }
    }

    fn answer_eintr(&mut self, pid: Pid) {
        let Some(ghost) = self.ghosts.get_mut(&pid) else { return };
        let unique = ghost.unique;
        if ghost.step(pid, Input::Answered) {
            // Forgotten before it is answered: the same number may come again as soon as the kernel has the answer.
            self.uniques.remove(&unique);
            self.went_away(pid);
            self.device.fail(unique, EINTR);
        }
    }

    /// Lets those that have handed over a signal take the next one. Apart from [`Ghosts::read`], since whoever waits for the signal
    /// need not wait for this: it costs a write and wakes the stand-in.
    pub fn acknowledge(&mut self) {
        for pid in std::mem::take(&mut self.owed) {
            if self.ghosts.get(&pid).is_some_and(|ghost| ghost.owed && ghost.state == State::Held) {
                self.answer(pid, &ack());
            }
        }
    }
}

const EINTR: i32 = 4;
