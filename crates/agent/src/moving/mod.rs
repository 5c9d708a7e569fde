//! Processes that come to this node from another one, or leave it. When it may be is the front end's to say (`front::moves`); the work
//! is done by a process of its own for each ([`mover`]).

mod arrival;
mod departure;
mod lazy;
mod looks;

use crate::agent::{Agent, Token};
use crate::checks::What;
use crate::stands::{Stand, Why};
use crate::streams::StreamsId;
use arrival::{Arrival, Arriving};
use departure::{Departing, Departure};
use ghost::{no_room, Command as Tell, Name};
use kern::clock::monotonic_us;
use kern::epoll::Interest;
use kern::faultpoint::reach;
use kern::proc::{handed_over, PROC};
use kern::sock::{self, Kind};
use kern::{pidfd, sched, sys};
use link::Plain;
use looks::Looking;
use mover::{look_again_us, tend, Note, Order, Out, Remain, Said, Tended};
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use tracing::warn;
use vocab::{Fault, Pid, Result, SigInfo};
use wire::event::Person;
use wire::node::ToFront;
use wire::way::Way;

/// Who moves.
#[derive(Default)]
pub(crate) struct Moving {
    arrivals: HashMap<Pid, Arrival>,
    departures: HashMap<Pid, Departure>,
    /// They are to leave as soon as the mover that has brought them here has let go of them.
    later: HashMap<Pid, Out>,
    /// They have arrived, and run because the old node has let them: the front end has not said yet that it knows.
    ran: HashSet<Pid>,
    /// They have left, and the front end has not said that it knows.
    gone: HashMap<Pid, Gone>,
    /// They have left, and their numbers are taken here until their parents here, the values, have waited for what is left of them.
    remains: HashMap<Pid, Pid>,
    /// By the number of their token.
    movers: HashMap<u32, Mover>,
    /// Those that are to end, and whom they move: what they trace they trace until they have been waited for.
    ending: HashMap<Pid, Pid>,
    /// Of them: memory that is to come yet.
    held: HashMap<u32, lazy::Rest>,
    /// They came lazily, run, and all of their memory is there: the front end has not said yet that it knows.
    whole: HashSet<Pid>,
    /// Streams of what was here whole and did not come to run: if it should turn out to have lived on here, they end.
    over: HashMap<Pid, StreamsId>,
    /// Processes that were killed since some of their memory cannot come any more.
    lost: HashSet<Pid>,
    /// Those of them that only look.
    looking: HashMap<u32, Looking>,
    numbers: u32,
    /// When movers are looked after, if there are any.
    tend_us: u64,
}

/// What is told of a process that has left.
#[derive(Clone)]
struct Gone {
    /// They go after it.
    signals: Vec<SigInfo>,
    /// It stands here.
    stands: bool,
}

impl Gone {
    fn told(&self, pid: Pid) -> ToFront {
        ToFront::Left { pid, signals: self.signals.clone(), stands: self.stands }
    }
}

struct Mover {
    /// The process that it moves.
    whom: Pid,
    pid: Pid,
    line: Plain,
    /// What it notes and does not say at once.
    slate: OwnedFd,
    /// It has ended, and been waited for.
    reaped: bool,
    tended: Tended,
}

impl Mover {
    /// What it has noted: the first that was not read yet.
    fn note(&self) -> Option<Note> {
        let mut note = [0];
        sys::read(self.slate.as_fd(), &mut note).ok().filter(|count| *count == 1).and_then(|_| Note::of(note[0]))
    }
}

impl Moving {
    /// Does a process under this number arrive, which is no body yet?
    pub(crate) fn arrives(&self, pid: Pid) -> bool {
        self.arrivals.contains_key(&pid)
    }

    /// Those that come, and those that leave as [`Moving::leaves`] has it.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = Pid> + '_ {
        let leaving = self.departures.keys().chain(self.remains.keys()).chain(self.gone.keys());
        self.arrivals.keys().copied().chain(leaving.copied().filter(|pid| self.leaves(*pid)))
    }

    /// The mover of a process that can run here no more.
    fn keeper(&self, pid: Pid) -> Option<u32> {
        let departure = self.departures.get(&pid)?;
        (departure.state == departure::Departing::Bound).then_some(departure.mover)
    }

    /// The streams of one that arrives.
    pub(crate) fn streams_of(&self, pid: Pid) -> Option<StreamsId> {
        self.arrivals.get(&pid).map(arrival::Arrival::streams)
    }

    /// Is its process there, and to become what it shall be?
    pub(crate) fn is_made(&self, pid: Pid) -> bool {
        self.arrivals.get(&pid).is_some_and(|arrival| arrival.state != Arriving::Starting)
    }

    /// Does one that arrives need it to stand here?
    pub(crate) fn needs(&self, pid: Pid) -> bool {
        self.arrivals.values().any(|arrival| arrival.kin.contains(&pid))
    }

    /// Is this number still taken by what is left of a process that is elsewhere?
    pub(crate) fn remains(&self, pid: Pid) -> bool {
        self.remains.contains_key(&pid)
    }

    /// Who has to wait for what is left of it.
    pub(crate) fn who_waits_for(&self, pid: Pid) -> Option<Pid> {
        self.remains.get(&pid).copied()
    }

    /// Is it about to leave, or has left and that has not been told?
    pub(crate) fn departs_now(&self, pid: Pid) -> bool {
        self.departures.contains_key(&pid)
    }

    /// Can it not run here any more, since it is about to run elsewhere?
    pub(crate) fn has_bound(&self, pid: Pid) -> bool {
        self.departures.get(&pid).is_some_and(|one| one.state == Departing::Bound)
    }

    /// Does the front end know that it may go on elsewhere at any moment, or does so and something is left of it here?
    pub(crate) fn leaves(&self, pid: Pid) -> bool {
        let leaving = self.departures.get(&pid).is_some_and(|one| one.state != Departing::Carrying);
        leaving || self.remains(pid) || self.gone.contains_key(&pid)
    }

    /// Does it leave for good, with nothing in its place?
    pub(crate) fn is_bound(&self, pid: Pid) -> bool {
        self.departures.get(&pid).is_some_and(|one| one.state == Departing::Bound && one.stands.is_none())
    }

    /// Does it arrive, and has ended where it was?
    pub(crate) fn ended_on_the_way(&self, pid: Pid) -> bool {
        self.arrivals.get(&pid).is_some_and(Arrival::has_ended)
    }

    /// The children of this one that arrive, or remain here, have got another `parent`: who remains, and whose that is now.
    pub(crate) fn reparent(&mut self, pid: Pid, parent: impl Fn(Pid) -> Pid) -> Vec<(Pid, Pid)> {
        let made = |one: &Arrival| one.state != Arriving::Starting && one.kin[0] == pid;
        for (child, arrival) in self.arrivals.iter_mut().filter(|(_, one)| made(one)) {
            arrival.gets_another_parent(parent(*child));
        }
        let bound = self.departures.iter_mut().filter(|(_, one)| one.state == Departing::Bound);
        let bound = bound.map(|(child, one)| (child, &mut one.parent));
        let left = self.remains.iter_mut().chain(bound).filter(|(_, of)| **of == pid);
        let changed = left.map(|(child, of)| {
            *of = parent(*child);
            (*child, *of)
        });
        changed.collect()
    }

    /// Does a child of it arrive that has ended where it was?
    pub(crate) fn has_child_ended_on_the_way(&self, parent: Pid) -> bool {
        self.arrivals.values().any(|arrival| arrival.kin[0] == parent && arrival.has_ended())
    }

    /// Has it yet to wait for what is left of children that have gone elsewhere?
    pub(crate) fn has_to_wait(&self, parent: Pid) -> bool {
        self.remaining(parent).next().is_some()
    }

    /// What is left, or will be at once, of children that have gone elsewhere, for whom nobody but this parent stands here.
    pub(crate) fn remaining(&self, parent: Pid) -> impl Iterator<Item = Pid> + '_ {
        let ends = |one: &Departure| one.state == Departing::Bound && one.stands.is_none() && !one.reaped;
        let ending =
            self.departures.iter().filter(move |(_, one)| ends(one) && one.parent == parent).map(|(pid, _)| *pid);
        ending.chain(self.remains.iter().filter(move |(_, of)| **of == parent).map(|(pid, _)| *pid))
    }

    /// Is there a mover that may trace this process?
    pub(crate) fn has_a_mover(&self, pid: Pid) -> bool {
        let here = self.movers.values().any(|mover| mover.whom == pid && !mover.reaped);
        here || self.ending.values().any(|whom| *whom == pid)
    }

    /// When a mover is to be looked after.
    pub(crate) fn tend_at(&self) -> Option<u64> {
        (!self.movers.is_empty()).then_some(self.tend_us)
    }

    /// Is this process one of ours that move others?
    pub(crate) fn is_mover(&self, pid: Pid) -> bool {
        self.movers.values().any(|mover| mover.pid == pid)
    }

    /// Those that stood here and are to become processes, or to stand here again.
    pub(crate) fn stood(&self) -> impl Iterator<Item = Pid> + '_ {
        self.arrivals.iter().filter(|(_, one)| one.stood()).map(|(pid, _)| *pid)
    }

    /// Those in whose place stand-ins are about to be: the front end has not heard yet that they have left.
    pub(crate) fn bound(&self) -> impl Iterator<Item = &Person> {
        self.departures.values().filter_map(|one| one.stands.as_ref())
    }

    /// Who is on the way, for a Hello.
    pub(crate) fn ways(&self) -> Vec<Way> {
        let departs = self.departures.iter().map(|(pid, one)| match one.state {
            Departing::Carrying => Way::Departs(*pid),
            Departing::Leaving | Departing::Bound => Way::Leaves(*pid),
        });
        let left = self.gone.iter();
        let left = left.map(|(pid, Gone { signals, stands })| Way::Left {
            pid: *pid,
            signals: signals.clone(),
            stands: *stands,
        });
        let arrived = self.arrivals.iter().filter(|(_, one)| one.state == Arriving::Rebuilt);
        let ran = self.ran.iter().map(|pid| Way::Runs(*pid));
        departs.chain(left).chain(arrived.map(|(pid, _)| Way::Arrived(*pid))).chain(ran).collect()
    }
}

impl Agent {
    /// A stand-in is to take the place of this process.
    fn remain(&self, pid: Pid) -> Remain {
        let (hold, programs) = (self.hold_directory.clone(), self.programs.clone());
        Remain { pid, hold, programs, ghost: None }
    }

    /// It is a stand-in from now on, as soon as a mover has seen to that.
    fn stands_in_place(&mut self, person: Person, held: bool) {
        let pid = person.pid;
        let creds = person.creds.clone();
        let name = Name::new(&person.name);
        self.stands.add_in_place(person);
        self.stands.waits_for_adopted(pid);
        self.stands.get_mut(pid).filter(|_| held).into_iter().for_each(Stand::is_held);
        self.ghosts.expect_in_place(pid);
        self.ghosts.command(pid, Tell::Children(true));
        self.ghosts.command(pid, Tell::Ids { uid: creds.uid, gid: creds.gid });
        self.ghosts.command(pid, Tell::Name(name));
        for child in self.bodies.children(pid) {
            self.bodies.is_left(child);
        }
        // Of children whose ends nobody has waited for.
        self.child_changed(pid);
    }

    /// Those that a process which stands still has not waited for, in order.
    fn children_here(&self, pid: Pid) -> Vec<Pid> {
        let threads = self.proc.tasks(pid).unwrap_or_default();
        let mut all: Vec<Pid> =
            threads.into_iter().flat_map(|tid| self.proc.children(tid).unwrap_or_default()).collect();
        all.sort_unstable();
        all
    }

    /// Does somebody here need this process: its parent, its children or theirs, those of a group or session that it leads?
    fn is_needed_here(&self, pid: Pid) -> bool {
        let Some(person) = self.bodies.person(pid) else { return false };
        let needs = |other: &Person| other.pid != pid && [other.ppid, other.pgid, other.sid].contains(&pid);
        let keeps =
            |stand: &Stand| stand.why.a_body_waits() || stand.why == Why::Handle || self.bodies.needs(stand.person.pid);
        // As long as one is in a group or session of that number it is taken, and it could not come back (linux: `alloc_pid`).
        let is_in = |person: &Person| person.pid != pid && [person.pgid, person.sid].contains(&pid);
        let parent_is_here = self.bodies.has(person.ppid) || self.moving.arrives(person.ppid);
        // A kill by those that it has made is not asked about.
        let is_killed_here = self.bodies.has_forked(pid) && self.gates.passes(pid);
        parent_is_here
            || is_killed_here
            || self.bodies.is_held(pid)
            || self.moving.needs(pid)
            || self.bodies.iter().any(|body| needs(&body.person))
            || self.stands.children_of(pid).any(keeps)
            || self.stands.iter().any(|stand| is_in(&stand.person))
            || self.had_better_stay(pid)
    }

    /// A kill of a number that this node gave it is not asked about either: what stands for it is made as soon as it has left, a millisecond later. And those that stand here as its
    /// children, though nobody needs them, could not come as that for a while. Neither is to keep it from leaving.
    fn had_better_stay(&self, pid: Pid) -> bool {
        let stays = |stand: &Stand| stand.why != Why::Husk && !stand.is_let_go();
        let had_better = self.leases.has(pid) || self.stands.children_of(pid).any(stays);
        had_better && mover::in_the_way(pid).is_ok_and(|why| why.is_none())
    }

    fn start_mover(&mut self, whom: Pid, order: &Order) -> Result<u32> {
        let (ours, its) = sock::socketpair(Kind::Stream)?;
        sys::set_nonblocking(ours.as_fd(), true)?;
        let mut command = Command::new(format!("{PROC}/self/exe"));
        let (slate, notes) = sys::pipe()?;
        sys::set_nonblocking(slate.as_fd(), true)?;
        command.arg("mover").args(handed_over().iter().flat_map(|place| ["--proc", place]));
        command.args(self.views_of_mover(whom, order));
        command.args(sock::channel_ports().iter().flat_map(|ports| ["--channel-ports", ports]));
        command.stdin(Stdio::from(its)).stdout(Stdio::from(notes));
        let child = sched::with_children_as_first(|| command.spawn());
        let pid = Pid(child.map_err(|e| no_room(e.raw_os_error().unwrap_or_default(), "start a mover"))?.id() as i32);
        drop(command);
        let number = self.moving.numbers;
        self.moving.numbers = number.wrapping_add(1);
        let mut line = Plain::new(ours);
        line.send(order)?;
        line.flush()?;
        self.poller.add(line.fd(), Token::Mover(number).number(), Interest::READ)?;
        if self.moving.movers.is_empty() {
            self.moving.tend_us = look_again_us(monotonic_us(), 1);
        }
        self.moving.movers.insert(number, Mover { whom, pid, line, slate, reaped: false, tended: Tended::new(pid) });
        Ok(number)
    }

    pub(crate) fn tend_movers(&mut self, now_us: u64) {
        if self.moving.tend_at().is_none_or(|due| due > now_us) {
            return;
        }
        let alive = self.moving.movers.values_mut().filter(|mover| !mover.reaped);
        tend(alive.map(|mover| &mut mover.tended), &self.proc);
        self.moving.tend_us = look_again_us(now_us, self.moving.movers.len());
    }

    fn order_mover(&mut self, number: u32, order: &Order) {
        let Some(mover) = self.moving.movers.get_mut(&number) else { return };
        // One that is gone is told by its line.
        let _ = mover.line.send(order).and_then(|()| mover.line.flush());
    }

    fn end_mover(&mut self, number: u32) {
        if let Some(mover) = self.moving.movers.remove(&number) {
            let _ = self.poller.remove(mover.line.fd());
            if !mover.reaped {
                self.moving.ending.insert(mover.pid, mover.whom);
                pidfd::end(mover.pid);
            }
        }
    }

    /// A child of ours has been waited for. If it was a mover, it has let go of whom it moved: while that was traced nobody could tell whether it was stopped.
    pub(crate) fn mover_reaped(&mut self, pid: Pid) {
        let known = self.moving.movers.values_mut().find(|mover| mover.pid == pid);
        let known = known.map(|mover| {
            mover.reaped = true;
            mover.whom
        });
        let Some(whom) = known.or_else(|| self.moving.ending.remove(&pid)) else { return };
        if self.bodies.has(whom) {
            self.stopping.is_let_go(whom);
            self.checks.again(whom, What::State, monotonic_us());
        }
    }

    pub(crate) fn serve_mover(&mut self, number: u32) {
        let Some(mover) = self.moving.movers.get_mut(&number) else { return };
        let whom = mover.whom;
        let received = mover.line.receive();
        let next = |agent: &mut Agent| agent.moving.movers.get_mut(&number).map(|mover| mover.line.next::<Said>());
        while let Some(Ok(Some(said))) = next(self) {
            if !said.is_before_notes() {
                self.mover_has_noted(number, whom);
            }
            self.mover_said(number, whom, said);
        }
        self.mover_has_noted(number, whom);
        if let Err(fault) = received {
            self.end_mover(number);
            self.mover_gone(number, whom, fault);
        }
    }

    /// One after the other: what follows from one may be that movers are heard.
    fn mover_has_noted(&mut self, number: u32, whom: Pid) {
        while let Some(note) = self.moving.movers.get(&number).and_then(Mover::note) {
            match note {
                Note::Bound => self.departs(whom, departure::Turn::Bound),
                Note::Rebuilt => self.rebuilt(whom, number),
                Note::Runs => self.runs(whom),
            }
        }
    }

    fn mover_said(&mut self, number: u32, whom: Pid, said: Said) {
        if self.has_looked(number, &said) {
            return;
        }
        match said {
            Said::Looked(_) | Said::Suited(_) | Said::IsHome(_) => {}
            Said::Failed(fault) => {
                warn!(pid = %whom, %fault, "a mover has failed");
                self.mover_gone(number, whom, fault);
            }
            Said::Listening(port) => {
                reach("destination listens");
                self.uplink.send(&ToFront::Arriving { pid: whom, port });
            }
            Said::Rebuilt => self.rebuilt(whom, number),
            Said::Typed(bytes) => self.typed(whom, bytes),
            Said::TakesOrphans => self.takes_orphans(whom),
            Said::WantsFront => {
                if let Err(fault) = self.want_front() {
                    warn!(pid = %whom, %fault, "it needs the front end's files");
                }
            }
            Said::Hold(held) => self.hold(number, held),
            Said::Whole => {
                self.has_come(number);
                // One that is yet to run says it when it does.
                if self.bodies.has(whom) {
                    self.moving.whole.insert(whom);
                    self.tell_whole(whom);
                }
            }
            Said::Lost { fault, with } => self.is_lost(number, whom, &fault, with),
            Said::Moving(progress) => self.uplink.send(&ToFront::Moving { pid: whom, progress }),
            Said::Runs => self.runs(whom),
            Said::Goes(stops) => self.arrived_as(whom, stops),
            Said::Ready => self.departs(whom, departure::Turn::Ready),
            Said::Bound => self.departs(whom, departure::Turn::Bound),
            Said::Left { come, stopped } => self.departs(whom, departure::Turn::Ended { come, stopped }),
        }
    }

    /// The mover of `whom` has failed, or has ended; that is as it should be when nothing of the move was left.
    fn mover_gone(&mut self, number: u32, whom: Pid, fault: Fault) {
        self.has_looked(number, &Said::Failed(fault.clone()));
        // What has not run yet has nothing to lose.
        if self.moving.held.contains_key(&number) && !self.moving.arrives(whom) {
            self.is_lost(number, whom, &fault, Vec::new());
        }
        self.has_come(number);
        if let Some(order) = self.moving.later.remove(&whom) {
            self.end_mover(number);
            return self.depart(order);
        }
        self.rouser_gone(whom, number);
        if self.moving.arrivals.get(&whom).is_some_and(|arrival| arrival.mover == number) {
            return self.arrival_fails(whom, fault);
        }
        if self.moving.departures.get(&whom).is_some_and(|one| one.mover == number) {
            self.departs(whom, departure::Turn::Failed(fault));
        }
    }

    /// The link is cut. What nobody can have decided on yet does not happen; the rest waits.
    pub(crate) fn moves_lost_link(&mut self) {
        self.moving.later.clear();
        for pid in self.moving.departures.keys().copied().collect::<Vec<_>>() {
            self.departs(pid, departure::Turn::Cut);
        }
        self.hear_movers();
        let arrivals = self.moving.arrivals.iter().map(|(pid, one)| (*pid, one.state, one.mover));
        for (pid, state, mover) in arrivals.collect::<Vec<_>>() {
            match state {
                Arriving::Starting => self.abandon(pid),
                // It may just have said to the old node's that all is there: then that has perhaps ended its own.
                Arriving::Taking => self.order_mover(mover, &Order::Off),
                Arriving::Rebuilt => {}
            }
        }
    }

    /// A mover tells that its process runs before it does, and that it cannot run here any more before it may elsewhere: so that is to be heard before what the
    /// process does, and before anybody who knows more is.
    pub(crate) fn hear_movers(&mut self) {
        let arrive = self.moving.arrivals.values().map(|arrival| arrival.mover);
        let movers = arrive.chain(self.moving.departures.values().map(|departure| departure.mover));
        for number in movers.collect::<Vec<_>>() {
            self.serve_mover(number);
        }
    }
}
