//! Stopping and continuing. The body leads, the ghost follows; a SIGCONT that the user sends is first seen by the ghost.
//!
//! Each signal to the body that stops or continues it has a turn, and what the node tells of the body's state says up to which turn it holds.
//! What is older than the newest turn is out of date: more than that is under way. So nobody follows a stop that has been taken back
//! already, or takes back one that has not reached the body. The node tells once more when the newest has.

use crate::effect::{Command, Effect};
use crate::signal::our_signal;
use crate::space::Space;
use crate::step::{Act, Mark, What};
use crate::table::{Body, Entry};
use vocab::{NodeId, Pid, Sig};

impl Entry {
    /// Does what was seen of the body after this turn hold?
    fn holds_after(&self, turn: Option<u64>) -> bool {
        turn.unwrap_or(0) >= self.awaited
    }

    /// What was seen of it after this turn is how it is.
    fn is_known_after(&mut self, turn: Option<u64>, body: Body) {
        (self.body, self.known) = (body, turn.unwrap_or(0));
    }

    /// Is its ghost stopped, or will be?
    pub(crate) fn ghost_stops(&self) -> bool {
        self.asleep || self.stops > 0 || self.queue.iter().any(|s| s.act.what() == Some(What::Stop))
    }
}

impl Space {
    pub(crate) fn stopped(&mut self, pid: Pid, sig: Sig, turn: Option<u64>) {
        let Some(entry) = self.table.get_mut(pid).filter(|entry| entry.holds_after(turn)) else { return };
        entry.is_known_after(turn, Body::Stopped(sig));
        let place = entry.place;
        let pending = std::mem::take(&mut entry.stop_pending);
        self.stand_ins_stop(pid);
        match pending {
            true => self.pending_stop_holds(pid, sig),
            false => self.stop_ghost(pid),
        }
        self.log(pid, place, "stopped by signal", i32::from(sig.number()));
    }

    pub(crate) fn continued(&mut self, pid: Pid, turn: Option<u64>) {
        let Some(entry) = self.table.get_mut(pid).filter(|entry| entry.holds_after(turn)) else { return };
        entry.is_known_after(turn, Body::Running);
        let place = entry.place;
        if std::mem::take(&mut entry.stop_pending) {
            self.discard_stop(pid);
        }
        self.goes_on(pid);
        self.log(pid, place, "continued", 0);
    }

    /// Who follows it runs again.
    pub(crate) fn goes_on(&mut self, pid: Pid) {
        self.stand_ins_stop(pid);
        self.drop_stops(pid);
        self.wake(pid);
    }

    /// Its stand-ins on nodes stop, or go on, as the body does.
    fn stand_ins_stop(&mut self, pid: Pid) {
        for node in self.table.get(pid).map(|entry| entry.stands.clone()).unwrap_or_default() {
            self.stand_in_stops(node, pid);
        }
    }

    /// The one there does.
    pub(crate) fn stand_in_stops(&mut self, node: NodeId, pid: Pid) {
        if self.is_signalled(pid) {
            // What was seen of it may be from before that signal, of which the stand-in knows.
            return self.out.push(Effect::WatchStop { pid });
        }
        let Some(entry) = self.table.get(pid) else { return };
        let turn = entry.heard.get(&node).copied();
        self.out.push(match (&entry.body, entry.halted) {
            (&Body::Stopped(sig), _) | (Body::Native, Some(sig)) => Effect::StopStandIn { node, pid, sig, turn },
            _ => Effect::ContinueStandIn { node, pid, turn },
        });
    }

    /// The body is stopped, and so shall the ghost be. (One that has reported a stop with EAGAIN had SIGCONT waiting: if that is a user's, it
    /// will be handed over, and both go on.) Where that has just taken the place of the process it is not known yet whether SIGCONT has come to it.
    pub(crate) fn stop_ghost(&mut self, pid: Pid) {
        let Some(entry) = self.table.get(pid).filter(|entry| entry.came_from != Some(NodeId::FRONT)) else { return };
        if let (Body::Stopped(sig), false) = (&entry.body, entry.ghost_stops()) {
            self.push(pid, Act::Command(Command::Stop(*sig)), Mark::default());
        }
    }

    /// All signals that have come to the process before its ghost took its place go to the body: that stops as it does, unless they are to change that.
    pub(crate) fn has_its_place(&mut self, pid: Pid) {
        if self.table.get(pid).is_some_and(|entry| entry.known >= entry.awaited) {
            self.stop_ghost(pid);
        }
    }

    /// A SIGCONT of ours came after the SIGSTOP by which it was to stop.
    pub(crate) fn not_stopped(&mut self, pid: Pid) {
        if let Some(entry) = self.table.get_mut(pid) {
            entry.asleep = false;
        }
        self.stop_ghost(pid);
    }

    /// Its parent, which is on a node, hears that from what stands for it there.
    pub(crate) fn native_stopped(&mut self, pid: Pid, sig: Option<Sig>) {
        if let Some(entry) = self.table.get_mut(pid).filter(|entry| entry.body == Body::Native) {
            entry.halted = sig;
            self.stand_ins_stop(pid);
        }
    }

    /// It stays so until its body goes on, or SIGCONT comes to it.
    pub(crate) fn sleeps(&mut self, pid: Pid) {
        if let Some(entry) = self.table.get_mut(pid) {
            entry.asleep = true;
            self.drop_stops(pid);
        }
    }

    /// Is its body stopped, or its ghost, or is either to be?
    pub fn is_to_stop(&self, pid: Pid) -> bool {
        let stops = |entry: &Entry| matches!(entry.body, Body::Stopped(_)) || entry.stop_pending || entry.ghost_stops();
        self.table.get(pid).is_some_and(stops)
    }

    /// The SIGSTOP that waits for the ghost takes it; after what it has still to do, if there is such.
    fn pending_stop_holds(&mut self, pid: Pid, sig: Sig) {
        self.drop_stops(pid);
        let Some(entry) = self.table.get(pid) else { return };
        if entry.given.is_empty() && entry.queue.is_empty() {
            self.sleep(pid);
        } else {
            self.discard_stop(pid);
            self.push(pid, Act::Command(Command::Stop(sig)), Mark::default());
        }
    }

    /// Lets the pending SIGSTOP take the ghost.
    fn sleep(&mut self, pid: Pid) {
        if let Some(entry) = self.table.get_mut(pid) {
            entry.asleep = true;
        }
        self.out.push(Effect::Interrupt { pid });
    }

    /// Has a SIGSTOP of its own, which was told, stopped its ghost?
    pub fn is_asleep(&self, pid: Pid) -> bool {
        self.table.get(pid).is_some_and(|entry| entry.asleep)
    }

    /// Is its body stopped by what is known of it, and has nothing else stopped or continued its ghost since?
    pub fn is_asleep_as_its_process(&self, pid: Pid) -> bool {
        let turned = |entry: &Entry| {
            entry.stop_pending
                || entry.went_on.is_some()
                || entry.early.iter().any(|info| info.sig.stops() || info.sig == Sig::CONT)
        };
        self.table.get(pid).is_some_and(|entry| matches!(entry.body, Body::Stopped(_)) && !turned(entry))
    }

    /// Takes the pending SIGSTOP from the ghost, which has still to obey: a SIGCONT before the interrupted hold is answered
    /// does (linux: `prepare_signal`, kernel/signal.c), and a parent does not see it.
    pub(crate) fn discard_stop(&mut self, pid: Pid) {
        self.out.push(Effect::Wake { pid });
        self.out.push(Effect::Interrupt { pid });
    }

    /// Before a stopped ghost is given anything, it must run. It stops again afterwards.
    pub(crate) fn rouse(&mut self, pid: Pid) -> Option<Sig> {
        let Body::Stopped(sig) = self.table.get(pid)?.body else { return None };
        self.drop_stops(pid);
        self.wake(pid);
        Some(sig)
    }

    /// Wakes a ghost that is stopped, or will be by a command that it has been given. One too many does no harm.
    pub(crate) fn wake(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        let stops = std::mem::take(&mut entry.stops);
        entry.woken += stops;
        if std::mem::take(&mut entry.asleep) || stops > 0 {
            self.out.push(Effect::Wake { pid });
        }
    }

    /// Stops that have not been given yet are out of date.
    pub(crate) fn drop_stops(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        let (steps, ready) = (&mut self.steps, &mut self.ready);
        entry.queue.retain(|step| {
            let stop = step.act.what() == Some(What::Stop);
            if stop {
                steps.finish(step.id, ready);
            }
            !stop
        });
        ready.push(pid);
    }

    /// SIGSTOP is pending at the ghost: the body stops first.
    pub(crate) fn stop_arrived(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        match entry.body {
            Body::Starting | Body::Running | Body::Stopped(_) => {
                entry.asleep = false;
                entry.stop_pending = true;
                let place = entry.place;
                self.log(pid, place, "is to stop as its ghost", 0);
                self.deliver(pid, our_signal(Sig::STOP));
            }
            Body::Many(_) => {
                self.sleep(pid);
                self.signal_copies(pid, our_signal(Sig::STOP));
            }
            Body::Ended(_) => self.discard_stop(pid),
            Body::Unclaimed => {
                entry.stop_pending = true;
                entry.early.push(our_signal(Sig::STOP));
                self.sleep(pid);
            }
            Body::Native => self.sleep(pid),
        }
    }
}
