//! Programs on their way.
//!
//! | state of a start | next |
//! |---|---|
//! | queued | its turn: planned |
//! | making | every stand-in made: spawning; one failed: not started; one that it needs has ended, or is to be another: queued; one does not answer: parked |
//! | parked | it answers: making; not in time: not started |
//! | spawning | exec'd: a body; failed, or the parent's stand-in was killed: not started |

use crate::kin::{Make, Place, NURSERY, STEP_PARENT};
use crate::setup::Prepared;
use crate::stands::Later;
use crate::strangers::Strangers;
use crate::streams::{ChildEnds, StreamsId};
use ghost::Command;
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use vocab::Pid;
use wire::event::Person;
use wire::node::Kin;
use wire::run::Program;

/// What is to be made.
pub(crate) enum Work {
    Program(Box<Start>),
    /// A stand-in that somebody wants a handle on.
    Handle {
        person: Person,
        kin: Vec<Person>,
        /// The process has ended meanwhile: there is nothing to have a handle on.
        ended: bool,
    },
    /// The stand-in of an orphan, made by that of the parent that it loses.
    Orphan {
        person: Person,
        from: Pid,
        kin: Vec<Person>,
    },
}

/// A program that is to be started, with its ends of the standard streams.
pub(crate) struct Start {
    pub(crate) person: Person,
    pub(crate) program: Program,
    pub(crate) kin: Vec<Person>,
    pub(crate) ends: ChildEnds,
    /// How often its group has gone before it could join.
    pub(crate) misses: u32,
    /// It is to become a process that is on another node ([`crate::moving`]).
    pub(crate) arrives: bool,
    /// Of children of one that arrives: they do not stand here yet.
    pub(crate) later: Vec<(Pid, Later)>,
}

impl Work {
    pub(crate) fn pid(&self) -> Pid {
        match self {
            Work::Program(start) => start.person.pid,
            Work::Handle { person, .. } | Work::Orphan { person, .. } => person.pid,
        }
    }

    fn kin_mut(&mut self) -> &mut Vec<Person> {
        match self {
            Work::Program(start) => &mut start.kin,
            Work::Handle { kin, .. } | Work::Orphan { kin, .. } => kin,
        }
    }

    /// Who must not be on its way when this is planned: parent and leaders of a program, of what is to stand the process itself and who may have to
    /// stand with it.
    fn kin(&self) -> Vec<Pid> {
        match self {
            Work::Program(start) => {
                let Person { pid, ppid, pgid, sid, .. } = start.person;
                [ppid, pgid, sid].into_iter().filter(|kin| *kin != pid).collect()
            }
            Work::Handle { person, kin, .. } | Work::Orphan { person, kin, .. } => {
                kin.iter().chain([person]).map(|one| one.pid).collect()
            }
        }
    }
}

/// Those persons themselves.
pub(crate) fn persons(kin: Vec<Kin>) -> Vec<Person> {
    kin.into_iter().map(|kin| kin.person).collect()
}

/// The work whose stand-ins are being made.
pub(crate) struct Making {
    pub(crate) work: Work,
    pub(crate) makes: VecDeque<Make>,
    pub(crate) parent: Pid,
    pub(crate) place: Place,
    pub(crate) phase: Phase,
    /// When the phase began (monotonic).
    pub(crate) since_us: u64,
    /// What its plan was made from has changed, or (it was parked) may have.
    pub(crate) stale: bool,
}

impl Making {
    /// Does it wait for what this stand-in was told last?
    pub(crate) fn waits_for(&self, who: Pid) -> bool {
        match &self.phase {
            Phase::Idle => false,
            Phase::Cloning(make) => make.maker == who,
            Phase::Dressing { pid, .. } => *pid == who,
        }
    }

    /// Is this what it waits for?
    pub(crate) fn is_answered_by(&self, who: Pid, command: &Command) -> bool {
        match (&self.phase, command) {
            (Phase::Cloning(make), Command::Clone { pid, .. }) => {
                let asked = if make.person.pid == STEP_PARENT { Pid::NONE } else { make.person.pid };
                (make.maker == who || make.maker == NURSERY) && *pid == asked
            }
            (Phase::Dressing { pid, .. }, command) => *pid == who && !matches!(command, Command::Clone { .. }),
            _ => false,
        }
    }

    fn uses(&self, pid: Pid) -> bool {
        self.waits_for(pid) || self.parent == pid || self.makes.iter().any(|make| make.maker == pid)
    }
}

pub(crate) enum Phase {
    Idle,
    /// This stand-in is being cloned.
    Cloning(Make),
    /// It has been told what it is, and has this many commands left; the list is what it reads its groups from.
    Dressing {
        pid: Pid,
        left: u32,
        _groups: Box<[u32]>,
    },
}

/// The program has been handed to its parent's stand-in.
pub(crate) struct Spawning {
    pub(crate) start: Box<Start>,
    pub(crate) parent: Pid,
    pub(crate) prepared: Prepared,
    /// `parent` does not share our memory.
    pub(crate) apart: bool,
    /// From what it is to read what the program starts with, and the number of that file.
    pub(crate) image: Option<(u64, OwnedFd)>,
    pub(crate) started: bool,
    /// `parent` is its parent all the same: its own stand-in execs.
    pub(crate) in_place: bool,
}

/// All starts under way, and the streams of programs that run.
#[derive(Default)]
pub(crate) struct Starts {
    pub(crate) queue: VecDeque<Work>,
    pub(crate) making: Option<Making>,
    /// They wait for a stand-in that has not answered for a while: its user's own, or stopped. Others do not wait for that.
    pub(crate) parked: Vec<Making>,
    pub(crate) spawning: HashMap<Pid, Spawning>,
    /// The last number of [`Spawning::image`]: a parent reads its files in the order of their numbers.
    pub(crate) images: u64,
    pub(crate) programs: HashMap<Pid, StreamsId>,
    /// Those of programs that have ended before their streams had a channel.
    pub(crate) ended: HashMap<Pid, StreamsId>,
    /// Numbers of threads that these are still to make, and that are kept free for them on the front end.
    pub(crate) along: HashMap<Pid, HashSet<Pid>>,
    pub(crate) strangers: Strangers,
}

impl Starts {
    /// Is this thread of process `pid` one that came along with it? Each is made once.
    pub(crate) fn comes_along(&mut self, pid: Pid, tid: Pid) -> bool {
        self.along.get_mut(&pid).is_some_and(|numbers| numbers.remove(&tid))
    }

    /// Is a program under this number on its way?
    pub(crate) fn has(&self, pid: Pid) -> bool {
        self.spawning.contains_key(&pid)
            || self.makings().any(|making| making.work.pid() == pid)
            || self.queue.iter().any(|work| work.pid() == pid)
    }

    /// The same, of one that is known to have ended: that a handle on it was to be made does not count.
    pub(crate) fn has_yet(&self, pid: Pid) -> bool {
        let is = |work: &Work| work.pid() == pid && !matches!(work, Work::Handle { ended: true, .. });
        self.spawning.contains_key(&pid) || self.makings().any(|making| is(&making.work)) || self.queue.iter().any(is)
    }

    /// Is it a program that is to be started here, and not exec'd as far as we know?
    pub(crate) fn is_to_begin(&self, pid: Pid) -> bool {
        self.unspawned().any(|start| start.person.pid == pid && !start.arrives)
            || self.spawning.get(&pid).is_some_and(|spawning| !spawning.started && !spawning.start.arrives)
    }

    /// Programs that are to be started here and are no bodies yet.
    pub(crate) fn to_begin(&self) -> Vec<Pid> {
        let spawning = self.spawning.values().filter(|spawning| !spawning.started).map(|spawning| &spawning.start);
        self.unspawned().chain(spawning).filter(|start| !start.arrives).map(|start| start.person.pid).collect()
    }

    fn makings(&self) -> impl Iterator<Item = &Making> {
        self.making.iter().chain(&self.parked)
    }

    /// Must this wait for one of its kin that is on its way itself, or for one of these?
    pub(crate) fn waits(&self, work: &Work, before: &HashSet<Pid>) -> bool {
        // What was to arrive under this number and is not wanted any more is made, and ends, first.
        let follows = matches!(work, Work::Program(_)) && self.spawning.contains_key(&work.pid());
        follows
            || before.contains(&work.pid())
            || work.kin().iter().any(|pid| before.contains(pid) || self.is_starting(*pid))
    }

    /// What is parked, and the stand-ins that are being made for that and are not yet what they shall be: who depends on them waits too.
    pub(crate) fn parked_pids(&self) -> HashSet<Pid> {
        let unfinished = |making: &Making| match &making.phase {
            Phase::Idle => None,
            Phase::Cloning(make) => Some(make.person.pid),
            Phase::Dressing { pid, .. } => Some(*pid),
        };
        self.parked.iter().flat_map(|making| [Some(making.work.pid()), unfinished(making)]).flatten().collect()
    }

    /// Is it a new stand-in that is being told what it is?
    pub(crate) fn dresses(&self, pid: Pid) -> bool {
        self.makings().any(|making| matches!(making.phase, Phase::Dressing { pid: who, .. } if who == pid))
    }

    /// Is its stand-in to become the program itself?
    pub(crate) fn in_place(&self, pid: Pid) -> bool {
        self.spawning.get(&pid).is_some_and(|spawning| spawning.in_place)
    }

    /// Is it to arrive, and its stand-in, if there is one, has not been told yet to become it?
    pub(crate) fn waits_to_become(&self, pid: Pid) -> bool {
        self.unspawned().any(|start| start.person.pid == pid && start.arrives)
    }

    /// Has it been handed to its parent's stand-in, and not exec'd as far as we know?
    pub(crate) fn is_starting(&self, pid: Pid) -> bool {
        self.spawning.get(&pid).is_some_and(|spawning| !spawning.started)
    }

    /// A child of one that arrives has stopped or ended: that waits until the parent is there. `false` when it is none such.
    pub(crate) fn is_later(&mut self, pid: Pid, later: Later) -> bool {
        let spawning = self.spawning.values_mut().filter(|one| !one.started).map(|one| &mut one.start);
        let makings = self.making.iter_mut().chain(&mut self.parked).map(|making| &mut making.work);
        let starts = self.queue.iter_mut().chain(makings).filter_map(|work| match work {
            Work::Program(start) => Some(start),
            _ => None,
        });
        let is_child = |start: &Start| {
            let parent = start.person.pid;
            start.arrives && start.kin.iter().any(|one| one.pid == pid && one.ppid == parent)
        };
        match starts.chain(spawning).find(|start| is_child(start)) {
            Some(start) => {
                start.later.push((pid, later));
                true
            }
            None => false,
        }
    }

    /// Is there a child of one that arrives that has ended, and is to end here later?
    pub(crate) fn ends_later(&self, pid: Pid) -> bool {
        let ends = |(child, later): &(Pid, Later)| *child == pid && matches!(later, Later::Ends(..));
        self.programs_under_way().any(|start| start.later.iter().any(ends))
    }

    /// Is a stand-in of this one to be made, or is it there and used?
    pub(crate) fn is_to_stand(&self, pid: Pid) -> bool {
        self.has(pid) || self.programs_under_way().any(|start| start.kin.iter().any(|person| person.pid == pid))
    }

    fn programs_under_way(&self) -> impl Iterator<Item = &Start> {
        self.unspawned().chain(self.spawning.values().map(|spawning| &spawning.start)).map(|start| &**start)
    }

    /// Programs that nobody has been told to become or to make.
    fn unspawned(&self) -> impl Iterator<Item = &Box<Start>> {
        let works = self.queue.iter().chain(self.makings().map(|making| &making.work));
        works.filter_map(|work| match work {
            Work::Program(start) => Some(start),
            _ => None,
        })
    }

    /// A process elsewhere has ended: nothing is to be made for it any more.
    pub(crate) fn forget_kin(&mut self, pid: Pid) {
        for work in self.works() {
            work.kin_mut().retain(|person| person.pid != pid);
            match work {
                Work::Handle { person, ended, .. } if person.pid == pid => *ended = true,
                _ => {}
            }
        }
        self.outdate(pid);
    }

    /// A process elsewhere is another than it was: what stands for it is made as it is now.
    pub(crate) fn kin_is(&mut self, now: &Person) {
        for work in self.works() {
            let is = |person: &&mut Person| person.pid == now.pid;
            work.kin_mut().iter_mut().filter(is).for_each(|person| *person = now.clone());
            match work {
                Work::Handle { person, .. } if person.pid == now.pid => *person = now.clone(),
                _ => {}
            }
        }
        self.outdate(now.pid);
    }

    fn works(&mut self) -> impl Iterator<Item = &mut Work> {
        let makings = self.making.iter_mut().chain(&mut self.parked);
        self.queue.iter_mut().chain(makings.map(|making| &mut making.work))
    }

    /// What has still to make its stand-in, by a plan that knew it as it was, is planned again.
    fn outdate(&mut self, pid: Pid) {
        for making in self.making.iter_mut().chain(&mut self.parked) {
            making.stale |= making.makes.iter().any(|make| make.person.pid == pid);
        }
    }

    /// Does a start wait for what this stand-in was told?
    pub(crate) fn awaits(&self, pid: Pid) -> bool {
        self.makings().any(|making| making.waits_for(pid))
            || self.spawning.values().any(|spawning| !spawning.started && spawning.parent == pid && !spawning.in_place)
    }

    /// Does a start need this stand-in?
    pub(crate) fn needs(&self, pid: Pid) -> bool {
        self.making.is_some()
            || self.parked.iter().any(|making| making.uses(pid))
            || self
                .spawning
                .values()
                .any(|s| s.parent == pid || [s.start.person.pgid, s.start.person.pid].contains(&pid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stands::Why;
    use vocab::Creds;

    fn person(pid: i32, pgid: i32) -> Person {
        let (pid, ppid, pgid, sid) = (Pid(pid), Pid::INIT, Pid(pgid), Pid::INIT);
        Person { pid, ppid, pgid, sid, creds: Creds::default(), name: Vec::new() }
    }

    fn handle(pid: i32) -> Work {
        Work::Handle { person: person(pid, pid), kin: Vec::new(), ended: false }
    }

    /// Of 11 whose leader, 10, is being cloned.
    fn making(phase: Phase) -> Making {
        let make =
            |pid| Make { maker: NURSERY, sibling: false, person: person(pid, 10), why: Why::Kin, place: Place::Stay };
        let makes = VecDeque::from([make(11)]);
        Making { work: handle(11), makes, parent: Pid::NONE, place: Place::Stay, phase, since_us: 0, stale: false }
    }

    fn told(work: &Work) -> (i32, i32, bool) {
        match work {
            Work::Handle { person, ended, .. } => (person.pid.0, person.pgid.0, *ended),
            _ => (0, 0, false),
        }
    }

    #[test]
    fn who_ends_or_changes_before_its_stand_in_is_made_is_not_made_as_it_was() {
        for (pid, queued, made, stale) in [(11, false, true, true), (12, true, false, false), (10, false, false, false)]
        {
            let mut starts = Starts { making: Some(making(Phase::Idle)), ..Starts::default() };
            starts.queue.push_back(handle(12));
            starts.kin_is(&person(pid, 7));
            starts.forget_kin(Pid(pid));
            let making = starts.making.as_ref().expect("nothing is taken out");
            assert_eq!(told(&starts.queue[0]), (12, if queued { 7 } else { 12 }, queued));
            assert_eq!(told(&making.work), (11, if made { 7 } else { 11 }, made));
            assert_eq!(making.stale, stale);
        }
    }

    #[test]
    fn a_leader_whose_stand_in_is_long_in_the_making_is_waited_for() {
        let leader =
            Make { person: person(10, 10), place: Place::Lead, ..making(Phase::Idle).makes.remove(0).expect("one") };
        let dressing = Phase::Dressing { pid: Pid(10), left: 1, _groups: Box::default() };
        for phase in [Phase::Cloning(leader), dressing] {
            let starts = Starts { parked: vec![making(phase)], ..Starts::default() };
            let waits = |pid| starts.waits(&handle(pid), &starts.parked_pids());
            assert_eq!([10, 11, 12].map(waits), [true, true, false]);
        }
    }
}
