//! Signals from the front end, given to bodies with their sender's identity.

use crate::agent::Agent;
use crate::bodies::Life;
use crate::elders::{is_left_by_fork, MANY_CHILDREN};
use crate::stands::{Held, Stand};
use ghost::Command;
use kern::clock::monotonic_us;
use kern::{pidfd, send_as};
use std::collections::VecDeque;
use std::os::fd::AsFd;
use tracing::debug;
use vocab::errno::EEXIST;
use vocab::{Pid, Sig, SigInfo};
use wire::node::ToFront;

/// A signal on its way. Others for the same process wait, so that all come in their order.
#[derive(Debug)]
pub(crate) struct Sending {
    awaits: Awaits,
    info: SigInfo,
    thread: Option<Pid>,
    turn: Option<u64>,
    later: VecDeque<Later>,
    until_us: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Awaits {
    /// This stand-in, its sender's, is sending it.
    Sender(Pid),
    /// This one is to have it before ([`crate::elders`]).
    Parent(Pid),
    /// The program is to begin.
    Start,
}

/// What waits for a signal on its way.
#[derive(Debug)]
enum Later {
    Signal {
        info: SigInfo,
        thread: Option<Pid>,
        turn: Option<u64>,
    },
    /// [`wire::node::ToNode::Barrier`].
    Barrier(u64),
}

/// A stand-in that has not sent in this time, in microseconds, is not waited for: it is stopped, or its user's own.
const PATIENCE_US: u64 = 1_000_000;

impl Agent {
    /// [`wire::node::ToNode::Signal`]: [`Agent::deliver`], but not what a daemon before this one has told already.
    pub(crate) fn signal_comes(&mut self, target: Pid, info: &SigInfo, thread: Option<Pid>, turn: Option<u64>) {
        let lives = self.bodies.has(target) || self.starts.has(target);
        // What stops or continues is the same when it is given twice, and its turn must be told.
        if let (Some(count), None, true) = (info.count, turn, lives) {
            if self.elders.counts.insert(target, count) == Some(count) {
                return debug!(%target, sig = %info.sig, count, "signal that it has been given already");
            }
        }
        self.deliver(target, info, thread, turn);
    }

    /// Gives `info` to body `target`, or to its thread `thread`. The front end has checked permission. `turn` as in
    /// [`wire::node::ToNode::Signal`].
    pub(crate) fn deliver(&mut self, target: Pid, info: &SigInfo, thread: Option<Pid>, turn: Option<u64>) {
        if !self.bodies.has(target) && !self.starts.has(target) {
            debug!(%target, sig = %info.sig, "signal for a body that is gone");
            if info.code == SigInfo::SI_KERNEL || is_left_by_fork(info) {
                self.reach_newborns(target, self.elders.births.group(target), info.sig);
            }
            return;
        }
        let starts = self.starts.is_to_begin(target);
        if let (Some(sending), true) = (self.sending.get_mut(&target), starts || info.sig != Sig::KILL) {
            sending.later.push_back(Later::Signal { info: *info, thread, turn });
            return;
        }
        if starts {
            let (awaits, later, until_us) = (Awaits::Start, VecDeque::new(), u64::MAX);
            self.sending.insert(target, Sending { awaits, info: *info, thread, turn, later, until_us });
            return;
        }
        match self.parent_is_first(target, info) {
            Some((parent, until_us)) if thread.is_none() => {
                let (awaits, later) = (Awaits::Parent(parent), VecDeque::new());
                self.sending.insert(target, Sending { awaits, info: *info, thread, turn, later, until_us });
            }
            _ => self.deliver_now(target, info, thread, turn),
        }
    }

    /// The parent, a body too, that is to have it before, and until when that is waited for.
    fn parent_is_first(&self, target: Pid, info: &SigInfo) -> Option<(Pid, u64)> {
        let person = self.bodies.person(target)?;
        let parent = self.bodies.get(person.ppid).filter(|body| body.life == Life::Live)?;
        let now = monotonic_us();
        let patience = self.elders.patience_us(person.ppid, info, now)?;
        let first = parent.person.pgid == person.pgid && self.bodies.count_children(person.ppid) < MANY_CHILDREN;
        first.then_some((person.ppid, now + patience))
    }

    fn deliver_now(&mut self, target: Pid, info: &SigInfo, thread: Option<Pid>, turn: Option<u64>) {
        let left = is_left_by_fork(info);
        if (left || info.code == SigInfo::SI_KERNEL) && self.elders.reached.has(target, info.sig, monotonic_us()) {
            return self.has_been_given(target, info.sig, turn);
        }
        // Who has hit a stand-in by tgkill(2) meant its one thread, which stands for the first.
        let thread = thread.or((info.code == SigInfo::SI_TKILL).then_some(target));
        let sent = match info.code {
            SigInfo::SI_USER | SigInfo::SI_TKILL if !left && self.sends(target, info, thread, turn) => return,
            SigInfo::SI_USER | SigInfo::SI_TKILL if !left => self.deliver_from(target, info, thread),
            code if code < 0 => queue(thread.unwrap_or(target), thread.is_some(), info),
            // The kernel's own: nobody but a kernel may say so, so it comes from init.
            _ => {
                let group = self.bodies.person(target).map_or(Pid::NONE, |person| person.pgid);
                self.volley.hit(group, info.sig, monotonic_us());
                let sent = plain(target, info.sig);
                self.reach_newborns(target, group, info.sig);
                sent
            }
        };
        if let Err(errno) = sent {
            debug!(%target, sig = %info.sig, errno, "signal not delivered");
        }
        self.has_been_given(target, info.sig, turn);
    }

    fn has_been_given(&mut self, target: Pid, sig: Sig, turn: Option<u64>) {
        self.given(target, sig, turn);
        self.elders.given(target, sig, monotonic_us());
        if self.sending.is_empty() {
            return;
        }
        let awaits = |s: &Sending| s.awaits == Awaits::Parent(target) && s.info.sig == sig;
        for child in self.bodies.children(target) {
            if self.sending.get(&child).is_some_and(awaits) {
                self.elders.next.push(child);
            }
        }
    }

    /// Those whose parents have had what waits for them are next, and then theirs.
    pub(crate) fn send_after_parents(&mut self) {
        while let Some(child) = self.elders.next.pop() {
            if self.sending.get(&child).is_some_and(|s| matches!(s.awaits, Awaits::Parent(_))) {
                self.send_after_parent(child);
            }
        }
    }

    /// A program has begun: what came before that is given to it at once, so that it has it before it can have forked, as one that was
    /// hit between fork and exec.
    pub(crate) fn send_after_start(&mut self, target: Pid) {
        if let Some(waiting) = self.take_early(target) {
            self.go_on_with(target, waiting);
        }
    }

    /// It will not begin.
    pub(crate) fn send_to_nobody(&mut self, target: Pid) {
        let barrier = |later| if let Later::Barrier(id) = later { Some(id) } else { None };
        for id in self.take_early(target).into_iter().flatten().filter_map(barrier) {
            self.uplink.send(&ToFront::Barrier { id });
        }
    }

    fn take_early(&mut self, target: Pid) -> Option<VecDeque<Later>> {
        self.sending.get(&target).filter(|sending| sending.awaits == Awaits::Start)?;
        let Sending { info, thread, turn, mut later, .. } = self.sending.remove(&target)?;
        later.push_front(Later::Signal { info, thread, turn });
        Some(later)
    }

    /// [`wire::node::ToNode::Barrier`].
    pub(crate) fn barrier(&mut self, id: u64, target: Pid) {
        match self.sending.get_mut(&target) {
            Some(sending) => sending.later.push_back(Later::Barrier(id)),
            None => self.uplink.send(&ToFront::Barrier { id }),
        }
    }

    /// Is there a stand-in of its sender that sends it?
    fn sends(&mut self, target: Pid, info: &SigInfo, thread: Option<Pid>, turn: Option<u64>) -> bool {
        let sender = info.pid;
        if sender.0 <= 1 || info.sig == Sig::KILL || !self.sends_itself(sender) {
            return false;
        }
        let sig = info.sig.number();
        let command = match thread {
            None => Command::Kill { target, sig },
            Some(tid) => Command::Tgkill { pid: target, tid, sig },
        };
        let (awaits, later, until_us) = (Awaits::Sender(sender), VecDeque::new(), monotonic_us() + PATIENCE_US);
        self.sending.insert(target, Sending { awaits, info: *info, thread, turn, later, until_us });
        self.ghosts.command(sender, command);
        true
    }

    /// As kill(2) or tgkill(2) of the sender, without a stand-in.
    fn deliver_from(&mut self, target: Pid, info: &SigInfo, thread: Option<Pid>) -> Result<(), i32> {
        let sender = info.pid;
        if sender.0 <= 1 {
            return plain(target, info.sig);
        }
        match send_as::send_as(sender, info.uid, target, thread, info.sig) {
            // The sender's number is taken here: it is a body of this node, and the kernel lets nobody else call as that.
            Err(EEXIST) => {
                let info = SigInfo { code: SigInfo::SI_QUEUE, ..*info };
                queue(thread.unwrap_or(target), thread.is_some(), &info)
            }
            sent => sent,
        }
    }

    /// Is there a stand-in of it that does what it is told, as far as we know? One that starts a program does it after that, usually at once.
    fn sends_itself(&self, sender: Pid) -> bool {
        let able = |stand: &Stand| !stand.ending && stand.runs() && stand.held == Held::Free;
        // One that is about to be a process does nothing any more that it is told.
        self.stands.get(sender).is_some_and(able) && !self.moving.arrives(sender)
    }

    /// A stand-in has sent what it was told to.
    pub(crate) fn sent(&mut self, sender: Pid, target: Pid) {
        if self.sending.get(&target).is_some_and(|sending| sending.awaits == Awaits::Sender(sender)) {
            self.send_later(target);
        }
    }

    /// A stand-in that is gone will not send what it was told to.
    pub(crate) fn sends_no_more(&mut self, sender: Pid) {
        for target in self.sent_by(sender) {
            self.send_without(target);
        }
    }

    /// One that stops will not, either, if it has not been given the command. If it has, it sends that now, or a signal has stopped it before it could say that it has: to whom it
    /// was sent may have answered with that one.
    pub(crate) fn stops_sending(&mut self, sender: Pid) {
        for target in self.sent_by(sender) {
            match self.is_sending(sender, target) {
                true if kern::pending::has_just_sent(sender) => self.send_later(target),
                true if !kern::pending::stops(sender) => {}
                _ => self.send_without(target),
            }
        }
    }

    /// To whom this stand-in is to send what is sent next.
    fn sent_by(&self, sender: Pid) -> Vec<Pid> {
        let its = |(target, s): (&Pid, &Sending)| (s.awaits == Awaits::Sender(sender)).then_some(*target);
        self.sending.iter().filter_map(its).collect()
    }

    /// What has not been sent in time, and for what no parent's signal has come.
    pub(crate) fn send_late(&mut self, now: u64) {
        let late = |(target, s): (&Pid, &Sending)| (s.until_us <= now).then_some((*target, s.awaits));
        for (target, awaits) in self.sending.iter().filter_map(late).collect::<Vec<_>>() {
            match awaits {
                Awaits::Sender(_) => self.send_without(target),
                Awaits::Parent(_) => self.send_after_parent(target),
                Awaits::Start => {}
            }
        }
    }

    /// When [`Agent::send_late`] has something to do next.
    pub(crate) fn send_at(&self) -> Option<u64> {
        let until = |sending: &Sending| (sending.awaits != Awaits::Start).then_some(sending.until_us);
        self.sending.values().filter_map(until).min()
    }

    /// It is about to leave this node: what is on its way to it is given to it before. `false` while a stand-in is just sending it one: what came after that waits for it.
    pub(crate) fn send_at_once(&mut self, target: Pid) -> bool {
        while let Some(awaits) = self.sending.get(&target).map(|sending| sending.awaits) {
            match awaits {
                Awaits::Sender(sender) if self.is_sending(sender, target) => return false,
                Awaits::Sender(_) => self.send_without(target),
                Awaits::Parent(_) => self.send_after_parent(target),
                Awaits::Start => break,
            }
        }
        true
    }

    /// Has its stand-in been given the command, so that it does it now if it runs?
    fn is_sending(&self, sender: Pid, target: Pid) -> bool {
        self.ghosts.works_on(sender, |command| sends_to(command, target))
    }

    /// The signal that a stand-in was to send comes from us, with the sender that it was to have.
    fn send_without(&mut self, target: Pid) {
        let Some(Sending { awaits: Awaits::Sender(sender), info, thread, .. }) = self.sending.get(&target) else {
            return;
        };
        let (sender, info, thread) = (*sender, SigInfo { code: SigInfo::SI_QUEUE, ..*info }, *thread);
        self.ghosts.take_back(sender, |command| sends_to(command, target));
        if let Err(errno) = queue(thread.unwrap_or(target), thread.is_some(), &info) {
            debug!(%target, sig = %info.sig, errno, "signal not delivered");
        }
        self.send_later(target);
    }

    /// The signal has been sent; what came for `target` meanwhile is next.
    fn send_later(&mut self, target: Pid) {
        let Some(Sending { info, turn, later, .. }) = self.sending.remove(&target) else { return };
        self.has_been_given(target, info.sig, turn);
        self.go_on_with(target, later);
        self.leave_goes_on(target);
    }

    /// Its parent has had it, or will not.
    fn send_after_parent(&mut self, target: Pid) {
        let Some(Sending { info, thread, turn, later, .. }) = self.sending.remove(&target) else { return };
        self.deliver_now(target, &info, thread, turn);
        self.go_on_with(target, later);
    }

    fn go_on_with(&mut self, target: Pid, mut later: VecDeque<Later>) {
        if let Some(sending) = self.sending.get_mut(&target) {
            return sending.later.append(&mut later);
        }
        while let Some(next) = later.pop_front() {
            match next {
                Later::Signal { info, thread, turn } => self.deliver(target, &info, thread, turn),
                Later::Barrier(id) => self.barrier(id, target),
            }
            if let Some(sending) = self.sending.get_mut(&target) {
                sending.later.append(&mut later);
            }
        }
    }
}

fn sends_to(command: &Command, target: Pid) -> bool {
    match command {
        Command::Kill { target: whom, .. } => *whom == target,
        Command::Tgkill { pid, .. } => *pid == target,
        _ => false,
    }
}

fn queue(pid: Pid, thread: bool, info: &SigInfo) -> Result<(), i32> {
    let fd = if thread { pidfd::open_thread(pid)? } else { pidfd::open(pid)? };
    pidfd::queue(fd.as_fd(), info)
}

pub(crate) fn plain(pid: Pid, sig: Sig) -> Result<(), i32> {
    kern::signal::send(pid, sig)
}
