//! A process of another node comes here.
//!
//! | an arrival | next |
//! |---|---|
//! | Starting: its mover waits, and its process is being made, as a program's is | it has executed, and children of it that have ended are no more: Taking; it could not be made, or the link is cut: over |
//! | Taking: the image comes | all of it is there: Rebuilt; anything fails: killed, over; the link is cut: likewise, unless its mover has told the old node's that all is there |
//! | Rebuilt | Go, or its mover was told by the old node's to let it run: a body; Abandon: killed, over; the link is cut: it waits, for nobody else may know that it is here |
//!
//! Where others here need it (its parent, its children) it has stood here before, and its stand-in has become that process. Then it is not killed:
//! the mover makes it a stand-in again. If that stand-in is stopped, its mover has it run while it is Starting. The mover comes first: without one nothing is touched, since nothing could be made a stand-in again.

mod in_vain;

use crate::agent::Agent;
use crate::checks::What;
use crate::moving::Moving;
use crate::stands::{Stand, Why};
use crate::starts::{Start, Work};
use crate::streams::StreamsId;
use ghost::Command;
use kern::faultpoint::reach;
use kern::proc::PROC;
use mover::{In, Order};
use tracing::{debug, info};
use vocab::{Creds, Exit, Fault, Pid, Sig};
use wire::event::{BodyEvent, Person, Usage};
use wire::node::{ChannelTo, Kin, ToFront};
use wire::run::{Program, Stdio, Window};

pub(super) struct Arrival {
    /// As the front end knew it when it was told to arrive.
    person: Person,
    order: In,
    /// Its parent, group and session.
    pub(super) kin: [Pid; 3],
    pub(super) state: Arriving,
    /// Those that it has not waited for.
    children: Vec<Pid>,
    streams: StreamsId,
    pub(super) mover: u32,
    /// By the leave of this mover the stand-in of the process, which is stopped, runs until it is the vessel.
    rouser: Option<u32>,
    /// Nobody has continued it meanwhile, as far as is known.
    asleep: bool,
    /// The end of its streams is its own.
    program: bool,
    /// The front end waits to hear that all of its memory is there.
    lazy: bool,
    /// Its mover says so: where it has been before it may have begun with it unheard, on the front end.
    takes_orphans: bool,
    /// From the time when its process is there.
    made: Option<Made>,
    /// It has ended where it was.
    ended: Option<(Exit, Usage)>,
}

impl Arrival {
    pub(super) fn streams(&self) -> StreamsId {
        self.streams
    }

    /// The parent here of what is to become it has ended.
    pub(super) fn gets_another_parent(&mut self, parent: Pid) {
        self.kin[0] = parent;
        self.made.iter_mut().for_each(|made| made.person.ppid = parent);
    }

    /// Has it ended where it was?
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Is its process made of what stood here for it?
    pub(super) fn stood(&self) -> bool {
        self.made.as_ref().is_some_and(|made| made.in_place)
    }
}

struct Made {
    /// As it is here: its parent may be another.
    person: Person,
    /// It stood here, and is to stand here again if it does not come.
    in_place: bool,
    /// And its process was stopped by this.
    stopped: Option<Sig>,
    /// And it is yet, whatever it does by the leave of its mover.
    asleep: bool,
    /// And somebody has a pidfd of it, or may have one.
    held: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arriving {
    Starting,
    Taking,
    Rebuilt,
}

/// A process that does nothing, to be made into another one: `shoal vessel`.
fn vessel(terminal: bool) -> Program {
    let text = |text: &str| text.as_bytes().to_vec();
    Program {
        file: format!("{PROC}/self/exe").into_bytes(),
        argv: vec![text("shoal").into(), text("vessel").into()],
        env: Vec::new(),
        cwd: text("/"),
        umask: 0o22,
        limits: Vec::new(),
        nice: 0,
        ignored: 0,
        // Its modes come with the process.
        stdio: if terminal { Stdio::Terminal { window: Window::default(), term: Vec::new() } } else { Stdio::Pipes },
        blocked: !0,
        capabilities: None,
        personality: None,
        numbers: Vec::new(),
        user: None,
        view: None,
        places: Vec::new(),
    }
}

impl Moving {
    /// Does what stands for one that arrives run by the leave of a mover?
    pub(crate) fn is_roused(&self, pid: Pid) -> bool {
        self.arrivals.get(&pid).is_some_and(|arrival| arrival.rouser.is_some())
    }

    /// And is it stopped all the same?
    pub(crate) fn sleeps_on(&self, pid: Pid) -> bool {
        self.arrivals.get(&pid).is_some_and(|arrival| arrival.asleep)
    }
}

impl Agent {
    /// May a process come here under its number, and may its stand-in stand here again if it does not come?
    fn has_room_for(&self, person: &Person) -> vocab::Result<()> {
        let pid = person.pid;
        if self.bodies.has(pid) || self.moving.arrives(pid) {
            return Err(Fault::refused(format!("the number {pid} is in use on this node")));
        }
        match mover::open_to_its_user(person.creds.uid.effective)? {
            Some(why) => Err(Fault::refused(format!("the stand-in of process {pid} {why}"))),
            None => Ok(()),
        }
    }

    /// Makes what is to become a process that is on another node.
    pub(crate) fn arrive(
        &mut self,
        person: Person,
        kin: Vec<Kin>,
        channel: Option<ChannelTo>,
        key: Vec<u8>,
        (children, lazy, user): (Vec<Pid>, bool, Option<Creds>),
    ) {
        let pid = person.pid;
        reach("destination is told");
        // Of what it was here before nobody asks any more.
        self.moving.gone.remove(&pid);
        self.moving.ran.remove(&pid);
        self.moving.over.remove(&pid);
        self.moving.whole.remove(&pid);
        if let Err(fault) = self.has_room_for(&person) {
            return self.uplink.send(&ToFront::NotArrived { pid, fault });
        }
        let terminal = channel.as_ref().is_some_and(|channel| channel.terminal);
        let program = vessel(terminal);
        let ends = match &channel {
            Some(channel) => {
                self.open_streams(&program, channel).and_then(|ends| ends.give(&person.creds).map(|()| ends))
            }
            None => self.streams.nowhere(),
        };
        let ends = match ends {
            Ok(ends) => ends,
            Err(fault) => return self.uplink.send(&ToFront::NotArrived { pid, fault }),
        };
        let may_see_node = self.administration.views.may_see_node(&person.creds);
        let order = In { pid, key, remain: Some(self.remain(pid)), user, may_see_node };
        let mover = match self.start_mover(pid, &Order::In(order.clone())) {
            Ok(mover) => mover,
            Err(fault) => {
                self.streams.in_vain(ends.id);
                return self.uplink.send(&ToFront::NotArrived { pid, fault });
            }
        };
        let its = [person.ppid, person.pgid, person.sid];
        let is_program = channel.as_ref().is_none_or(|channel| channel.program);
        let streams = ends.id;
        let kin = kin.into_iter().map(|kin| kin.person).collect();
        // A process with a terminal leads a session of its own here as where it was, of which the front end knows nothing.
        let here = if terminal { Person { pgid: pid, sid: pid, ..person.clone() } } else { person.clone() };
        let start = Start { person: here, program, kin, ends, misses: 0, arrives: true, later: Vec::new() };
        info!(%pid, "arrival: Starting");
        let arrival = Arrival {
            program: is_program,
            lazy,
            person,
            order,
            kin: its,
            state: Arriving::Starting,
            children,
            streams,
            mover,
            rouser: None,
            asleep: false,
            takes_orphans: false,
            made: None,
            ended: None,
        };
        self.moving.arrivals.insert(pid, arrival);
        // From now on its children are its own to wait for.
        while self.ghosts.take_back(pid, |command| matches!(command, Command::Wait { .. })) {}
        // One that has ended is looked at again: that wait was to tell of it.
        self.leaving
            .extend(self.bodies.iter().map(|body| &body.person).filter(|one| one.ppid == pid).map(|one| one.pid));
        // But for those that live on elsewhere, of whose end here it must not know: it begins when they have been waited for.
        for child in self.moving.remaining(pid).collect::<Vec<_>>() {
            self.ghosts.command(pid, Command::Wait { pid: child, options: kern::wait::WALL });
        }
        self.starts.queue.push_back(Work::Program(Box::new(start)));
        self.next_start();
    }

    /// What is to become `person` has executed, as a child of that one's parent here; it was a stand-in before if it `stood`.
    pub(crate) fn arrival_started(&mut self, person: Person, stood: Option<Stand>) {
        let pid = person.pid;
        let ended = stood.as_ref().and_then(|stand| stand.exit.map(|exit| (exit, stand.usage)));
        let held = stood.as_ref().is_some_and(|stand| stand.why == Why::Handle);
        let (in_place, stopped) = (stood.is_some(), stood.and_then(|stand| stand.body_stopped));
        let asleep = self.moving.sleeps_on(pid);
        let made = Made { person, in_place, stopped, asleep, held };
        let here = self.children_here(pid);
        let Some(arrival) = self.moving.arrivals.get_mut(&pid) else {
            return self.unmake(made, None, ended); // it was abandoned meanwhile
        };
        arrival.kin[0] = made.person.ppid;
        arrival.children.sort_unstable();
        let same = arrival.children == here;
        if !same {
            debug!(%pid, there = ?arrival.children, ?here, "its children here are others");
        }
        arrival.made = Some(made);
        reach("destination has a vessel");
        if !same {
            self.arrival_fails(pid, Fault::changed("its children have changed on the way"));
        }
    }

    /// On with it when all of its children that were to end there have: it is not to be told of that again.
    pub(crate) fn arrival_goes_on(&mut self, pid: Pid) {
        let ends = |stand: &Stand| stand.ending && self.ghosts.has(stand.person.pid);
        let ends = |stand: &Stand| ends(stand) || self.ends.wait_for(stand.person.pid);
        let Some(arrival) = self.moving.arrivals.get(&pid) else { return };
        let starts = arrival.state == Arriving::Starting && arrival.made.is_some();
        if !starts || self.stands.children_of(pid).any(ends) {
            return;
        }
        let mover = arrival.mover;
        self.order_mover(mover, &Order::Go);
        self.arrival_is(pid, Arriving::Taking);
    }

    /// What stands for it is to become its vessel, also if it is stopped, and its parent is not to be told that it goes on. It is stopped again, with that, when it is not to
    /// become it after all.
    pub(crate) fn rouse_to_become(&mut self, pid: Pid) {
        if !self.sleeps(pid) {
            return self.rouse(pid);
        }
        let Some(arrival) = self.moving.arrivals.get_mut(&pid) else { return };
        arrival.asleep = true;
        let mover = *arrival.rouser.insert(arrival.mover);
        self.order_mover(mover, &Order::Rouse);
    }

    /// Somebody has continued it, of which its mover may see nothing.
    pub(crate) fn was_woken(&mut self, pid: Pid) {
        let Some(arrival) = self.moving.arrivals.get_mut(&pid) else { return };
        arrival.asleep = false;
        if let Some(mover) = arrival.rouser {
            self.order_mover(mover, &Order::Woken);
        }
    }

    /// A mover is gone by whose leave a stopped stand-in was to run: the stand-in goes on without, and another mover makes the process of it.
    pub(super) fn rouser_gone(&mut self, pid: Pid, mover: u32) {
        let roused = |one: &&mut Arrival| one.state == Arriving::Starting && one.rouser == Some(mover);
        let Some(arrival) = self.moving.arrivals.get_mut(&pid).filter(roused) else { return };
        arrival.rouser = None;
        let order = arrival.order.clone();
        let other = self.start_mover(pid, &Order::In(order));
        let Some(arrival) = self.moving.arrivals.get_mut(&pid) else { return };
        match (other, &arrival.made) {
            (Err(fault), _) => self.arrival_fails(pid, fault),
            (Ok(other), made) => {
                let made = made.is_some();
                arrival.mover = other;
                match made {
                    true => self.arrival_goes_on(pid),
                    false => self.rouse(pid),
                }
            }
        }
    }

    fn arrival_is(&mut self, pid: Pid, state: Arriving) {
        if let Some(arrival) = self.moving.arrivals.get_mut(&pid) {
            info!(%pid, "arrival: {:?} -> {state:?}", arrival.state);
            arrival.state = state;
        }
    }

    /// This was typed where it has been, and its terminal has had no room for it.
    pub(super) fn typed(&self, pid: Pid, bytes: Vec<u8>) {
        if let Some(arrival) = self.moving.arrivals.get(&pid) {
            self.streams.typed(arrival.streams, bytes);
        }
    }

    pub(super) fn takes_orphans(&mut self, pid: Pid) {
        if let Some(arrival) = self.moving.arrivals.get_mut(&pid) {
            arrival.takes_orphans = true;
        }
    }

    /// All of it is there.
    pub(super) fn rebuilt(&mut self, pid: Pid, mover: u32) {
        // It may be noted, and then said.
        if !self.moving.arrivals.get(&pid).is_some_and(|one| one.state == Arriving::Taking && one.mover == mover) {
            return;
        }
        // Before the records are read: it may run and have forked by now.
        self.arrival_is(pid, Arriving::Rebuilt);
        // Of its threads nobody is to be told.
        self.watch();
        reach("destination has it");
        self.uplink.send(&ToFront::Arrived { pid });
    }

    /// It is the process from now on, and is to run.
    pub(crate) fn go(&mut self, person: Person) {
        let pid = person.pid;
        reach("destination is to go");
        // The old node has ended it: so here it is, and that was noted before.
        self.hear_movers();
        if self.moving.ran.contains(&pid) {
            if !self.comes_still(pid) {
                self.moving.ran.remove(&pid);
            }
            return;
        }
        let mover = self.moving.arrivals.get(&pid).map(|arrival| arrival.mover);
        if let Some(mover) = mover.filter(|_| self.is_a_body(pid, person)) {
            self.order_mover(mover, &Order::Go);
        } else if !self.bodies.has(pid) {
            // It has been killed here since it was said to be there: that is its end.
            let (exit, usage) = (vocab::Exit::Killed { sig: Sig::KILL, core: false }, Default::default());
            self.pace.hurry();
            self.events.push(BodyEvent::Exited { pid, exit, usage });
            // Whoever relays waits for the end of its program from here.
            if let Some(streams) = self.moving.over.remove(&pid) {
                self.streams.ended(streams);
            }
        }
        self.uplink.send(&ToFront::Runs { pid });
        self.tell_whole(pid);
    }

    /// The old node has let it run, and so it does: it was bound there.
    pub(super) fn runs(&mut self, pid: Pid) {
        let Some(person) = self.moving.arrivals.get(&pid).map(|arrival| arrival.person.clone()) else { return };
        if !self.is_a_body(pid, person) {
            return;
        }
        self.moving.ran.insert(pid);
        self.uplink.send(&ToFront::Runs { pid });
        self.tell_whole(pid);
        // The front end knew it as it was before.
        if let Some(now) = self.person(pid) {
            self.rename(pid, &now.name);
            self.apply_creds(pid, &now.creds);
        }
        if self.bodies.takes_orphans(pid) {
            self.events.push(BodyEvent::Subreaper { pid, on: true });
        }
        reach("destination runs it");
    }

    /// What has arrived whole is a body.
    fn is_a_body(&mut self, pid: Pid, mut person: Person) -> bool {
        let rebuilt = |one: &Arrival| one.state == Arriving::Rebuilt && one.made.is_some();
        if !self.moving.arrivals.get(&pid).is_some_and(rebuilt) {
            return false;
        }
        let Some(arrival) = self.moving.arrivals.remove(&pid) else { return false };
        let Arrival { program, lazy, streams, takes_orphans, made: Some(made), .. } = arrival else { return false };
        person.ppid = made.person.ppid;
        if self.streams.sides(streams).is_some() {
            (person.pgid, person.sid) = (pid, pid);
        }
        self.bodies.add_arrived(person);
        self.bodies.set_takes_orphans(pid, takes_orphans);
        if made.held {
            self.bodies.set_held(pid);
        }
        if lazy && !self.moving.held.values().any(|rest| rest.is_of(pid)) {
            self.moving.whole.insert(pid);
        }
        if program {
            self.starts.programs.insert(pid, streams);
        }
        let now = kern::clock::monotonic_us();
        self.checks.add(pid, What::Creds, None, now);
        self.stopping.arrives(pid);
        self.checks.add(pid, What::State, None, now);
        info!(%pid, "arrival: Rebuilt -> a body");
        self.next_start();
        true
    }
}
