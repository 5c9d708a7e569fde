//! Processes of the front end whose parent is on a node: its ghost is their parent here, and hands over what the kernel tells it of them.
//!
//! Of an end the daemon learns by a handle on the process, and looks at what is left of it: its parent's ghost waits for it only when the parent has waited on its node.

use crate::connection::Token;
use crate::front::Front;
use ghost::Command as Tell;
use space::Event;
use std::collections::{HashMap, HashSet};
use vocab::{Exit, Pid, Sig, SigInfo};

#[derive(Debug, Default)]
pub(crate) struct Natives {
    /// Those of them that are stopped, and by what.
    stopped: HashMap<Pid, Sig>,
    /// Those of which the kernel has told that they go on, and their mover not yet that it has let them go.
    went_on: HashSet<Pid>,
}

impl Natives {
    fn forget(&mut self, pid: Pid) {
        self.stopped.remove(&pid);
        self.went_on.remove(&pid);
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
            let known = self.stopped_natives.stopped.get(&pid).copied();
            // Its mover lets what becomes it run though it is stopped.
            let stopped = now.state == b'T' || now.traced && known.is_some();
            let told = told.filter(|info| info.pid == pid);
            if told.is_some_and(|info| info.code == CONTINUED) && self.is_coming_home(pid) {
                self.stopped_natives.went_on.insert(pid);
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

    /// Its mover has let it go. Of a stop, or its end, that its task had while it was traced the kernel has told when nobody could know that: before its parent's ghost was to hand
    /// it over, or before it could be told from a stop of the mover's.
    pub(crate) fn let_go_at_home(&mut self, pid: Pid, stops: Option<Sig>) {
        let went_on = self.stopped_natives.went_on.remove(&pid);
        let parent = self.space.get(pid).map(|view| view.person.ppid);
        if !parent.is_some_and(|parent| self.ghosts.has(parent)) {
            return;
        }
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
        let mut unwaited = self.space.children(pid);
        unwaited.retain(|child| kern::proc::exists(*child));
        self.events.push_back(Event::NativeEnded { pid, exit, unwaited });
    }

    /// It is a ghost from now on.
    pub(crate) fn forget_native(&mut self, pid: Pid) {
        self.stopped_natives.forget(pid);
        if let Some(token) = self.natives.remove(&pid) {
            self.take(token);
        }
    }
}
