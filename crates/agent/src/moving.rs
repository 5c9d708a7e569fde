//! Processes that come to this node from another one, or leave it. What is decided when is the front end's (`front::moves`); the work
//! is done by a process of its own for each ([`crate::mover`]).
//!
//! | an arrival | next |
//! |---|---|
//! | Starting: its process is being made, as a program's is | it has executed: Taking; it could not be made: over |
//! | Taking: the image comes | all of it is there: Rebuilt; anything fails: killed, over |
//! | Rebuilt | Go: a body; Abandon: killed, over |
//!
//! | a departure | next |
//! |---|---|
//! | Carrying: its image goes | Leave: Leaving; Stay, or anything fails: it runs on, over (its mover lets go of it first) |
//! | Leaving: the mover is to end it | it has, or it is gone and the agent does: gone |

use crate::agent::{Agent, Token};
use crate::checks::What;
use crate::mover::{In, Order, Out, Said};
use crate::starts::{Start, Work};
use crate::streams::StreamsId;
use kern::epoll::Interest;
use kern::sock::{self, Kind};
use kern::{pidfd, sys};
use link::Plain;
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use tracing::{info, warn};
use vocab::{Fault, Pid, Result, Sig, SigInfo};
use wire::event::{BodyEvent, Person};
use wire::node::{ChannelTo, Kin, ToFront};
use wire::run::Program;

/// Who moves.
#[derive(Default)]
pub(crate) struct Moving {
    arrivals: HashMap<Pid, Arrival>,
    departures: HashMap<Pid, Departure>,
    /// They are to leave as soon as the mover that has brought them here has let go of them.
    later: HashMap<Pid, Out>,
    /// They have left, and their numbers are taken here until their parents here have waited for what is left of them.
    remains: HashSet<Pid>,
    /// By the number of their token.
    movers: HashMap<u32, Mover>,
    numbers: u32,
}

struct Arrival {
    key: Vec<u8>,
    state: Arriving,
    /// Its parent on this node, and its streams, from the time when its process is there.
    made: Option<(Pid, StreamsId)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arriving {
    Starting,
    Taking { mover: u32 },
    Rebuilt { mover: u32 },
}

struct Departure {
    mover: u32,
    state: Departing,
    /// Its parent here has waited for it.
    reaped: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Departing {
    Carrying,
    Leaving,
}

struct Mover {
    /// The process that it moves.
    whom: Pid,
    pid: Pid,
    line: Plain,
}

impl Moving {
    /// Does a process under this number arrive, which is no body yet?
    pub(crate) fn arrives(&self, pid: Pid) -> bool {
        self.arrivals.contains_key(&pid)
    }

    /// Is this number still taken by what is left of a process that is elsewhere?
    pub(crate) fn remains(&self, pid: Pid) -> bool {
        self.remains.contains(&pid)
    }

    /// Is this process one of ours that move others?
    pub(crate) fn is_mover(&self, pid: Pid) -> bool {
        self.movers.values().any(|mover| mover.pid == pid)
    }
}

/// A process that does nothing, to be made into another one: `shoal vessel`.
fn vessel() -> Program {
    let text = |text: &str| text.as_bytes().to_vec();
    Program {
        file: text("/proc/self/exe"),
        argv: vec![text("shoal").into(), text("vessel").into()],
        env: Vec::new(),
        cwd: text("/"),
        umask: 0o22,
        limits: Vec::new(),
        nice: 0,
        ignored: 0,
        stdio: wire::run::Stdio::Pipes,
        blocked: !0,
    }
}

impl Agent {
    /// Makes what is to become a process that is on another node.
    pub(crate) fn arrive(&mut self, person: Person, kin: Vec<Kin>, channel: Option<ChannelTo>, key: Vec<u8>) {
        let pid = person.pid;
        if self.bodies.has(pid) || self.moving.arrives(pid) {
            let fault = Fault::refused(format!("the number {pid} is in use on this node"));
            return self.uplink.send(&ToFront::NotArrived { pid, fault });
        }
        let program = vessel();
        let ends = match &channel {
            Some(channel) => self.open_streams(&program, channel),
            None => self.streams.nowhere(),
        };
        let ends = match ends {
            Ok(ends) => ends,
            Err(fault) => return self.uplink.send(&ToFront::NotArrived { pid, fault }),
        };
        info!(%pid, "arrival: Starting");
        self.moving.arrivals.insert(pid, Arrival { key, state: Arriving::Starting, made: None });
        let kin = kin.into_iter().map(|kin| kin.person).collect();
        let start = Start { person, program, kin, ends, misses: 0, arrives: true };
        self.starts.queue.push_back(Work::Program(Box::new(start)));
        self.next_start();
    }

    /// What is to become `pid` has executed, as a child of `parent`.
    pub(crate) fn arrival_started(&mut self, pid: Pid, parent: Pid, streams: StreamsId) {
        let Some(arrival) = self.moving.arrivals.get_mut(&pid) else {
            return kill(pid); // it was abandoned meanwhile
        };
        arrival.made = Some((parent, streams));
        let key = arrival.key.clone();
        match self.start_mover(pid, &Order::In(In { pid, key })) {
            Ok(mover) => self.arrival_is(pid, Arriving::Taking { mover }),
            Err(fault) => self.arrival_fails(pid, fault),
        }
    }

    fn arrival_is(&mut self, pid: Pid, state: Arriving) {
        if let Some(arrival) = self.moving.arrivals.get_mut(&pid) {
            info!(%pid, "arrival: {:?} -> {state:?}", arrival.state);
            arrival.state = state;
        }
    }

    /// It could not be made, or not be made what it was to be, or was killed before it ran.
    pub(crate) fn arrival_fails(&mut self, pid: Pid, fault: Fault) {
        if self.end_arrival(pid) {
            info!(%pid, %fault, "arrival: over");
            self.uplink.send(&ToFront::NotArrived { pid, fault });
        }
    }

    /// Nobody wants it.
    pub(crate) fn abandon(&mut self, pid: Pid) {
        if self.end_arrival(pid) {
            info!(%pid, "arrival: abandoned");
        }
    }

    fn end_arrival(&mut self, pid: Pid) -> bool {
        let Some(arrival) = self.moving.arrivals.remove(&pid) else { return false };
        if let Arriving::Taking { mover } | Arriving::Rebuilt { mover } = arrival.state {
            self.end_mover(mover);
        }
        if let Some((_, streams)) = arrival.made {
            kill(pid);
            self.streams.ended(streams);
        }
        true
    }

    /// It is the process from now on.
    pub(crate) fn go(&mut self, mut person: Person) {
        let pid = person.pid;
        let known = self.moving.arrivals.get(&pid).map(|arrival| (arrival.state, arrival.made));
        let Some((Arriving::Rebuilt { mover }, Some((parent, streams)))) = known else {
            // It has been killed here since it was said to be there: that is its end.
            if !self.bodies.has(pid) {
                let (exit, usage) = (vocab::Exit::Killed { sig: Sig::KILL, core: false }, Default::default());
                self.events.push(BodyEvent::Exited { pid, exit, usage });
            }
            return;
        };
        self.moving.arrivals.remove(&pid);
        person.ppid = parent;
        self.bodies.add(person);
        self.starts.programs.insert(pid, streams);
        self.checks.add(pid, What::Creds, None, kern::clock::monotonic_us());
        info!(%pid, "arrival: Rebuilt -> a body");
        self.order_mover(mover, &Order::Go);
    }

    /// A body is to leave this node.
    pub(crate) fn depart(&mut self, pid: Pid, address: String, key: Vec<u8>, streams: bool) {
        let done = match self.bodies.get(pid).map(|body| body.life) {
            Some(crate::bodies::Life::Live) if !self.moving.departures.contains_key(&pid) => {
                let order = Out { pid, address, key, filters: self.own_filters(), streams };
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
                self.moving.departures.insert(pid, Departure { mover, state: Departing::Carrying, reaped: false });
            }
            Err(fault) => self.uplink.send(&ToFront::NotLeft { pid, fault }),
        }
    }

    /// How many seccomp filters a body has that has none of its own.
    fn own_filters(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.nursery)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    /// The front end wants it to end here: the other node has it.
    pub(crate) fn leave(&mut self, pid: Pid) {
        let Some(departure) = self.moving.departures.get_mut(&pid) else {
            let fault = Fault::gone(format!("{pid} does not leave this node"));
            return self.uplink.send(&ToFront::NotLeft { pid, fault });
        };
        departure.state = Departing::Leaving;
        let mover = departure.mover;
        info!(%pid, "departure: Carrying -> Leaving");
        self.tell_all(pid);
        if let Some(id) = self.starts.programs.remove(&pid) {
            self.streams.moved(id, unread_input(pid));
        }
        self.order_mover(mover, &Order::Leave);
    }

    /// It is not to leave.
    pub(crate) fn stay(&mut self, pid: Pid) {
        self.moving.later.remove(&pid);
        let carries = self.moving.departures.get(&pid).filter(|one| one.state == Departing::Carrying);
        if let Some(mover) = carries.map(|departure| departure.mover) {
            info!(%pid, "departure: called off");
            // Until its mover has let go of it, it is to leave later if it is to leave again.
            self.moving.departures.remove(&pid);
            self.order_mover(mover, &Order::Stay);
        }
    }

    /// It has ended here, and lives on on another node.
    fn left(&mut self, pid: Pid, come: Vec<SigInfo>) {
        let Some(departure) = self.moving.departures.remove(&pid) else { return };
        info!(%pid, "departure: Leaving -> gone");
        if !departure.reaped {
            self.moving.remains.insert(pid);
        }
        self.usages.left(pid, None);
        self.forget_body(pid);
        for info in come {
            self.uplink.send(&ToFront::Signal { target: pid, info, turn: None });
        }
        self.uplink.send(&ToFront::Left { pid });
    }

    fn departure_fails(&mut self, pid: Pid, fault: Fault) {
        if self.moving.departures.remove(&pid).is_some() {
            info!(%pid, %fault, "departure: over");
            self.uplink.send(&ToFront::NotLeft { pid, fault });
        }
    }

    fn start_mover(&mut self, whom: Pid, order: &Order) -> Result<u32> {
        let (ours, its) = sock::socketpair(Kind::Stream)?;
        sys::set_nonblocking(ours.as_fd(), true)?;
        let mut command = Command::new("/proc/self/exe");
        let child = command.arg("mover").stdin(Stdio::from(its)).stdout(Stdio::null()).spawn();
        let pid = child.map_err(|e| Fault::io(&e, "start a mover"))?.id();
        drop(command);
        let number = self.moving.numbers;
        self.moving.numbers = number.wrapping_add(1);
        let mut line = Plain::new(ours);
        line.send(order)?;
        line.flush()?;
        self.poller.add(line.fd(), Token::Mover(number).number(), Interest::READ)?;
        self.moving.movers.insert(number, Mover { whom, pid: Pid(pid as i32), line });
        Ok(number)
    }

    fn order_mover(&mut self, number: u32, order: &Order) {
        let Some(mover) = self.moving.movers.get_mut(&number) else { return };
        // One that is gone is told by its line.
        let _ = mover.line.send(order).and_then(|()| mover.line.flush());
    }

    fn end_mover(&mut self, number: u32) {
        if let Some(mover) = self.moving.movers.remove(&number) {
            let _ = self.poller.remove(mover.line.fd());
            kill(mover.pid);
        }
    }

    pub(crate) fn serve_mover(&mut self, number: u32) {
        let Some(mover) = self.moving.movers.get_mut(&number) else { return };
        let whom = mover.whom;
        let received = mover.line.receive();
        let next = |agent: &mut Agent| agent.moving.movers.get_mut(&number).map(|mover| mover.line.next::<Said>());
        while let Some(Ok(Some(said))) = next(self) {
            self.mover_said(number, whom, said);
        }
        if let Err(fault) = received {
            self.end_mover(number);
            self.mover_gone(number, whom, fault);
        }
    }

    fn mover_said(&mut self, number: u32, whom: Pid, said: Said) {
        match said {
            Said::Failed(fault) => {
                warn!(pid = %whom, %fault, "a mover has failed");
                self.mover_gone(number, whom, fault);
            }
            Said::Listening(port) => self.uplink.send(&ToFront::Arriving { pid: whom, port }),
            Said::Rebuilt => {
                self.arrival_is(whom, Arriving::Rebuilt { mover: number });
                self.uplink.send(&ToFront::Arrived { pid: whom });
            }
            Said::Left(come) => self.left(whom, come),
        }
    }

    /// The mover of `whom` has failed, or has ended; that is as it should be when nothing of the move was left.
    fn mover_gone(&mut self, number: u32, whom: Pid, fault: Fault) {
        if let Some(Out { pid, address, key, streams, .. }) = self.moving.later.remove(&whom) {
            self.end_mover(number);
            return self.depart(pid, address, key, streams);
        }
        let arrives = self.moving.arrivals.get(&whom).is_some_and(|arrival| {
            matches!(arrival.state, Arriving::Taking { mover } | Arriving::Rebuilt { mover } if mover == number)
        });
        if arrives {
            return self.arrival_fails(whom, fault);
        }
        match self.moving.departures.get(&whom).filter(|one| one.mover == number).map(|one| one.state) {
            // It was told to end it, and nobody else may say whether it has: now it has.
            Some(Departing::Leaving) => {
                kill(whom);
                self.left(whom, Vec::new());
            }
            Some(Departing::Carrying) => self.departure_fails(whom, fault),
            None => {}
        }
    }

    /// The link is cut: nobody can decide on what was under way, so it does not happen. What has arrived in full may have been decided on.
    pub(crate) fn moves_lost_link(&mut self) {
        let stays = self.moving.departures.iter().filter(|(_, one)| one.state == Departing::Carrying);
        for pid in stays.map(|(pid, _)| *pid).collect::<Vec<_>>() {
            self.stay(pid);
        }
        let lost = self.moving.arrivals.iter().filter(|(_, one)| !matches!(one.state, Arriving::Rebuilt { .. }));
        for pid in lost.map(|(pid, _)| *pid).collect::<Vec<_>>() {
            self.abandon(pid);
        }
    }

    /// The link is there again.
    pub(crate) fn moves_again(&mut self) {
        let arrived = self.moving.arrivals.iter().filter(|(_, one)| matches!(one.state, Arriving::Rebuilt { .. }));
        for pid in arrived.map(|(pid, _)| *pid).collect::<Vec<_>>() {
            self.uplink.send(&ToFront::Arrived { pid });
        }
    }

    /// A child of a stand-in, or of init, has been waited for. `true` when it was one that moves: nobody else is to hear of it.
    pub(crate) fn moved_ended(&mut self, pid: Pid) -> bool {
        if let Some(departure) = self.moving.departures.get_mut(&pid).filter(|one| one.state == Departing::Leaving) {
            departure.reaped = true;
            return true;
        }
        if self.moving.remains.remove(&pid) {
            self.next_start();
            return true;
        }
        if self.moving.arrives(pid) {
            warn!(%pid, "what was to arrive was killed");
            self.arrival_fails(pid, Fault::gone(format!("what was to become {pid} was killed")));
            return true;
        }
        false
    }
}

fn kill(pid: Pid) {
    if let Ok(fd) = pidfd::open(pid) {
        // Gone meanwhile is what was wanted.
        let _ = pidfd::kill(fd.as_fd(), Sig::KILL);
    }
}

/// What is in the pipe that is its standard input can be read here.
fn unread_input(pid: Pid) -> Option<OwnedFd> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
    let path = format!("/proc/{pid}/fd/0");
    let pipe = std::fs::read_link(&path).is_ok_and(|link| link.to_string_lossy().starts_with("pipe:"));
    pipe.then(|| rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).ok()).flatten()
}
