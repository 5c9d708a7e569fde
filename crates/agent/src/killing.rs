//! A kill(2) of which the front end is asked.
//!
//! Of a group, the kernel here signals who is in it here, and the front end the others. Who moves is in both places for a while, or in none, as each of the
//! two knows it. So the front end names whom it has left to this node; what the kernel here has is the answer, and for who is not in the group here
//! by now the front end is asked once more, one by one. So it is for who leaves, whom the kernel here may signal when it has been looked at for the last time. What is left of those may be in the group here, and so may what is made for one
//! that comes and has not stood here, to whom the front end has seen where it is: if anybody is in the group here whom it has not left to this node, the others are signalled one by
//! one here too. So everybody has it once.

use crate::agent::Agent;
use crate::checks::What;
use crate::stands::{Stand, Why};
use kern::pidfd;
use kern::proc::{group_and_session, Status};
use kern::seccomp::{Held, Notice};
use std::collections::{BTreeSet, HashSet};
use std::os::fd::AsFd;
use tracing::debug;
use vocab::errno::{EINVAL, EPERM, ESRCH};
use vocab::{Pid, Sig, SigInfo};
use wire::node::{KillTarget, ToFront};

#[derive(Debug)]
pub(crate) struct Killing {
    call: Held,
    sender: Pid,
    target: KillTarget,
    sig: u8,
    /// What the front end is asked for now: the target, and then each of `rest`.
    asked: KillTarget,
    /// Members of the group that are left to this node.
    here: Vec<Pid>,
    /// Those that are not here after all, of whom the front end is yet to be asked.
    rest: Vec<Pid>,
    /// What has been answered, 0 before anything else, and ESRCH last.
    errno: i32,
}

impl Killing {
    fn question(&self, id: u64) -> ToFront {
        ToFront::Kill { id, sender: self.sender, target: self.asked, sig: self.sig }
    }
}

impl Agent {
    pub(crate) fn ask_kill(&mut self, notice: Notice, sender: Pid, target: KillTarget, sig: i32) {
        let Some(sig) = u8::try_from(sig).ok().filter(|sig| *sig <= 64) else {
            notice.held.answer(EINVAL);
            return;
        };
        let (here, rest) = (Vec::new(), Vec::new());
        let killing = Killing { call: notice.held, sender, target, sig, asked: target, here, rest, errno: ESRCH };
        self.ask_of(killing);
    }

    fn ask_of(&mut self, killing: Killing) {
        self.waiting.questions += 1;
        let id = self.waiting.questions;
        if self.uplink.up() {
            self.tell_all(killing.sender); // what the sender did before must be known there when it is judged
            self.uplink.send(&killing.question(id));
        }
        self.waiting.kills.insert(id, killing);
    }

    /// There is a link again.
    pub(crate) fn kills_asked_again(&mut self) {
        self.waiting.kills.retain(|_, killing| killing.call.waits());
        let mut questions: Vec<_> = self.waiting.kills.iter().map(|(id, k)| (*id, k.sender, k.question(*id))).collect();
        questions.sort_unstable_by_key(|(id, ..)| *id);
        for (_, sender, question) in questions {
            self.tell_all(sender);
            self.uplink.send(&question);
        }
    }

    /// The front end's answer; of a group, `left` are the members that it has left to this node.
    pub(crate) fn kill_done(&mut self, id: u64, errno: i32, left: Vec<Pid>) {
        let Some(mut killing) = self.waiting.kills.remove(&id) else { return };
        killing.errno = match (killing.errno, errno) {
            (0, _) | (_, ESRCH) => killing.errno,
            _ => errno,
        };
        if let KillTarget::Group(group) = killing.asked {
            // Of a body, only the kernel here knows in which group it is by now.
            let elsewhere = |pid: &Pid| !is_in(*pid, group) && !self.bodies.has(*pid);
            (killing.rest, killing.here) = left.into_iter().partition(elsewhere);
        }
        // Or they have begun to leave by now.
        let leaves = |pid: &mut Pid| *pid != killing.sender && self.moving.leaves(*pid);
        killing.rest.extend(killing.here.extract_if(.., leaves));
        match killing.rest.pop() {
            Some(pid) => {
                killing.asked = KillTarget::Process(pid);
                self.ask_of(killing);
            }
            None => self.killed_elsewhere(killing),
        }
    }

    /// A group's members here are signalled now, by the call itself going on: unless none of them would be, since the kernel here would say EPERM, or that nobody is
    /// there, where elsewhere somebody was signalled.
    fn killed_elsewhere(&mut self, killing: Killing) {
        let Killing { call, sender, target, sig, here, errno, .. } = killing;
        let (mut members, mut strangers) = (Vec::new(), HashSet::new());
        if let KillTarget::Group(group) = target {
            // A `shoal run` may have output to write when its program is known to have ended: nobody else sees to that one.
            let is_kin = |stand: &&Stand| matches!(stand.why, Why::Kin | Why::Handle) && stand.person.pgid == group;
            let stands = self.stands.iter().filter(is_kin).map(|stand| stand.person.pid);
            let seen_to = |pid: &Pid| *pid != sender && !here.contains(pid) && is_in(*pid, group);
            strangers = self.moving.under_way().chain(stands).filter(seen_to).collect();
            members = self.members(group, here);
        }
        if let Some(sig) = Sig::new(sig).filter(|_| !strangers.is_empty()) {
            members.retain(|pid| !strangers.contains(pid));
            let said = self.signal_each(sender, &members, sig);
            call.answer(if errno == 0 || said == 0 { 0 } else { said });
            return;
        }
        match members.is_empty() || errno == 0 && !self.may_signal_any(sender, &members, sig) {
            true => call.answer(errno),
            false => call.proceed(),
        };
    }

    /// Who is in it on this machine, each once, of those that are known here and of those in `known`.
    fn members(&mut self, group: Pid, known: Vec<Pid>) -> Vec<Pid> {
        // Somebody may have joined it just now.
        for (pid, what) in self.checks.all() {
            if what == What::Group {
                self.look(pid, what);
            }
        }
        let bodies = self.bodies.iter().map(|body| &body.person);
        let all = bodies.chain(self.stands.iter().map(|stand| &stand.person));
        let all = all.filter(|person| person.pgid == group).map(|person| person.pid);
        let each: BTreeSet<Pid> = all.chain(known).filter(|pid| is_in(*pid, group)).collect();
        each.into_iter().collect()
    }

    /// As kill(2) of a group would, but that no other than a kernel may say that the code is SI_USER.
    fn signal_each(&self, sender: Pid, members: &[Pid], sig: Sig) -> i32 {
        let Ok(from) = self.proc.status(sender) else { return ESRCH };
        let info = SigInfo { code: SigInfo::SI_QUEUE, ..SigInfo::kill(sig, sender, from.creds.uid.real) };
        let mut errno = ESRCH;
        for pid in members {
            if !self.may_signal_any(sender, &[*pid], sig.number()) {
                errno = if errno == ESRCH { EPERM } else { errno };
                continue;
            }
            match pidfd::open(*pid).and_then(|fd| pidfd::queue(fd.as_fd(), &info)) {
                Ok(()) => errno = 0,
                Err(fault) => debug!(%pid, %sig, errno = fault, "a member is not signalled"),
            }
        }
        errno
    }

    /// As their ids are now: by the rule of linux: `check_kill_permission`.
    fn may_signal_any(&self, sender: Pid, members: &[Pid], sig: u8) -> bool {
        let Ok(from) = self.proc.status(sender) else { return true };
        let may = |to: Status| from.creds.may_signal(&to.creds) || sig == Sig::CONT.number() && from.sid == to.sid;
        members.iter().any(|pid| self.proc.status(*pid).is_ok_and(may))
    }
}

/// As the kernel here sees it.
fn is_in(pid: Pid, group: Pid) -> bool {
    group_and_session(pid).is_some_and(|(pgid, _)| pgid == group)
}
