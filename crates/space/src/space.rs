//! The machine itself: what it holds, and which event goes where.

use crate::effect::{Command, Effect, Transition};
use crate::event::{BodyEvent, Event};
use crate::person::Person;
use crate::step::{Act, Mark, Step, StepId, Steps};
use crate::table::{Body, Entry, Table};
use crate::unsaid::Unsaid;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use vocab::{Exit, NodeId, Pid, Sig};

/// All processes of one front end, on it and on its nodes.
#[derive(Debug, Default)]
pub struct Space {
    pub(crate) table: Table,
    pub(crate) steps: Steps,
    /// Nodes that are up.
    pub(crate) nodes: BTreeSet<NodeId>,
    /// Ghosts that may have something due.
    pub(crate) ready: Vec<Pid>,
    pub(crate) out: Vec<Effect>,
    pub(crate) unsaid: Unsaid,
}

/// What can be asked of one process of the space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View<'a> {
    pub person: &'a Person,
    /// Where its body is.
    pub node: NodeId,
    /// The signal that stopped it.
    pub stopped: Option<Sig>,
    /// How it ended, while it has not been waited for.
    pub ended: Option<Exit>,
    /// It is on its way to another node, or not yet the program that it is to be, and has had signals meanwhile.
    pub signals_wait: bool,
    /// It is yet to begin where it is: nothing that has come there before was it.
    pub starting: bool,
    /// Its ghost was found after a restart, and no node has said yet that it is there.
    pub unclaimed: bool,
    /// By it one process is told from a later one with its number.
    pub birth: u64,
}

impl Space {
    pub fn new() -> Space {
        Space::default()
    }

    /// Births are above `number` from now on: those of a daemon before were below.
    pub fn born_above(mut self, number: u64) -> Space {
        self.table.births = number;
        self
    }

    /// Takes one event and appends what is to be done.
    pub fn step(&mut self, event: Event, effects: &mut Vec<Effect>) {
        std::mem::swap(&mut self.out, effects);
        self.take(event);
        while let Some(pid) = self.ready.pop() {
            self.pump(pid);
        }
        std::mem::swap(&mut self.out, effects);
    }

    /// One process; `None` for one that the space does not know.
    pub fn get(&self, pid: Pid) -> Option<View<'_>> {
        self.table.get(pid).map(view)
    }

    /// Is it known to stand on this node for what is elsewhere?
    pub fn stands_on(&self, pid: Pid, node: NodeId) -> bool {
        self.table.get(pid).is_some_and(|entry| entry.stands.contains(&node))
    }

    /// The program that was started with the standard streams that this one has, unless it has changed them.
    pub fn streams_of(&self, pid: Pid) -> Option<Pid> {
        self.table.get(pid)?.streams
    }

    /// All processes of the space, in no order; natives that are kin included.
    pub fn iter(&self) -> impl Iterator<Item = View<'_>> {
        self.table.iter().map(|(_, entry)| view(entry))
    }

    /// Children of `pid` of which is known here, ended ones included.
    pub fn children(&self, pid: Pid) -> Vec<Pid> {
        self.table.get(pid).map(|entry| entry.children.iter().copied().collect()).unwrap_or_default()
    }

    /// Children of `pid` that are native.
    pub fn native_children(&self, pid: Pid) -> Vec<Pid> {
        let children = self.table.get(pid).map(|entry| &entry.children);
        let native = |child: &&Pid| self.table.get(**child).is_some_and(|entry| entry.body == Body::Native);
        children.into_iter().flatten().filter(native).copied().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of the newest thing that a ghost or a stand-in is to do.
    pub fn newest(&self) -> u64 {
        self.steps.last()
    }

    /// Of what was numbered so and is still to be done: whose it is, by the user who asked for the program. When there is none it can be seen. What
    /// lasts (a stop, the end of a `shoal run`) is not waited for.
    pub fn unshown(&self, numbers: RangeInclusive<u64>) -> impl Iterator<Item = u32> + '_ {
        self.steps.undone(numbers).map(|pid| self.table.get(pid).map_or(0, |entry| entry.asker))
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::NodeUp { node } => self.node_up(node),
            Event::NodeLost { node } => self.node_lost(node),
            Event::NodeBack { node, bodies, stand_ins, natives, subreapers, starting } => {
                self.not_to_begin(node, &bodies, &starting);
                self.node_back(node, bodies, &stand_ins, natives);
                self.subreapers(node, &subreapers);
            }
            Event::Run { person, at, to, kin } => self.run(person, at, to, kin),
            Event::Ancestors { line } => self.ancestors(line),
            Event::RunMany { parent, to, kin } => self.run_many(parent, to, kin),
            Event::NotStarted { node, pid, status } => self.not_started(node, pid, status),
            Event::Natives { persons } => self.natives(persons),
            Event::Arrive { pid, to } => self.arrive(pid, to),
            Event::Leaves { pid } => self.leaves(pid),
            Event::Lands { pid } => self.lands(pid),
            Event::Stays { pid } => self.stays(pid),
            Event::Moved { pid, to } => self.moved(pid, to),
            Event::Left { pid } => self.left(pid),
            Event::Stands { pid, node } => self.stands(pid, node),
            Event::Body { node, event } => self.body(node, event),
            Event::Held { pid } => self.held(pid),
            Event::Done { pid, result } => self.done(pid, result),
            Event::Signalled { pid, info } => self.signalled(pid, info),
            Event::Pending { pid, set } => self.pending(pid, set),
            Event::NotStopped { pid } => self.not_stopped(pid),
            Event::Sleeps { pid } => self.sleeps(pid),
            Event::Dying { pid } => self.dying(pid),
            Event::Gone { pid } => self.gone(pid),
            Event::NativeEnded { pid, exit, unwaited } => self.native_ended(pid, exit, &unwaited),
            Event::NativeStopped { pid, sig } => self.native_stopped(pid, sig),
            Event::IsHome { pid } => self.settle_down(pid),
            Event::Follows { node, target, signals } => self.follows(node, target, signals),
            Event::StandInSignalled { node, target, info, turn } => self.stand_in_signalled(node, target, info, turn),
            Event::StandInGone { node, pid } => self.stand_in_gone(node, pid),
            Event::StandInFollowed { node, pid } => self.stand_in_followed(node, pid),
            Event::StandInWanted { node, pid, native } => self.stand_in_wanted(node, pid, native),
            Event::KillAsked { node, id, sender, target, sig } => self.kill_asked(node, id, sender, target, sig),
            Event::GhostFound { person, stopped } => self.ghost_found(person, stopped),
            Event::CopiesFound { parent, worst, copies } => self.copies_found(parent, worst, copies),
            Event::Settled => self.settled(),
        }
    }

    fn body(&mut self, node: NodeId, event: BodyEvent) {
        if let BodyEvent::Forked { parent, child } = event {
            return self.forked(node, parent, child);
        }
        if let BodyEvent::Reaped { pid } = event {
            return self.reaped(node, pid);
        }
        let pid = event.pid();
        match event {
            BodyEvent::Exited { exit, .. } => {
                self.claim_ended(node, pid);
                self.runner_ended(node, pid, exit);
            }
            // A zombie too.
            BodyEvent::Adopted { ppid, .. } => self.adopted(node, pid, ppid),
            _ => {}
        }
        // A node may still tell of a process whose program is elsewhere by now, or of one that was given up.
        if !self.table.get(pid).is_some_and(|e| e.place == node && e.has_body()) {
            return;
        }
        match event {
            BodyEvent::Started { .. } => self.started(pid),
            BodyEvent::Named { name, .. } => self.named(pid, name),
            BodyEvent::Credentials { creds, .. } => self.credentials(pid, creds),
            BodyEvent::Group { pgid, .. } => self.group(pid, pgid),
            BodyEvent::Session { .. } => self.session(pid),
            BodyEvent::Stopped { sig, turn, .. } => self.stopped(pid, sig, turn),
            BodyEvent::Continued { turn, .. } => self.continued(pid, turn),
            BodyEvent::Exited { exit, usage, .. } => self.exited(pid, exit, usage),
            BodyEvent::Subreaper { on, .. } => self.subreaper(pid, on),
            BodyEvent::Forked { .. } | BodyEvent::Reaped { .. } | BodyEvent::Adopted { .. } => {}
        }
    }

    /// Queues a step for a ghost that will obey; `None` if there is none such.
    pub(crate) fn push(&mut self, pid: Pid, act: Act, mark: Mark) -> Option<StepId> {
        let stop = matches!(act, Act::Command(Command::Stop(_)));
        let again = if stop { None } else { self.rouse(pid) };
        let entry = self.table.get_mut(pid).filter(|e| e.ghost.will_obey())?;
        let id = self.steps.add(pid, Mark { lasts: mark.lasts || stop, ..mark });
        entry.queue.push_back(Step { id, act });
        if let Some(sig) = again {
            let id = self.steps.add(pid, Mark { lasts: true, ..Mark::default() });
            entry.queue.push_back(Step { id, act: Act::Command(Command::Stop(sig)) });
        }
        self.ready.push(pid);
        Some(id)
    }

    pub(crate) fn log(&mut self, pid: Pid, node: NodeId, what: &'static str, number: i32) {
        self.out.push(Effect::Transition(Transition { pid, node, what, number }));
    }
}

fn view(entry: &Entry) -> View<'_> {
    View {
        person: &entry.person,
        node: entry.place,
        stopped: if let Body::Stopped(sig) = entry.body { Some(sig) } else { None },
        ended: if let Body::Ended(exit) = entry.body { Some(exit) } else { None },
        signals_wait: !entry.early.is_empty() || entry.went_on.is_some(),
        starting: entry.body == Body::Starting,
        unclaimed: entry.body == Body::Unclaimed,
        birth: entry.birth,
    }
}
