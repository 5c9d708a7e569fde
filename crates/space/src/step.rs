//! Commands that wait: each ghost has a queue, and a command may wait for ones of other ghosts.
//!
//! A step waits only for steps that were made before it, so there is no circle. What conflicts is ordered as it happened:
//! making a group before joining it, joining it before anybody leaves it (else it might be empty), leaving
//! it before a session of that number; a subreaper's coming and going, and the ends that orphan children.

use crate::effect::Command;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;
use vocab::{NodeId, Pid};

/// Steps are numbered in the order in which they were made.
pub(crate) type StepId = u64;

/// A command not yet given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) id: StepId,
    pub(crate) act: Act,
}

impl Step {
    pub(crate) fn is_subreaper(&self) -> bool {
        matches!(self.act, Act::Command(Command::Subreaper(_)))
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Command(Command),
    /// Clone for copy `n` of a program.
    Copy(u32),
    /// A kill for somebody on a node, who is told the errno.
    Kill {
        command: Command,
        ask: Option<(NodeId, u64)>,
    },
    /// End as the body did; how is decided when it is due.
    End,
}

/// What the next report of a ghost is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Given {
    pub(crate) id: StepId,
    pub(crate) what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Clone(Pid),
    Copy(u32),
    Reap(Pid),
    Stop,
    Kill(Option<(NodeId, u64)>),
    Other(&'static str),
}

impl Act {
    /// What a report about it will be about; `None` for the end, which is not reported.
    pub(crate) fn what(&self) -> Option<What> {
        Some(match self {
            Act::End => return None,
            Act::Copy(n) => What::Copy(*n),
            Act::Kill { ask, .. } => What::Kill(*ask),
            Act::Command(Command::Clone { pid, .. }) => What::Clone(*pid),
            Act::Command(Command::Reap(pid)) => What::Reap(*pid),
            Act::Command(Command::Stop(_)) => What::Stop,
            Act::Command(Command::Setsid) => What::Other("setsid"),
            Act::Command(Command::Setpgid(_)) => What::Other("setpgid"),
            Act::Command(Command::Ids(_)) => What::Other("ids"),
            Act::Command(Command::Name(_)) => What::Other("name"),
            Act::Command(Command::Subreaper(_)) => What::Other("subreaper"),
            Act::Command(Command::Kill { .. }) => What::Kill(None),
            Act::Command(Command::Exit(_) | Command::Die { .. }) => return None,
        })
    }
}

/// What a step touches that others may touch too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mark {
    /// Leaves these groups, itself or by the zombies that go with it.
    pub(crate) leaves: Vec<Pid>,
    /// Joins this group, which exists already.
    pub(crate) joins: Option<Pid>,
    /// Makes this group.
    pub(crate) makes: Option<Pid>,
    /// Changes who takes orphans.
    pub(crate) subreaper: bool,
    /// Makes orphans.
    pub(crate) orphans: bool,
    /// Makes a ghost as an orphan: later changes of who takes orphans wait for it, it waits for none that it does not name.
    pub(crate) orphaned: bool,
    /// Waits for these too, as far as they are open.
    pub(crate) after: Vec<StepId>,
    /// Is carried out only when something else happens: a stop when it is over, the end of a `shoal run` when all output is out.
    pub(crate) lasts: bool,
}

#[derive(Debug)]
struct Open {
    pid: Pid,
    waits: u32,
    blocks: Vec<StepId>,
    mark: Mark,
}

#[derive(Debug, Default)]
struct Book {
    makes: HashSet<StepId>,
    joins: HashSet<StepId>,
    leaves: HashSet<StepId>,
}

/// All steps that are not carried out yet.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    last: StepId,
    open: BTreeMap<StepId, Open>,
    /// What stand-ins on nodes have still to become, numbered like steps; nothing waits for them but who wants to see them.
    follows: BTreeMap<StepId, (Pid, NodeId)>,
    groups: HashMap<Pid, Book>,
    subreapers: BTreeSet<StepId>,
    orphans: BTreeSet<StepId>,
}

impl Steps {
    /// A new step of `pid`.
    pub(crate) fn add(&mut self, pid: Pid, mut mark: Mark) -> StepId {
        self.last += 1;
        let id = self.last;
        let mut after = std::mem::take(&mut mark.after);
        self.conflicts(&mark, &mut after);
        after.sort_unstable();
        after.dedup();
        let mut waits = 0;
        for earlier in after {
            if let Some(open) = self.open.get_mut(&earlier).filter(|o| o.pid != pid) {
                open.blocks.push(id);
                waits += 1;
            }
        }
        self.enter(id, &mark);
        self.open.insert(id, Open { pid, waits, blocks: Vec::new(), mark });
        id
    }

    fn conflicts(&self, mark: &Mark, after: &mut Vec<StepId>) {
        let book = |group: Option<Pid>| group.and_then(|g| self.groups.get(&g));
        for group in &mark.leaves {
            after.extend(book(Some(*group)).into_iter().flat_map(|book| &book.joins));
        }
        if let Some(book) = book(mark.joins) {
            after.extend(&book.makes);
        }
        if let Some(book) = book(mark.makes) {
            after.extend(&book.leaves);
        }
        if mark.subreaper {
            after.extend(&self.orphans);
        }
        if mark.orphans {
            after.extend(&self.subreapers);
        }
    }

    fn enter(&mut self, id: StepId, mark: &Mark) {
        for group in &mark.leaves {
            self.groups.entry(*group).or_default().leaves.insert(id);
        }
        if let Some(group) = mark.joins {
            self.groups.entry(group).or_default().joins.insert(id);
        }
        if let Some(group) = mark.makes {
            self.groups.entry(group).or_default().makes.insert(id);
        }
        if mark.subreaper {
            self.subreapers.insert(id);
        }
        if mark.orphans || mark.orphaned {
            self.orphans.insert(id);
        }
    }

    /// The open step `id` leaves `group` too.
    pub(crate) fn leaves_too(&mut self, id: StepId, group: Pid) {
        if let Some(open) = self.open.get_mut(&id) {
            open.mark.leaves.push(group);
            self.groups.entry(group).or_default().leaves.insert(id);
        }
    }

    /// May it be given now?
    pub(crate) fn free(&self, id: StepId) -> bool {
        self.open.get(&id).is_none_or(|open| open.waits == 0)
    }

    /// The ghosts of which a step waits for this one.
    pub(crate) fn held_up(&self, id: StepId) -> impl Iterator<Item = Pid> + '_ {
        let blocks = self.open.get(&id).map(|open| &open.blocks[..]).unwrap_or_default();
        blocks.iter().filter_map(|later| self.open.get(later)).map(|open| open.pid)
    }

    /// The open changes of who takes orphans, those that `which` says.
    pub(crate) fn subreapers(&self, which: impl Fn(Pid, StepId) -> bool) -> Vec<StepId> {
        self.subreapers
            .iter()
            .copied()
            .filter(|id| self.open.get(id).is_some_and(|open| which(open.pid, *id)))
            .collect()
    }

    pub(crate) fn is_open(&self, id: StepId) -> bool {
        self.open.contains_key(&id)
    }

    /// It is carried out, or never will be. Appends the ghosts of which a step became free.
    pub(crate) fn finish(&mut self, id: StepId, ready: &mut Vec<Pid>) {
        let Some(open) = self.open.remove(&id) else { return };
        let Mark { leaves, joins, makes, .. } = open.mark;
        for group in leaves.into_iter().chain(joins).chain(makes) {
            self.forget(group, id);
        }
        self.subreapers.remove(&id);
        self.orphans.remove(&id);
        for later in open.blocks {
            if let Some(blocked) = self.open.get_mut(&later) {
                blocked.waits -= 1;
                if blocked.waits == 0 {
                    ready.push(blocked.pid);
                }
            }
        }
    }

    fn forget(&mut self, group: Pid, id: StepId) {
        let Some(book) = self.groups.get_mut(&group) else { return };
        book.makes.remove(&id);
        book.joins.remove(&id);
        book.leaves.remove(&id);
        if book.makes.is_empty() && book.joins.is_empty() && book.leaves.is_empty() {
            self.groups.remove(&group);
        }
    }

    /// The newest step.
    pub(crate) fn last(&self) -> StepId {
        self.last
    }

    /// Whose of these are not carried out yet, but for those that last.
    pub(crate) fn undone(&self, steps: RangeInclusive<StepId>) -> impl Iterator<Item = Pid> + '_ {
        // A range of BTreeMap may not end before it begins.
        let steps = Some(steps).filter(|steps| !steps.is_empty());
        let follows = steps.clone().into_iter().flat_map(|steps| self.follows.range(steps)).map(|(_, (pid, _))| *pid);
        let open = steps.into_iter().flat_map(|steps| self.open.range(steps));
        follows.chain(open.filter(|(_, open)| !open.mark.lasts).map(|(_, open)| open.pid))
    }

    /// The stand-in of `pid` on `node` is to become as its body is.
    pub(crate) fn follow(&mut self, pid: Pid, node: NodeId) {
        self.last += 1;
        self.follows.insert(self.last, (pid, node));
    }

    /// It has, once.
    pub(crate) fn followed(&mut self, pid: Pid, node: NodeId) {
        let oldest = self.follows.iter().find(|(_, who)| **who == (pid, node)).map(|(id, _)| *id);
        if let Some(id) = oldest {
            self.follows.remove(&id);
        }
    }

    /// Those stand-ins are gone.
    pub(crate) fn follows_no_more(&mut self, gone: impl Fn(Pid, NodeId) -> bool) {
        self.follows.retain(|_, (pid, node)| !gone(*pid, *node));
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }
}
