//! Signals of stand-ins: holds that they interrupt, and the answer to those that are handed over.

use crate::command::ack;
use crate::life::{Input, State};
use crate::table::{Ghost, Ghosts, Happened};
use kern::standin::Hold;
use tracing::trace;
use vocab::{Pid, Sig, SigInfo, SigSet};

/// What it has handed over.
#[derive(Default)]
pub(crate) struct Handed {
    /// Signals up to this count.
    seq: u32,
    /// It has taken the one after that, too.
    has_next: bool,
    /// A SIGSTOP waited behind the signal with this count: had that been a SIGCONT that waited, it would have taken it away (linux: `prepare_signal`).
    stopped_after: Option<u32>,
}

impl Ghosts {
    /// Lets a caught stand-in go on: it dies of its SIGKILL or stops by its SIGSTOP. `true` when it does neither, because a SIGCONT of
    /// ours has taken back the SIGSTOP; when somebody else's has, it will hand that over.
    pub fn interrupt(&mut self, pid: Pid) -> bool {
        let Some(ghost) = self.ghosts.get(&pid).filter(|g| g.state == State::Caught) else { return false };
        let runs_on = !ghost.killed
            && self.pending.read(pid).is_some_and(|now| {
                !now.signals.has(Sig::KILL) && !now.signals.has(Sig::STOP) && !now.shared.has(Sig::CONT)
            })
            // The SIGSTOP of one that relays may have been taken by a thread that does.
            && !kern::pending::stops(pid);
        self.answer_eintr(pid);
        runs_on
    }

    /// Nothing is on its way from this stand-in: it holds and no signal waits for it; or it will not hand over any more, or what waits for it is known.
    pub fn is_quiet(&mut self, pid: Pid) -> bool {
        let Some(ghost) = self.ghosts.get(&pid) else { return true };
        match ghost.state {
            State::Held => self.pending.read(pid).is_none_or(|pending| pending.signals == SigSet(0)),
            State::Coming | State::Away => ghost.ending,
            State::Caught | State::Dying | State::Gone => true,
        }
    }

    pub(crate) fn interrupted(&mut self, unique: u64, happened: &mut Vec<Happened>) {
        let Some(&pid) = self.uniques.get(&unique) else {
            trace!(unique, "interrupt of a request that is answered already");
            return;
        };
        let signals = match self.looks.wanted(kern::pending::now_us()) {
            true => self.pending.read(pid).map_or(SigSet(0), |p| p.signals),
            false => SigSet(0),
        };
        if signals.has(Sig::KILL) || signals.has(Sig::STOP) {
            self.looks.caught();
            if let Some(ghost) = self.ghosts.get_mut(&pid) {
                ghost.killed = signals.has(Sig::KILL);
                ghost.handed.stopped_after = ghost.handed.has_next.then(|| ghost.handed.seq.wrapping_add(1));
                if ghost.step(pid, Input::Caught) {
                    happened.push(Happened::Caught { pid, signals });
                }
            }
        } else if self.owes(pid) && !self.unclaimed.contains(&pid) {
            // One more signal: what it has handed over is answered as soon as it is passed on.
            self.pressing.push(pid);
        } else {
            self.answer_eintr(pid);
        }
    }

    /// It holds, and there may be a signal with that.
    pub(crate) fn hands_over(&mut self, pid: Pid, hold: &Hold, happened: &mut Vec<Happened>) {
        let keeps = self.unclaimed.contains(&pid);
        let Some(ghost) = self.ghosts.get_mut(&pid) else { return };
        ghost.owed = [Hold::OPEN, Hold::CLOSED].contains(&hold.signals);
        if ghost.owed && (keeps || hold.signals == Hold::OPEN) {
            self.owed.push_back((kern::pending::now_us(), pid));
        } else if ghost.owed {
            self.pressing.push(pid);
        }
        if let Some(info) = ghost.news(hold) {
            // The SIGSTOP after it was told before it.
            match info.sig == Sig::CONT && ghost.handed.stopped_after == Some(hold.seq) {
                true => trace!(%pid, "SIGCONT that a SIGSTOP has taken back"),
                false => happened.push(Happened::Signal { pid, info }),
            }
        }
        if hold.signals != 0 {
            ghost.handed.seq = hold.seq;
        }
        ghost.handed.has_next = hold.signals == Hold::CLOSED;
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

    /// Lets those that have handed over a signal know that it has arrived, when that is due. Meanwhile they can take one more, and any command
    /// says it too. So those that are commanded soon, or signalled again, are not woken for this.
    ///
    /// To be called when what has happened is passed on: what is answered, no daemon that follows is told again.
    pub fn acknowledge(&mut self, now_us: u64) {
        for pid in std::mem::take(&mut self.pressing) {
            if self.owes(pid) {
                self.answer(pid, &ack());
            }
        }
        while let Some(&(since_us, pid)) = self.owed.front() {
            let waits = self.owes(pid) && !self.unclaimed.contains(&pid);
            if waits && now_us < since_us + self.patience_us() {
                return;
            }
            self.owed.pop_front();
            if waits {
                self.answer(pid, &ack());
            }
        }
    }

    /// Has it handed over a signal, and waits for our answer?
    fn owes(&self, pid: Pid) -> bool {
        self.ghosts.get(&pid).is_some_and(|ghost| ghost.owed && ghost.state == State::Held)
    }

    /// Stand-ins of a daemon before this one that keep what they have handed over, up to two signals each, and hand it over again to one that follows
    /// us: nobody knows yet where their bodies are.
    pub fn unclaimed(&self) -> impl Iterator<Item = Pid> + '_ {
        self.unclaimed.iter().copied()
    }

    /// It is known what becomes of the signals of `pid`.
    pub fn claimed(&mut self, pid: Pid) {
        if self.unclaimed.remove(&pid) && self.owes(pid) {
            self.owed.push_back((kern::pending::now_us(), pid));
        }
    }

    /// Is a whole large job being signalled, as by Ctrl-C?
    pub fn many_signalled(&self) -> bool {
        self.owed.len() > FEW
    }

    /// A daemon that follows this one gets those signals again: a moment for a few, longer for many, as after Ctrl-C, most of which will end.
    fn patience_us(&self) -> u64 {
        match self.owed.len() {
            0..=FEW => MOMENT_US,
            _ => PATIENCE_US,
        }
    }

    /// When [`Ghosts::acknowledge`] is to be called at the latest (monotonic, in microseconds).
    pub fn acknowledge_at(&self) -> Option<u64> {
        self.owed.front().map(|(since_us, _)| since_us + self.patience_us())
    }
}

/// So many that were signalled are acknowledged soon, in this time (microseconds).
const FEW: usize = 64;
const MOMENT_US: u64 = 1_000;
/// So long, in microseconds, more of them wait to be told to end.
const PATIENCE_US: u64 = 500_000;

const EINTR: i32 = 4;

impl Ghost {
    /// The signal that it hands over with this hold, if it has not before. No handler is called for SIGKILL and SIGSTOP: one that says so lies.
    pub(crate) fn news(&self, hold: &Hold) -> Option<SigInfo> {
        let new = hold.signals != 0 && hold.seq != self.handed.seq;
        let info = hold.info.info().filter(|info| new && ![Sig::KILL, Sig::STOP].contains(&info.sig));
        info.map(|info| SigInfo { count: Some(hold.seq), ..info })
    }
}
