//! The gates of the programs that were started here (DESIGN 4.4), one for each: what passes it unasked is fixed when it is installed, and which numbers
//! are right on this node changes.

use crate::agent::{Agent, Token};
use ckpt::survey::Given;
use kern::epoll::Interest;
use kern::seccomp::{Listener, Loadable, Passes, Program};
use kern::standin::gate::{Door, Entrance};
use std::collections::HashMap;
use tracing::{debug, warn};
use vocab::{Pid, Result};
use wire::node::ToFront;

/// All gates of this node.
#[derive(Debug)]
pub(crate) struct Gates {
    door: Door,
    /// Numbers below this are the front end's own.
    front_top: Pid,
    open: HashMap<u32, Gate>,
    /// Of these the front end is to be told that they pass no more, behind all else that has happened to them.
    over: Vec<Pid>,
    /// The number of the last one.
    numbers: u32,
}

#[derive(Debug)]
struct Gate {
    listener: Listener,
    /// Calls about this number of the front end's pass: the program's.
    passes: Option<Pid>,
}

/// What a program's process needs to go behind its gate, and the filter, which is to live until it has.
pub(crate) struct NewGate {
    pub(crate) entrance: Entrance,
    _filter: Loadable,
}

impl Gates {
    /// None yet.
    ///
    /// # Errors
    /// As [`Door::open`].
    pub(crate) fn new(front_top: Pid) -> Result<Gates> {
        Ok(Gates { door: Door::open()?, front_top, open: HashMap::new(), over: Vec::new(), numbers: 0 })
    }

    pub(crate) fn door(&self) -> &Door {
        &self.door
    }

    pub(crate) fn listener(&self, number: u32) -> Option<Listener> {
        self.open.get(&number).map(|gate| gate.listener.clone())
    }

    fn is_of_front(&self, pid: Pid) -> bool {
        pid < self.front_top
    }

    /// Do calls about `pid`, a number of the front end's, pass any gate here?
    pub(crate) fn passes(&self, pid: Pid) -> bool {
        self.is_of_front(pid) && self.open.values().any(|gate| gate.passes == Some(pid))
    }

    /// All such numbers.
    pub(crate) fn passing(&self) -> Vec<Pid> {
        self.open.values().filter_map(|gate| gate.passes).collect()
    }
}

impl Agent {
    /// The gate of a program that is to be started as `pid`. Numbers that are this node's pass, and its own: as long as anybody is behind this gate, whoever
    /// has that number is or stands here ([`ToFront::PassesNoMore`]). One that arrives may have other numbers of the front end's pass elsewhere, none here.
    pub(crate) fn gate_of(&self, pid: Pid, arrives: bool) -> NewGate {
        let passes = (!arrives && self.gates.is_of_front(pid)).then_some(pid);
        let mut own = self.leases.ranges();
        own.extend(passes.map(|pid| pid.0..pid.0 + 1));
        own.reverse();
        let (start, end) = kern::standin::raw::code_range();
        let filter = Program::new(&Passes { own, code: start..end }).loadable();
        let (door, passes) = (self.gates.door.number(), passes.map_or(0, |pid| pid.0 as u64));
        NewGate { entrance: Entrance { filter: filter.address(), door, passes }, _filter: filter }
    }

    /// So many seccomp filters every program has here: those that this daemon is behind itself, and its gate.
    pub(crate) fn filters(&self) -> u64 {
        Given::as_of(self.nursery).filters + 1
    }

    /// Takes in the gates that have come.
    pub(crate) fn take_gates(&mut self) {
        loop {
            match self.gates.door.take() {
                Ok(None) => return,
                Ok(Some((passes, listener))) => {
                    let passes = (passes != 0).then_some(Pid(passes as i32));
                    self.add_gate(Gate { listener, passes });
                }
                Err(fault) => warn!(%fault, "gate: one is lost, and the calls at it fail"),
            }
        }
    }

    fn add_gate(&mut self, gate: Gate) {
        let number = self.gates.numbers.wrapping_add(1);
        self.gates.numbers = number;
        if let Err(fault) = self.poller.add(gate.listener.fd(), Token::Gate(number).number(), Interest::READ) {
            return warn!(%fault, "gate: it cannot be waited for, and the calls at it fail");
        }
        self.gates.open.insert(number, gate);
    }

    /// Nobody is behind it any more.
    pub(crate) fn end_gate(&mut self, number: u32) {
        let Some(Gate { listener, passes }) = self.gates.open.remove(&number) else { return };
        if let Err(fault) = self.poller.remove(listener.fd()) {
            debug!(%fault, "gate");
        }
        if let Some(pid) = passes {
            self.passes_no_more(pid);
        }
    }

    /// A gate, or what was or was to be the program `pid`, is gone: with the last of them the front end is told ([`Agent::tell_passes`]).
    pub(crate) fn passes_no_more(&mut self, pid: Pid) {
        if self.gates.is_of_front(pid) {
            self.gates.over.push(pid);
        }
    }

    /// Tells of those when nothing else is to be told. The gate of one that starts may have yet to come.
    pub(crate) fn tell_passes(&mut self) {
        if self.gates.over.is_empty() || !self.events.idle() || self.events.ready() {
            return;
        }
        self.take_gates();
        for pid in std::mem::take(&mut self.gates.over) {
            let passes = self.gates.passes(pid) || self.bodies.has(pid) || self.starts.is_starting(pid);
            if !passes {
                self.uplink.send(&ToFront::PassesNoMore { pid });
            }
        }
    }
}
