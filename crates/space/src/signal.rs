//! Who gets which signal.

use crate::effect::{Command, Effect};
use crate::person::KillTarget;
use crate::space::Space;
use crate::step::{Act, Mark};
use crate::table::{Body, End, Entry};
use vocab::{Creds, Ids, NodeId, Pid, Sig, SigInfo};

/// A signal that the kernel of the front end has let through without telling us the sender (SIGKILL, SIGSTOP), or our own.
pub(crate) fn our_signal(sig: Sig) -> SigInfo {
    SigInfo::kill(sig, Pid::NONE, 0)
}

pub(crate) fn our_kill() -> SigInfo {
    our_signal(Sig::KILL)
}

/// Did the kernel make it, not a process (linux: `SI_FROMUSER`)?
fn by_kernel(info: &SigInfo) -> bool {
    info.code > 0
}

/// Is it the kernel's word on a child? Ghosts have children of their own, whose bodies' parents learn it from their own kernel.
fn of_child(info: &SigInfo) -> bool {
    info.sig == Sig::CHLD && by_kernel(info)
}

impl Space {
    /// A ghost was signalled: the body gets it.
    pub(crate) fn signalled(&mut self, pid: Pid, info: SigInfo) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        if info.sig == Sig::CONT {
            // One that has stopped by itself, and has been continued.
            entry.stop_pending = false;
            entry.asleep = false;
        }
        if of_child(&info) {
            return;
        }
        if matches!(entry.body, Body::Many(_)) {
            return self.many_signalled(pid, info);
        }
        if info.sig.stops() && matches!(entry.body, Body::Stopped(_)) && entry.stops + entry.woken == 0 {
            // It runs though the body does not: the SIGCONT that has woken it was discarded by this one (linux: `prepare_signal`).
            entry.asleep = false;
            self.deliver(pid, our_signal(Sig::CONT));
        }
        let Some(entry) = self.table.get_mut(pid) else { return };
        if entry.ids.is_some_and(|id| self.steps.is_open(id)) && !self.may_still(pid, &info) {
            return self.log(pid, NodeId::FRONT, "not permitted any more: signal", i32::from(info.sig.number()));
        }
        self.deliver(pid, info);
    }

    /// The kernel has checked against the ghost's ids, which are not the body's yet.
    fn may_still(&self, pid: Pid, info: &SigInfo) -> bool {
        let Some(target) = self.table.get(pid) else { return false };
        if by_kernel(info) || info.uid == 0 {
            return true;
        }
        match self.table.get(info.pid) {
            Some(sender) => may_signal(sender, target, Some(info.sig)),
            None => Creds { uid: Ids::all(info.uid), ..Creds::default() }.may_signal(&target.person.creds),
        }
    }

    /// Sends it on to where the body is, or is about to be: the node keeps it until the program begins, so that it has it before it can have forked.
    pub(crate) fn deliver(&mut self, pid: Pid, info: SigInfo) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        match entry.body {
            Body::Unclaimed => entry.early.push(info),
            Body::Starting | Body::Running | Body::Stopped(_) => self.send_to_body(pid, info, None),
            Body::Native => self.out.push(Effect::SignalNative { target: pid, info }),
            Body::Many(_) => self.many_signalled(pid, info),
            Body::Ended(_) => {}
        }
    }

    /// Sends it to the node where the body is; while it leaves that one it waits, and is for the whole process then.
    pub(crate) fn send_to_body(&mut self, pid: Pid, info: SigInfo, thread: Option<Pid>) {
        if info.sig == Sig::CONT {
            // As the kernel discards a SIGSTOP that waits (linux: `prepare_signal`): its parent, who knows it as it is to be, would be told of a stop and a going on.
            self.drop_stops(pid);
        }
        let Some(entry) = self.table.get_mut(pid) else { return };
        // Also of one that waits: what the old node has yet to tell of its stops is out of date by that.
        let turn = (info.sig.stops() || info.sig == Sig::CONT).then(|| {
            entry.turns += 1;
            entry.awaited = entry.turns;
            entry.turns
        });
        if entry.leaving {
            return entry.early.push(info);
        }
        self.out.push(Effect::Signal { node: entry.place, target: pid, info, thread, turn });
    }

    /// The program runs.
    pub(crate) fn started(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid).filter(|e| e.body == Body::Starting) else { return };
        entry.body = Body::Running;
        let place = entry.place;
        self.log(pid, place, "started", 0);
    }

    /// The space itself wants it dead.
    pub(crate) fn kill_body(&mut self, pid: Pid) {
        if let Some(entry) =
            self.table.get_mut(pid).filter(|e| (e.has_body() || e.body == Body::Unclaimed) && !e.killed)
        {
            entry.killed = true;
            self.deliver(pid, our_kill());
        }
    }

    /// A stand-in on a node was signalled, and the node's kernel let it: the real one is.
    pub(crate) fn stand_in_signalled(&mut self, node: NodeId, target: Pid, info: SigInfo, turn: Option<u64>) {
        let ppid = self.table.get(target).map_or(Pid::NONE, |entry| entry.person.ppid);
        let watched = self.table.get(ppid).is_some_and(Entry::waits_by_ghost);
        let Some(entry) = self.table.get_mut(target) else { return };
        if of_child(&info) {
            return;
        }
        if let Some(turn) = turn {
            entry.heard.insert(node, turn);
            // That one stops by it is told then.
            let will_stop = watched && entry.body == Body::Native && info.sig == Sig::STOP;
            if matches!(entry.body, Body::Native | Body::Many(_)) && !will_stop {
                // Nobody tells of its stops.
                self.out.push(Effect::ContinueStandIn { node, pid: target, turn: Some(turn) });
            }
        }
        // One that has ended meanwhile has no ghost any more that could.
        let sender_obeys = self.table.get(info.pid).is_some_and(|s| s.ghost.will_obey() && s.end == End::No);
        let native = self.table.get(target).is_some_and(|entry| entry.body == Body::Native);
        // What rt_sigqueueinfo says of the sender is the sender's word: nobody is told to send anything for that.
        if native && sender_obeys && matches!(info.code, SigInfo::SI_USER | SigInfo::SI_TKILL) {
            // So that the receiver sees who sent it.
            let command = Command::Kill { target: KillTarget::Process(target), sig: info.sig.number() };
            self.push(info.pid, Act::Kill { command, ask: None }, Mark::default());
        } else {
            self.deliver(target, info);
        }
    }
}

/// May `sender` send `sig` (none: ask) to `target`? linux: `kill_ok_by_cred` and `check_kill_permission`, kernel/signal.c.
pub(crate) fn may_signal(sender: &Entry, target: &Entry, sig: Option<Sig>) -> bool {
    let same_session = sig == Some(Sig::CONT) && sender.person.sid == target.person.sid;
    same_session || sender.person.creds.may_signal(&target.person.creds)
}
