//! From task records to the table of bodies and the events (docs/mechanisms.md, "Events"). The records are the speed, /proc is the truth.

use crate::agent::Agent;
use crate::bodies::{Changed, Ids, Life};
use crate::checks::What;
use crate::leases::Step;
use kern::perf::{Record, What as Record_};
use kern::proc::PROC;
use kern::proc::{self, Name, Status};
use std::collections::HashMap;
use std::iter::successors;
use tracing::{error, info, warn};
use vocab::{Exit, Pid};
use wire::event::{BodyEvent, Person, Usage};
use wire::node::ToFront;

/// Generations that a look at all processes tells apart.
const DEEPEST: usize = 1000;

impl Agent {
    /// Takes in all records there are.
    pub(crate) fn watch(&mut self) {
        let mut records = std::mem::take(&mut self.scratch);
        records.clear();
        let count = self.records.drain(&mut records);
        if count > 0 {
            self.pace.recorded(count);
            // Before they count as read: a thread of streams that sees neither of the two would let output go.
            self.showing.order.set_shown(false);
        }
        self.records.release();
        for record in &records {
            self.record(record);
        }
        self.scratch = records;
    }

    fn record(&mut self, record: &Record) {
        match record.what {
            // In the cgroup, and without a number here: the processes that look, beside the agent's namespace.
            Record_::Fork { pid, .. } | Record_::Exit { pid, .. } | Record_::Comm { pid, .. } if pid.0 <= 0 => {}
            Record_::Fork { pid, tid, parent } => self.forked(pid, tid, parent),
            Record_::Exit { pid, tid } => self.thread_exited(pid, tid),
            Record_::Comm { pid, tid, name, exec } => self.named(pid, tid, name, exec),
            Record_::Lost { count } => {
                warn!(count, "watch: records lost, reading /proc");
                self.rescan();
            }
        }
    }

    fn forked(&mut self, pid: Pid, tid: Pid, forker: Pid) {
        self.number_given(tid);
        // The threads that it is made with have numbers of another node, and come before it runs.
        if tid == pid {
            self.may_run_by_now(forker);
        }
        let ours = forker == Pid::INIT || forker == self.nursery || self.stands.has(forker);
        if ours || self.stands.has(pid) || self.starts.has(pid) || self.moving.arrives(pid) {
            return;
        }
        if !self.leases.has(tid) && !self.leases.all().is_empty() && !self.starts.comes_along(pid, tid) {
            error!(%tid, %forker, "watch: a fork took a number that is not this node's; killed");
            kern::pidfd::end(pid);
            // The rest of the current range may be in use: there the cursor would leave it again.
            if self.cursor_is_lost() && !self.fence.is_up() {
                self.turn_leases();
            }
        }
        if tid != pid {
            return;
        }
        match self.bodies.get(pid).map(|body| body.life) {
            // The child was found in /proc already.
            Some(Life::Live) => return,
            Some(_) => self.ended_unseen(pid),
            None => {}
        }
        // What the forker had changed before, its child has inherited.
        let changing = self.checks.of(forker);
        for what in &changing {
            self.look(forker, *what);
        }
        match self.bodies.forked(forker, pid) {
            Some(()) => {
                // Or it has changed only after the fork, of which we read late.
                for what in changing.into_iter().filter(|what| *what != What::State) {
                    self.checks.add(pid, what, None, kern::clock::monotonic_us());
                }
                self.events.push(BodyEvent::Forked { parent: forker, child: pid });
                self.fresh.push(pid);
                self.reach_late(forker, pid);
            }
            None => self.found(pid),
        }
    }

    /// The process that had this number has ended, and its parent here has waited for that: the kernel has given the number out again.
    fn ended_unseen(&mut self, pid: Pid) {
        if !self.waited_by_us(pid) {
            self.leaving.remove(&pid);
            self.volley.remove(pid);
            self.ended(pid, Exit::Code(0), Usage::default());
            self.reaped(pid);
        }
    }

    /// It does what only one does that runs: if it was yet to arrive, it has been let run since its mover was heard.
    fn may_run_by_now(&mut self, pid: Pid) {
        if self.moving.arrives(pid) {
            self.hear_movers();
        }
    }

    /// The kernel has given out a number: the next lease is asked for in time, the cursor moved in time.
    fn number_given(&mut self, tid: Pid) {
        match self.leases.given(tid) {
            Step::Nothing => {}
            Step::Ask => self.uplink.send(&ToFront::LeaseWanted),
            Step::Move(first) => self.move_cursor(first),
            Step::Check => self.check_cursor(),
            Step::Look => self.leases.choose(&self.numbers_in_use()),
            // Of those that were forked before it was up.
            Step::Turn if self.fence.is_up() => {}
            Step::Turn => self.turn_leases(),
        }
    }

    pub(crate) fn move_cursor(&mut self, first: Pid) {
        match proc::set_last_pid(&self.proc, Pid(first.0 - 1)) {
            Ok(()) => info!(%first, "leases: next numbers"),
            Err(fault) => error!(%fault, "leases: the next numbers cannot be set"),
        }
    }

    /// Would the next fork take a number that is not of the current range?
    fn cursor_is_lost(&self) -> bool {
        proc::last_pid(&self.proc).is_ok_and(|last| !self.leases.goes_on_after(last))
    }

    /// A move of the cursor may be lost to a fork at the same moment; that fork's record leads here.
    fn check_cursor(&mut self) {
        if let (true, Some(first)) = (self.cursor_is_lost(), self.leases.start()) {
            self.move_cursor(first);
        }
    }

    /// Of processes and threads.
    fn numbers_in_use(&self) -> Vec<Pid> {
        let mut used = Vec::new();
        for pid in self.proc.pids().unwrap_or_default() {
            used.extend(self.proc.tasks(pid).unwrap_or_default());
            used.push(pid);
        }
        used.sort_unstable();
        used.dedup();
        used
    }

    /// All ranges have been gone through: on with what is free again, or no fork at all.
    pub(crate) fn turn_leases(&mut self) {
        let raised = match self.leases.turn(&self.numbers_in_use()) {
            Some(first) => {
                self.move_cursor(first);
                self.fence.lower()
            }
            None => {
                let (stands, nursery, writer) = (&self.stands, self.nursery, self.usages.writer);
                self.fence.raise(&self.proc, |pid| stands.has(pid) || pid == nursery || Some(pid) == writer)
            }
        };
        if let Err(fault) = raised {
            error!(%fault, "leases: forks may take numbers that are not this node's, and are killed then");
        }
    }

    fn thread_exited(&mut self, pid: Pid, tid: Pid) {
        if tid == pid {
            self.may_run_by_now(pid);
        }
        let Some(life) = self.bodies.get(pid).map(|body| body.life) else {
            if tid == pid && self.stands.has(pid) {
                self.leaving.insert(pid); // its children get another parent
            }
            return;
        };
        if tid == pid && life == Life::Live {
            self.bodies.set_life(pid, Life::Leaving);
        }
        if tid == pid || life == Life::Leaving {
            self.leaving.insert(pid);
        }
    }

    fn named(&mut self, pid: Pid, tid: Pid, name: Name, exec: bool) {
        // Before a stand-in is told to become one it may have executed what makes it that stand-in.
        if exec && self.starts.is_starting(pid) && (!self.starts.in_place(pid) || self.ghosts.becomes(pid)) {
            self.started(pid);
        }
        if tid != pid || !self.bodies.has(pid) {
            return;
        }
        self.rename(pid, name.as_bytes());
        if exec {
            self.tables.executed(pid);
            if self.bodies.get(pid).is_some_and(|body| body.life == Life::Leaving) {
                self.bodies.set_life(pid, Life::Live);
            }
            self.bodies.set_ids(pid, Ids::Executed);
            if self.is_setuid(pid) {
                self.bodies.set_ids(pid, Ids::Changes);
                self.checks.add(pid, What::Creds, None, kern::clock::monotonic_us());
            }
        }
    }

    pub(crate) fn rename(&mut self, pid: Pid, name: &[u8]) {
        if self.bodies.set_name(pid, name) {
            self.events.push(BodyEvent::Named { pid, name: name.to_vec() });
        }
    }

    /// Does what it runs change credentials? They change a moment after the name, so they are looked at again then.
    fn is_setuid(&self, pid: Pid) -> bool {
        const SET_IDS: u16 = 0o6000;
        let exe = format!("{PROC}/{pid}/exe");
        kern::stat::known(std::path::Path::new(&exe)).is_some_and(|known| known.mode & SET_IDS != 0)
    }

    /// Compares the table with /proc: after lost records.
    fn rescan(&mut self) {
        self.tables.doubt();
        let pids = self.proc.pids().unwrap_or_default();
        let here: HashMap<Pid, Status> =
            pids.into_iter().filter_map(|pid| Some((pid, self.proc.status(pid).ok()?))).collect();
        // Parents before their children.
        let parent = |pid: &Pid| here.get(pid).map(|status| status.ppid);
        let mut order: Vec<(usize, Pid)> =
            here.keys().map(|pid| (successors(Some(*pid), parent).take(DEEPEST).count(), *pid)).collect();
        order.sort_unstable();
        let ended = |pid: &Pid| here.get(pid).is_none_or(Status::ended);
        let gone: Vec<Pid> = self.bodies.iter().map(|body| body.person.pid).filter(ended).collect();
        for pid in gone {
            if self.bodies.is_live(pid) {
                self.bodies.set_life(pid, Life::Leaving);
            }
            self.leaving.insert(pid);
        }
        for (_, pid) in order {
            if let (true, Some(status)) = (self.bodies.has(pid), here.get(&pid)) {
                let Status { ppid, pgid, sid, name, .. } = status;
                self.set_parent(pid, *ppid);
                self.apply_group(pid, *pgid, *sid);
                self.rename(pid, name.as_bytes());
                self.bodies.set_ids(pid, Ids::Executed);
                self.checks.add(pid, What::Creds, None, kern::clock::monotonic_us());
            } else {
                self.found(pid);
            }
        }
    }

    /// A process that nobody told of.
    fn found(&mut self, pid: Pid) {
        if pid == Pid::INIT || pid == self.nursery || self.stands.has(pid) || self.starts.has(pid) {
            return;
        }
        if self.moving.arrives(pid) || self.moving.is_mover(pid) || self.is_view(pid) {
            return;
        }
        let Some(person) = self.person(pid) else { return };
        if self.stands.has(person.ppid) || person.ppid == self.nursery {
            return; // a stand-in or a program on its way
        }
        self.events.push(BodyEvent::Forked { parent: person.ppid, child: pid });
        match self.bodies.forked(person.ppid, pid) {
            Some(()) => {}
            None => self.bodies.add(Person { pgid: Pid::NONE, sid: Pid::NONE, ..person.clone() }),
        }
        self.rename(pid, &person.name);
        self.apply_group(pid, person.pgid, person.sid);
        self.apply_creds(pid, &person.creds);
        self.leaving.insert(pid);
    }

    /// A process as /proc has it now.
    pub(crate) fn person(&self, pid: Pid) -> Option<Person> {
        let Status { ppid, pgid, sid, creds, name, .. } = self.proc.status(pid).ok()?;
        Some(Person { pid, ppid, pgid, sid, creds, name: name.as_bytes().to_vec() })
    }

    /// Parent, group and session of a body as /proc has them.
    pub(crate) fn compare(&mut self, pid: Pid, ppid: Pid, (pgid, sid): (Pid, Pid)) {
        self.apply_parent(pid, ppid);
        self.apply_group(pid, pgid, sid);
    }

    /// The parent of a body is `ppid`, as somebody who looked at it or waited for it has seen.
    pub(crate) fn apply_parent(&mut self, pid: Pid, ppid: Pid) {
        let before = self.bodies.person(pid).map_or(ppid, |person| person.ppid);
        if before != ppid && self.bodies.is_live(before) {
            // A parent that ends says so before its children get another (linux: `do_exit` calls `perf_event_exit_task`, then
            // `exit_notify`), but perhaps after the records were read.
            self.watch();
        }
        self.set_parent(pid, ppid);
    }

    /// The same when the records that are still to be read are those that there are.
    fn set_parent(&mut self, pid: Pid, ppid: Pid) {
        let Some(before) = self.bodies.person(pid).map(|person| person.ppid) else { return };
        if before == ppid || !self.bodies.set_parent(pid, ppid) {
            return;
        }
        // A forker that lives still has its children: so this one never was its child (CLONE_PARENT).
        if !(self.bodies.is_live(before) && self.bodies.has(ppid) && self.events.correct_parent(pid, ppid)) {
            self.events.push(BodyEvent::Adopted { pid, ppid });
        }
    }

    pub(crate) fn apply_group(&mut self, pid: Pid, pgid: Pid, sid: Pid) -> bool {
        // Who made the group did that before.
        let made_it = |pid: Pid| proc::group_and_session(pid).is_some_and(|(pgid, _)| pgid == pid);
        if pgid != pid && self.checks.of(pgid).contains(&What::Group) && made_it(pgid) {
            self.look(pgid, What::Group);
        }
        let event = match self.bodies.set_group(pid, pgid, sid) {
            Changed::Nothing => return false,
            Changed::Group => BodyEvent::Group { pid, pgid },
            Changed::Session => BodyEvent::Session { pid },
        };
        // Rare, and somebody may look for it: a shell for its job, whoever was told by other ways.
        self.pace.hurry();
        self.events.push(event);
        true
    }

    pub(crate) fn apply_creds(&mut self, pid: Pid, creds: &vocab::Creds) -> bool {
        let changed = self.bodies.set_creds(pid, creds);
        if changed {
            self.pace.hurry();
            self.events.push(BodyEvent::Credentials { pid, creds: creds.clone() });
        }
        changed
    }
}
