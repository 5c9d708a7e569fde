//! The gates of the programs that were started here (docs/mechanisms.md, "The gate"), one for each: what passes it unasked is fixed when it is installed, and which numbers
//! are right on this node changes.

use crate::agent::{Agent, Token};
use crate::deliver::plain;
use ckpt::survey::Given;
use kern::epoll::Interest;
use kern::seccomp::{self, Listener, Loadable, Passes};
use kern::standin::gate::{Door, Entrance};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use tracing::{debug, warn};
use vocab::{Fault, Pid, Result, Sig};
use wire::event::Person;
use wire::node::ToFront;

/// Programs of one user, root apart, of which something lives here: each keeps a descriptor of this daemon, and one that relays three more.
const MOST_OF_ONE: usize = 4096;

/// Descriptors that must be free when a program is to start.
const ROOM: usize = 16;

/// All gates of this node.
#[derive(Debug)]
pub(crate) struct Gates {
    door: Door,
    /// Numbers below this are the front end's own.
    front_top: Pid,
    /// By the number under which its listener is polled.
    open: HashMap<u32, Gate>,
    /// By the program that is to go behind it.
    expected: HashMap<Pid, Expected>,
    /// Of these the front end is to be told that they pass no more, behind all else that has happened to them.
    over: Vec<Pid>,
    /// The number of the last one.
    numbers: u32,
}

#[derive(Debug)]
struct Gate {
    listener: Listener,
    program: Program,
}

/// A gate that has yet to come.
#[derive(Debug)]
struct Expected {
    program: Program,
    /// In its place the listener comes: a program whose gate were lost would run, and its calls at the gate would fail.
    _reserve: OwnedFd,
}

/// Who was started behind a gate.
#[derive(Clone, Copy, Debug)]
struct Program {
    uid: u32,
    /// Calls about this number of the front end's pass: its own.
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
        Ok(Gates {
            door: Door::open()?,
            front_top,
            open: HashMap::new(),
            expected: HashMap::new(),
            over: Vec::new(),
            numbers: 0,
        })
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
        self.is_of_front(pid) && self.open.values().any(|gate| gate.program.passes == Some(pid))
    }

    /// All such numbers.
    pub(crate) fn passing(&self) -> Vec<Pid> {
        self.open.values().filter_map(|gate| gate.program.passes).collect()
    }

    /// Are there descriptors for what this daemon opens meanwhile, when another program takes its own? Without, that program would be started and hang.
    ///
    /// # Errors
    /// `Sys` with EMFILE when there are not.
    pub(crate) fn room(&self) -> Result<()> {
        (0..ROOM).map(|_| self.door.reserve()).collect::<Result<Vec<_>>>().map(drop)
    }

    /// Keeps a descriptor free for the gate of `pid`. Something of each such program lives on, if only a child of its own.
    fn expect(&mut self, pid: Pid, program: Program) -> Result<()> {
        let programs =
            self.open.values().map(|gate| &gate.program).chain(self.expected.values().map(|one| &one.program));
        let has = programs.filter(|one| one.uid == program.uid).count();
        if program.uid != 0 && has >= MOST_OF_ONE {
            let user = program.uid;
            return Err(Fault::refused(format!(
                "start another program of user {user}: of {has} something lives here already"
            )));
        }
        self.expected.insert(pid, Expected { program, _reserve: self.door.reserve()? });
        Ok(())
    }
}

impl Agent {
    /// The gate of a program that is to be started as `pid`. Numbers that are this node's pass, and its own: as long as anybody is behind this gate, whoever
    /// has that number is or stands here ([`ToFront::PassesNoMore`]). One that arrives may have other numbers of the front end's pass elsewhere, none here.
    ///
    /// # Errors
    /// `Refused` when its user has too many; `Sys` when no descriptor is to be had for it.
    pub(crate) fn gate_of(&mut self, person: &Person, arrives: bool) -> Result<NewGate> {
        let (pid, uid) = (person.pid, person.creds.uid.real);
        let passes = (!arrives && self.gates.is_of_front(pid)).then_some(pid);
        let mut own = self.leases.ranges();
        own.extend(passes.map(|pid| pid.0..pid.0 + 1));
        own.reverse();
        let (start, end) = kern::standin::raw::code_range();
        self.gates.expect(pid, Program { uid, passes })?;
        let filter = seccomp::Program::new(&Passes { own, code: start..end }).loadable();
        let door = self.gates.door.number();
        Ok(NewGate { entrance: Entrance { filter: filter.address(), door, pid: pid.0 as u64 }, _filter: filter })
    }

    /// So many seccomp filters every program has here: those that this daemon is behind itself, and its gate.
    pub(crate) fn filters(&self) -> u64 {
        Given::as_of(self.nursery).filters + 1
    }

    /// Takes in the gates that have come.
    pub(crate) fn take_gates(&mut self) {
        loop {
            let pid = match self.gates.door.next() {
                Ok(None) => return,
                Ok(Some(pid)) => pid,
                Err(fault) => return warn!(%fault, "gate"),
            };
            let expected = self.gates.expected.remove(&pid).map(|expected| expected.program);
            match self.gates.door.take() {
                Ok(Some(listener)) => match expected {
                    Some(program) => self.add_gate(Gate { listener, program }),
                    None => warn!(%pid, "gate: of no program that is to start"),
                },
                Ok(None) => return,
                Err(fault) => {
                    warn!(%fault, %pid, "gate: it is lost, and its program is killed");
                    let _ = plain(pid, Sig::KILL);
                }
            }
        }
    }

    /// What was or was to be the program `pid` is gone, and its gate comes no more if it has not.
    pub(crate) fn expects_no_gate(&mut self, pid: Pid) {
        if self.gates.expected.contains_key(&pid) {
            self.take_gates();
            self.gates.expected.remove(&pid);
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
        let Some(Gate { listener, program }) = self.gates.open.remove(&number) else { return };
        if let Err(fault) = self.poller.remove(listener.fd()) {
            debug!(%fault, "gate");
        }
        if let Some(pid) = program.passes {
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
        if self.gates.over.is_empty() || !self.events.all_done() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_has_no_more_programs_than_others_can_bear() {
        kern::own::raise_files().expect("limits");
        let mut gates = Gates::new(Pid(300)).expect("a door");
        let program = |uid| Program { uid, passes: None };
        for pid in 1..=MOST_OF_ONE as i32 {
            gates.expect(Pid(pid), program(7)).expect("descriptors");
        }
        let fault = gates.expect(Pid(9000), program(7)).expect_err("it is one too many");
        assert!(fault.to_string().contains("of user 7: of 4096"), "{fault}");
        gates.expect(Pid(9001), program(8)).expect("another user");
        gates.expect(Pid(9002), program(0)).expect("root");
        gates.expected.remove(&Pid(17));
        gates.expect(Pid(9003), program(7)).expect("one has gone");
    }
}
