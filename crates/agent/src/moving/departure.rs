//! A process of this node leaves it.
//!
//! | state | turn | next |
//! |---|---|---|
//! | Carrying: its image goes, and it runs | Ready | the front end is asked |
//! | | Leave | Leaving: its mover may have it leave |
//! | | Stay, or the link is cut | its mover is to give up |
//! | | the mover has failed or ended | over: it runs on |
//! | Leaving: once the other node has all of it, it may run there | Stay | its mover is to give up, if it is not bound |
//! | | Bound | Bound: its streams leave, and the mover is to end it, or to let a stand-in take its place if it is needed here |
//! | | the mover has failed or ended | over: it runs on |
//! | Bound: if the mover ends, it is killed; the other node may let it run | it has ended, or the mover has | gone: that is remembered until the front end knows what has become of it |

use super::Gone;
use crate::agent::Agent;
use crate::bodies::Life;
use crate::checks::What;
use crate::streams::StreamsId;
use kern::clock::monotonic_us;
use kern::faultpoint::reach;
use kern::pidfd;
use kern::proc::PROC;
use mover::{Order, Out, Place, Sides};
use tracing::{debug, info};
use vocab::{Fault, Pid, Sig, SigInfo};
use wire::event::Person;
use wire::node::ToFront;

pub(super) struct Departure {
    pub(super) mover: u32,
    pub(super) state: Departing,
    /// Its parent here, when it was bound.
    pub(super) parent: Pid,
    /// That one has waited for it.
    pub(super) reaped: bool,
    /// Who it is, when a stand-in takes its place: nobody here counts it any more, and the front end does.
    pub(super) stands: Option<Person>,
    /// Relayed streams that it has, and the branch over which they go on.
    pub(super) streams: Option<(StreamsId, u64)>,
    /// The front end lets it leave, with these children that it has not waited for.
    pub(super) may_leave: Option<Vec<Pid>>,
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Departing {
    Carrying,
    Leaving,
    Bound,
}

/// What moves it on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// Its mover is.
    Ready,
    /// If these are its children.
    Leave(Vec<Pid>),
    Stay,
    Cut,
    Bound,
    /// With the signals that have come meanwhile; what stands in its place is stopped.
    Ended {
        come: Vec<SigInfo>,
        stopped: bool,
    },
    Failed(Fault),
}

/// What follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Nothing,
    /// The front end is told.
    Ask,
    /// The mover is told.
    Stay,
    Off,
    CallOff,
    /// And that is the state.
    Leaving,
    Bound,
    /// It has left.
    Gone,
    /// It has not.
    Stays,
}

/// The table.
fn next(state: Departing, turn: &Turn) -> Next {
    match (state, turn) {
        (Departing::Carrying, Turn::Leave(_)) => Next::Leaving,
        (Departing::Carrying, Turn::Stay) => Next::Stay,
        (Departing::Carrying, Turn::Cut) => Next::Off,
        (Departing::Carrying, Turn::Ready) => Next::Ask,
        (Departing::Leaving, Turn::Stay) => Next::CallOff,
        (Departing::Leaving, Turn::Bound) => Next::Bound,
        (Departing::Carrying | Departing::Leaving, Turn::Failed(_)) => Next::Stays,
        (Departing::Bound, Turn::Ended { .. } | Turn::Failed(_)) => Next::Gone,
        (Departing::Carrying, Turn::Bound | Turn::Ended { .. })
        | (Departing::Leaving, Turn::Ready | Turn::Leave(_) | Turn::Cut | Turn::Ended { .. })
        | (Departing::Bound, Turn::Ready | Turn::Leave(_) | Turn::Stay | Turn::Cut | Turn::Bound) => Next::Nothing,
    }
}

impl Agent {
    /// A body is to leave this node.
    pub(crate) fn depart(&mut self, mut order: Out) {
        let pid = order.pid;
        reach("source is told");
        let mut streams = None;
        let done = match self.bodies.get(pid).map(|body| body.life) {
            // The kernel tells of an end too when a process executes what its user may not read (linux: `begin_new_exec`): the mover sees whether it lives.
            Some(Life::Live | Life::Leaving) if !self.moving.departures.contains_key(&pid) => {
                order.remains = Some(self.remain(pid));
                order.place = Place::needed_if(self.is_needed_here(pid));
                order.filters = self.filters();
                let (its, pipes) = self.relayed(pid);
                streams = its.zip(order.branch);
                order.terminal = self.terminal_of(streams.map(|(id, _)| id));
                // Without a branch they go nowhere: their program has ended, say.
                (order.streams, order.relayed) = if streams.is_some() { (pipes, None) } else { (None, pipes) };
                if self.moving.movers.values().any(|mover| mover.whom == pid) {
                    self.moving.later.insert(pid, order);
                    return;
                }
                self.start_mover(pid, &Order::Out(order))
            }
            Some(_) => Err(Fault::gone(format!("{pid} ends, or leaves already"))),
            None => Err(Fault::gone(format!("{pid} is not on this node"))),
        };
        match done {
            Ok(mover) => {
                info!(%pid, "departure: Carrying");
                self.moving.departures.insert(
                    pid,
                    Departure {
                        mover,
                        state: Departing::Carrying,
                        parent: Pid::NONE,
                        reaped: false,
                        stands: None,
                        streams,
                        may_leave: None,
                    },
                );
            }
            Err(fault) => self.uplink.send(&ToFront::NotLeft { pid, fault }),
        }
    }

    /// The relayed streams that it has as its standard ones, and the pipes that these are, by the numbers of their files.
    pub(super) fn relayed(&self, pid: Pid) -> (Option<StreamsId>, Option<[u64; 3]>) {
        let pipe = |number: i32| {
            let link = std::fs::read_link(format!("{PROC}/{pid}/fd/{number}")).ok()?;
            link.to_str()?.strip_prefix("pipe:[")?.strip_suffix(']')?.parse().ok()
        };
        let own = self.starts.programs.get(&pid).copied();
        let id = own.or_else(|| (0..3).filter_map(pipe).find_map(|inode| self.streams.of_pipe(inode)));
        (id, id.and_then(|id| self.streams.pipes(id)))
    }

    /// The terminal that goes along, if these streams are one.
    pub(super) fn terminal_of(&self, streams: Option<StreamsId>) -> Option<Sides> {
        let sides = self.streams.sides(streams?)?;
        Some(Sides { master: sides.master, slave: sides.peer })
    }

    /// The front end lets it leave, with these children that it has not waited for.
    pub(crate) fn leave(&mut self, pid: Pid, children: Vec<Pid>) {
        reach("source is to leave");
        if let Some(departure) = self.moving.departures.get_mut(&pid) {
            departure.may_leave = Some(children);
            return self.leave_goes_on(pid);
        }
        let said = match self.moving.gone.get(&pid) {
            Some(gone) => gone.told(pid),
            None => ToFront::NotLeft { pid, fault: Fault::gone(format!("{pid} does not leave this node")) },
        };
        self.uplink.send(&said);
    }

    /// It does when it has been given all that came for it here: the front end keeps what comes from now on.
    pub(crate) fn leave_goes_on(&mut self, pid: Pid) {
        let waits = self.moving.departures.get(&pid).is_some_and(|departure| departure.may_leave.is_some());
        if waits && self.send_at_once(pid) {
            let departure = self.moving.departures.get_mut(&pid);
            if let Some(children) = departure.and_then(|departure| departure.may_leave.take()) {
                self.departs(pid, Turn::Leave(children));
            }
        }
    }

    /// It is not to leave.
    pub(crate) fn stay(&mut self, pid: Pid) {
        self.moving.later.remove(&pid);
        self.departs(pid, Turn::Stay);
    }

    /// The front end knows what has become of it.
    pub(crate) fn forget_gone(&mut self, pid: Pid) {
        self.moving.gone.remove(&pid);
        self.moving.whole.remove(&pid);
    }

    /// A departure goes on, by the table.
    pub(super) fn departs(&mut self, pid: Pid, turn: Turn) {
        let Some(departure) = self.moving.departures.get_mut(&pid) else { return };
        let (next, mover, before) = (next(departure.state, &turn), departure.mover, departure.state);
        info!(%pid, "departure: {before:?} -> {next:?}");
        match next {
            Next::Nothing => {}
            Next::Stay => {
                // Until its mover has let go of it, it is to leave later if it is to leave again.
                self.moving.departures.remove(&pid);
                self.order_mover(mover, &Order::Stay);
            }
            Next::Off => self.order_mover(mover, &Order::Off),
            Next::CallOff => self.order_mover(mover, &Order::Stay),
            Next::Ask => {
                reach("source asks");
                let streams = departure.streams.is_some();
                self.tell_all(pid);
                self.uplink.send(&ToFront::Ready { pid, streams });
            }
            Next::Leaving => {
                departure.state = Departing::Leaving;
                if let Some((id, _)) = departure.streams {
                    self.streams.may_leave(id);
                }
                let mut children = if let Turn::Leave(children) = turn { children } else { Vec::new() };
                children.sort_unstable();
                self.order_mover(mover, &Order::Leave(children));
            }
            Next::Bound => {
                departure.state = Departing::Bound;
                departure.parent = self.bodies.person(pid).map_or(Pid::NONE, |person| person.ppid);
                reach("source has bound it");
                if let Some((id, branch)) = departure.streams {
                    self.streams.left(id, branch);
                }
                self.starts.programs.remove(&pid);
                self.starts.along.remove(&pid);
                self.is_bound(pid, mover);
            }
            Next::Gone => match turn {
                Turn::Ended { come, stopped } => {
                    let sleeps = self.stands.get(pid).is_some_and(|stand| !stand.runs());
                    // One that holds has been continued since.
                    if stopped && (sleeps || self.ghosts.is_coming(pid)) {
                        self.sleeps_in_place(pid);
                    }
                    self.left(pid, come);
                    if sleeps && !stopped {
                        // A SIGSTOP came to it before it held.
                        self.signalled(pid, &SigInfo::kill(Sig::STOP, Pid::NONE, 0));
                    }
                }
                // Bound to it, it ends with it; the kernel may have that yet to do.
                _ => {
                    pidfd::end(pid);
                    self.left(pid, Vec::new());
                }
            },
            Next::Stays => self.has_not_left(pid, turn),
        }
    }

    /// It cannot run any more: it is to end, or to become a stand-in if it is needed here.
    fn is_bound(&mut self, pid: Pid, mover: u32) {
        if !self.is_needed_here(pid) {
            self.lets_children_go(pid);
            self.order_mover(mover, &Order::End);
            return self.tell_all(pid);
        }
        self.tell_all(pid);
        let Some(person) = self.bodies.person(pid).cloned() else { return };
        info!(%pid, "departure: a stand-in takes its place");
        if let Some(departure) = self.moving.departures.get_mut(&pid) {
            departure.stands = Some(person.clone());
        }
        let (remain, held) = (self.remain(pid), self.bodies.is_held(pid));
        self.usages.left(pid, None);
        self.forget_body(pid);
        self.stands_in_place(person, held);
        self.order_mover(mover, &Order::Remain(remain));
    }

    /// A child of a stand-in, or of init, has been waited for. `true` when it was one that moves: nobody else is to hear of it.
    pub(crate) fn moved_ended(&mut self, pid: Pid) -> bool {
        // One that stood here has been killed before it held.
        if self.stands.has(pid) {
            return false;
        }
        // One that is not bound has ended as any other.
        let leaves = |one: &&mut Departure| one.state == Departing::Bound;
        if let Some(departure) = self.moving.departures.get_mut(&pid).filter(leaves) {
            departure.reaped = true;
            self.reparent_stand_ins(pid);
            self.next_start();
            return true;
        }
        if let Some(parent) = self.moving.remains.remove(&pid) {
            self.reparent_stand_ins(pid);
            self.next_start();
            self.no_more_busy(parent);
            return true;
        }
        if self.moving.arrives(pid) {
            // It may have run.
            self.hear_movers();
        }
        if self.moving.arrives(pid) {
            self.arrival_killed(pid);
            return true;
        }
        false
    }

    /// It has ended here, or a stand-in has taken its place, and lives on on another node.
    fn left(&mut self, pid: Pid, signals: Vec<SigInfo>) {
        let Some(departure) = self.moving.departures.remove(&pid) else { return };
        let stands = self.stands.has(pid);
        if !stands {
            if !departure.reaped && departure.stands.is_none() {
                self.moving.remains.insert(pid, departure.parent);
            }
            self.usages.left(pid, None);
            self.forget_body(pid);
            self.reparent_stand_ins(pid);
        }
        reach("source has ended it");
        debug!(%pid, ?signals, stands, "departure: it has been sent these since");
        let gone = Gone { signals, stands };
        self.uplink.send(&gone.told(pid));
        self.moving.gone.insert(pid, gone);
        self.next_start();
    }

    fn has_not_left(&mut self, pid: Pid, turn: Turn) {
        let departure = self.moving.departures.remove(&pid);
        if let Some((id, _)) = departure.and_then(|departure| departure.streams) {
            self.streams.stays(id);
        }
        let fault = if let Turn::Failed(fault) = turn { fault } else { Fault::bug("it has not left") };
        self.uplink.send(&ToFront::NotLeft { pid, fault });
        // While it was traced nothing could be seen of that, and it may be on its way from there to its stop.
        self.stopping.is_let_go(pid);
        self.checks.add(pid, What::State, None, monotonic_us());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_of_every_state_is_as_the_table_says() {
        use Next::{Ask, Bound, CallOff, Gone, Leaving, Nothing, Off, Stay, Stays};
        let fault = || Fault::gone("the mover");
        let turns = [
            Turn::Ready,
            Turn::Leave(Vec::new()),
            Turn::Stay,
            Turn::Cut,
            Turn::Bound,
            Turn::Ended { come: Vec::new(), stopped: false },
            Turn::Failed(fault()),
        ];
        let table = [
            (Departing::Carrying, [Ask, Leaving, Stay, Off, Nothing, Nothing, Stays]),
            (Departing::Leaving, [Nothing, Nothing, CallOff, Nothing, Bound, Nothing, Stays]),
            (Departing::Bound, [Nothing, Nothing, Nothing, Nothing, Nothing, Gone, Gone]),
        ];
        for (state, row) in table {
            for (turn, expected) in turns.iter().zip(row) {
                assert_eq!(next(state, turn), expected, "{state:?} {turn:?}");
            }
        }
    }
}
