//! Does what the space wants done.

use crate::connection::Connection;
use crate::foreign::is_of_another_space;
use crate::front::Front;
use crate::parents::Kept;
use crate::persons::{all_to_wire, kin_to_wire, to_wire, usage_to_wire};
use ghost::no_room;
use kern::clock::monotonic_us;
use kern::pidfd;
use kern::proc::{group_and_session, Status};
use kern::send_as::send_as;
use space::{Effect, Event, Person, Transition, NO_GHOST};
use std::os::fd::AsFd;
use tracing::{debug, info, warn};
use vocab::errno::{EEXIST, EPERM, ESRCH};
use vocab::{Fault, NodeId, Pid, Sig, SigInfo};
use wire::ask::Answer;
use wire::node::ToNode;
use wire::run::LATE_RELAY;

/// Microseconds from one line about a body without a ghost to the next.
const NO_GHOST_AGAIN_US: u64 = 1_000_000;

impl Front {
    pub(crate) fn act(&mut self, effect: Effect) {
        match effect {
            Effect::Ghost { pid, command } => self.command_ghost(pid, command),
            Effect::Interrupt { pid } => {
                if self.ghosts.interrupt(pid) {
                    self.events.push_back(Event::NotStopped { pid });
                }
            }
            Effect::Release { pid } => {
                let mut happened = Vec::new();
                self.ghosts.release(pid, &mut happened);
                for one in happened {
                    self.on_ghost(one);
                }
            }
            Effect::Wake { pid } => self.wake_ghost(pid),
            Effect::Start { node, person, kin, copy } => self.start(node, person, kin, copy),
            Effect::NotStarted { node, pid } => {
                let fault = Fault::gone("start the program: the link to the node broke before it had begun");
                self.tell_not_started(node, pid, fault, FAILED);
            }
            Effect::Arrive { node, person, kin, children } => self.arrive(node, person, kin, children),
            Effect::Copies { parent, worst, copies } => self.parents.keep(parent, Kept { worst, copies }),
            Effect::NotCloned { parent, copy, errno } => {
                if let Some((asker, copy, last)) = self.runs.copy_ended(parent, copy) {
                    let fault = no_room(errno, "make a process that stands for the new one on the front end");
                    self.answer(asker, Answer::NotStarted { copy, fault, status: FAILED }, last);
                }
            }
            Effect::WatchStop { pid } => self.stopped_natives.doubt(pid, monotonic_us()),
            Effect::SignalNative { target, info } => signal_native(target, &info),
            Effect::HasGoneOn { pid, info } => self.has_gone_on(pid, info),
            Effect::SignalNatives { node, id, pgid, but, sender, info, errno, left } => {
                let errno = self.signal_natives(pgid, &but, &sender, info.as_ref(), errno);
                self.send(node, &ToNode::KillDone { id, errno, left });
            }
            Effect::WatchNative { pid } => self.watch_native(pid),
            Effect::Ended { pid, exit } => {
                if let Some((asker, copy, last)) = self.runs.ended(pid) {
                    self.answer(asker, Answer::Ended { copy, exit }, last);
                }
            }
            Effect::Transition(transition) if transition.what == NO_GHOST => self.tell_no_ghost(&transition),
            Effect::Transition(transition) => debug!("{transition}"),
            other => self.tell_node(other),
        }
    }

    fn tell_node(&mut self, effect: Effect) {
        let (node, message) = match effect {
            Effect::BecomeStandIn { node, pid, creds } => (node, ToNode::BecomeStandIn { pid, creds }),
            Effect::StandInIs { node, person } => (node, ToNode::StandInIs { person: to_wire(person) }),
            Effect::StandIn { node, kin, others } => {
                (node, ToNode::StandIn { kin: kin_to_wire(kin), others: all_to_wire(others) })
            }
            Effect::Subreaper { node, pid, on } => (node, ToNode::Subreaper { pid, on }),
            Effect::Adopt { node, kin, from, others } => {
                (node, ToNode::Adopt { kin: kin_to_wire(kin), from, others: all_to_wire(others) })
            }
            Effect::NoStandIn { node, pid, errno } => (node, ToNode::NoStandIn { pid, errno }),
            Effect::EndStandIn { node, pid, exit, usage } => {
                (node, ToNode::Ended { pid, exit, usage: usage_to_wire(usage) })
            }
            Effect::StopStandIn { node, pid, sig, turn } => (node, ToNode::Stopped { pid, sig, turn }),
            Effect::ContinueStandIn { node, pid, turn } => (node, ToNode::Continued { pid, turn }),
            Effect::Signal { node, target, info, thread, turn } => {
                debug!(%target, %node, sig = info.sig.number(), by = %info.pid, turn, "a signal goes to its node");
                self.deliveries.signalled(target);
                (node, ToNode::Signal { target, info, thread, turn })
            }
            Effect::KillDone { node, id, errno, left } => (node, ToNode::KillDone { id, errno, left }),
            _ => return,
        };
        self.send(node, &message);
    }

    fn start(&mut self, node: NodeId, person: Person, kin: Vec<space::Kin>, copy: Option<u32>) {
        let pid = person.pid;
        let (caller, copy) = copy.map_or((pid, 0), |copy| (person.ppid, copy));
        let Some((mut program, channel)) = self.runs.start(caller, copy, pid) else {
            info!(%pid, "nobody asked for this program any more");
            self.events.push_back(Event::NotStarted { node, pid, status: FAILED });
            return;
        };
        // The node decides by it whether this is its own user: never the caller's word.
        program.user = kern::users::name(person.creds.uid.effective);
        let kin = all_to_wire(kin);
        let sent = match self.queued(node) {
            waiting @ START_MOST.. => Err(Fault::gone(format!("start the program: {waiting} bytes wait for the node"))),
            _ => self.try_send(node, &ToNode::Start { person: to_wire(person), program, kin, channel }),
        };
        match sent {
            Ok(()) => self.passes_there(pid, node),
            Err(fault) => self.on_not_started(node, pid, fault, FAILED),
        }
    }

    /// Whose programs fork without end is told of once a second.
    fn tell_no_ghost(&mut self, transition: &Transition) {
        let now = monotonic_us();
        if self.no_ghost_us.is_none_or(|at| at + NO_GHOST_AGAIN_US <= now) {
            self.no_ghost_us = Some(now);
            warn!("{transition} (a limit of its user's, or of all, on this machine: the next second's are not told)");
        }
    }

    fn watch_native(&mut self, pid: Pid) {
        if self.natives.contains_key(&pid) {
            return;
        }
        match pidfd::open(pid) {
            Ok(fd) => {
                if let Some(token) = self.add(Connection::Native { pidfd: fd, pid }) {
                    self.natives.insert(pid, token);
                }
            }
            Err(_) => self.tell_native_ended(pid, None),
        }
    }

    /// The processes of a group that are no ghosts. What kill(2) says of all members, when it says `errno` of the others.
    fn signal_natives(&self, pgid: Pid, but: &[Pid], sender: &Person, info: Option<&SigInfo>, mut errno: i32) -> i32 {
        let native = |pid: &Pid| !self.ghosts.has(*pid) && !but.contains(pid);
        for pid in self.proc.pids().unwrap_or_default().into_iter().filter(native) {
            let Some((_, sid)) = group_and_session(pid).filter(|(group, _)| *group == pgid) else { continue };
            // What ends may be what is left of a ghost: one that is let go at its exit gate has no memory any more.
            let lives = |status: &Status| status.memory && !status.ended();
            // A stopped relay would keep from coming home who has streams of it.
            let relays = |status: &Status| status.name.as_bytes() == LATE_RELAY.as_bytes();
            let is_member = |status: &Status| lives(status) && !relays(status);
            let Some(status) = self.proc.status(pid).ok().filter(is_member) else { continue };
            if is_of_another_space(&self.proc, pid) {
                continue;
            }
            let continues = info.is_some_and(|info| info.sig == Sig::CONT) && sid == sender.sid;
            if continues || sender.creds.may_signal(&status.creds) {
                errno = 0;
                info.into_iter().for_each(|info| signal_native(pid, info));
            } else if errno == ESRCH {
                errno = EPERM;
            }
        }
        errno
    }
}

/// As kill(2) of the sender, which may have ended by now or be on a node; or as its tgkill(2) of the first thread.
fn signal_native(target: Pid, info: &SigInfo) {
    debug!(%target, sig = info.sig.number(), by = %info.pid, "a signal goes to a native process");
    let queue = |info: &SigInfo| pidfd::open(target).and_then(|fd| pidfd::queue(fd.as_fd(), info));
    let thread = (info.code == SigInfo::SI_TKILL).then_some(target);
    let sent = match info.code {
        SigInfo::SI_USER | SigInfo::SI_TKILL if info.pid.0 > 1 => {
            match send_as(info.pid, info.uid, target, thread, info.sig) {
                // Its ghost is still there, as a zombie.
                Err(EEXIST) => queue(&SigInfo { code: SigInfo::SI_QUEUE, ..*info }),
                sent => sent,
            }
        }
        code if code < 0 => queue(info),
        _ => pidfd::open(target).and_then(|fd| pidfd::kill(fd.as_fd(), info.sig)),
    };
    if let Err(errno) = sent {
        debug!(%target, errno, "signal");
    }
}

/// While so many bytes wait for a node it is told to start nothing more: copies of a program with much to take along must not use up what may wait
/// ([`link::QUEUE_MOST`]), since then the link is cut.
const START_MOST: usize = link::QUEUE_MOST / 2;

/// The status of a program that shoal could not start.
pub(crate) const FAILED: u8 = 125;
