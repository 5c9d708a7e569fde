//! Who stands on this node for a process that is elsewhere.

use crate::mirror::Stance;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use vocab::{Creds, Exit, Pid, Sig, SigSet};
use wire::event::{Person, Usage};

/// Why a stand-in is here, which decides how long it stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// It is kin of a body: stays as long as a body needs it.
    Kin,
    /// It holds the number of a dead group or session leader while others are put in; goes at once when that is done.
    Husk,
    /// `shoal run` itself: ends as its program does.
    Runner,
    /// An orphan that was given to a body here, its subreaper.
    Adopted,
    /// Somebody has a pidfd of it, or may have one: stays until the process ends.
    Handle,
}

impl Why {
    /// Its parent is a body, which waits for it when it likes, and nobody else sees that it has.
    pub(crate) fn a_body_waits(self) -> bool {
        matches!(self, Why::Runner | Why::Adopted)
    }
}

/// What the kernel keeps it in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    /// It obeys.
    Free,
    /// SIGSTOP waits for it; the kernel keeps it until its hold is interrupted.
    Caught,
    /// The same with SIGKILL.
    Killed,
    /// It is in its exit gate.
    Dying,
}

/// What a stand-in is to become once its parent is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Later {
    Stops(Option<Sig>),
    Ends(Exit, Usage),
}

/// Whose memory a stand-in has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    /// The agent's, who can write there what it is to be told.
    Ours,
    /// Its own: it is in the place of a process that has left, or was made by such a one. It does what it is told all the same.
    Apart,
    /// A user's: it is a `shoal run`, or was made by one. What it says and does is its user's word.
    Users(Creds),
}

/// One stand-in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stand {
    pub(crate) person: Person,
    pub(crate) why: Why,
    pub(crate) memory: Memory,
    /// See [`Stand::native_parent`].
    native_parent: Pid,
    pub(crate) held: Held,
    /// It was told to end.
    pub(crate) ending: bool,
    /// How its process has ended, and what it had used then, with its children.
    pub(crate) exit: Option<Exit>,
    pub(crate) usage: Usage,
    pub(crate) stance: Stance,
    /// By this its body was told to be stopped, and no SIGCONT of this one has been passed on since.
    pub(crate) body_stopped: Option<Sig>,
    /// What it is sent because the process that is its parent here leaves, which is nothing to its body.
    pub(crate) orphaned: SigSet,
    /// Of the newest signal of it that stops or continues and that was passed on.
    pub(crate) turn: Option<u64>,
    /// Commands by which it becomes as its body is by now, in portions, oldest first: so many are still to be done.
    pub(crate) follows: VecDeque<u32>,
    /// What it reads its supplementary groups from when it is told to change them; kept as long as it may.
    pub(crate) groups: Vec<Box<[u32]>>,
}

impl Stand {
    /// What the kernel sends one that is stopped and loses its parent.
    pub(crate) const HUNG_UP: SigSet = SigSet(Sig::HUP.bit() | Sig::CONT.bit());

    /// Its parent on this node, which has to wait for it.
    pub(crate) fn native_parent(&self) -> Pid {
        self.native_parent
    }

    /// Somebody has a pidfd of it, or may have one.
    pub(crate) fn is_held(&mut self) {
        if self.why == Why::Kin {
            self.why = Why::Handle;
        }
    }

    /// It ends here alone.
    pub(crate) fn is_let_go(&self) -> bool {
        self.ending && self.exit.is_none() && !self.why.a_body_waits()
    }

    /// Its memory is not the agent's.
    pub(crate) fn apart(&self) -> bool {
        self.memory != Memory::Ours
    }

    /// What it says is its user's word.
    pub(crate) fn is_users(&self) -> bool {
        matches!(self.memory, Memory::Users(_))
    }

    /// May it make a process of this user? One that is a user's own makes that user's only: a stand-in or program is its maker's before it is
    /// anybody else's.
    pub(crate) fn may_make(&self, creds: &Creds) -> bool {
        match &self.memory {
            Memory::Users(owner) => (owner.uid, owner.gid) == (creds.uid, creds.gid),
            Memory::Ours | Memory::Apart => true,
        }
    }
}

/// The table of stand-ins.
#[derive(Debug, Default)]
pub(crate) struct Stands {
    table: HashMap<Pid, Stand>,
    /// By their parents here.
    children: HashMap<Pid, BTreeSet<Pid>>,
    /// Processes elsewhere that take the orphans of their descendants, as do their stand-ins.
    subreapers: HashSet<Pid>,
}

impl Stands {
    pub(crate) fn has(&self, pid: Pid) -> bool {
        self.table.contains_key(&pid)
    }

    /// Has it ended, and will be waited for in a moment?
    pub(crate) fn leaves(&self, pid: Pid) -> bool {
        self.get(pid).is_some_and(|stand| stand.ending && !stand.why.a_body_waits())
    }

    pub(crate) fn get(&self, pid: Pid) -> Option<&Stand> {
        self.table.get(&pid)
    }

    pub(crate) fn get_mut(&mut self, pid: Pid) -> Option<&mut Stand> {
        self.table.get_mut(&pid)
    }

    /// `maker` has cloned it, if a stand-in has.
    pub(crate) fn add(&mut self, person: Person, why: Why, maker: Option<Pid>, native_parent: Pid) {
        let memory = match why {
            Why::Runner => Memory::Users(person.creds.clone()),
            _ => maker.and_then(|maker| self.get(maker)).map_or(Memory::Ours, |stand| stand.memory.clone()),
        };
        self.insert(person, why, memory, native_parent);
    }

    /// It is in the place of a process that has left.
    pub(crate) fn add_in_place(&mut self, person: Person) {
        let parent = person.ppid;
        self.insert(person, Why::Kin, Memory::Apart, parent);
    }

    fn insert(&mut self, person: Person, why: Why, memory: Memory, native_parent: Pid) {
        let pid = person.pid;
        let (ending, stance, body_stopped, turn) = (false, Stance::Runs, None, None);
        let (held, follows, groups) = (Held::Free, VecDeque::new(), Vec::new());
        let orphaned = SigSet(0);
        let (exit, usage) = (None, Usage::default());
        let stand = Stand {
            person,
            why,
            memory,
            native_parent,
            held,
            ending,
            exit,
            usage,
            stance,
            body_stopped,
            orphaned,
            turn,
            follows,
            groups,
        };
        self.remove(pid);
        self.table.insert(pid, stand);
        self.children.entry(native_parent).or_default().insert(pid);
    }

    pub(crate) fn remove(&mut self, pid: Pid) -> Option<Stand> {
        let stand = self.table.remove(&pid)?;
        self.has_no_child(stand.native_parent, pid);
        Some(stand)
    }

    /// The kernel has given it to another parent.
    pub(crate) fn set_native_parent(&mut self, pid: Pid, parent: Pid) {
        let Some(stand) = self.table.get_mut(&pid) else { return };
        let before = std::mem::replace(&mut stand.native_parent, parent);
        self.has_no_child(before, pid);
        self.children.entry(parent).or_default().insert(pid);
    }

    /// What stands for `by` has waited for it, and so was its parent: its own, which may have ended just now, has not.
    pub(crate) fn was_waited_for(&mut self, pid: Pid, by: Pid) {
        if self.table.contains_key(&pid) {
            self.set_native_parent(pid, by);
        }
    }

    fn has_no_child(&mut self, parent: Pid, pid: Pid) {
        if let Some(children) = self.children.get_mut(&parent) {
            children.remove(&pid);
            if children.is_empty() {
                self.children.remove(&parent);
            }
        }
    }

    /// Is `pid` a descendant of `of` here, as long as all between them stand here?
    pub(crate) fn is_below(&self, pid: Pid, of: Pid) -> bool {
        let parent = |pid: &Pid| self.get(*pid).map(|stand| stand.native_parent());
        std::iter::successors(parent(&pid), parent).take(self.iter().count()).any(|one| one == of)
    }

    /// Does this process, which is elsewhere, take orphans?
    pub(crate) fn takes_orphans(&self, pid: Pid) -> bool {
        self.subreapers.contains(&pid)
    }

    pub(crate) fn take_orphans(&mut self, pid: Pid, on: bool) {
        match on {
            true => self.subreapers.insert(pid),
            false => self.subreapers.remove(&pid),
        };
    }

    /// Those that others here need. The leaders of all: the numbers of their group and session are taken here as long as they stand (linux: `alloc_pid`), and who has them
    /// could neither come back nor be made to stand here. And the parents, here and elsewhere: who were given to another here could not come as what they are.
    pub(crate) fn needed(&self) -> HashSet<Pid> {
        let mut needed = HashSet::new();
        for stand in self.iter().filter(|stand| stand.why != Why::Husk) {
            let Person { pid, ppid, pgid, sid, .. } = stand.person;
            let real = |kin: &Pid| *kin != pid && self.get(*kin).is_some_and(|kin| kin.why != Why::Husk);
            needed.extend([stand.native_parent, ppid, pgid, sid].into_iter().filter(real));
        }
        needed
    }

    /// `parent` is a body no more, and what stands for it waits for those that it was given. They stay: somebody may have a pidfd of one by now.
    pub(crate) fn waits_for_adopted(&mut self, parent: Pid) {
        for pid in self.children(parent) {
            if let Some(stand) = self.get_mut(pid).filter(|stand| stand.why == Why::Adopted) {
                stand.why = Why::Handle;
            }
        }
    }

    /// Whoever here is the parent of some.
    pub(crate) fn parents(&self) -> impl Iterator<Item = Pid> + '_ {
        self.children.keys().copied()
    }

    /// Those whose parent here is `parent`, in the order of their numbers.
    pub(crate) fn children(&self, parent: Pid) -> Vec<Pid> {
        self.children.get(&parent).into_iter().flatten().copied().collect()
    }

    /// The same themselves.
    pub(crate) fn children_of(&self, parent: Pid) -> impl Iterator<Item = &Stand> {
        self.children.get(&parent).into_iter().flatten().filter_map(|pid| self.get(*pid))
    }

    /// The process that is their parent here is about to end here, as it lives on elsewhere: of their groups, and of its own, which are orphaned here alone, the kernel
    /// hangs up those that are stopped (linux: `kill_orphaned_pgrp`). Of those that have just taken the place of a process it `may` not be known.
    pub(crate) fn lose_parent(&mut self, parent: Pid, group: Option<Pid>, may: impl Fn(Pid) -> bool) {
        let children = self.children(parent);
        let group_of = |pid: &Pid| self.get(*pid).map(|stand| stand.person.pgid);
        let groups: HashSet<Pid> = children.iter().filter_map(group_of).chain(group).collect();
        if groups.is_empty() {
            return;
        }
        let members = self.iter().filter(|stand| groups.contains(&stand.person.pgid)).map(|stand| stand.person.pid);
        for child in members.chain(children).collect::<HashSet<Pid>>() {
            let stopped = |stand: &&mut Stand| stand.body_stopped.is_some() || may(child);
            if let Some(stand) = self.table.get_mut(&child).filter(stopped) {
                stand.orphaned = Stand::HUNG_UP;
            }
        }
    }

    /// In the order of their numbers.
    pub(crate) fn pids(&self) -> BTreeSet<Pid> {
        self.table.keys().copied().collect()
    }

    /// Those that stand for a process of the space (husks do not).
    pub(crate) fn known(&self) -> Vec<Pid> {
        let known = self.table.iter().filter(|(_, stand)| stand.why != Why::Husk && !stand.ending);
        known.map(|(pid, _)| *pid).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stand> {
        self.table.values()
    }
}
