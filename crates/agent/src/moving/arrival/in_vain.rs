//! An arrival that comes to nothing: what was to become the process ends, or stands here for it again.

use super::{Arrival, Arriving, Made};
use crate::agent::Agent;
use kern::pidfd;
use mover::Order;
use tracing::{info, warn};
use vocab::{Exit, Fault, Pid, Sig, SigInfo};
use wire::event::{Person, Usage};
use wire::node::ToFront;

/// Has a mover that is gone not got as far as to trace this vessel, which would have killed it?
fn is_untouched(pid: Pid) -> bool {
    kern::pending::read(pid).is_some_and(|is| !is.traced && !is.signals.has(Sig::KILL) && !b"ZX".contains(&is.state))
}

impl Agent {
    /// It has not come: what was to become it ends, or stands here again.
    pub(super) fn unmake(&mut self, made: Made, mover: Option<u32>, ended: Option<(Exit, Usage)>) {
        // Its streams say nothing of an end: the program, if it is that, has not ended here.
        let Made { person, in_place, stopped, asleep, held } = made;
        let pid = person.pid;
        if !in_place {
            mover.into_iter().for_each(|mover| {
                self.end_mover(mover);
                self.has_come(mover);
            });
            // The next one under this number waits until it has been waited for.
            self.moving.remains.insert(pid, person.ppid);
            pidfd::end(pid);
            return self.is_to_be_waited_for(pid, person.ppid);
        }
        let order = Order::Remain(self.remain(pid));
        self.stands_in_place(person, held);
        if asleep {
            self.sleeps_on(pid);
        }
        if asleep || stopped.is_some() {
            self.mirror(pid, stopped);
        }
        match mover {
            Some(mover) => self.order_mover(mover, &order),
            None => {
                if let Err(fault) = self.start_mover(pid, &order) {
                    warn!(%pid, %fault, "what was to arrive cannot stand here again");
                    pidfd::end(pid);
                }
            }
        }
        if let Some((exit, usage)) = ended {
            self.end_stand_in(pid, exit, usage);
        }
    }

    /// What stood here had become a vessel, and is killed with the mover that traces it: nothing can stand here any more. The process lives on where it is, so nobody is to
    /// take this for its end; its children here are init's on this machine from then on.
    fn died_with_its_mover(&mut self, person: Person) {
        let pid = person.pid;
        warn!(%pid, "what stood here ends with its mover");
        self.stands.add_in_place(person);
        if let Some(stand) = self.stands.get_mut(pid) {
            stand.ending = true;
        }
        // Should it not have been traced yet.
        pidfd::end(pid);
    }

    /// One that was to come has ended where it was: what stands for it ends when it comes no more. `false` when it was none.
    pub(crate) fn arrival_ended(&mut self, pid: Pid, exit: Exit, usage: Usage) -> bool {
        let arrival = self.moving.arrivals.get_mut(&pid);
        arrival.map(|arrival| arrival.ended = Some((exit, usage))).is_some()
    }

    /// It could not be made, or not be made what it was to be, or was killed before it ran.
    pub(crate) fn arrival_fails(&mut self, pid: Pid, fault: Fault) {
        if self.end_arrival(pid) {
            info!(%pid, %fault, "arrival: over");
            self.uplink.send(&ToFront::NotArrived { pid, fault });
        }
    }

    /// What was to become it was killed, and has been waited for: there is nothing to end, or to wait for.
    pub(in crate::moving) fn arrival_killed(&mut self, pid: Pid) {
        warn!(%pid, "what was to arrive was killed");
        let Some(arrival) = self.moving.arrivals.remove(&pid) else { return };
        self.is_over(pid, &arrival);
        let stood = arrival.made.as_ref().is_some_and(|made| made.in_place);
        if stood && (arrival.state == Arriving::Starting || self.moving.movers.contains_key(&arrival.mover)) {
            // Not by the end of its mover: who kills what stands here for a process, or is to become it here, kills that.
            self.tell_signal(pid, SigInfo::kill(Sig::KILL, Pid::NONE, 0), None);
        }
        self.end_mover(arrival.mover);
        self.has_come(arrival.mover);
        // Of its streams nothing is said, as in `unmake`.
        self.reparent_stand_ins(pid);
        let fault = Fault::gone(format!("what was to become {pid} was killed"));
        self.uplink.send(&ToFront::NotArrived { pid, fault });
        self.next_start();
    }

    /// Nobody wants it.
    pub(crate) fn abandon(&mut self, pid: Pid) {
        if self.end_arrival(pid) {
            info!(%pid, "arrival: abandoned");
        } else if self.moving.ran.remove(&pid) {
            info!(%pid, "arrival: runs, and is not to");
            pidfd::end(pid);
        }
        self.moving.over.remove(&pid);
    }

    /// Its streams are for nobody; but the old node may have heard that all of it is here, and have ended its own.
    fn is_over(&mut self, pid: Pid, arrival: &Arrival) {
        self.streams.in_vain(arrival.streams);
        if arrival.program && arrival.state == Arriving::Rebuilt {
            self.moving.over.insert(pid, arrival.streams);
        }
    }

    fn end_arrival(&mut self, pid: Pid) -> bool {
        let Some(arrival) = self.moving.arrivals.remove(&pid) else { return false };
        self.is_over(pid, &arrival);
        let parent = arrival.kin[0];
        let mover = Some(arrival.mover).filter(|mover| self.moving.movers.contains_key(mover));
        // Before it is rebuilt its old node cannot have ended it.
        let lost = arrival.state == Arriving::Taking && mover.is_none();
        match arrival.made {
            Some(made) if made.in_place && lost && is_untouched(pid) => {
                // Another mover does that.
                self.unmake(made, None, arrival.ended);
                self.next_start();
            }
            // A parent that is a process here hears of its end by the kernel: then that is the end of the process everywhere.
            Some(made) if made.in_place && lost && !self.bodies.has(made.person.ppid) => {
                self.died_with_its_mover(made.person);
                self.next_start();
            }
            Some(made) => {
                self.unmake(made, mover, arrival.ended);
                self.next_start();
            }
            None => {
                mover.into_iter().for_each(|mover| self.end_mover(mover));
                let stopped = self.stands.get(pid).and_then(|stand| stand.body_stopped);
                self.mirror(pid, stopped);
                if let Some((exit, usage)) = arrival.ended {
                    self.end_stand_in(pid, exit, usage);
                }
                self.next_start();
            }
        }
        self.end_goes_on(parent);
        true
    }
}
