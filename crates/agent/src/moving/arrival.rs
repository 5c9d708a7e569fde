//! A process of another node comes here.
//!
//! | an arrival | next |
//! |---|---|
//! | Starting: its process is being made, as a program's is | it has executed: Taking; it could not be made, or the link is cut: over |
//! | Taking: the image comes | all of it is there: Rebuilt; anything fails, or the link is cut: killed, over |
//! | Rebuilt | Go: a body; Abandon: killed, over; the link is cut: it waits, for nobody else may know that it is here |

use super::kill;
use crate::agent::Agent;
use crate::checks::What;
use crate::mover::{In, Order};
use crate::starts::{Start, Work};
use crate::streams::StreamsId;
use kern::faultpoint::reach;
use tracing::info;
use vocab::{Fault, Pid, Sig};
use wire::event::{BodyEvent, Person};
use wire::node::{ChannelTo, Kin, ToFront};
use wire::run::Program;

pub(super) struct Arrival {
    key: Vec<u8>,
    /// Its parent, group and session.
    pub(super) kin: [Pid; 3],
    pub(super) state: Arriving,
    /// Its parent on this node, and its streams, from the time when its process is there.
    made: Option<(Pid, StreamsId)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arriving {
    Starting,
    Taking { mover: u32 },
    Rebuilt { mover: u32 },
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
        capabilities: None,
    }
}

impl Agent {
    /// Makes what is to become a process that is on another node.
    pub(crate) fn arrive(&mut self, person: Person, kin: Vec<Kin>, channel: Option<ChannelTo>, key: Vec<u8>) {
        let pid = person.pid;
        reach("destination is told");
        // Of what it was here before nobody asks any more.
        self.moving.gone.remove(&pid);
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
        let its = [person.ppid, person.pgid, person.sid];
        self.moving.arrivals.insert(pid, Arrival { key, kin: its, state: Arriving::Starting, made: None });
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
        arrival.kin[0] = parent;
        reach("destination has a vessel");
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

    /// All of it is there.
    pub(super) fn rebuilt(&mut self, pid: Pid, mover: u32) {
        self.arrival_is(pid, Arriving::Rebuilt { mover });
        reach("destination has it");
        self.uplink.send(&ToFront::Arrived { pid });
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
        reach("destination is to go");
        let known = self.moving.arrivals.get(&pid).map(|arrival| (arrival.state, arrival.made));
        if let Some((Arriving::Rebuilt { mover }, Some((parent, streams)))) = known {
            self.moving.arrivals.remove(&pid);
            person.ppid = parent;
            self.bodies.add(person);
            self.starts.programs.insert(pid, streams);
            self.checks.add(pid, What::Creds, None, kern::clock::monotonic_us());
            info!(%pid, "arrival: Rebuilt -> a body");
            self.order_mover(mover, &Order::Go);
        } else if !self.bodies.has(pid) {
            // It has been killed here since it was said to be there: that is its end.
            let (exit, usage) = (vocab::Exit::Killed { sig: Sig::KILL, core: false }, Default::default());
            self.events.push(BodyEvent::Exited { pid, exit, usage });
        }
        reach("destination runs it");
        self.uplink.send(&ToFront::Runs { pid });
    }
}
