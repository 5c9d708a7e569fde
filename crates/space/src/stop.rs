//! Stopping and continuing. The body leads, the ghost follows; a SIGCONT that the user sends is first seen by the ghost.

use crate::effect::{Command, Effect};
use crate::signal::our_signal;
use crate::space::Space;
use crate::step::{Act, Mark, What};
use crate::table::Body;
use vocab::{Pid, Sig};

impl Space {
    pub(crate) fn stopped(&mut self, pid: Pid, sig: Sig) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        // A continue between two stops can go unseen on the node (wait4 tells the newest change only): a ghost or a stand-in that was
        // continued meanwhile stops again.
        let stops = entry.asleep || entry.stops > 0 || entry.queue.iter().any(|s| s.act.what() == Some(What::Stop));
        if entry.roused {
            self.continued(pid);
        }
        let Some(entry) = self.table.get_mut(pid) else { return };
        if entry.body == Body::Stopped(sig) && !entry.stop_pending && stops {
            return;
        }
        entry.body = Body::Stopped(sig);
        let pending = std::mem::take(&mut entry.stop_pending);
        for node in entry.stands.clone() {
            self.out.push(Effect::StopStandIn { node, pid, sig });
        }
        if pending {
            self.discard_stop(pid);
        }
        self.push(pid, Act::Command(Command::Stop(sig)), Mark::default());
        let place = self.table.get(pid).map_or(vocab::NodeId::FRONT, |e| e.place);
        self.log(pid, place, "stopped by signal", i32::from(sig.number()));
    }

    pub(crate) fn continued(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        entry.body = Body::Running;
        entry.roused = false;
        let place = entry.place;
        for node in entry.stands.clone() {
            self.out.push(Effect::ContinueStandIn { node, pid });
        }
        if std::mem::take(&mut entry.stop_pending) {
            self.discard_stop(pid);
        }
        self.drop_stops(pid);
        self.wake(pid);
        self.log(pid, place, "continued", 0);
    }

    /// Lets the pending SIGSTOP take the ghost.
    fn sleep(&mut self, pid: Pid) {
        if let Some(entry) = self.table.get_mut(pid) {
            entry.asleep = true;
        }
        self.out.push(Effect::Interrupt { pid });
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
        if std::mem::take(&mut entry.asleep) || entry.stops > 0 {
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
            Body::Starting | Body::Running => {
                entry.stop_pending = true;
                self.deliver(pid, our_signal(Sig::STOP));
            }
            Body::Many(_) => {
                self.sleep(pid);
                self.signal_copies(pid, our_signal(Sig::STOP));
            }
            Body::Ended(_) => self.discard_stop(pid),
            Body::Stopped(sig) => {
                // A SIGCONT may be on its way to the body.
                self.deliver(pid, our_signal(Sig::STOP));
                self.drop_stops(pid);
                self.discard_stop(pid);
                self.push(pid, Act::Command(Command::Stop(sig)), Mark::default());
            }
            Body::Unclaimed => {
                entry.stop_pending = true;
                entry.early.push(our_signal(Sig::STOP));
                self.sleep(pid);
            }
            Body::Native => self.sleep(pid),
        }
    }
}
