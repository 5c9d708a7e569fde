//! Making the stand-ins that a start needs, one after the other: each is cloned by the one that the plan names, then told
//! its group or session and whose it is.

use crate::agent::Agent;
use crate::kin::{Make, Place, NURSERY, STEP_PARENT};
use crate::starts::{Making, Phase, Spawning, Work};
use ghost::{no_room, Command, Name, Outcome};
use kern::clock::monotonic_us;
use kern::proc::exists;
use tracing::warn;
use vocab::errno::ESRCH;
use vocab::{Fault, Pid};
use wire::event::Person;

/// After this time, in microseconds, others go ahead of a start that waits for a stand-in; and after this it has failed.
const PARK_US: u64 = 20_000;
const GIVE_UP_US: u64 = 5_000_000;

impl Agent {
    /// Makes the next stand-in of the start that is being made, or hands over the program.
    pub(crate) fn make_next(&mut self) {
        if self.starts.making.as_ref().is_some_and(|making| making.stale) {
            return self.plan_again();
        }
        let Some(making) = &mut self.starts.making else { return };
        let next = making.makes.pop_front();
        let by = next.as_ref().map_or(making.parent, |make| make.maker);
        let handle = next.is_none() && !matches!(making.work, Work::Program(_));
        if by != NURSERY && !handle && self.stands.get(by).is_none_or(|stand| stand.ending) {
            return self.plan_again();
        }
        let Some(make) = next else { return self.all_made() };
        let maker = if make.maker == NURSERY { self.nursery } else { make.maker };
        let pid = if make.person.pid == STEP_PARENT { Pid::NONE } else { make.person.pid };
        let command = Command::Clone { pid, sibling: make.sibling, name: Name::new(&make.person.name) };
        // Known from now on, so that its fork is not taken for a body's.
        if pid != Pid::NONE {
            let parent = native_parent(&self.stands, maker, self.nursery, make.sibling);
            self.stands.add(make.person.clone(), make.why, Some(maker), parent);
        }
        (making.phase, making.since_us) = (Phase::Cloning(make), monotonic_us());
        self.rouse_to_obey(maker);
        self.ghosts.command(maker, command);
    }

    /// What was planned cannot be made, because somebody has ended that it needs.
    fn plan_again(&mut self) {
        let Some(making) = self.starts.making.take() else { return };
        let work = self.unmade(making);
        self.starts.queue.push_front(work);
        self.next_start();
    }

    /// What is being made for this is not to be expected any more.
    fn unmade(&mut self, making: Making) -> Work {
        if let Phase::Cloning(make) = making.phase {
            if !exists(make.person.pid) {
                self.stands.remove(make.person.pid);
            }
        }
        making.work
    }

    /// Others do not wait for a stand-in that does not answer, because it is stopped or its user's own; who needs it does, for a while.
    pub(crate) fn park_late(&mut self, now: u64) {
        if self.starts.making.as_ref().is_some_and(|making| making.since_us + PARK_US <= now) {
            if let Some(making) = self.starts.making.take() {
                self.starts.parked.push(Making { stale: true, ..making });
            }
            self.next_start();
        }
        let late = |making: &Making| making.since_us + GIVE_UP_US <= now;
        while let Some(at) = self.starts.parked.iter().position(late) {
            let making = self.starts.parked.remove(at);
            let doing = format!("start {}: a stand-in that it needs does not answer", making.work.pid());
            let work = self.unmade(making);
            self.work_failed(work, Fault::gone(doing));
            self.next_start();
        }
    }

    /// When [`Agent::park_late`] has something to do next.
    pub(crate) fn park_at(&self) -> Option<u64> {
        let making = self.starts.making.iter().map(|making| making.since_us + PARK_US);
        making.chain(self.starts.parked.iter().map(|making| making.since_us + GIVE_UP_US)).min()
    }

    /// Whoever waits for this answer is on, and what was being made meanwhile is parked.
    fn resume(&mut self, pid: Pid, command: &Command) -> bool {
        let is = |making: &Making| making.is_answered_by(pid, command);
        if self.starts.making.as_ref().is_some_and(is) {
            return true;
        }
        let Some(at) = self.starts.parked.iter().position(is) else { return false };
        let making = self.starts.parked.remove(at);
        if let Some(other) = self.starts.making.replace(making) {
            self.starts.parked.push(Making { stale: true, ..other });
        }
        true
    }

    /// A stand-in has ended, and will not report what it was told.
    pub(crate) fn maker_gone(&mut self, pid: Pid) {
        if self.starts.making.as_ref().is_some_and(|making| making.waits_for(pid)) {
            self.plan_again();
        }
        while let Some(at) = self.starts.parked.iter().position(|making| making.waits_for(pid)) {
            let making = self.starts.parked.remove(at);
            let work = self.unmade(making);
            self.starts.queue.push_front(work);
            self.next_start();
        }
        let lost = |(child, s): (&Pid, &Spawning)| (s.parent == pid && !s.in_place && !s.started).then_some(*child);
        let lost: Vec<Pid> = self.starts.spawning.iter().filter_map(lost).collect();
        for child in lost {
            // One that it has cloned goes on without it.
            if !exists(child) {
                if let Some(spawning) = self.starts.spawning.remove(&child) {
                    self.could_not(spawning, ESRCH);
                }
            }
        }
    }

    /// A stand-in has done a command that makes or dresses one.
    pub(crate) fn made(&mut self, pid: Pid, outcome: &Outcome) {
        if !self.resume(pid, &outcome.command) {
            if let (Command::Clone { .. }, 1..) = (outcome.command, outcome.ret) {
                self.unwanted(Pid(outcome.ret as i32));
            }
            return;
        }
        self.made_next(pid, outcome);
        self.no_more_busy(pid);
    }

    fn made_next(&mut self, pid: Pid, outcome: &Outcome) {
        let Some(making) = &mut self.starts.making else { return };
        match std::mem::replace(&mut making.phase, Phase::Idle) {
            Phase::Cloning(make) if matches!(outcome.command, Command::Clone { .. }) => {
                self.cloned(pid, make, outcome.ret)
            }
            Phase::Dressing { pid: who, left, _groups } if who == pid => {
                if outcome.ret < 0 {
                    warn!(%pid, command = ?outcome.command, errno = -outcome.ret, "a stand-in is not what it should be");
                }
                match left {
                    0 | 1 => self.make_next(),
                    left => making.phase = Phase::Dressing { pid, left: left - 1, _groups },
                }
            }
            phase => making.phase = phase,
        }
    }

    /// A stand-in that nobody waits for any more.
    fn unwanted(&mut self, pid: Pid) {
        if !self.stands.has(pid) {
            self.ghosts.command(pid, Command::Exit(0));
        }
    }

    fn cloned(&mut self, maker: Pid, make: Make, ret: i64) {
        if ret <= 0 {
            self.stands.remove(make.person.pid);
            let fault =
                no_room(-ret as i32, format!("make a process that stands for process {} here", make.person.pid));
            if let Some(making) = self.starts.making.take() {
                self.work_failed(making.work, fault);
            }
            return self.next_start();
        }
        let pid = Pid(ret as i32);
        if !self.ghosts.has(pid) {
            return self.plan_again(); // its process has ended meanwhile, and it has
        }
        if make.person.pid == STEP_PARENT {
            let parent = native_parent(&self.stands, maker, self.nursery, make.sibling);
            self.stands.add(Person { pid, ..make.person.clone() }, make.why, Some(maker), parent);
        }
        self.stands_again(pid);
        let groups: Box<[u32]> = make.person.creds.groups.clone().into();
        let (list, count) = (groups.as_ptr() as u64, groups.len() as u64);
        let place = match make.place {
            Place::Stay => None,
            Place::Session => Some(Command::Setsid),
            Place::Lead => Some(Command::Setpgid { pid: Pid::NONE, pgid: Pid::NONE }),
            Place::Join(pgid) => Some(Command::Setpgid { pid: Pid::NONE, pgid }),
        };
        // Only what `made` counts: group or session, and the ids.
        let left = u32::from(place.is_some()) + 1;
        if let Some(command) = place {
            self.ghosts.command(pid, command);
        }
        self.ghosts.command(pid, Command::Children(true));
        if self.stands.takes_orphans(pid) {
            self.ghosts.command(pid, Command::Subreaper(true));
        }
        if self.stands.get(pid).is_some_and(|stand| !stand.apart()) {
            self.ghosts.command(pid, Command::Groups { list, count });
        }
        let creds = &make.person.creds;
        self.ghosts.command(pid, Command::Ids { uid: creds.uid, gid: creds.gid });
        if let Some(making) = &mut self.starts.making {
            if making.parent == STEP_PARENT {
                making.parent = pid;
            }
            (making.phase, making.since_us) = (Phase::Dressing { pid, left, _groups: groups }, monotonic_us());
        }
    }
}

/// Whose child a new stand-in is on this node.
fn native_parent(stands: &crate::stands::Stands, maker: Pid, nursery: Pid, sibling: bool) -> Pid {
    match sibling {
        false => maker,
        true if maker == nursery => Pid::INIT,
        true => stands.get(maker).map_or(Pid::INIT, |stand| stand.native_parent()),
    }
}
