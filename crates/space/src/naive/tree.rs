//! One machine's processes, as slowly and plainly as POSIX tells it. It plays the bodies as well as the ghosts.

use std::collections::BTreeMap;
use vocab::errno::EPERM;
use vocab::{Exit, NodeId, Pid, Sig};

pub(super) const INIT: i32 = 1;
pub(super) const SHELL: i32 = 100;
const ECHILD: i32 = 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Run,
    Stop(Sig),
    Zombie(Exit),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Proc {
    pub(super) ppid: i32,
    pub(super) pgid: i32,
    pub(super) sid: i32,
    pub(super) uid: u32,
    pub(super) name: u8,
    pub(super) subreaper: bool,
    pub(super) state: State,
    /// Bodies only.
    pub(super) node: NodeId,
    /// It waits for an answer of the front end.
    pub(super) blocked: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) procs: BTreeMap<i32, Proc>,
    /// Processes that have ended and are no zombies any more.
    pub(super) exits: BTreeMap<i32, Exit>,
}

impl Tree {
    pub(super) fn new() -> Tree {
        let proc = |ppid, pid| Proc {
            ppid,
            pgid: pid,
            sid: pid,
            uid: 0,
            name: 0,
            subreaper: false,
            state: State::Run,
            node: NodeId::FRONT,
            blocked: false,
        };
        let procs = BTreeMap::from([(INIT, proc(0, INIT)), (SHELL, proc(INIT, SHELL))]);
        Tree { procs, exits: BTreeMap::new() }
    }

    pub(super) fn fork(&mut self, parent: i32, pid: i32) {
        let mut child = self.procs[&parent].clone();
        child.ppid = parent;
        child.subreaper = false;
        child.state = State::Run;
        child.blocked = false;
        self.procs.insert(pid, child);
    }

    pub(super) fn setpgid(&mut self, pid: i32, pgid: i32) -> Result<i32, i32> {
        let own = self.procs[&pid].sid;
        let exists = pgid == pid || self.procs.values().any(|p| p.pgid == pgid && p.sid == own);
        if own == pid || !exists {
            return Err(EPERM);
        }
        self.at(pid).pgid = pgid;
        Ok(0)
    }

    pub(super) fn setsid(&mut self, pid: i32) -> Result<i32, i32> {
        if self.procs.values().any(|p| p.pgid == pid) {
            return Err(EPERM);
        }
        (self.at(pid).pgid, self.at(pid).sid) = (pid, pid);
        Ok(0)
    }

    pub(super) fn taker(&self, mut pid: i32) -> i32 {
        while pid != INIT {
            match self.procs.get(&pid) {
                Some(p) if p.subreaper && self.alive(pid) => return pid,
                Some(p) => pid = p.ppid,
                None => return INIT,
            }
        }
        INIT
    }

    pub(super) fn exit(&mut self, pid: i32, exit: Exit) {
        self.exits.insert(pid, exit);
        self.at(pid).state = State::Zombie(exit);
        let taker = self.taker(self.procs[&pid].ppid);
        let children: Vec<i32> = self.children(pid).collect();
        for child in children {
            self.at(child).ppid = taker;
            self.vanish(child);
        }
        self.vanish(pid);
    }

    /// init and the shell wait at once.
    fn vanish(&mut self, pid: i32) {
        let p = &self.procs[&pid];
        if matches!(p.state, State::Zombie(_)) && (p.ppid == INIT || p.ppid == SHELL) {
            self.procs.remove(&pid);
        }
    }

    pub(super) fn reap(&mut self, parent: i32, pid: i32) -> Result<i32, i32> {
        match self.procs.get(&pid) {
            Some(p) if p.ppid == parent && matches!(p.state, State::Zombie(_)) => {
                self.procs.remove(&pid);
                Ok(0)
            }
            _ => Err(ECHILD),
        }
    }

    pub(super) fn children(&self, pid: i32) -> impl Iterator<Item = i32> + '_ {
        self.procs.iter().filter(move |(_, p)| p.ppid == pid).map(|(pid, _)| *pid)
    }

    pub(super) fn alive(&self, pid: i32) -> bool {
        self.procs.get(&pid).is_some_and(|p| !matches!(p.state, State::Zombie(_)))
    }

    pub(super) fn at(&mut self, pid: i32) -> &mut Proc {
        self.procs.get_mut(&pid).expect("the caller has looked")
    }

    /// Where the two differ, in words.
    pub(super) fn difference(&self, ghosts: &Tree, groups: bool) -> Option<String> {
        for (pid, body) in &self.procs {
            if !groups && matches!(body.state, State::Zombie(_)) && !ghosts.procs.contains_key(pid) {
                // Nobody was left to clone its ghost, so it was killed.
                continue;
            }
            let Some(ghost) = ghosts.procs.get(pid) else { return Some(format!("{pid} has no ghost: {body:?}")) };
            let mut like = Proc { node: body.node, blocked: body.blocked, ..ghost.clone() };
            if let (State::Zombie(seen), State::Zombie(real)) = (like.state, body.state) {
                if seen.to_status() == real.to_status() {
                    like.state = body.state;
                }
                if real == Exit::NodeLost {
                    // What it did last was lost with the node.
                    like = Proc { ppid: like.ppid, state: like.state, ..body.clone() };
                }
            }
            if matches!((like.state, body.state), (State::Stop(_), State::Stop(_))) {
                // A second stop signal, at the ghost or at the body, changes nothing.
                like.state = body.state;
            }
            if !groups {
                (like.pgid, like.sid) = (body.pgid, body.sid);
            }
            if matches!(body.state, State::Zombie(_)) {
                like.subreaper = body.subreaper;
                if !groups && matches!(like.state, State::Zombie(_)) {
                    // Killed before it could follow.
                    (like.state, like.name, like.uid) = (body.state, body.name, body.uid);
                }
            }
            if like != *body {
                return Some(format!("{pid} is {body:?}, its ghost {ghost:?}"));
            }
        }
        let left = ghosts.procs.keys().find(|pid| !self.procs.contains_key(pid))?;
        Some(format!("{left} is a ghost without body: {:?}", ghosts.procs[left]))
    }
}

pub(super) fn pid(n: i32) -> Pid {
    Pid(n)
}
