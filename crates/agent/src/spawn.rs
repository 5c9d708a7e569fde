//! Starting programs: the stand-ins they need are made one after the other, then the parent's stand-in clones the program.

use crate::agent::Agent;
use crate::kin::{self, Make, Place, Plan};
use crate::setup::{Begins, Prepared};
use crate::stands::{Held, Later, Why};
use crate::starts::{persons, Making, Phase, Spawning, Start, Work};
use ghost::{Command, Outcome};
use kern::clock::monotonic_us;
use kern::proc::exists;
use kern::standin::setup::Session;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use tracing::{debug, info, warn};
use vocab::errno::{EIO, ENOENT, ESRCH};
use vocab::{Fault, Pid, Result};
use wire::event::{BodyEvent, Person};
use wire::node::{ChannelTo, Kin, ToFront};
use wire::run::Program;

impl Agent {
    /// Starts a program, or tells the front end why not.
    pub(crate) fn start(&mut self, person: Person, program: Program, kin: Vec<Kin>, channel: &ChannelTo) {
        let pid = person.pid;
        if let Err(fault) = self.prepare_view(&person.creds, &program) {
            return self.not_started((pid, false), fault);
        }
        let free = match self.bodies.has(pid) || self.moving.arrives(pid) || self.starts.is_to_begin(pid) {
            true => Err(Fault::refused(format!("start {pid}: the number is in use on this node"))),
            false => {
                // With the front end's files come the names of its users.
                let is_of_front = self.administration.views.is_of_front(program.view);
                let user = program.user.as_deref().filter(|_| !is_of_front);
                let admitted = self.starts.strangers.admits(self.number, &person.creds, user, is_of_front);
                admitted.and_then(|text| {
                    let ends = self.open_streams(&program, channel)?;
                    ends.give(&person.creds).map(|()| (ends, text))
                })
            }
        };
        match free {
            Ok((ends, text)) => {
                if let Some(text) = text {
                    warn!(%pid, "{}", text.trim_end());
                    // A pipe or terminal that is new takes it, and whoever has called `shoal run` reads it there.
                    let _ = kern::sys::write(ends.stderr.as_fd(), text.as_bytes());
                }
                let kin = persons(kin);
                let start = Start { person, program, kin, ends, misses: 0, arrives: false, later: Vec::new() };
                self.starts.queue.push_back(Work::Program(Box::new(start)));
                self.next_start();
            }
            Err(fault) => self.not_started((pid, false), fault),
        }
    }

    /// Lets a process stand here.
    pub(crate) fn stand_in(&mut self, kin: Kin, others: Vec<Kin>) {
        let pid = kin.person.pid;
        let stands = self.stands.get(pid).is_some_and(|stand| !stand.ending) && exists(pid);
        if self.bodies.has(pid) || stands {
            if let Some(stand) = self.stands.get_mut(pid) {
                stand.is_held();
            }
            self.stood_in(pid, 0);
            return;
        }
        self.starts.queue.push_back(Work::Handle { person: kin.person, kin: persons(others), ended: false });
        self.next_start();
    }

    fn stood_in(&mut self, pid: Pid, errno: i32) {
        self.uplink.send(&ToFront::StandInDone { pid, errno });
        self.handle_answered(pid, errno);
    }

    /// Goes on with the oldest start that waits, if none is being made.
    pub(crate) fn next_start(&mut self) {
        while self.starts.making.is_none() {
            let Some((work, planned)) = self.take_work() else { return };
            match planned {
                Ok(Plan { makes, parent, place, .. }) => {
                    let (phase, since_us) = (Phase::Idle, monotonic_us());
                    let makes = makes.into();
                    self.starts.making = Some(Making { work, makes, parent, place, phase, since_us, stale: false });
                    self.make_next();
                }
                Err(fault) => self.work_failed(work, fault),
            }
        }
    }

    /// The oldest that waits for nobody, and its plan. When its parent, or the leader of its group, is about to be a body, it is planned with
    /// that; and the number of one that has ended is free once its parent here has waited for it.
    fn take_work(&mut self) -> Option<(Work, Result<Plan>)> {
        let mut before = self.starts.parked_pids();
        for at in 0..self.starts.queue.len() {
            let work = &self.starts.queue[at];
            let pid = work.pid();
            let ended = |pid: Pid| matches!(work, Work::Orphan { .. }) && self.bodies.has(pid);
            let taken = |pid: Pid| self.stands.leaves(pid) || self.moving.remains(pid) || ended(pid);
            let has_to_wait = self.moving.arrives(pid) && self.moving.has_to_wait(pid);
            // Its parent, which is bound to leave, is to be counted as gone.
            let leaves =
                matches!(work, Work::Program(start) if start.arrives && self.moving.is_bound(start.person.ppid));
            // Its maker was to become a process that has ended on the way: it makes it when it stands here again.
            let comes = matches!(work, Work::Orphan { from, .. } if self.moving.arrives(*from));
            let views = &self.administration.views;
            let blind = matches!(work, Work::Program(start) if views.keeps_waiting(&start.program));
            let waits = has_to_wait || leaves || comes || blind || taken(pid) && !self.is_in_vain(work);
            if !waits && !self.starts.waits(work, &before) {
                let planned = self.planned(work);
                // Nor is anybody to stand here whose process is being made here just now, or has been and its image comes.
                let taken = |pid: Pid| taken(pid) || self.starts.is_starting(pid) || self.moving.is_made(pid);
                // And who is about to be a program makes none any more.
                let no = |make: &Make| taken(make.person.pid) || self.starts.in_place(make.maker);
                let leaves = |plan: &Plan| !plan.ends.is_empty() || plan.makes.iter().any(no);
                if !planned.as_ref().is_ok_and(leaves) {
                    return self.starts.queue.remove(at).map(|work| (work, planned));
                }
                let (makes, ends) = planned.map(|plan| (plan.makes, plan.ends)).unwrap_or_default();
                ends.iter().for_each(|pid| self.end_unneeded(*pid));
                // A parent that is stopped does not wait, here as where this itself waits.
                let waiting = |make: &Make| self.moving.who_waits_for(make.person.pid);
                let parents: Vec<Pid> = makes.iter().filter_map(waiting).collect();
                parents.into_iter().for_each(|parent| self.rouse_to_obey(parent));
            }
            let parent = self.moving.who_waits_for(pid).or(has_to_wait.then_some(pid));
            parent.into_iter().for_each(|parent| self.rouse_to_obey(parent));
            before.insert(pid);
        }
        None
    }

    /// An orphan that who is to make it makes no more: there is nothing to wait for, as that one waits for nobody either.
    fn is_in_vain(&self, work: &Work) -> bool {
        let Work::Orphan { from, .. } = work else { return false };
        self.stands.get(*from).is_none_or(|stand| stand.ending || !stand.runs() || stand.held != Held::Free)
    }

    /// Nobody needs this stand-in as what it is.
    pub(crate) fn end_unneeded(&mut self, pid: Pid) {
        if let Some(stand) = self.stands.get_mut(pid).filter(|stand| !stand.ending) {
            stand.ending = true;
            self.idle.remove(&pid);
            self.rouse(pid);
            self.lets_children_go(pid);
            self.ghosts.command(pid, Command::Exit(0));
        }
    }

    fn planned(&self, work: &Work) -> Result<Plan> {
        let alone = |makes| Plan { makes, parent: Pid::NONE, place: Place::Stay, ends: Vec::new() };
        match work {
            Work::Program(start) => {
                let Start { person, kin, ends, arrives, .. } = &**start;
                if *arrives {
                    return kin::plan_arrival(person, kin, &self.stands, &self.bodies);
                }
                kin::plan(person, ends.terminal, kin, &self.stands, &self.bodies)
            }
            Work::Handle { person, ended: true, .. } => {
                Err(Fault::gone(format!("stand for {}: it has ended", person.pid)))
            }
            Work::Handle { person, kin, .. } => Ok(alone(kin::plan_handle(person, kin, &self.stands, &self.bodies))),
            Work::Orphan { person, from, kin } => {
                kin::plan_orphan(person, *from, kin, &self.stands, &self.bodies).map(alone)
            }
        }
    }

    /// What has happened to children of one that arrives has waited until it is there, or does not come.
    fn now(&mut self, later: Vec<(Pid, Later)>) {
        for (child, later) in later {
            match later {
                Later::Stops(stopped) => self.mirror(child, stopped),
                Later::Ends(exit, usage) => self.end_stand_in(child, exit, usage),
            }
        }
    }

    pub(crate) fn work_failed(&mut self, work: Work, fault: Fault) {
        match work {
            Work::Program(start) => {
                self.not_started((start.person.pid, start.arrives), fault);
                self.now(start.later);
            }
            Work::Handle { person, ended: true, .. } => self.stood_in(person.pid, ESRCH),
            Work::Handle { person, .. } => {
                warn!(%fault, "no stand-in for a handle");
                let errno = if fault.root_errno() != 0 { fault.root_errno() } else { ESRCH };
                self.stood_in(person.pid, errno);
            }
            Work::Orphan { person, from, .. } => {
                debug!(pid = %person.pid, %fault, "an orphan cannot stand here");
                self.orphan_made(person.pid, from, false);
            }
        }
    }

    /// Not for want of the program: the failure is ours.
    fn not_started(&mut self, which: (Pid, bool), fault: Fault) {
        self.no_program(which, fault, 125);
    }

    /// `status`: as env(1) says it. Of one that arrives nobody is told who has given that up.
    fn no_program(&mut self, (pid, arrives): (Pid, bool), fault: Fault, status: u8) {
        self.elders.counts.remove(&pid);
        self.expects_no_gate(pid);
        if arrives {
            return self.arrival_fails(pid, fault);
        }
        info!(%pid, %fault, "start: failed");
        self.send_to_nobody(pid);
        self.uplink.send(&ToFront::NotStarted { pid, fault: fault.on(self.number), status });
        self.passes_no_more(pid);
    }

    /// Every stand-in is there: the program, or the handle.
    pub(crate) fn all_made(&mut self) {
        let Some(Making { work, parent, place, .. }) = self.starts.making.take() else { return };
        match work {
            Work::Handle { person, .. } => self.stood_in(person.pid, 0),
            Work::Orphan { person, from, .. } => self.orphan_made(person.pid, from, true),
            Work::Program(start) => {
                let Start { person, program, ends, .. } = &*start;
                let stdio = [&ends.stdin, &ends.stdout, &ends.stderr].map(AsRawFd::as_raw_fd);
                let session = match (place, ends.terminal && !start.arrives) {
                    (Place::Stay, true) => Session::Takes,
                    (_, true) => Session::Makes { terminal: true },
                    (Place::Session, false) => Session::Makes { terminal: false },
                    (_, false) => Session::Stays,
                };
                let (pid, arrives) = (person.pid, start.arrives);
                let apart = self.stands.get(parent).is_some_and(|stand| stand.apart());
                // Who comes from a body is behind that one's gate, and there can be only one (seccomp(2), EBUSY).
                let gate = match apart {
                    true => Ok(None),
                    false => self.gate_of(person, arrives).map(Some),
                };
                let prepared = gate.and_then(|gate| {
                    let begins = Begins { place, session, stdio, keeps: arrives, gate };
                    let files = self.files_for(program, arrives, apart.then_some(parent))?;
                    Prepared::new(pid, &person.creds, program, begins, files)
                });
                match prepared {
                    Ok(mut prepared) => {
                        debug!(%pid, %parent, ?place, "start: spawning");
                        let in_place = parent == pid;
                        let by = parent;
                        let command = match (in_place, apart) {
                            (_, true) => Command::Map { bytes: prepared.size(), child: pid },
                            (true, false) => Command::Exec(prepared.place_here()),
                            (false, false) => Command::Spawn(prepared.place_here()),
                        };
                        let native = self.stands.get(pid).filter(|_| in_place).map(|stand| stand.native_parent());
                        let parent = native.unwrap_or(parent);
                        let spawning =
                            Spawning { start, parent, prepared, apart, image: None, started: false, in_place };
                        self.starts.spawning.insert(pid, spawning);
                        match arrives && in_place {
                            true => self.rouse_to_become(by),
                            false => self.rouse_to_obey(by),
                        }
                        self.ghosts.command(by, command);
                    }
                    Err(fault) => self.not_started((person.pid, start.arrives), fault),
                }
            }
        }
        self.next_start();
    }

    /// The program has exec'd: it is a body. Told by the record of its exec or by its parent's stand-in, whichever comes first.
    pub(crate) fn started(&mut self, pid: Pid) {
        let Some(spawning) = self.starts.spawning.get_mut(&pid).filter(|spawning| !spawning.started) else { return };
        spawning.started = true;
        self.fence.enclose(pid);
        let later = std::mem::take(&mut spawning.start.later);
        let numbers = std::mem::take(&mut spawning.start.program.numbers);
        let Start { person, ends, arrives, .. } = &*spawning.start;
        let (mut person, id, arrives) = (person.clone(), ends.id, *arrives);
        person.ppid = spawning.parent;
        if ends.terminal {
            (person.pgid, person.sid) = (pid, pid);
        }
        let (mut stood, in_place) = (None, spawning.in_place);
        if in_place {
            self.starts.spawning.remove(&pid);
            stood = self.stands.remove(pid);
            self.idle.remove(&pid);
            self.ghosts.left(pid);
        }
        if arrives {
            self.arrival_started(person, stood);
            self.now(later);
            self.maker_gone(pid);
            self.arrival_goes_on(pid);
            return self.next_start();
        }
        self.bodies.add(person);
        if in_place {
            self.maker_gone(pid);
        }
        self.starts.programs.insert(pid, id);
        if !numbers.is_empty() {
            self.starts.along.insert(pid, numbers.into_iter().collect());
        }
        self.pace.hurry();
        self.events.push(BodyEvent::Started { pid });
        self.send_after_start(pid);
        self.next_start();
    }

    /// A stand-in that is to become a program has taken a signal, which must be handed over first.
    pub(crate) fn becomes_later(&mut self, pid: Pid, address: u64) {
        if self.starts.in_place(pid) {
            self.ghosts.command(pid, Command::Exec(address));
        }
    }

    /// A stand-in has been waited for. If it was to become a program, the exec has failed; or it has ended at once, which is told by
    /// `true`: then it was a body.
    pub(crate) fn ended_in_place(&mut self, pid: Pid) -> bool {
        let Some(spawning) = self.starts.spawning.get(&pid).filter(|spawning| spawning.in_place) else { return false };
        match spawning.prepared.errno() {
            // A vessel does not end by itself; of one that has memory of its own nobody knows with what errno it has failed.
            0 if !spawning.start.arrives => {
                self.started(pid);
                true
            }
            errno => {
                self.ghosts.left(pid);
                // What it ends with is told as that of a program that has not started.
                if let Some(stand) = self.stands.get_mut(pid) {
                    stand.ending = true;
                }
                if let Some(spawning) = self.starts.spawning.remove(&pid) {
                    self.could_not(spawning, if errno == 0 { EIO } else { errno });
                }
                false
            }
        }
    }

    /// A stand-in that was to become one that arrives has ended first, as its process did elsewhere.
    pub(crate) fn did_not_become(&mut self, pid: Pid) {
        self.watch(); // it may have
        let arrives = |spawning: &Spawning| spawning.in_place && !spawning.started && spawning.start.arrives;
        if self.starts.spawning.get(&pid).is_some_and(arrives) {
            self.cannot_spawn(pid, Fault::gone("what stands for it here has ended"));
        }
    }

    pub(crate) fn could_not(&mut self, spawning: Spawning, errno: i32) {
        let Spawning { mut start, prepared, in_place, .. } = spawning;
        if !in_place && prepared.lost_group() && start.misses < MOST_MISSES {
            // The last member of its group has ended since that was planned.
            start.misses += 1;
            self.starts.queue.push_front(Work::Program(start));
            return self.next_start();
        }
        let status = match errno {
            _ if !prepared.was_executed() => 125,
            ENOENT => 127,
            _ => 126,
        };
        let mut fault = Fault::sys(errno, prepared.doing());
        if status == 127 && !self.administration.views.is_of_front(start.program.view) {
            fault = fault.doing("the program may be on the front end alone (shoal run --view front)");
        }
        self.no_program((start.person.pid, start.arrives), fault, status);
        self.next_start();
    }

    /// `parent`, which does not share our memory, has room for what the start of `child` needs.
    pub(crate) fn mapped(&mut self, parent: Pid, child: Pid, ret: i64) {
        let groups = self.proc.status(parent).map(|status| status.creds.groups);
        let Some(spawning) = self.starts.spawning.get_mut(&child) else { return };
        let stay = groups.is_ok_and(|groups| groups == spawning.start.person.creds.groups);
        let placed = match ret {
            ..0 => Err(Fault::sys(-ret as i32, "make room for what the program starts with")),
            address => spawning.prepared.place_at(address as u64, stay),
        };
        match placed {
            Ok((image, bytes)) => {
                self.starts.images += 1;
                spawning.image = Some((self.starts.images, image));
                self.ghosts.command(parent, Command::Fill { address: ret as u64, bytes, child });
            }
            Err(fault) => self.cannot_spawn(child, fault),
        }
    }

    /// `parent` has read what the start of `child` needs.
    pub(crate) fn filled(&mut self, parent: Pid, child: Pid, wanted: u64, ret: i64) {
        let Some(spawning) = self.starts.spawning.get_mut(&child) else { return };
        spawning.image = None;
        let address = spawning.prepared.address();
        if ret < 0 || ret as u64 != wanted {
            let errno = if ret < 0 { -ret as i32 } else { EIO };
            return self.cannot_spawn(child, Fault::sys(errno, "read what the program starts with"));
        }
        if spawning.in_place {
            return self.ghosts.command(child, Command::Exec(address));
        }
        // A `shoal run` has had no children that anybody was to hear of.
        self.ghosts.command(parent, Command::Children(true));
        self.ghosts.command(parent, Command::Spawn(address));
    }

    fn cannot_spawn(&mut self, child: Pid, fault: Fault) {
        if let Some(spawning) = self.starts.spawning.remove(&child) {
            self.work_failed(Work::Program(spawning.start), fault);
        }
        self.next_start();
    }

    /// The file that `parent` reads, while it is to.
    pub(crate) fn image_for(&self, parent: Pid) -> Option<BorrowedFd<'_>> {
        let reader = |one: &Spawning| if one.in_place { one.start.person.pid } else { one.parent };
        let its = |spawning: &&Spawning| spawning.apart && reader(spawning) == parent;
        let images = self.starts.spawning.values().filter(its).filter_map(|spawning| spawning.image.as_ref());
        images.min_by_key(|(number, _)| *number).map(|(_, image)| image.as_fd())
    }

    /// The child of a stand-in that does not share our memory asks at the gate for what shall be its descriptor `number` (0 to 2).
    pub(crate) fn stdio_of(&self, child: Pid, number: usize) -> Option<BorrowedFd<'_>> {
        let spawning = self.starts.spawning.get(&child).filter(|spawning| spawning.apart && !spawning.started)?;
        let ends = &spawning.start.ends;
        [ends.stdin.as_fd(), ends.stdout.as_fd(), ends.stderr.as_fd()].get(number).copied()
    }

    /// The parent's stand-in is back from cloning a program.
    pub(crate) fn spawned(&mut self, parent: Pid, address: u64, outcome: &Outcome) {
        let is = |s: &Spawning| s.prepared.address() == address && s.parent == parent && !s.in_place;
        let Some(pid) = self.starts.spawning.iter().find_map(|(pid, s)| is(s).then_some(*pid)) else { return };
        self.has_spawned(parent, pid, address, outcome);
        self.no_more_busy(parent);
        self.next_start(); // of the same number
    }

    fn has_spawned(&mut self, parent: Pid, pid: Pid, address: u64, outcome: &Outcome) {
        let ret = self.checked(parent, pid, outcome.ret);
        if let Some(spawning) = self.starts.spawning.get_mut(&pid).filter(|spawning| spawning.apart) {
            spawning.prepared.ended(if ret < 0 { -ret as i32 } else { 0 }, outcome.out[0] as u64);
            self.ghosts.command(parent, Command::Unmap { address, bytes: spawning.prepared.size() });
        }
        if ret > 0 {
            self.watch();
            self.started(pid);
        }
        let Some(spawning) = self.starts.spawning.remove(&pid) else { return };
        if ret > 0 {
            // Not its stat: it may execute another program by now, one that is never read.
            if let Ok(status) = self.proc.status(pid) {
                self.rename(pid, status.name.as_bytes());
            }
            // A parent that only stood for one that is gone: ends, and the kernel gives the program to init.
            if self.stands.get(parent).is_some_and(|stand| stand.why == Why::Husk) {
                self.end_stand_in(parent, vocab::Exit::Code(0), Default::default());
            }
            return;
        }
        self.could_not(spawning, -ret as i32);
    }

    /// What `parent` says of cloning `pid` is its user's word unless its memory is ours: a child that is not there was not made, and one that should not be
    /// there ends.
    fn checked(&mut self, parent: Pid, pid: Pid, ret: i64) -> i64 {
        if !self.starts.spawning.get(&pid).is_some_and(|spawning| spawning.apart) {
            return ret;
        }
        let there = self.proc.status(pid).is_ok_and(|status| status.ppid == parent);
        if ret > 0 && !there {
            warn!(%parent, %pid, "a stand-in says that it has made what is not its child");
            return (-ESRCH).into();
        }
        if ret < 0 && there && !self.stands.has(pid) {
            // As the exec's failure leaves it, it is a zombie already.
            kern::pidfd::end(pid);
        }
        ret
    }

    /// A body has ended; if it is a program that was started here, its output is sent to the end.
    pub(crate) fn program_ended(&mut self, pid: Pid) {
        if let Some(id) = self.starts.programs.remove(&pid) {
            self.streams.ended(id);
            let streams = &self.streams;
            self.starts.ended.retain(|_, id| streams.is_waiting(*id));
            if streams.is_waiting(id) {
                self.starts.ended.insert(pid, id);
            }
        }
        self.starts.along.remove(&pid);
    }
}

/// A group that goes this often between plan and start is a refusal of something else.
const MOST_MISSES: u32 = 8;
