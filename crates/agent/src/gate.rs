//! Answering the gate (docs/mechanisms.md, "The gate"): calls that concern this node alone go on, the others are asked of the front end.

use crate::agent::Agent;
use crate::bodies::Ids;
use crate::checks::What;
use crate::killing::Killing;
use crate::stands::Stand;
use crate::unsent::Unsent;
use kern::clock::monotonic_us;
use kern::proc::{exists, group_and_session, PROC};
use kern::ran::Waited;
use kern::seccomp::{Call, Held, Notice};
use kern::standin::setup::IMAGE;
use std::collections::HashMap;
use std::path::Path;
use tracing::warn;
use vocab::Pid;
use wire::event::BodyEvent;
use wire::node::{KillTarget, ToFront};

/// Calls answered before other work gets its turn: callers may be faster than we are.
const TURN: usize = 64;

/// Calls and signals that wait for the front end.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// By the number of our question.
    pub(crate) kills: HashMap<u64, Killing>,
    /// pidfd_open and rt_sigqueueinfo: by process.
    handles: HashMap<Pid, Vec<Held>>,
    /// The same, and who calls, about one that is leaving.
    leaving: Vec<(Notice, Pid, i32)>,
    pub(crate) unsent: Unsent,
    pub(crate) questions: u64,
}

impl Agent {
    /// Answers calls that wait at the gate; epoll tells of what is left.
    pub(crate) fn serve_gate(&mut self, number: u32, hangup: bool) {
        let Some(gate) = self.gates.listener(number) else { return };
        for _ in 0..TURN {
            match gate.receive() {
                Ok(Some(notice)) => {
                    // The caller's own fork must be known before what it does is told.
                    self.watch();
                    self.notice(notice);
                }
                Ok(None) if hangup => return self.end_gate(number),
                Ok(None) => return,
                Err(fault) => {
                    warn!(%fault, "gate");
                    return;
                }
            }
        }
    }

    fn notice(&mut self, notice: Notice) {
        // A program on its way takes over its standard streams, its parent before that what it starts with (`kern::standin::setup`).
        if let Call::PidfdOpen { pid: pid @ ..0, .. } = notice.call {
            let given = match pid {
                IMAGE => self.image_for(notice.tid),
                pid => self.stdio_of(notice.tid, pid.unsigned_abs() as usize - 1),
            };
            if let Some(fd) = given {
                notice.held.give(fd);
                return;
            }
        }
        let Some(caller) = self.process_of(notice.tid) else {
            notice.held.proceed();
            return;
        };
        match notice.call {
            Call::Kill { pid, sig } => self.kill(notice, caller, pid, sig),
            Call::Queue { pid, sig } => self.queue(notice, caller, pid, sig),
            Call::ThreadKill { tgid, tid, sig } => self.thread_kill(notice, caller, tgid, tid, sig),
            Call::ThreadQueue { tgid, tid, sig } => self.thread_kill(notice, caller, Some(tgid), tid, sig),
            Call::PidfdOpen { pid, .. } => self.when_it_stands(notice, caller, pid),
            Call::SetPgid { pid: 0, .. } => self.changes(notice, &[caller], What::Group),
            Call::SetPgid { pid, .. } if Pid(pid) != caller && self.numbers_apart(caller, notice.tid) => {
                let mut whom = self.proc.children(caller).unwrap_or_default();
                whom.push(caller);
                self.changes(notice, &whom, What::Group);
            }
            Call::SetPgid { pid, .. } => self.changes(notice, &[Pid(pid)], What::Group),
            Call::SetSid => self.changes(notice, &[caller], What::Group),
            Call::SetIds => self.changes(notice, &[caller], What::Creds),
            Call::Reads { of, at } => self.reads_usage(notice, caller, of, at),
            Call::Subreaper { on } => {
                self.showing.order.set_shown(false);
                // Who has ended before, of whom it may know, had it for the subreaper of their children, or had not.
                self.watch();
                self.waited_for(caller);
                self.settle();
                notice.held.proceed();
                if self.bodies.set_takes_orphans(caller, on) {
                    self.events.push(BodyEvent::Subreaper { pid: caller, on });
                }
            }
            Call::Other { number } => {
                warn!(number, "gate: a call that the filter does not ask about");
                notice.held.proceed();
            }
        }
    }

    /// The process of a calling thread.
    fn process_of(&self, tid: Pid) -> Option<Pid> {
        if self.bodies.has(tid) {
            return Some(tid);
        }
        self.proc.status(tid).ok().map(|status| status.tgid)
    }

    /// Is what this node's kernel says of that number right?
    fn is_here(&self, pid: i32) -> bool {
        let pid = Pid(pid);
        match self.stands.get(pid) {
            // What is let go is made once more.
            Some(stand) if stand.is_let_go() => false,
            // It may be yet to be made.
            Some(_) => exists(pid),
            // A number of our leases is taken here as long as its process lives anywhere; the gate may be older than the lease.
            None => self.leases.has(pid) || self.bodies.has(pid) || pid != Pid::INIT && lives(pid),
        }
    }

    /// Its stand-in here would tell us of a signal and we the front end: the way there is shorter without it.
    fn only_stands(&self, pid: Pid) -> bool {
        self.uplink.up() && !self.bodies.has(pid) && self.stands.get(pid).is_some_and(|stand| !stand.ending)
    }

    /// Is it about to go on elsewhere? Then the front end keeps what kill(2) sends it: here that could come when it has been looked at for the last time, or has ended.
    /// Not what it sends itself, which it does once more there if it is made to stand still meanwhile.
    fn is_leaving(&self, pid: Pid, caller: Pid) -> bool {
        self.uplink.up() && pid != caller && self.moving.leaves(pid)
    }

    fn changes(&mut self, notice: Notice, whom: &[Pid], what: What) {
        self.showing.order.set_shown(false);
        let caller = Waited::now(notice.tid);
        if notice.held.proceed() {
            for pid in whom {
                if !self.bodies.has(*pid) {
                    continue;
                }
                self.checks.add(*pid, what, caller, monotonic_us());
                if what == What::Creds {
                    self.bodies.set_ids(*pid, Ids::Changes);
                }
            }
        }
    }

    /// Does `caller`, of which `tid` is a thread, live in a PID namespace that was made on this node (a container, unshare(1))? The numbers that
    /// it gives are of that one: its kernel knows them all, and nobody else knows any.
    fn numbers_apart(&mut self, caller: Pid, tid: Pid) -> bool {
        if let Some(apart) = self.bodies.apart(caller) {
            return apart;
        }
        let namespace = |tid: Pid| kern::stat::known(Path::new(&format!("{PROC}/{tid}/ns/pid"))).map(|found| found.ino);
        let (own, ours) = (namespace(tid), namespace(Pid::INIT));
        if own.is_some() && ours.is_some() {
            self.bodies.set_apart(caller, own != ours);
        }
        own != ours
    }

    fn kill(&mut self, notice: Notice, caller: Pid, pid: i32, sig: i32) {
        let target = match pid {
            pid if pid > 0
                && self.is_here(pid)
                && (sig == 0 || !self.only_stands(Pid(pid)))
                && !self.is_leaving(Pid(pid), caller) =>
            {
                self.is_asked_for(Pid(pid));
                return proceed(&notice);
            }
            _ if self.numbers_apart(caller, notice.tid) => return proceed(&notice),
            pid if pid > 0 => KillTarget::Process(Pid(pid)),
            -1 => KillTarget::All,
            0 => match group_and_session(notice.tid) {
                Some((pgid, _)) => KillTarget::Group(pgid),
                None => return proceed(&notice),
            },
            i32::MIN => return proceed(&notice),
            pid => KillTarget::Group(Pid(-pid)),
        };
        self.ask_kill(notice, caller, target, sig);
    }

    fn thread_kill(&mut self, notice: Notice, caller: Pid, tgid: Option<i32>, tid: i32, sig: i32) {
        let pid = tgid.unwrap_or(tid);
        let here = |agent: &Agent| agent.is_here(pid) && !agent.is_leaving(Pid(pid), caller);
        if pid <= 0 || tid <= 0 || here(self) || self.numbers_apart(caller, notice.tid) {
            self.is_asked_for(Pid(pid));
            notice.held.proceed();
            return;
        }
        self.ask_kill(notice, caller, KillTarget::Thread { pid: Pid(pid), tid: Pid(tid) }, sig);
    }

    /// rt_sigqueueinfo goes on when its target stands here, and the stand-in hands over what the kernel has given it. So the siginfo is read by
    /// the caller's own kernel call and never by us: the caller's memory may be a file of a file system that is its user's, who need not answer.
    fn queue(&mut self, notice: Notice, caller: Pid, pid: i32, sig: i32) {
        match Pid(pid) {
            // There is one on each machine.
            Pid::INIT if !self.numbers_apart(caller, notice.tid) => {
                self.ask_kill(notice, caller, KillTarget::Process(Pid::INIT), sig)
            }
            _ => self.when_it_stands(notice, caller, pid),
        }
    }

    /// The call goes on as soon as `pid` is or stands on this node, and not while it leaves: what it is sent then may come when it has been looked at for the last time.
    fn when_it_stands(&mut self, notice: Notice, caller: Pid, pid: i32) {
        // Of two that leave none waits for the other: who waits here cannot be made to stand still.
        let waits = self.is_leaving(Pid(pid), caller) && !self.moving.departs_now(caller);
        if waits && !self.numbers_apart(caller, notice.tid) {
            return self.waiting.leaving.push((notice, caller, pid));
        }
        if pid <= 0 || self.is_here(pid) || self.numbers_apart(caller, notice.tid) {
            self.is_asked_for(Pid(pid));
            if matches!(notice.call, Call::PidfdOpen { .. }) {
                self.bodies.set_held(Pid(pid));
                self.stands.get_mut(Pid(pid)).into_iter().for_each(Stand::is_held);
            }
            notice.held.proceed();
            return;
        }
        let calls = self.waiting.handles.entry(Pid(pid)).or_default();
        calls.push(notice.held);
        if calls.len() == 1 {
            self.uplink.send(&ToFront::StandInWanted { pid: Pid(pid) });
        }
    }

    /// Who has waited for one that was leaving goes on.
    pub(crate) fn when_they_have_left(&mut self) {
        if self.waiting.leaving.is_empty() {
            return;
        }
        // Those for whom it is too early wait on.
        for (notice, caller, pid) in std::mem::take(&mut self.waiting.leaving) {
            self.when_it_stands(notice, caller, pid);
        }
    }

    /// Who waits for a handle on `pid` goes on (errno 0), or fails.
    pub(crate) fn handle_answered(&mut self, pid: Pid, errno: i32) {
        for call in self.waiting.handles.remove(&pid).unwrap_or_default() {
            match errno {
                0 => call.proceed(),
                errno => call.answer(errno),
            };
        }
    }

    /// There is a link again, and no answer comes to what was asked over the last one. Whether that was heard nobody knows: who asks is as one process of
    /// a machine, for which a number is right or wrong, so it waits and is asked about again. Without a link in time all of them end.
    pub(crate) fn gate_asks_again(&mut self) {
        self.kills_asked_again();
        for pid in self.waiting.handles.keys() {
            self.uplink.send(&ToFront::StandInWanted { pid: *pid });
        }
    }
}

fn proceed(notice: &Notice) {
    // A caller that is gone meanwhile needs nothing any more.
    notice.held.proceed();
}

/// Of one that has left the parent may yet have to wait for what was here.
fn lives(pid: Pid) -> bool {
    exists(pid) && kern::pending::read(pid).is_some_and(|now| !matches!(now.state, b'Z' | b'X'))
}
