//! Processes of the front end whose parent is on a node: its ghost is their parent here, and hands over what the kernel tells it of them.
//!
//! Of an end the daemon learns by a handle on the process, and looks at what is left of it: its parent's ghost waits for it only when the parent has waited on its node.

use crate::connection::Token;
use crate::front::Front;
use crate::persons;
use ghost::Command as Tell;
use kern::clock::monotonic_us;
use space::{Event, Person};
use std::collections::{HashMap, HashSet};
use vocab::{Exit, Pid, Sig, SigInfo};
use wire::run::LATE_RELAY;

#[derive(Debug, Default)]
pub(crate) struct Natives {
    /// Those of them that are stopped, and by what.
    stopped: HashMap<Pid, Sig>,
    /// Those of which the kernel has told that they go on, and their mover not yet that it has let them go.
    went_on: HashSet<Pid>,
    /// Those of which something on a node waits to hear whether they stop: when each is looked at, and since when it waits (monotonic, in microseconds). The kernel may say
    /// nothing of them, as when SIGCONT takes away a SIGSTOP or one that is stopped is sent another.
    doubted: HashMap<Pid, (u64, u64)>,
    /// Those of them that were seen to be stopped, by nobody knows what: the kernel's word may be on its way.
    unnamed: HashSet<Pid>,
    /// Those that ended while who takes their orphans was about to leave: they are told when it is known where that is.
    ended: Vec<(Pid, Option<Exit>)>,
}

/// One in doubt is looked at after this many microseconds,
const SOON_US: u64 = 5_000;
/// and then when it has been so for twice as long, but after this many at the latest.
const PATIENCE_US: u64 = 500_000;

impl Natives {
    fn forget(&mut self, pid: Pid) {
        self.stopped.remove(&pid);
        self.went_on.remove(&pid);
        self.doubted.remove(&pid);
        self.unnamed.remove(&pid);
    }

    /// Is the signal that has stopped it to be waited for once more?
    fn waits_for_name(&mut self, pid: Pid, stopped: bool) -> bool {
        let was_unnamed = self.unnamed.remove(&pid);
        let waits = stopped && !was_unnamed && !self.stopped.contains_key(&pid);
        if waits {
            self.unnamed.insert(pid);
        }
        waits
    }

    /// Whether it is stopped is told soon.
    pub(crate) fn doubt(&mut self, pid: Pid, now_us: u64) {
        self.doubted.insert(pid, (now_us + SOON_US, now_us));
    }

    fn doubt_longer(&mut self, pid: Pid, since_us: u64, now_us: u64) {
        let wait_us = now_us.saturating_sub(since_us).clamp(SOON_US, PATIENCE_US);
        self.doubted.insert(pid, (now_us + wait_us, since_us));
    }

    /// When [`Front::look_at_natives`] has something to do next (monotonic, in microseconds).
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.doubted.values().map(|(due_us, _)| *due_us).min()
    }

    fn take_due(&mut self, now_us: u64) -> Vec<(Pid, u64)> {
        self.doubted
            .extract_if(|_, (due_us, _)| *due_us <= now_us)
            .map(|(pid, (_, since_us))| (pid, since_us))
            .collect()
    }
}

/// linux: CLD_STOPPED.
const STOPPED: i32 = 5;
/// linux: CLD_CONTINUED.
const CONTINUED: i32 = 6;

impl Front {
    /// If the parent of this native process is a ghost, that is to hand over what it hears of it. `stopped`: its parent knows that it is, by that.
    pub(crate) fn watch_as_a_child(&mut self, pid: Pid, stopped: Option<Sig>) {
        let parent = self.space.get(pid).map(|view| view.person.ppid).filter(|parent| self.ghosts.has(*parent));
        if let Some(parent) = parent {
            self.ghosts.command(parent, Tell::Children(true));
            self.stopped_natives.stopped.extend(stopped.map(|sig| (pid, sig)));
        }
    }

    /// What takes the place of a native process is to hand over what it hears of its native children, if it has any.
    pub(crate) fn hand_over_children(&mut self, pid: Pid) {
        if !self.space.native_children(pid).is_empty() {
            self.ghosts.command(pid, Tell::Children(true));
        }
    }

    /// The kernel has told a ghost of a child: of those that are native the state is looked at, since one word may stand for several.
    pub(crate) fn look_at_children(&mut self, parent: Pid, told: Option<&SigInfo>) {
        for pid in self.space.native_children(parent) {
            let Some(now) = kern::pending::read(pid) else { continue };
            let told = told.filter(|info| info.pid == pid && [STOPPED, CONTINUED].contains(&info.code));
            if self.is_coming_home(pid) {
                // Its mover says how it lets it go.
                if told.is_some_and(|info| info.code == CONTINUED) {
                    self.stopped_natives.went_on.insert(pid);
                }
                continue;
            }
            let known = self.stopped_natives.stopped.get(&pid).copied();
            let mut stopped = now.state == b'T';
            if now.traced {
                // Then that cannot be seen, and what is told may be one of several words.
                stopped = told.map_or(known.is_some(), |info| info.code == STOPPED);
                self.stopped_natives.doubt(pid, monotonic_us());
            }
            // It may have stopped and gone on since, or gone on and stopped: what stands for it on a node has done so then.
            if stopped == known.is_some() && told.is_none() {
                continue;
            }
            let by = told.filter(|info| info.code == STOPPED);
            // The number of the signal is in the lower half of what follows the user (linux: `struct siginfo`, `_sigchld`).
            let sig = by.and_then(|info| Sig::new(info.value as u8)).unwrap_or(Sig::STOP);
            match stopped {
                true => drop(self.stopped_natives.stopped.insert(pid, sig)),
                false => drop(self.stopped_natives.stopped.remove(&pid)),
            }
            self.events.push_back(Event::NativeStopped { pid, sig: stopped.then_some(sig) });
        }
    }

    /// Tells of those in doubt what has become of them. Of one that has a signal before it, or a mover, that is not known yet.
    pub(crate) fn look_at_natives(&mut self, now_us: u64) {
        for (pid, since_us) in self.stopped_natives.take_due(now_us) {
            let Some(now) = kern::pending::read(pid) else { continue };
            // Whether a signal has stopped one with a tracer cannot be seen.
            let traced_long = now.traced && now_us > since_us + PATIENCE_US;
            let stopped = now.state == b'T' || now.state == b't' && traced_long;
            let waits = now.traced && !traced_long || now.signals.has(Sig::STOP) && !stopped;
            if waits || self.space.is_signalled(pid) || self.is_coming_home(pid) {
                self.stopped_natives.doubt_longer(pid, since_us, now_us);
                continue;
            }
            let told = stopped && self.has_a_ghost_for_parent(pid);
            if self.stopped_natives.waits_for_name(pid, told) {
                self.stopped_natives.doubt(pid, now_us);
                continue;
            }
            let sig = told.then(|| *self.stopped_natives.stopped.entry(pid).or_insert(Sig::STOP));
            if sig.is_none() {
                self.stopped_natives.stopped.remove(&pid);
            }
            self.events.push_back(Event::NativeStopped { pid, sig });
        }
    }

    fn has_a_ghost_for_parent(&self, pid: Pid) -> bool {
        let parent = self.space.get(pid).map(|view| view.person.ppid);
        parent.is_some_and(|parent| self.ghosts.has(parent))
    }

    /// Its mover has let it go. Of a stop, or its end, that its task had while it was traced the kernel has told when nobody could know that: before its parent's ghost was to hand
    /// it over, or before it could be told from a stop of the mover's.
    pub(crate) fn let_go_at_home(&mut self, pid: Pid, stops: Option<Sig>) {
        self.tell_as_let_go(pid, stops);
        self.children_stop_here_alone(pid);
        self.events.push_back(Event::IsHome { pid });
    }

    /// Nobody is told any more whether the native children of this one, which is at home, run: what stands for them on nodes does, or it would keep what it is sent when they
    /// have gone on.
    fn children_stop_here_alone(&mut self, parent: Pid) {
        for pid in self.space.native_children(parent) {
            if self.stopped_natives.stopped.remove(&pid).is_some() {
                self.events.push_back(Event::NativeStopped { pid, sig: None });
            }
        }
    }

    fn tell_as_let_go(&mut self, pid: Pid, stops: Option<Sig>) {
        let went_on = self.stopped_natives.went_on.remove(&pid);
        if !self.has_a_ghost_for_parent(pid) {
            return;
        }
        self.stopped_natives.doubt(pid, monotonic_us());
        let known = self.stopped_natives.stopped.get(&pid).copied();
        let stopped = kern::pending::read(pid).is_some_and(|now| now.state == b'T');
        match (stops, known) {
            // It stops at once, which may be seen only in a moment. If that was known, it may have gone on and stopped again: what stands for it on a node has stopped then.
            (Some(sig), _) if stopped || !went_on => drop(self.stopped_natives.stopped.insert(pid, sig)),
            // It may have stopped again since.
            (None, Some(_)) if !stopped => drop(self.stopped_natives.stopped.remove(&pid)),
            _ => return,
        }
        self.events.push_back(Event::NativeStopped { pid, sig: stops });
    }

    pub(crate) fn native_ended(&mut self, token: Token, pid: Pid) {
        self.take(token);
        self.natives.remove(&pid);
        self.stopped_natives.forget(pid);
        // Somebody may have waited for it already.
        let left = self.proc.stat_of_ended(pid).ok().flatten();
        let exit = left.and_then(|stat| Exit::from_status(stat.exit_status));
        self.tell_native_ended(pid, exit);
    }

    pub(crate) fn tell_native_ended(&mut self, pid: Pid, exit: Option<Exit>) {
        if self.taker_leaves(pid) {
            return self.stopped_natives.ended.push((pid, exit));
        }
        self.know_orphans(pid);
        let mut unwaited = self.space.children(pid);
        unwaited.retain(|child| kern::proc::exists(*child));
        self.events.push_back(Event::NativeEnded { pid, exit, unwaited });
    }

    /// Who takes the orphans of this process is written as it was before it got them, or will be: they are to come to it where it is then, unless it stays.
    fn taker_leaves(&self, pid: Pid) -> bool {
        let ppid = self.space.get(pid).map(|view| view.person.ppid);
        ppid.is_some_and(|ppid| self.space.is_leaving_home(self.space.taker(ppid)))
    }

    /// Who takes the orphans of some may have left, or not.
    pub(crate) fn tell_of_those_put_off(&mut self) {
        let all = std::mem::take(&mut self.stopped_natives.ended);
        let (later, now): (Vec<_>, Vec<_>) = all.into_iter().partition(|(pid, _)| self.taker_leaves(*pid));
        self.stopped_natives.ended = later;
        if !now.is_empty() {
            now.into_iter().for_each(|(pid, exit)| self.tell_native_ended(pid, exit));
            self.settle();
        }
    }

    /// The kernel has given the children of this one to the next who takes orphans. If that is a ghost, its process is to get them where it is, by what stands there for this one.
    fn know_orphans(&mut self, of: Pid) {
        let Some(taker) = self.space.get(of).map(|view| self.space.taker(view.person.ppid)) else { return };
        if !self.ghosts.has(taker) {
            return;
        }
        let unknown = self.children_here(taker).into_iter().filter(|pid| self.space.get(*pid).is_none());
        let orphans = unknown.filter_map(|pid| persons::read(&self.proc, pid).ok());
        // What the ghost itself has forked is nobody's.
        let orphans = orphans.filter(|person| person.name != LATE_RELAY.as_bytes());
        let persons: Vec<Person> = orphans.map(|person| Person { ppid: of, ..person }).collect();
        if !persons.is_empty() {
            self.events.push_back(Event::Natives { persons });
            self.settle();
        }
    }

    /// It is a ghost from now on.
    pub(crate) fn forget_native(&mut self, pid: Pid) {
        self.stopped_natives.forget(pid);
        if let Some(token) = self.natives.remove(&pid) {
            self.take(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_stopped_one_is_waited_for_once() {
        let (mut natives, pid) = (Natives::default(), Pid(7));
        assert!(natives.waits_for_name(pid, true) && !natives.waits_for_name(pid, true));
        assert!(natives.waits_for_name(pid, true) && !natives.waits_for_name(pid, false));
        natives.stopped.insert(pid, Sig::TSTP);
        assert!(!natives.waits_for_name(pid, true));
    }
}
