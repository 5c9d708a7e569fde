//! The ends of bodies, and what is told to the front end when: at the last moment, so that short lives cancel out.

use crate::agent::Agent;
use crate::bodies::{Ids, Life};
use crate::checks::What;
use kern::clock::monotonic_us;
use kern::epoll::Interest;
use kern::proc::{exists, group_and_session, Stat};
use kern::ran::Waited;
use kern::wait::Change;
use std::collections::{HashMap, HashSet};
use tracing::{debug, warn};
use vocab::{Exit, Pid, Sig};
use wire::event::{BodyEvent, Usage};
use wire::node::ToFront;

/// Microseconds of a clock tick of /proc/PID/stat (USER_HZ is 100 on every x86-64).
const TICK_US: u64 = 10_000;

/// How often a batch takes in those that were forked while it was made; the next one says whose children the others are.
const ROUNDS: usize = 3;

/// From so many forks of one process on, its children are looked at together.
const MANY_FORKS: usize = 4;

pub(crate) fn usage(from: kern::wait::Usage) -> Usage {
    Usage { user_us: from.user_us, system_us: from.system_us, max_rss_kb: from.max_rss_kb }
}

/// How far the end of a process has come.
enum Ending {
    Lives,
    Ended(Stat),
    /// It has been waited for.
    Gone,
}

impl Agent {
    /// Is there something to tell, and no batch under way?
    pub(crate) fn has_news(&self) -> bool {
        self.uplink.up() && self.events.idle() && (self.events.ready() || !self.leaving.is_empty())
    }

    /// Sends the next batch when it is time.
    pub(crate) fn tell_in_time(&mut self) {
        if self.has_news() && self.pace.may_tell(monotonic_us()) {
            self.tell();
        }
    }

    /// Sends what there is to tell, though a batch be under way: what follows must find it known. Of `pid` also what no record tells.
    pub(crate) fn tell_all(&mut self, pid: Pid) {
        self.watch();
        // Also where no change is looked for any more: on a busy machine a call may take longer from the gate to its end.
        self.look(pid, What::Group);
        if self.bodies.ids(pid) != Ids::Known {
            self.look(pid, What::Creds);
            self.bodies.set_ids(pid, Ids::Known);
        }
        if self.checks.of(pid).contains(&What::State) {
            self.look(pid, What::State);
        }
        self.waited_for(pid);
        self.settle();
        self.tell_now();
    }

    /// Children of `parent` that it has waited for, without that we have been woken for it.
    pub(crate) fn waited_for(&mut self, parent: Pid) {
        for pid in self.bodies.children(parent) {
            let ended = self.bodies.get(pid).is_some_and(|body| body.life == Life::Ended);
            if ended && !exists(pid) {
                self.reaped(pid);
            }
        }
        self.runners_waited_for(parent);
    }

    /// The same of children that run elsewhere.
    pub(crate) fn runners_waited_for(&mut self, parent: Pid) {
        let runners = self.stands.iter().filter(|stand| stand.person.ppid == parent);
        for pid in runners.map(|stand| stand.person.pid).collect::<Vec<_>>() {
            if self.is_ending_runner(pid) && !exists(pid) {
                self.runner_reaped(pid);
            }
        }
    }

    /// Sends the next batch, if none is under way and there is something to tell.
    pub(crate) fn tell(&mut self) {
        if !self.has_news() {
            return;
        }
        self.pace.told(monotonic_us());
        self.leave_to_parents();
        self.settle_known();
        if let Some((batch, events)) = self.events.take() {
            self.uplink.send(&ToFront::Events { batch, events });
        }
    }

    /// Those of a group that all ends wait until their parents have ended.
    fn leave_to_parents(&mut self) {
        let Some(group) = self.volley.waits(self.leaving.len(), monotonic_us()) else { return };
        for pid in std::mem::take(&mut self.leaving) {
            match self.parent_ends_with(pid, group) {
                true => self.volley.add(pid),
                false => drop(self.leaving.insert(pid)),
            }
        }
    }

    /// Parents that should have ended have not in time.
    pub(crate) fn end_volley(&mut self) {
        self.leaving.extend(self.volley.over());
    }

    /// Compares what has happened since the last batch with /proc.
    pub(crate) fn settle(&mut self) {
        self.end_volley();
        self.settle_known();
    }

    fn settle_known(&mut self) {
        // A parent that ended with its children has them told of before it ([`Agent::ended`]): until its turn each stays among those that leave.
        for pid in self.leaving.iter().copied().collect::<Vec<_>>() {
            if self.leaving.remove(&pid) {
                self.settle_leaving(pid);
            }
        }
        let mut rounds = 0;
        while !self.fresh.is_empty() && rounds < ROUNDS {
            rounds += 1;
            let mut fresh: HashMap<Pid, Vec<Pid>> = HashMap::new();
            for pid in std::mem::take(&mut self.fresh) {
                if let Some(body) = self.bodies.get(pid).filter(|body| body.life == Life::Live) {
                    fresh.entry(body.person.ppid).or_default().push(pid);
                }
            }
            for (forker, children) in fresh {
                self.settle_fresh(forker, children);
            }
        }
    }

    /// Is the forker their parent? (CLONE_PARENT.) One look tells of many. What else may have changed since, the gate has told.
    fn settle_fresh(&mut self, forker: Pid, mut children: Vec<Pid>) {
        if children.len() >= MANY_FORKS {
            let its: HashSet<Pid> = self.proc.children(forker).unwrap_or_default().into_iter().collect();
            children.retain(|child| !its.contains(child));
        }
        for pid in children {
            if let Ok(ppid) = self.proc.parent(pid) {
                self.apply_parent(pid, ppid);
            }
            if let Some((pgid, sid)) = group_and_session(pid) {
                self.apply_group(pid, pgid, sid);
            }
        }
    }

    fn settle_leaving(&mut self, pid: Pid) {
        if !self.bodies.has(pid) {
            return self.settle_stand_in(pid);
        }
        if self.bodies.get(pid).is_none_or(|body| body.life == Life::Ended) {
            // There was no descriptor to have for the handle that tells when it is waited for.
            if !self.handles.has(pid) && !self.waited_by_us(pid) {
                self.handle(pid, Interest::empty());
            }
            return;
        }
        if !self.parent_lives(pid) && kern::wait::is_child(pid) {
            self.apply_parent(pid, Pid::INIT);
        }
        // Our wait will tell; what it has changed just before its end is to be seen while it can be.
        if self.waited_by_us(pid) && self.checks.of(pid).is_empty() && !self.bodies.was_left(pid) {
            return;
        }
        match self.ending(pid) {
            // Waited for already by a parent that is here too, so nobody needs its status any more.
            Ending::Gone if !self.waited_by_us(pid) && !self.has_stood_for_parent(pid) => {
                self.ended(pid, Exit::Code(0), Usage::default());
                self.reaped(pid);
            }
            Ending::Gone => {}
            Ending::Ended(stat) => self.zombie(&stat),
            // The record comes before the end; or the other threads live on.
            Ending::Lives => self.handle(pid, Interest::READ),
        }
    }

    fn ending(&self, pid: Pid) -> Ending {
        match self.proc.stat_of_ended(pid) {
            Ok(Some(stat)) => Ending::Ended(stat),
            Ok(None) => Ending::Lives,
            Err(_) => Ending::Gone,
        }
    }

    /// A stand-in ends: as soon as it has, its children are another's, though its own parent here may not be able to wait yet.
    fn settle_stand_in(&mut self, pid: Pid) {
        let lost = match self.ending(pid) {
            Ending::Lives => false,
            Ending::Ended(stat) => self.runner_lost(pid, Exit::from_status(stat.exit_status)),
            // One that a stand-in has waited for is told of by that, and how it ended.
            Ending::Gone => !self.stand_in_waits(pid) && self.runner_lost(pid, None),
        };
        if lost {
            warn!(%pid, "a shoal run has ended before its program");
        }
        match self.proc.status(pid) {
            Ok(_) if self.is_ending_runner(pid) => {
                self.reparent_children(pid);
                self.handle(pid, Interest::empty());
            }
            Err(_) if self.is_ending_runner(pid) => self.runner_reaped(pid),
            Ok(status) if !status.ended() && self.stands.has(pid) => self.handle(pid, Interest::READ),
            _ => self.reparent_children(pid),
        }
    }

    /// The parent of a `shoal run`, a body of this node, has waited for it: the program on the other node is waited for. But what ended with a parent that has left
    /// that one has yet to wait for, elsewhere: of all that it waited for here the front end was told before it left, or it would not have been let leave.
    pub(crate) fn runner_reaped(&mut self, pid: Pid) {
        let has_left = self.stands.get(pid).is_some_and(|stand| self.moving.has_bound(stand.native_parent()));
        let parent = self.stands.get(pid).map(|stand| stand.native_parent());
        debug!(%pid, ?parent, has_left, "it has been waited for here");
        self.drop_handle(pid);
        self.stand_in_reaped(pid, None);
        if !has_left {
            self.events.push(BodyEvent::Reaped { pid });
        }
    }

    /// Will its end reach us by wait4, ours or a stand-in's? Then nothing else tells of it.
    pub(crate) fn waited_by_us(&self, pid: Pid) -> bool {
        let parent = self.bodies.person(pid).map_or(Pid::NONE, |person| person.ppid);
        // One that is about to be a process waits itself.
        let waits = |parent| self.stands.has(parent) && !self.moving.arrives(parent);
        parent == Pid::INIT || waits(parent) && !self.is_spared(pid)
    }

    /// Is what stands for its parent, and is about to be that, a stand-in still? Then the wait for it was one that it had in its hands, and tells how it ended.
    fn has_stood_for_parent(&self, pid: Pid) -> bool {
        self.bodies.person(pid).is_some_and(|person| self.stands.has(person.ppid)) && !self.is_spared(pid)
    }

    /// Are `pid` and its parent, a body that has not ended, of this group?
    fn parent_ends_with(&self, pid: Pid, group: Pid) -> bool {
        let of_group = |pid: Pid| self.bodies.get(pid).filter(|body| body.person.pgid == group);
        let parent = of_group(pid).and_then(|body| of_group(body.person.ppid));
        parent.is_some_and(|parent| parent.life != Life::Ended)
    }

    /// As far as is known.
    fn parent_lives(&self, pid: Pid) -> bool {
        let parent = self.bodies.person(pid).and_then(|person| self.bodies.get(person.ppid));
        parent.is_none_or(|parent| parent.life == Life::Live)
    }

    fn zombie(&mut self, stat: &Stat) {
        let pid = stat.pid;
        self.compare(pid, stat.ppid, (stat.pgid, stat.sid));
        if self.waited_by_us(pid) {
            // No SIGCHLD tells the stand-in (clone(2)).
            if stat.exit_signal != i32::from(Sig::CHLD.number()) && self.bodies.was_left(pid) {
                self.child_changed(stat.ppid);
            }
            return;
        }
        let usage = Usage { user_us: stat.user_ticks * TICK_US, system_us: stat.system_ticks * TICK_US, max_rss_kb: 0 };
        self.ended(pid, Exit::from_status(stat.exit_status).unwrap_or(Exit::Code(0)), usage);
        self.handle(pid, Interest::empty());
    }

    /// A body's end becomes known.
    pub(crate) fn ended(&mut self, pid: Pid, exit: Exit, usage: Usage) {
        if self.bodies.get(pid).is_none_or(|body| body.life == Life::Ended) {
            return;
        }
        // What ended before it is told before it, unless nobody could know: ended children that it leaves are ours to wait for.
        self.runners_waited_for(pid);
        for child in self.bodies.children(pid) {
            if !self.leaving.remove(&child) && !self.volley.remove(child) {
                continue;
            }
            match kern::wait::is_child(child) {
                true => drop(self.leaving.insert(child)),
                false => self.settle_leaving(child),
            }
        }
        self.bodies.set_life(pid, Life::Ended);
        let exit = self.ended_as(pid, exit);
        self.events.push(BodyEvent::Exited { pid, exit, usage });
        self.reparent_children(pid);
        self.program_ended(pid);
    }

    /// It is no body here any more, and its end is nobody's business.
    pub(crate) fn forget_body(&mut self, pid: Pid) {
        self.bodies.remove(pid);
        self.forget(pid);
    }

    /// One that has ended is no more: its parent has waited for it. Of a wait of ours that itself tells, and until then its number is not used again: it would be told of who
    /// has it by then.
    pub(crate) fn seen_reaped(&mut self, pid: Pid) {
        match self.waited_by_us(pid) {
            true => self.drop_handle(pid),
            false => self.reaped(pid),
        }
    }

    /// Nothing is left of it. What its parent has waited for is told; what stands for that, and waits in its place, is not it: told after it has ended elsewhere, that wait
    /// would count as one of who takes its orphans.
    pub(crate) fn reaped(&mut self, pid: Pid) {
        if let Some(body) = self.bodies.remove(pid) {
            let parent = body.person.ppid;
            self.usages.left(pid, Some(parent).filter(|parent| self.bodies.has(*parent)));
            if !self.stands.has(parent) || self.moving.arrives(parent) {
                self.events.push(BodyEvent::Reaped { pid });
            }
        }
        self.forget(pid);
        if self.adopting.has(pid) {
            self.next_start(); // its number is free
        }
    }

    fn forget(&mut self, pid: Pid) {
        self.leaving.remove(&pid);
        self.volley.remove(pid);
        self.drop_handle(pid);
        self.stopping.forget(pid);
        for what in [What::Group, What::Creds, What::State] {
            self.checks.drop(pid, what);
        }
        self.elders.counts.remove(&pid);
        self.expects_no_gate(pid);
        self.passes_no_more(pid);
    }

    /// Init's own children: orphans, and stand-ins that have ended. And who is traced.
    pub(crate) fn reap(&mut self) {
        while let Ok(Some(waited)) = kern::wait::any() {
            if matches!(waited.change, Change::Ended(_)) {
                self.mover_reaped(waited.pid);
            }
            if !self.traced_changed(waited.pid, waited.status) {
                self.changed(Pid::INIT, waited.pid, waited.change, usage(waited.usage));
            }
        }
    }

    /// A child of `by`, init or a stand-in, has changed, as its wait tells.
    pub(crate) fn changed(&mut self, by: Pid, pid: Pid, change: Change, used: Usage) {
        if self.bodies.person(pid).is_some_and(|person| person.ppid != by) {
            // An orphan; its parent has ended since the records were read, or it was never its parent.
            self.watch();
            self.apply_parent(pid, by);
        }
        match change {
            Change::Ended(exit) => {
                if self.moved_ended(pid) {
                    self.end_goes_on(by);
                    return;
                }
                if self.bodies.has(pid) || self.ended_in_place(pid) {
                    // Init's children have nobody who waits to be told.
                    if by != Pid::INIT {
                        self.pace.hurry();
                    }
                    let used = self.usages.whole(pid, used);
                    self.ended(pid, exit, used);
                    self.reaped(pid);
                    if self.stands.has(by) {
                        self.waited_here(by, pid, (exit, used));
                    }
                } else {
                    self.stand_in_reaped(pid, Some(exit));
                }
                self.end_goes_on(by);
            }
            _ if !self.bodies.has(pid) => {}
            Change::Stopped(sig) => self.waited_stop(pid, Some(sig)),
            Change::Continued => self.waited_stop(pid, None),
        }
    }

    /// Looks again at what may have changed after a call or a signal.
    pub(crate) fn look_again(&mut self) {
        for (pid, what) in self.checks.due(monotonic_us(), Waited::may_be_in_it) {
            self.look(pid, what);
        }
    }

    pub(crate) fn look(&mut self, pid: Pid, what: What) {
        let changed = match what {
            What::Group => match group_and_session(pid) {
                Some((pgid, sid)) => self.apply_group(pid, pgid, sid),
                None => true,
            },
            What::Creds => match self.proc.status(pid) {
                Ok(status) => self.apply_creds(pid, &status.creds),
                Err(_) => true,
            },
            What::State => self.look_at_state(pid, !self.checks.of(pid).contains(&what)),
        };
        if changed {
            self.checks.settled(pid, what);
        }
    }
}
