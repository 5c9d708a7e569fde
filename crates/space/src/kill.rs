//! kill(2) and its like by a body for something that is not on its node.

use crate::effect::{Command, Effect};
use crate::person::KillTarget;
use crate::signal::may_signal;
use crate::space::Space;
use crate::step::{Act, Mark};
use crate::table::{Body, Entry};
use vocab::errno::{EINVAL, EPERM, ESRCH};
use vocab::{NodeId, Pid, Sig, SigInfo};

impl Space {
    pub(crate) fn kill_asked(&mut self, node: NodeId, id: u64, sender: Pid, target: KillTarget, sig: u8) {
        let errno = match (self.table.get(sender), Sig::new(sig)) {
            (None, _) => Some(ESRCH),
            (_, None) if sig != 0 => Some(EINVAL),
            (Some(from), sig) => {
                let info = sig.map(|sig| SigInfo::kill(sig, sender, from.person.creds.uid.real));
                match target {
                    KillTarget::Process(pid) => self.kill_process(node, id, sender, pid, info),
                    KillTarget::Thread { pid, tid } => self.kill_thread(node, id, sender, pid, tid, info),
                    KillTarget::Group(pgid) => self.kill_group(node, id, sender, pgid, info),
                    KillTarget::All => Some(self.kill_all(sender, info)),
                }
            }
        };
        if let Some(errno) = errno {
            self.out.push(Effect::KillDone { node, id, errno, left: Vec::new() });
        }
    }

    /// The sender's ghost does it, so the kernel of the front end decides and the receiver sees the sender.
    fn kill_process(&mut self, node: NodeId, id: u64, sender: Pid, pid: Pid, info: Option<SigInfo>) -> Option<i32> {
        if let Some(info) = info.filter(|info| info.sig == Sig::CONT && self.is_to_be_woken(pid)) {
            return Some(self.cont_stopped(sender, pid, info));
        }
        let mut after = Vec::new();
        if let Some(target) = self.table.get(pid) {
            after.extend(target.clone);
            after.extend(target.ids);
        }
        let sig = info.map_or(0, |i| i.sig.number());
        let command = Command::Kill { target: KillTarget::Process(pid), sig };
        let mark = Mark { after, ..Mark::default() };
        match self.push(sender, Act::Kill { command, ask: Some((node, id)) }, mark) {
            Some(_) => None,
            None => Some(ESRCH),
        }
    }

    /// Is its ghost stopped as its body is, or about to?
    fn is_to_be_woken(&self, pid: Pid) -> bool {
        let stopped = |e: &Entry| matches!(e.body, Body::Stopped(_)) && e.ghost_stops() && !e.stop_pending;
        self.table.get(pid).is_some_and(stopped)
    }

    /// Who has seen on a node that it is stopped may be ahead of its ghost here. That would discard the SIGCONT when it stops (linux:
    /// `prepare_signal`), so it gets ours, and the body theirs.
    fn cont_stopped(&mut self, sender: Pid, pid: Pid, info: SigInfo) -> i32 {
        let (Some(from), Some(target)) = (self.table.get(sender), self.table.get(pid)) else { return ESRCH };
        if !may_signal(from, target, Some(info.sig)) {
            return EPERM;
        }
        self.drop_stops(pid);
        self.wake(pid);
        self.deliver(pid, info);
        0
    }

    /// Threads have no ghosts: straight to the body's node, or by the kernel for a process of the front end.
    fn kill_thread(
        &mut self,
        node: NodeId,
        id: u64,
        sender: Pid,
        pid: Pid,
        tid: Pid,
        info: Option<SigInfo>,
    ) -> Option<i32> {
        let (Some(from), Some(target)) = (self.table.get(sender), self.table.get(pid)) else {
            return self.kill_native_thread(node, id, sender, pid, tid, info);
        };
        if target.body == Body::Native {
            return self.kill_native_thread(node, id, sender, pid, tid, info);
        }
        if target.ended() {
            return Some(ESRCH);
        }
        if !may_signal(from, target, info.map(|i| i.sig)) {
            return Some(EPERM);
        }
        if let Some(info) = info {
            let info = SigInfo { code: if info.code == 0 { SigInfo::SI_TKILL } else { info.code }, ..info };
            if target.body == Body::Starting {
                self.deliver(pid, info);
            } else {
                self.send_to_body(pid, info, Some(tid));
            }
        }
        Some(0)
    }

    fn kill_native_thread(
        &mut self,
        node: NodeId,
        id: u64,
        sender: Pid,
        pid: Pid,
        tid: Pid,
        info: Option<SigInfo>,
    ) -> Option<i32> {
        let sig = info.map_or(0, |i| i.sig.number());
        let command = Command::Kill { target: KillTarget::Thread { pid, tid }, sig };
        match self.push(sender, Act::Kill { command, ask: Some((node, id)) }, Mark::default()) {
            Some(_) => None,
            None => Some(ESRCH),
        }
    }

    /// Members on the sender's node, those that stand there, and those that have left it and may, are that node's own affair. Not those that are to come: what is made there for one that
    /// has not stood there may be in the group, and get the signal too, but if it does not come that is lost.
    fn kill_group(&mut self, node: NodeId, id: u64, sender: Pid, pgid: Pid, info: Option<SigInfo>) -> Option<i32> {
        let there = |e: &Entry| e.place == node || e.stands.contains(&node) || e.came_from == Some(node);
        // The group of a job of a shell on the front end may have members that the space has never heard of.
        let known = self.table.get(pgid).is_some_and(|leader| !leader.asked && leader.body != Body::Native);
        // One that its parent has waited for is a zombie here only until its ghost is.
        // What takes the place of one that leaves may be there already, which is no native process any more.
        let ours = |e: &Entry| known || e.body != Body::Native || e.leaving;
        let rest = |e: &Entry| e.person.pgid == pgid && !there(e) && !e.reaped && ours(e);
        let errno = self.kill_each(sender, self.table.which(rest), info);
        let left = self.table.which(|e| e.person.pgid == pgid && there(e) && !e.reaped);
        if known {
            self.out.push(Effect::KillDone { node, id, errno, left });
            return None;
        }
        let but = self.table.which(|e| e.person.pgid == pgid && (there(e) || ours(e)) && e.body == Body::Native);
        let sender = self.table.get(sender)?.person.clone();
        self.out.push(Effect::SignalNatives { node, id, pgid, but, sender, info, errno, left });
        None
    }

    /// That nobody might be signalled is no failure, only that nobody is there (linux: `kill_something_info`).
    fn kill_all(&mut self, sender: Pid, info: Option<SigInfo>) -> i32 {
        let others = self.table.which(|e| e.person.pid != sender);
        let living = |pid: &Pid| self.table.get(*pid).is_some_and(|e| !e.ended() && e.body != Body::Native);
        let targets = others.iter().copied().filter(living).collect();
        self.kill_each(sender, targets, info);
        if others.is_empty() {
            ESRCH
        } else {
            0
        }
    }

    /// Several at once: success if one was permitted (linux: `__kill_pgrp_info`).
    fn kill_each(&mut self, sender: Pid, pids: Vec<Pid>, info: Option<SigInfo>) -> i32 {
        let Some(from) = self.table.get(sender) else { return ESRCH };
        let mut errno = ESRCH;
        let mut permitted = Vec::new();
        for pid in pids {
            let Some(target) = self.table.get(pid) else { continue };
            if may_signal(from, target, info.map(|i| i.sig)) {
                permitted.push(pid);
                errno = 0;
            } else if errno == ESRCH {
                errno = EPERM;
            }
        }
        if let Some(info) = info {
            permitted.into_iter().for_each(|pid| self.deliver(pid, info));
        }
        errno
    }
}
