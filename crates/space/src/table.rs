//! Who exists, where, and in what state.

use crate::life::Ghost;
use crate::person::Person;
use crate::step::{Given, Step, StepId};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use vocab::{Exit, NodeId, Pid, Sig, SigInfo};

/// The copies of one program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Many {
    /// Where each copy goes.
    pub(crate) to: Vec<NodeId>,
    /// Copies whose ghosts are still to be cloned.
    pub(crate) coming: usize,
    /// What came meanwhile: it is for those that are still to be cloned, too.
    pub(crate) early: Vec<SigInfo>,
    /// Copies that have not ended. The process may have other children too, from before it became `shoal run`.
    pub(crate) left: BTreeSet<Pid>,
    pub(crate) worst: Exit,
    pub(crate) killed: bool,
}

/// The state of the process itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    /// A process of the front end that is kin of bodies.
    Native,
    /// `shoal run` for several nodes: the parent of the copies' ghosts.
    Many(Many),
    /// A ghost found after a restart that no node has claimed yet.
    Unclaimed,
    /// Asked for, not yet exec'd.
    Starting,
    Running,
    Stopped(Sig),
    Ended(Exit),
}

/// How far the ghost's own end is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    No,
    Queued(StepId),
    Issued(StepId),
}

/// One process.
#[derive(Debug)]
pub(crate) struct Entry {
    /// No other that was ever entered has this.
    pub(crate) birth: u64,
    /// As its body has it; the ghost follows.
    pub(crate) person: Person,
    /// The user who asked for the program of which this comes, whatever ids it has taken since.
    pub(crate) asker: u32,
    /// Where the body is.
    pub(crate) place: NodeId,
    pub(crate) body: Body,
    pub(crate) ghost: Ghost,
    pub(crate) children: BTreeSet<Pid>,
    /// Nodes on which it stands for the body elsewhere.
    pub(crate) stands: BTreeSet<NodeId>,
    /// As it was when it was forked, if it has changed before its ghost held.
    pub(crate) born: Option<Box<Person>>,
    pub(crate) subreaper: bool,
    /// The program that was started with the standard streams of which this one's come.
    pub(crate) streams: Option<Pid>,
    /// A client asked for it and is told of its end.
    pub(crate) asked: bool,
    /// Where the `shoal run` is that has become it, and how that ended before it, if it has.
    pub(crate) runner: Option<(NodeId, Option<Exit>)>,
    /// Signals that came before the program was exec'd, or while it is on its way to another node.
    pub(crate) early: Vec<SigInfo>,
    /// SIGCONT came to its ghost while it was on its way: that has gone on by it, or would have.
    pub(crate) went_on: Option<SigInfo>,
    /// Its node ends it, since another one has it.
    pub(crate) leaving: bool,
    /// That is done, and it comes to the front end.
    pub(crate) lands: bool,
    /// Since it left a place it was sent what stops or continues it.
    pub(crate) turned: bool,
    /// From there it has moved, and what it did there may be told after that it runs where it is.
    pub(crate) came_from: Option<NodeId>,
    /// It has come to the front end, and what becomes it there is not yet as it was: what stops it waits for that, and what follows.
    pub(crate) settles: bool,
    /// The node on which there is something that is to become it.
    pub(crate) comes_to: Option<NodeId>,
    /// The ghost's hold is interrupted, with this pending.
    pub(crate) kill_pending: bool,
    pub(crate) stop_pending: bool,
    /// The body has been sent a SIGKILL on behalf of the space.
    pub(crate) killed: bool,
    /// The ghost was stopped by SIGSTOP itself, not by a command.
    pub(crate) asleep: bool,
    /// Signals that stop or continue which the body was sent so far: the turn of the newest.
    pub(crate) turns: u64,
    /// The turn that what the node tells of stops must have reached to count: what is older will be followed by what the body has made of the
    /// signals since. 0: any.
    pub(crate) awaited: u64,
    /// The turn up to which what is known of its stops holds.
    pub(crate) known: u64,
    /// By node: the newest turn that came with a signal of its stand-in there.
    pub(crate) heard: BTreeMap<NodeId, u64>,
    /// A native one, with its parent on a node, is stopped by this.
    pub(crate) halted: Option<Sig>,
    /// A native one: the newest signal that a ghost was told to send it.
    pub(crate) signalled: Option<StepId>,
    /// Stop commands given and not reported.
    pub(crate) stops: u32,
    /// Of stop commands given before those: it was woken from them, and has not reported them.
    pub(crate) woken: u32,
    /// Its parent, which was on a node, has got it by the end of another on the front end, and does not know that: it stands nowhere as its child.
    pub(crate) unheard_of: bool,
    /// On its node init or a stand-in is its parent: their waiting for it is not its parent's.
    pub(crate) left: bool,
    /// The parent has waited for the body.
    pub(crate) reaped: bool,
    /// The parent has waited for the stand-in on its node, which was killed, and the body has yet to follow.
    pub(crate) reaped_early: bool,
    /// The Reap by which its ghost is waited for.
    pub(crate) wait: Option<StepId>,
    /// Commands not yet given, in order.
    pub(crate) queue: VecDeque<Step>,
    /// Commands given and not yet reported, in order.
    pub(crate) given: VecDeque<Given>,
    pub(crate) end: End,
    /// The Clone that makes this ghost.
    pub(crate) clone: Option<StepId>,
    /// Whoever was to clone it died, and may have done so before.
    pub(crate) cloned_again: bool,
    /// The last change of its ids.
    pub(crate) ids: Option<StepId>,
    /// Ends of former parents, after which a new one may wait for it.
    pub(crate) orphaned_by: Vec<StepId>,
}

impl Entry {
    pub(crate) fn new(person: Person, place: NodeId, body: Body, ghost: Ghost) -> Entry {
        Entry {
            birth: 0,
            asker: person.creds.uid.real,
            person,
            place,
            body,
            ghost,
            children: BTreeSet::new(),
            stands: BTreeSet::new(),
            born: None,
            subreaper: false,
            streams: None,
            asked: false,
            runner: None,
            early: Vec::new(),
            went_on: None,
            leaving: false,
            lands: false,
            came_from: None,
            comes_to: None,
            kill_pending: false,
            stop_pending: false,
            killed: false,
            asleep: false,
            turns: 0,
            awaited: 0,
            known: 0,
            heard: BTreeMap::new(),
            halted: None,
            signalled: None,
            turned: false,
            settles: false,
            stops: 0,
            woken: 0,
            unheard_of: false,
            left: false,
            reaped: false,
            reaped_early: false,
            wait: None,
            queue: VecDeque::new(),
            given: VecDeque::new(),
            end: End::No,
            clone: None,
            cloned_again: false,
            ids: None,
            orphaned_by: Vec::new(),
        }
    }

    /// It is about to change: while there is no ghost, remember what that will have to begin with.
    pub(crate) fn remember(&mut self) {
        if matches!(self.ghost, Ghost::Wanted | Ghost::Coming) && self.born.is_none() {
            self.born = Some(Box::new(self.person.clone()));
        }
    }

    pub(crate) fn ended(&self) -> bool {
        matches!(self.body, Body::Ended(_))
    }

    /// Is it on a node, or about to be, so that its ghost waits for its children here when it has waited there?
    pub(crate) fn waits_by_ghost(&self) -> bool {
        match self.body {
            Body::Native => self.leaving,
            Body::Many(_) | Body::Ended(_) => false,
            _ => true,
        }
    }

    /// A native one: is this kept until it is where it is to be? What takes the place of one that leaves would hand it over late, and after what comes then; and a stop that
    /// comes to what is yet to become the process cannot be told from the one in which that was written.
    pub(crate) fn keeps(&self, info: &SigInfo) -> bool {
        let settles = self.settles && (info.sig.stops() || !self.early.is_empty());
        info.sig != Sig::KILL && (self.leaving || settles)
    }

    /// Until then it waits, as where it is to be it would: SIGCONT takes away what stops (linux: `prepare_signal`).
    pub(crate) fn keep(&mut self, info: SigInfo) {
        if info.sig == Sig::CONT {
            self.early.retain(|before| !before.sig.stops());
        }
        self.early.push(info);
    }

    /// Is there a body on a node that can get signals?
    pub(crate) fn has_body(&self) -> bool {
        matches!(self.body, Body::Starting | Body::Running | Body::Stopped(_))
    }

    /// Is it on `node`, and ends with that?
    pub(crate) fn lives_on(&self, node: NodeId) -> bool {
        self.place == node && self.has_body() && !self.lands
    }

    /// Does what `node` tells count as done by it? Also before it moved from there, which may be told last.
    pub(crate) fn acts_on(&self, node: NodeId) -> bool {
        self.has_body() && (self.place == node || self.came_from == Some(node))
    }
}

/// All processes, by number.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: HashMap<Pid, Entry>,
    /// Children of those that are not entered (yet).
    strays: HashMap<Pid, BTreeSet<Pid>>,
    /// The newest entry's birth.
    pub(crate) births: u64,
}

impl Table {
    pub(crate) fn get(&self, pid: Pid) -> Option<&Entry> {
        self.entries.get(&pid)
    }

    pub(crate) fn get_mut(&mut self, pid: Pid) -> Option<&mut Entry> {
        self.entries.get_mut(&pid)
    }

    /// Puts an entry in, with its parent and its children.
    pub(crate) fn insert(&mut self, mut entry: Entry) {
        let (pid, ppid) = (entry.person.pid, entry.person.ppid);
        entry.children.extend(self.strays.remove(&pid).unwrap_or_default());
        self.births += 1;
        entry.birth = self.births;
        self.entries.insert(pid, entry);
        self.join(ppid, pid);
    }

    pub(crate) fn remove(&mut self, pid: Pid) -> Option<Entry> {
        let entry = self.entries.remove(&pid)?;
        self.leave(entry.person.ppid, pid);
        Some(entry)
    }

    pub(crate) fn set_parent(&mut self, pid: Pid, ppid: Pid) {
        let Some(entry) = self.entries.get_mut(&pid) else { return };
        let old = std::mem::replace(&mut entry.person.ppid, ppid);
        self.leave(old, pid);
        self.join(ppid, pid);
    }

    fn join(&mut self, ppid: Pid, pid: Pid) {
        match self.entries.get_mut(&ppid) {
            Some(parent) => {
                parent.children.insert(pid);
            }
            None if ppid == Pid::INIT => {}
            None => {
                self.strays.entry(ppid).or_default().insert(pid);
            }
        }
    }

    fn leave(&mut self, ppid: Pid, pid: Pid) {
        if let Some(parent) = self.entries.get_mut(&ppid) {
            parent.children.remove(&pid);
        } else if let Some(strays) = self.strays.get_mut(&ppid) {
            strays.remove(&pid);
            if strays.is_empty() {
                self.strays.remove(&ppid);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Pid, &Entry)> {
        self.entries.iter().map(|(pid, entry)| (*pid, entry))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.values_mut()
    }

    /// The numbers of those that `keep`s, in order.
    pub(crate) fn which(&self, keep: impl Fn(&Entry) -> bool) -> Vec<Pid> {
        let mut pids: Vec<Pid> = self.iter().filter(|(_, e)| keep(e)).map(|(pid, _)| pid).collect();
        pids.sort_unstable();
        pids
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
