//! The front end: its kernel with the ghosts, and the daemon's queues. Commands of different ghosts run in any order.

use super::tree::{pid, State, Tree, INIT, SHELL};
use crate::{Command, Event, KillTarget};
use std::collections::{BTreeMap, VecDeque};
use vocab::{Creds, Exit, Pid, Sig, SigInfo, SigSet};

/// The SIGCONT of Effect::Wake.
const OURS: SigInfo = SigInfo { sig: Sig::CONT, code: 0, pid: Pid::NONE, uid: 0, value: 0, count: None };

#[derive(Debug, Default)]
pub(super) struct Ghost {
    pub(super) fifo: VecDeque<Option<Command>>,
    /// What it will tell, in order.
    pub(super) reports: VecDeque<Event>,
    interrupted: bool,
    kill_pending: bool,
    stop_pending: bool,
    /// It has stopped by command and has not reported that.
    stopping: bool,
    gate: Option<Exit>,
    /// Pending signals, but SIGKILL and SIGSTOP.
    waiting: Vec<SigInfo>,
}

#[derive(Debug)]
pub(super) struct Front {
    pub(super) tree: Tree,
    pub(super) ghosts: BTreeMap<i32, Ghost>,
    /// Commands that failed.
    pub(super) errors: Vec<String>,
}

impl Front {
    pub(super) fn new() -> Front {
        Front { tree: Tree::new(), ghosts: BTreeMap::new(), errors: Vec::new() }
    }

    pub(super) fn ghost(&mut self, n: i32) -> &mut Ghost {
        self.ghosts.entry(n).or_default()
    }

    /// A process that called `shoal run`, in its shell's session.
    pub(super) fn shoal_run(&mut self, n: i32, pgid: i32) {
        self.tree.fork(SHELL, n);
        self.tree.at(n).pgid = pgid;
        self.ghost(n).reports.push_back(Event::Held { pid: pid(n) });
    }

    pub(super) fn can_obey(&self, n: i32) -> bool {
        let Some(ghost) = self.ghosts.get(&n) else { return false };
        let runs = self.tree.procs.get(&n).is_some_and(|p| p.state == State::Run);
        runs && !ghost.interrupted && ghost.gate.is_none() && !ghost.fifo.is_empty()
    }

    /// The ghost carries out its next command; `gated` lets it pass through the exit gate where it ends.
    pub(super) fn obey(&mut self, n: i32, gated: bool) {
        let Some(command) = self.ghost(n).fifo.pop_front() else { return };
        let said = format!("{n} {command:?}");
        let result = match command {
            None => Ok(0),
            Some(Command::Clone { pid: child, orphan }) => self.clone_ghost(n, child.0, orphan),
            Some(Command::Exit(code)) => return self.end(n, Exit::Code(code), gated),
            Some(Command::Die { sig, core }) => return self.end(n, Exit::Killed { sig, core }, gated),
            Some(Command::Stop(sig)) => {
                if self.ghost(n).waiting.iter().any(|info| info.sig == Sig::CONT) {
                    return self.report(n, Event::Done { pid: pid(n), result: Err(11) });
                }
                self.tree.at(n).state = State::Stop(sig);
                self.ghost(n).stopping = true;
                return;
            }
            Some(Command::Setsid) => self.tree.setsid(n),
            Some(Command::Setpgid(pgid)) => self.tree.setpgid(n, pgid.0),
            Some(Command::Ids(Creds { uid, .. })) => {
                self.tree.at(n).uid = uid.effective;
                Ok(0)
            }
            Some(Command::Name(name)) => {
                self.tree.at(n).name = name[0];
                Ok(0)
            }
            Some(Command::Reap(child)) => self.tree.reap(n, child.0),
            Some(Command::Kill { target: KillTarget::Process(target), sig, .. }) => {
                let result = self.kill(n, target.0, sig);
                self.report(n, Event::Done { pid: pid(n), result });
                return;
            }
            Some(Command::Kill { .. }) => {
                self.report(n, Event::Done { pid: pid(n), result: Err(3) });
                return;
            }
            Some(other) => match other {
                Command::Subreaper(on) => {
                    self.tree.at(n).subreaper = on;
                    Ok(0)
                }
                _ => Err(38),
            },
        };
        if let Err(errno) = result {
            self.errors.push(format!("{said}: errno {errno}"));
        }
        self.report(n, Event::Done { pid: pid(n), result });
    }

    fn report(&mut self, n: i32, event: Event) {
        self.ghost(n).reports.push_back(event);
    }

    fn clone_ghost(&mut self, n: i32, child: i32, orphan: bool) -> Result<i32, i32> {
        if self.tree.procs.contains_key(&child) {
            return Err(17);
        }
        self.tree.fork(n, child);
        if orphan {
            self.tree.at(child).ppid = self.tree.taker(n);
        }
        self.report(child, Event::Held { pid: pid(child) });
        Ok(child)
    }

    fn end(&mut self, n: i32, exit: Exit, gated: bool) {
        if gated {
            self.ghost(n).gate = Some(exit);
            self.report(n, Event::Dying { pid: pid(n) });
        } else {
            self.tree.exit(n, exit);
            self.report(n, Event::Gone { pid: pid(n) });
        }
    }

    fn kill(&mut self, sender: i32, target: i32, sig: u8) -> Result<i32, i32> {
        let uid = self.tree.procs[&sender].uid;
        match self.tree.procs.get(&target) {
            None => Err(3),
            Some(p) if uid != 0 && p.uid != uid => Err(1),
            Some(_) => {
                if let Some(sig) = Sig::new(sig) {
                    self.signal(target, SigInfo::kill(sig, pid(sender), uid));
                }
                Ok(0)
            }
        }
    }

    /// Somebody on the front end signals a ghost.
    pub(super) fn signal(&mut self, n: i32, info: SigInfo) {
        if n == SHELL || n == INIT || !self.tree.alive(n) || self.ghost(n).gate.is_some() || self.ghost(n).kill_pending
        {
            return;
        }
        let stopped = matches!(self.tree.procs[&n].state, State::Stop(_));
        match info.sig {
            Sig::KILL if stopped => {
                self.ghost(n).kill_pending = true;
                self.ghost(n).fifo.clear();
                self.end(n, Exit::Killed { sig: Sig::KILL, core: false }, true);
            }
            Sig::KILL => {
                (self.ghost(n).kill_pending, self.ghost(n).interrupted) = (true, true);
                self.report(n, Event::Pending { pid: pid(n), set: SigSet(Sig::KILL.bit()) });
            }
            Sig::STOP if stopped => {}
            Sig::STOP => {
                self.ghost(n).waiting.retain(|other| other.sig != Sig::CONT);
                self.ghost(n).stop_pending = true;
                if !std::mem::replace(&mut self.ghost(n).interrupted, true) {
                    self.report(n, Event::Pending { pid: pid(n), set: SigSet(Sig::STOP.bit()) });
                }
            }
            Sig::CONT => self.cont(n, info),
            _ if stopped && info.sig.stops() => {}
            _ => self.pend(n, info),
        }
    }

    /// One that is pending already is not queued again (the daemon's own is, being sent to the thread); a stop takes back SIGCONT, and SIGCONT
    /// stops (linux: `prepare_signal`).
    fn pend(&mut self, n: i32, info: SigInfo) {
        let waiting = &mut self.ghost(n).waiting;
        waiting.retain(|other| match info.sig {
            Sig::CONT => !other.sig.stops(),
            sig => !sig.stops() || other.sig != Sig::CONT,
        });
        if waiting.iter().all(|other| other.sig != info.sig || (*other == OURS) != (info == OURS)) {
            waiting.push(info);
        }
    }

    fn cont(&mut self, n: i32, info: SigInfo) {
        self.ghost(n).stop_pending = false;
        self.pend(n, info);
        if let State::Stop(_) = self.tree.procs[&n].state {
            self.tree.at(n).state = State::Run;
            if std::mem::take(&mut self.ghost(n).stopping) {
                self.report(n, Event::Done { pid: pid(n), result: Ok(0) });
            }
        }
    }

    pub(super) fn can_take(&self, n: i32) -> bool {
        let Some(ghost) = self.ghosts.get(&n) else { return false };
        let runs = self.tree.procs.get(&n).is_some_and(|p| p.state == State::Run);
        runs && !ghost.interrupted && ghost.gate.is_none() && !ghost.waiting.is_empty()
    }

    /// The ghost takes the pending signal of the lowest number and hands it over. The daemon's own SIGCONT is not told.
    pub(super) fn take(&mut self, n: i32) {
        let waiting = &mut self.ghost(n).waiting;
        waiting.sort_by_key(|info| std::cmp::Reverse(info.sig));
        if let Some(info) = waiting.pop().filter(|info| *info != OURS) {
            self.report(n, Event::Signalled { pid: pid(n), info });
        }
    }

    /// Effect::Wake: also Stops that are still queued are over.
    pub(super) fn effect_wake(&mut self, n: i32) {
        for command in &mut self.ghost(n).fifo {
            if matches!(command, Some(Command::Stop(_))) {
                *command = None;
            }
        }
        if self.tree.alive(n) && self.ghost(n).gate.is_none() {
            self.cont(n, OURS);
        }
    }

    pub(super) fn effect_interrupt(&mut self, n: i32) {
        if !self.tree.alive(n) || self.ghost(n).gate.is_some() {
            return;
        }
        let ghost = self.ghost(n);
        if !std::mem::take(&mut ghost.interrupted) {
            self.errors.push(format!("{n}: interrupted for nothing"));
            return;
        }
        if ghost.kill_pending {
            ghost.fifo.clear();
            self.end(n, Exit::Killed { sig: Sig::KILL, core: false }, true);
        } else if std::mem::take(&mut ghost.stop_pending) {
            self.tree.at(n).state = State::Stop(Sig::STOP);
        } else if ghost.waiting.iter().all(|info| info.sig != Sig::CONT || *info == OURS) {
            self.report(n, Event::NotStopped { pid: pid(n) });
        }
    }

    pub(super) fn effect_release(&mut self, n: i32) {
        match self.ghost(n).gate.take() {
            Some(exit) => self.end(n, exit, false),
            None => self.errors.push(format!("{n}: released, but not in the gate")),
        }
    }
}
