//! What nodes say of bodies: what is read of every process, in one question for all of a node's, and the rest file by file.
//!
//! Nobody waits long. A node that says nothing for [`PATIENCE_US`] is silent: until it says something, what was known counts at once.

use crate::asking::Line;
use crate::crew::{Crew, Waits};
use crate::ghosts::Ghosts;
use crate::names::lasts;
use crate::passes::Pass;
use crate::questions::{decode, Machine, Open, Slot, State, What};
use crate::readings::{Readings, WANTED_US};
use crate::rounds::{Next, Rounds};
use crate::tables::{Body, Key, COMMONLY};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use vocab::errno::{EAGAIN, EHOSTDOWN, EIO, ESRCH};
use vocab::{NodeId, Pid};
use wire::ask::Ask;
use wire::entry::{Found, Wanted};

/// How long a node may say nothing of what is asked of all its bodies, in microseconds. One that says a piece may go on for [`SLOW_US`], and while others of the
/// round say pieces, for [`ROUND_SLOW_US`]: they may share a machine.
const PATIENCE_US: u64 = 100_000;
const SLOW_US: u64 = 2_000_000;
const ROUND_SLOW_US: u64 = 1_000_000;
/// Who looks at bodies of two nodes within this time, in microseconds, goes through all: the others are asked then too, and need not wait for each other.
const ROUND_US: u64 = 300_000;
/// A single file may take that long; but not if its node says nothing at all for so long.
const FILE_US: u64 = 2_000_000;
const SILENT_US: u64 = 300_000;
/// How long a node that has said nothing is not asked again for a single file; and when a question to all of it is given up.
const QUIET_US: u64 = 1_000_000;
const LOST_US: u64 = 5_000_000;
/// What ps reads of each process beside the common files is asked for with the first question to a node, and then no more often than this if nobody reads it.
const AHEAD: Key = "environ";
/// Whoever looks at one body of a node and at no other one for so long is told of that one alone, in microseconds. Who goes through all comes early to the first of each
/// node, which often stand side by side.
const ALONE_US: u64 = 4_000_000;
/// Who has looked at so many processes looks at others too.
const MANY: usize = 2;
/// How long that is shown which stays as it is until another program is executed, of which is told unless it has the same name.
const LASTS_US: u64 = 10_000_000;
/// What counts for so long still is not asked for and told anew; below [`LASTS_US`].
pub(crate) const RENEWED_US: u64 = 5_000_000;
/// What is shown to one who goes through all counts for others for a moment, if it is old already.
const MOMENT_US: u64 = 100_000;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_us() -> u64 {
    kern::clock::monotonic_us()
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

#[derive(Debug)]
pub(crate) struct Machines {
    pub(crate) fresh_us: u64,
    crew: Arc<Crew>,
    line: OnceLock<Line>,
    all: Mutex<HashMap<NodeId, Arc<Machine>>>,
    open: Mutex<HashMap<u64, Open>>,
    last: AtomicU64,
    /// When any was asked for all of its bodies, and when any said something of that.
    asked_us: AtomicU64,
    heard_us: AtomicU64,
    readings: Readings,
    rounds: Rounds,
    ghosts: Arc<Ghosts>,
}

impl Machines {
    /// `at_most_us`: what is known counts no longer. It counts a little less: who looks once in that time (`top -d 1`) is to find it new each time, not every
    /// other time, and then twice as much of the processor used.
    pub(crate) fn new(at_most_us: u64, crew: Arc<Crew>, ghosts: Arc<Ghosts>) -> Machines {
        // Answers to one before this one are not taken for ours.
        let last = AtomicU64::new(now_us() << 16);
        Machines {
            fresh_us: at_most_us - at_most_us / 32,
            crew,
            line: OnceLock::new(),
            all: Mutex::default(),
            open: Mutex::default(),
            last,
            asked_us: AtomicU64::new(0),
            heard_us: AtomicU64::new(0),
            readings: Readings::default(),
            rounds: Rounds::default(),
            ghosts,
        }
    }

    pub(crate) fn ask_over(&self, line: Line) {
        let _first = self.line.set(line);
    }

    /// The daemon is to tell of ghosts anew.
    pub(crate) fn ask_for_ghosts(&self) {
        // If it is gone, this process ends.
        let _ = self.line.get().map(|line| line.ask(&Ask::Ghosts));
    }

    /// The daemon is to know that who looks is served.
    pub(crate) fn serves(&self) {
        // If it is gone, this process ends.
        let _ = self.line.get().map(|line| line.ask(&Ask::Serves));
    }

    fn machine(&self, node: NodeId) -> Arc<Machine> {
        locked(&self.all).entry(node).or_default().clone()
    }

    fn ask(&self, open: Open, wanted: Wanted) -> u64 {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let node = open.node;
        locked(&self.open).insert(id, open);
        // If it is gone, this process ends.
        let _ = self.line.get().map(|line| line.ask_node(id, node, wanted));
        id
    }

    /// Asks for what is old of `key` and all else that is wanted of all.
    fn ask_all(&self, node: NodeId, machine: &Arc<Machine>, state: &mut State, key: Key, now: u64) {
        let mut keys = vec![key];
        keys.extend(self.readings.wanted(now).into_iter().filter(|wanted| *wanted != key));
        if key == COMMONLY && !keys.contains(&AHEAD) && (state.ahead_us == 0 || state.ahead_us + WANTED_US <= now) {
            state.ahead_us = now;
            keys.push(AHEAD);
        }
        keys.retain(|one| {
            let table = state.tables.get(one);
            // What lasts long is renewed along, or it would have to be asked for by itself, of all, when it runs out.
            let due_us = if self.lasts(one) { self.fresh_us(one) - RENEWED_US } else { self.fresh_us(one) };
            *one == key || table.asked_us.is_none() && table.at_us + due_us <= now
        });
        for one in &keys {
            state.tables.get(one).asked_us = Some(now);
        }
        let paths = keys.iter().filter(|one| **one != COMMONLY).map(|one| (*one).to_owned()).collect();
        let wanted = Wanted::All { common: key == COMMONLY, paths };
        let (machine, what) = (machine.clone(), What::All(keys));
        self.ask(Open { node, machine, what, at_us: now, piece: Vec::new() }, wanted);
    }

    /// What is in a table of body `pid` of this node. What is as of when who looks has begun counts, if it has not been shown yet.
    pub(crate) fn look(&self, node: NodeId, pid: Pid, key: Key, pass: Pass) -> Known {
        let machine = self.machine(node);
        let begun = now_us();
        let mut waits = None;
        let mut state = locked(&machine.state);
        if state.round != 0 {
            let number = std::mem::take(&mut state.round);
            drop(state);
            self.rounds.comes(number);
            self.ask_ahead();
            state = locked(&machine.state);
        }
        loop {
            let now = now_us();
            let old = state.tables.get(key).bodies.get(&pid).cloned();
            if let Some(body) = old.as_ref().filter(|body| self.counts(key, body, begun, pass.since_us)) {
                let until_us = self.until_us(key, body, now, pass);
                return Known { body: old, silent: false, until_us };
            }
            let silent = |old| Known { body: old, silent: true, until_us: now + self.fresh_us };
            if state.is_quiet(now) {
                return silent(old);
            }
            let table = state.tables.get(key);
            let whole = table.at_us != 0 && (table.at_us + self.fresh_us > begun || table.at_us >= pass.since_us);
            if self.fresh_us == 0 || whole {
                drop((state, waits));
                return self.alone(&machine, node, pid, (key, SILENT_US), (pass, old));
            }
            let open = table.asked_us.filter(|at| at + LOST_US > now);
            let (other, at) = state.alone;
            if open.is_none() && (other == pid || at + ALONE_US <= now) {
                state.alone = (pid, now);
                drop(state);
                return self.alone(&machine, node, pid, (key, PATIENCE_US), (pass, old));
            }
            let asked = match open {
                Some(asked) => asked,
                None => {
                    self.ask_all(node, &machine, &mut state, key, now);
                    if now < self.asked_us.swap(now, Ordering::Relaxed) + ROUND_US {
                        drop(state);
                        self.ask_others(pid, key);
                        state = locked(&machine.state);
                    }
                    now
                }
            };
            let left = self.deadline(asked, state.heard_us).saturating_sub(now);
            if left == 0 {
                if state.heard_us < asked {
                    state.quiet_until_us = asked + LOST_US;
                }
                return silent(old);
            }
            waits.get_or_insert_with(|| self.crew.waits());
            let waited = machine.answered.wait_timeout(state, Duration::from_micros(left));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How long what is in this table is shown, in microseconds.
    fn fresh_us(&self, key: Key) -> u64 {
        if self.lasts(key) {
            self.fresh_us.max(LASTS_US)
        } else {
            self.fresh_us
        }
    }

    /// Is it nearly always the same?
    fn lasts(&self, key: Key) -> bool {
        lasts(key.as_bytes()) && self.fresh_us != 0
    }

    /// Until when what is shown now counts: a second from when who looks is through, or nothing would be fresh any more for who goes through all once more where that
    /// takes as long; but not for ever.
    fn until_us(&self, key: Key, body: &Body, now: u64, pass: Pass) -> u64 {
        let from_now = (now + self.fresh_us).min(body.at_us + 2 * self.fresh_us) + pass.left_us;
        (body.at_us + self.fresh_us(key)).max(from_now).max(now + MOMENT_US)
    }

    fn counts(&self, key: Key, body: &Body, begun: u64, since_us: u64) -> bool {
        let fresh = body.at_us + self.fresh_us(key) > begun;
        let counts = self.fresh_us != 0 && (fresh || body.at_us >= since_us);
        counts && (body.is_shown(begun) || fresh)
    }

    /// Until when who waits for an answer to a question for all of a node waits.
    fn deadline(&self, asked: u64, heard: u64) -> u64 {
        let others = self.heard_us.load(Ordering::Relaxed);
        let by_it = (heard + PATIENCE_US).min(asked + SLOW_US);
        let by_others = (others + PATIENCE_US).min(asked + ROUND_SLOW_US);
        (asked + PATIENCE_US).max(by_it).max(by_others)
    }

    /// Asks all nodes of which what is known is old, a few at a time, in the order in which who is at `pid` comes to them.
    fn ask_others(&self, pid: Pid, key: Key) {
        self.rounds.begin(key, self.ghosts.nodes_after(pid));
        self.ask_ahead();
    }

    fn ask_ahead(&self) {
        while let Some(Next { key, node, round }) = self.rounds.next() {
            let (machine, now) = (self.machine(node), now_us());
            let mut state = locked(&machine.state);
            let table = state.tables.get(key);
            if table.asked_us.is_none() && table.at_us + self.fresh_us(key) <= now && !state.is_quiet(now) {
                state.round = round;
                self.ask_all(node, &machine, &mut state, key, now);
            } else {
                self.rounds.comes(round);
            }
        }
    }

    /// Somebody reads this of `pid`. True: of many, and it is to be asked for of all.
    pub(crate) fn is_of_many(&self, key: Key, pid: Pid) -> bool {
        self.readings.reads(key, pid, now_us()) && self.fresh_us != 0
    }

    /// A body that was on this node has ended, or left.
    pub(crate) fn gone(&self, node: NodeId, pid: Pid) {
        locked(&self.machine(node).state).tables.forget(pid);
    }

    /// It is not as it was.
    pub(crate) fn stirs(&self, node: NodeId, pid: Pid) {
        locked(&self.machine(node).state).tables.stirs(pid, now_us());
    }

    /// There are bodies on this node.
    pub(crate) fn stands(&self, node: NodeId) {
        self.machine(node);
    }

    /// It was not there when all were asked for, or nobody has looked at another one; a node that says nothing for so long is silent.
    fn alone(
        &self,
        machine: &Machine,
        node: NodeId,
        pid: Pid,
        (key, silent_us): (Key, u64),
        (pass, old): (Pass, Option<Arc<Body>>),
    ) -> Known {
        if key != COMMONLY {
            return Known { body: None, silent: false, until_us: 0 };
        }
        let at_us = now_us();
        let until_us = at_us + self.fresh_us;
        let many = pass.seen >= MANY && self.fresh_us != 0;
        match self.one_in(node, pid, Wanted::Body { pid }, None, (silent_us, many)) {
            Ok(found) => {
                let body = locked(&machine.state).tables.keep(key, pid, Body::of(found, at_us));
                Known { body: Some(body), silent: false, until_us }
            }
            Err(ESRCH) => Known { body: None, silent: false, until_us: 0 },
            Err(_) => Known { body: old, silent: true, until_us },
        }
    }

    /// Asks for one process, for somebody of this user; `None`: for what is read of every process.
    ///
    /// # Errors
    /// ESRCH when it is not there, EHOSTDOWN when the node does not answer.
    pub(crate) fn one(
        &self,
        node: NodeId,
        pid: Pid,
        wanted: Wanted,
        uid: Option<u32>,
    ) -> std::result::Result<Found, i32> {
        self.one_in(node, pid, wanted, uid, (SILENT_US, false))
    }

    /// The same; the node is silent if it says nothing for `silent_us` microseconds. `many`: who waits goes through many.
    fn one_in(
        &self,
        node: NodeId,
        pid: Pid,
        wanted: Wanted,
        uid: Option<u32>,
        (silent_us, mut many): (u64, bool),
    ) -> std::result::Result<Found, i32> {
        let machine = self.machine(node);
        let begun = now_us();
        if locked(&machine.state).is_quiet(begun) {
            return Err(EHOSTDOWN);
        }
        let slot = Arc::new(Slot::default());
        let what = What::One(pid, slot.clone());
        let open = Open { node, machine: machine.clone(), what, at_us: begun, piece: Vec::new() };
        let id = self.ask(open, wanted);
        let _waits = self.crew.waits();
        let mut slow = None;
        loop {
            let slice = Duration::from_micros(PATIENCE_US / 2);
            let answer = slot.came.wait_timeout_while(locked(&slot.answer), slice, |answer| answer.is_none());
            match answer.unwrap_or_else(PoisonError::into_inner).0.take() {
                Some(Ok(found)) => return found.ok_or(ESRCH),
                Some(Err(_)) => return Err(EHOSTDOWN),
                None => {}
            }
            if std::mem::take(&mut many) {
                self.ask_others(pid, COMMONLY);
                self.rounds.stalls();
                self.ask_ahead();
            }
            let now = now_us();
            let mut state = locked(&machine.state);
            let silent = now >= begun.max(state.heard_us) + silent_us;
            if silent {
                state.quiet_until_us = now + QUIET_US;
            }
            drop(state);
            slow = slow.or_else(|| uid.and_then(|uid| self.crew.slow(uid)));
            let crowded = uid.is_some() && slow.is_none();
            if silent || crowded || now >= begun + FILE_US {
                locked(&self.open).remove(&id);
                return Err(EHOSTDOWN);
            }
        }
    }

    /// Asks these nodes for the same at once, and waits for none longer than for one that may be silent. What is not said in time is not there.
    pub(crate) fn each(&self, nodes: &[NodeId], wanted: Wanted) -> Vec<(NodeId, Option<Found>)> {
        let now = now_us();
        let ask = |node: &NodeId| {
            let (machine, slot) = (self.machine(*node), Arc::new(Slot::default()));
            let asked = !locked(&machine.state).is_quiet(now);
            if asked {
                let what = What::One(Pid::NONE, slot.clone());
                self.ask(Open { node: *node, machine, what, at_us: now, piece: Vec::new() }, wanted.clone());
            }
            (*node, asked.then_some(slot))
        };
        let asked: Vec<_> = nodes.iter().map(ask).collect();
        let _waits = self.crew.waits();
        let found = |slot: Arc<Slot>| {
            let left = Duration::from_micros((now + PATIENCE_US).saturating_sub(now_us()));
            let answer = slot.came.wait_timeout_while(locked(&slot.answer), left, |answer| answer.is_none());
            answer.unwrap_or_else(PoisonError::into_inner).0.take()?.ok()?
        };
        asked.into_iter().map(|(node, slot)| (node, slot.and_then(found))).collect()
    }

    /// The daemon answers over the line.
    pub(crate) fn ask_daemon(&self, ask: &Ask) {
        // If it is gone, this process ends.
        let _ = self.line.get().map(|line| line.ask(ask));
    }

    /// The thread that serves waits until what is returned is dropped.
    pub(crate) fn waits(&self) -> Waits<'_> {
        self.crew.waits()
    }

    /// `node` says a piece of the answer to question `id`.
    pub(crate) fn answered(&self, node: NodeId, id: u64, found: &[u8], last: bool, errno: i32) {
        let now = now_us();
        let Some(mut open) = locked(&self.open).remove(&id) else { return };
        if open.node != node {
            locked(&self.open).insert(id, open);
            return;
        }
        let mut state = locked(&open.machine.state);
        let quiet = errno != 0 && !matches!(errno, EIO | EAGAIN);
        match quiet {
            true => state.quiet_until_us = now + QUIET_US,
            false => state.hears(now),
        }
        open.piece.extend(found);
        match &open.what {
            What::All(keys) => {
                self.heard_us.store(now, Ordering::Relaxed);
                let (whole, used) = decode(&open.piece);
                open.piece.drain(..used);
                whole.into_iter().for_each(|found| state.tables.take(keys, found, open.at_us));
                match (last, quiet) {
                    (false, _) => {}
                    (true, true) => state.tables.give_up(keys),
                    (true, false) => state.tables.end(keys, open.at_us, errno != 0),
                }
                drop(state);
                open.machine.answered.notify_all();
            }
            What::One(pid, slot) => {
                drop(state);
                if last {
                    let found = decode(&open.piece).0.into_iter().find(|found| found.pid == *pid);
                    *locked(&slot.answer) = Some(if errno == 0 { Ok(found) } else { Err(errno) });
                    slot.came.notify_all();
                }
            }
        }
        if !last {
            locked(&self.open).insert(id, open);
        }
    }

    /// What is not of use any more is forgotten.
    pub(crate) fn purge(&self) {
        let now = now_us();
        locked(&self.open).retain(|_, open| now < open.at_us + 2 * LOST_US);
        let wanted = self.readings.wanted(now);
        let all: Vec<_> = locked(&self.all).values().cloned().collect();
        all.iter().for_each(|machine| locked(&machine.state).tables.retain(&wanted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::tests::{bytes, found};

    /// For whom nothing was fetched yet.
    const LATE: Pass = Pass { since_us: u64::MAX, left_us: 0, seen: 0 };

    /// The questions that are open, by node.
    fn open(machines: &Machines) -> Vec<(NodeId, u64)> {
        let mut all: Vec<_> = locked(&machines.open).iter().map(|(id, open)| (open.node, *id)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn a_node_that_says_a_piece_is_not_silent_and_who_is_in_it_need_not_wait_for_the_rest() {
        let machines = Arc::new(Machines::new(1_000_000, Arc::default(), Arc::default()));
        let node = NodeId(3);
        let looks = |pid| {
            let machines = machines.clone();
            std::thread::spawn(move || machines.look(node, Pid(pid), COMMONLY, LATE))
        };
        // One is looked at before them.
        locked(&machines.machine(node).state).alone = (Pid(6), now_us());
        let (first, second) = (looks(7), looks(8));
        let id = loop {
            if let [(_, id)] = open(&machines)[..] {
                break id;
            }
            std::thread::yield_now();
        };
        // Another node's answer is none.
        machines.answered(NodeId(4), id, &bytes(&[found(7, "stat")]), true, 0);
        machines.answered(node, id, &bytes(&[found(7, "stat")]), false, 0);
        assert!(first.join().expect("it looks").body.is_some());
        // Longer than a silent node is waited for, with a word now and then.
        for _ in 0..4 {
            std::thread::sleep(Duration::from_micros(PATIENCE_US / 2));
            machines.answered(node, id, &[], false, 0);
        }
        assert!(!second.is_finished());
        machines.answered(node, id, &bytes(&[found(8, "stat")]), true, 0);
        let known = second.join().expect("it looks");
        assert!(known.body.is_some() && !known.silent);
        assert_eq!(open(&machines), []);
    }

    #[test]
    fn the_first_of_a_node_is_asked_for_alone_and_with_the_second_all() {
        let machines = Arc::new(Machines::new(1_000_000, Arc::default(), Arc::default()));
        let node = NodeId(3);
        let asked = |pid| {
            let (there, looks) = (locked(&machines.open).len(), machines.clone());
            let looks = std::thread::spawn(move || looks.look(node, Pid(pid), COMMONLY, LATE).body.is_some());
            let new = loop {
                let open = locked(&machines.open);
                if let Some((id, open)) = open.iter().max_by_key(|(id, _)| **id).filter(|_| open.len() > there) {
                    break (*id, matches!(open.what, What::All(_)));
                }
                drop(open);
                std::thread::yield_now();
            };
            machines.answered(node, new.0, &bytes(&[found(pid, "stat")]), true, 0);
            assert!(looks.join().expect("it looks"));
            new.1
        };
        assert_eq!((asked(7), asked(8)), (false, true));
    }

    #[test]
    fn a_node_that_says_nothing_is_waited_for_once() {
        let machines = Machines::new(1_000_000, Arc::default(), Arc::default());
        let times = [0; 2].map(|_| {
            let begun = now_us();
            let known = machines.look(NodeId(3), Pid(7), COMMONLY, LATE);
            assert!(known.silent && known.body.is_none());
            now_us() - begun
        });
        assert!(times[0] >= PATIENCE_US && times[1] < PATIENCE_US, "{times:?}");
        assert_eq!(machines.one(NodeId(3), Pid(7), Wanted::Body { pid: Pid(7) }, None), Err(EHOSTDOWN));
    }

    #[test]
    fn of_many_nodes_that_say_nothing_few_are_waited_for() {
        let ghosts = Arc::<Ghosts>::default();
        for n in 1..=30 {
            ghosts.stand(Pid(n), NodeId(n));
        }
        let machines = Machines::new(1_000_000, Arc::default(), ghosts);
        let begun = now_us();
        for n in 1..=30 {
            let pass = Pass { since_us: begun, left_us: 0, seen: n as usize - 1 };
            assert!(machines.look(NodeId(n), Pid(n), COMMONLY, pass).silent);
        }
        let took = now_us() - begun;
        // The first two of whom nothing is known yet, the one at which it is seen that many say nothing, and one more round.
        assert!(took < 6 * PATIENCE_US, "{took}");
    }
}
