//! Stand-ins that nobody needs are let go after a while.

use crate::agent::Agent;
use crate::stands::{Stand, Why};
use kern::clock::monotonic_us;
use std::collections::{HashMap, HashSet};
use vocab::{Exit, Pid};
use wire::node::ToFront;

/// How long a stand-in stays when nobody needs it any more: the next program of the same shell finds it there.
const LINGER_US: u64 = 1_000_000;

/// What the front end has sent before it hears something has come after so long, or the link is lost.
const CROSSING_US: u64 = 60_000_000;

/// Who is needed is found by a look at all stand-ins, of which there may be thousands: it is not done again sooner than after this many microseconds.
const LOOK_US: u64 = 20_000;

/// Those that may go.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    /// Since when nobody needs them (monotonic).
    since: HashMap<Pid, u64>,
    /// When all are looked at again at the soonest (monotonic), and whether that is still to be done.
    look_us: u64,
    looks: bool,
}

impl Idle {
    /// It is needed, or asked for; from now on it is young again.
    pub(crate) fn remove(&mut self, pid: &Pid) {
        self.since.remove(pid);
    }
}

impl Agent {
    /// Lets stand-ins go that nobody has needed for a while, and at once those that only have had a number.
    pub(crate) fn let_go(&mut self) {
        let now = monotonic_us();
        let may_go = |stand: &&Stand| !stand.ending && matches!(stand.why, Why::Kin | Why::Husk);
        let may: Vec<Pid> = self.stands.iter().filter(may_go).map(|stand| stand.person.pid).collect();
        let is_husk = |pid: &Pid| self.stands.get(*pid).is_some_and(|stand| stand.why == Why::Husk);
        let at_once = |pid: &Pid| is_husk(pid) && !self.bodies.needs(*pid);
        self.idle.looks = now < self.idle.look_us && !may.is_empty();
        if may.is_empty() {
            return self.idle.since.clear();
        }
        if self.idle.looks && !may.iter().any(at_once) {
            return;
        }
        (self.idle.look_us, self.idle.looks) = (now + LOOK_US, false);
        let needed = self.stands.needed();
        let keeps = |stand: &Stand| {
            let (pid, parent) = (stand.person.pid, stand.native_parent());
            let needed = needed.contains(&pid) || self.bodies.needs(pid);
            needed || self.bodies.has(parent) || self.moving.arrives(parent)
        };
        let go: HashSet<Pid> =
            may.into_iter().filter(|pid| self.stands.get(*pid).is_some_and(|one| !keeps(one))).collect();
        self.idle.since.retain(|pid, _| go.contains(pid));
        for pid in go {
            let since = *self.idle.since.entry(pid).or_insert(now);
            let husk = self.stands.get(pid).is_some_and(|stand| stand.why == Why::Husk);
            if !self.is_used(pid) && (husk || now >= since + LINGER_US) {
                self.lets_go(pid, husk, now);
            }
        }
    }

    fn lets_go(&mut self, pid: Pid, husk: bool, now: u64) {
        self.idle.remove(&pid);
        if let Some(stand) = self.stands.get_mut(pid) {
            stand.ending = true;
        }
        self.stands.take_orphans(pid, false);
        self.lets_children_go(pid);
        self.ends_here(pid, Exit::Code(0));
        if !husk {
            self.told_gone.retain(|_, told| *told + CROSSING_US > now);
            self.told_gone.insert(pid, now);
            self.uplink.send(&ToFront::StandInGone { pid });
        }
    }

    /// A call here is about to find it.
    pub(crate) fn is_asked_for(&mut self, pid: Pid) {
        self.idle.remove(&pid);
    }

    /// When [`Agent::let_go`] has something to do next.
    pub(crate) fn let_go_at(&self) -> Option<u64> {
        let due = self.idle.since.iter().filter(|(pid, _)| !self.is_used(**pid));
        let due = due.map(|(_, since)| (since + LINGER_US).max(self.idle.look_us));
        due.chain(self.idle.looks.then_some(self.idle.look_us)).min()
    }

    /// Does what starts or arrives need it at this moment? That does not make it young again: where there is always something of that kind it would stay for ever.
    fn is_used(&self, pid: Pid) -> bool {
        self.starts.needs(pid) || self.moving.needs(pid)
    }
}
