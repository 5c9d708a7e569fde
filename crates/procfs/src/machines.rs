//! What nodes say of bodies: what is read of every process, in one question for all of a node's, and the rest file by file.
//!
//! Nobody waits longer than [`PATIENCE`]. A node that has let somebody wait so long is silent: until it says something, what was known counts at once.

use crate::asking::Line;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use vocab::errno::{EHOSTDOWN, ESRCH};
use vocab::{NodeId, Pid};
use wire::entry::{Content, Entry, Found, Wanted};

/// How long who looks into /proc may wait for a node.
const PATIENCE: Duration = Duration::from_millis(100);
/// Who looks at bodies of two nodes within this time, in microseconds, goes through all: the others are asked then too, and need not wait for each other.
const ROUND_US: u64 = 300_000;
/// How long a node that has not answered is not asked again for a single process; and when a question to all of it is given up.
const QUIET_US: u64 = 1_000_000;
const LOST_US: u64 = 5_000_000;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_us() -> u64 {
    kern::clock::monotonic_us()
}

/// What is commonly read of one body.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    entries: Vec<Entry>,
    /// As of when (monotonic).
    at_us: u64,
}

impl Body {
    fn of(found: Found, at_us: u64) -> Body {
        Body { uid: found.uid, gid: found.gid, entries: found.entries, at_us }
    }

    /// `None`: it is to be asked for by itself.
    pub(crate) fn text(&self, name: &[u8]) -> Option<&[u8]> {
        let entry = self.entries.iter().find(|entry| entry.path == name)?;
        match &entry.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// What is known of one.
#[derive(Debug)]
pub(crate) struct Known {
    /// `None`: nothing.
    pub(crate) body: Option<Arc<Body>>,
    /// It may be old: the node does not answer.
    pub(crate) silent: bool,
    /// Until when it counts (monotonic).
    pub(crate) until_us: u64,
}

#[derive(Debug, Default)]
struct Machine {
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bodies: HashMap<Pid, Arc<Body>>,
    /// When was asked what is in it, for all that were there then (monotonic); 0: never.
    at_us: u64,
    /// Since then they are not as they were.
    stirred: HashMap<Pid, u64>,
    /// A question for all is open since.
    asked_us: Option<u64>,
    quiet_until_us: u64,
}

impl State {
    fn forget(&mut self, pid: Pid) {
        self.bodies.remove(&pid);
        self.stirred.remove(&pid);
    }

    fn is_quiet(&self, now_us: u64) -> bool {
        now_us < self.quiet_until_us
            || self.asked_us.is_some_and(|at| (at + PATIENCE.as_micros() as u64..at + LOST_US).contains(&now_us))
    }
}

/// Where the answer to a question for one process comes.
#[derive(Debug, Default)]
struct Slot {
    answer: Mutex<Option<std::result::Result<Option<Found>, i32>>>,
    came: Condvar,
}

#[derive(Debug)]
enum Open {
    All { machine: Arc<Machine>, at_us: u64 },
    One { machine: Arc<Machine>, slot: Arc<Slot> },
}

#[derive(Debug)]
pub(crate) struct Machines {
    pub(crate) fresh_us: u64,
    line: OnceLock<Line>,
    all: Mutex<HashMap<NodeId, Arc<Machine>>>,
    open: Mutex<HashMap<u64, Open>>,
    last: AtomicU64,
    /// When any was asked for all of its bodies.
    asked_us: AtomicU64,
}

impl Machines {
    pub(crate) fn new(fresh_us: u64) -> Machines {
        // Answers to one before this one are not taken for ours.
        let last = AtomicU64::new(now_us() << 16);
        Machines {
            fresh_us,
            line: OnceLock::new(),
            all: Mutex::default(),
            open: Mutex::default(),
            last,
            asked_us: AtomicU64::new(0),
        }
    }

    pub(crate) fn ask_over(&self, line: Line) {
        let _first = self.line.set(line);
    }

    fn machine(&self, node: NodeId) -> Arc<Machine> {
        locked(&self.all).entry(node).or_default().clone()
    }

    fn ask(&self, node: NodeId, wanted: Wanted, open: Open) -> u64 {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        locked(&self.open).insert(id, open);
        // If it is gone, this process ends.
        let _ = self.line.get().map(|line| line.ask_node(id, node, wanted));
        id
    }

    /// What is commonly read of body `pid` of this node.
    pub(crate) fn common(&self, node: NodeId, pid: Pid) -> Known {
        let machine = self.machine(node);
        let (begun, deadline) = (now_us(), Instant::now() + PATIENCE);
        let mut state = locked(&machine.state);
        loop {
            let now = now_us();
            let old = state.bodies.get(&pid).cloned();
            if let Some(body) = old.as_ref().filter(|body| body.at_us + self.fresh_us > begun) {
                return Known { until_us: body.at_us + self.fresh_us, body: old, silent: false };
            }
            let silent = |old| Known { body: old, silent: true, until_us: now + self.fresh_us };
            if state.is_quiet(now) {
                return silent(old);
            }
            if self.fresh_us == 0 || state.at_us != 0 && state.at_us + self.fresh_us > begun {
                drop(state);
                return self.alone(&machine, node, pid, old);
            }
            if state.asked_us.is_none_or(|at| at + LOST_US <= now) {
                state.asked_us = Some(now);
                self.ask(node, Wanted::All, Open::All { machine: machine.clone(), at_us: now });
                if now < self.asked_us.swap(now, Ordering::Relaxed) + ROUND_US {
                    drop(state);
                    self.ask_others(now);
                    state = locked(&machine.state);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.quiet_until_us = now + QUIET_US;
                return silent(old);
            }
            let waited = machine.answered.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks all nodes of which what is known is old.
    fn ask_others(&self, now: u64) {
        let all: Vec<_> = locked(&self.all).iter().map(|(node, machine)| (*node, machine.clone())).collect();
        for (node, machine) in all {
            let mut state = locked(&machine.state);
            if state.asked_us.is_none() && state.at_us + self.fresh_us <= now && !state.is_quiet(now) {
                state.asked_us = Some(now);
                self.ask(node, Wanted::All, Open::All { machine: machine.clone(), at_us: now });
            }
        }
    }

    /// A body that was on this node has ended, or left.
    pub(crate) fn gone(&self, node: NodeId, pid: Pid) {
        locked(&self.machine(node).state).forget(pid);
    }

    /// It is not as it was.
    pub(crate) fn stirs(&self, node: NodeId, pid: Pid) {
        let machine = self.machine(node);
        let mut state = locked(&machine.state);
        if let Some(body) = state.bodies.get(&pid) {
            // As it was is better than nothing.
            let old = Body { uid: body.uid, gid: body.gid, entries: body.entries.clone(), at_us: 0 };
            state.bodies.insert(pid, Arc::new(old));
        }
        state.stirred.insert(pid, now_us());
    }

    /// There are bodies on this node.
    pub(crate) fn stands(&self, node: NodeId) {
        self.machine(node);
    }

    /// It was not there when all were asked for.
    fn alone(&self, machine: &Machine, node: NodeId, pid: Pid, old: Option<Arc<Body>>) -> Known {
        let at_us = now_us();
        let until_us = at_us + self.fresh_us;
        match self.one(node, Wanted::Body { pid }) {
            Ok(found) => {
                let body = Arc::new(Body::of(found, at_us));
                locked(&machine.state).bodies.insert(pid, body.clone());
                Known { body: Some(body), silent: false, until_us }
            }
            Err(ESRCH) => Known { body: None, silent: false, until_us: 0 },
            Err(_) => Known { body: old, silent: true, until_us },
        }
    }

    /// Asks for one process.
    ///
    /// # Errors
    /// ESRCH when it is not there, EHOSTDOWN when the node does not answer.
    pub(crate) fn one(&self, node: NodeId, wanted: Wanted) -> std::result::Result<Found, i32> {
        let machine = self.machine(node);
        if locked(&machine.state).is_quiet(now_us()) {
            return Err(EHOSTDOWN);
        }
        let slot = Arc::new(Slot::default());
        let id = self.ask(node, wanted, Open::One { machine: machine.clone(), slot: slot.clone() });
        let answer = slot.came.wait_timeout_while(locked(&slot.answer), PATIENCE, |answer| answer.is_none());
        let answer = answer.unwrap_or_else(PoisonError::into_inner).0.take();
        match answer {
            Some(Ok(found)) => found.ok_or(ESRCH),
            Some(Err(_)) => Err(EHOSTDOWN),
            None => {
                locked(&self.open).remove(&id);
                locked(&machine.state).quiet_until_us = now_us() + QUIET_US;
                Err(EHOSTDOWN)
            }
        }
    }

    /// The answer to question `id` has come.
    pub(crate) fn answered(&self, id: u64, found: Vec<(Pid, Found)>, errno: i32) {
        let Some(open) = locked(&self.open).remove(&id) else { return };
        match open {
            Open::All { machine, at_us } => {
                let mut state = locked(&machine.state);
                state.asked_us = None;
                if errno == 0 {
                    state.stirred.retain(|_, stirred| *stirred >= at_us);
                    let as_it_was = |pid: &Pid| !state.stirred.contains_key(pid);
                    let found = found.into_iter().filter(|(pid, _)| as_it_was(pid));
                    state.bodies = found.map(|(pid, found)| (pid, Arc::new(Body::of(found, at_us)))).collect();
                    (state.at_us, state.quiet_until_us) = (at_us, 0);
                } else {
                    state.quiet_until_us = now_us() + QUIET_US;
                }
                machine.answered.notify_all();
            }
            Open::One { machine, slot } => {
                if errno == 0 {
                    locked(&machine.state).quiet_until_us = 0;
                }
                let found = found.into_iter().next().map(|(_, found)| found);
                *locked(&slot.answer) = Some(if errno == 0 { Ok(found) } else { Err(errno) });
                slot.came.notify_all();
            }
        }
    }
}
