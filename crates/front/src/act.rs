//! Does what the space wants done.

use crate::connection::Connection;
use crate::front::Front;
use crate::parents::Kept;
use crate::persons::{kin_to_wire, to_wire, usage_to_wire};
use kern::pidfd;
use kern::proc::group_and_session;
use kern::send_as::send_as;
use space::{Effect, Event};
use std::os::fd::AsFd;
use tracing::{debug, info};
use vocab::{Creds, Fault, NodeId, Pid, SigInfo};
use wire::ask::Answer;
use wire::node::ToNode;

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
            Effect::Arrive { node, person, kin } => self.arrive(node, person, kin),
            Effect::Copies { parent, worst, copies } => self.parents.keep(parent, Kept { worst, copies }),
            Effect::NotCloned { parent, copy, errno } => {
                if let Some((asker, copy, last)) = self.runs.copy_ended(parent, copy) {
                    let fault = Fault::sys(errno, "make a stand-in on the front end");
                    self.answer(asker, Answer::NotStarted { copy, fault, status: 126 }, last);
                }
            }
            Effect::SignalNative { target, info } => signal_native(target, &info),
            Effect::SignalNatives { pgid, sender, info } => self.signal_natives(pgid, &sender, &info),
            Effect::WatchNative { pid } => self.watch_native(pid),
            Effect::Ended { pid, exit } => {
                if let Some((asker, copy, last)) = self.runs.ended(pid) {
                    self.answer(asker, Answer::Ended { copy, exit }, last);
                }
            }
            Effect::Transition(transition) => debug!("{transition}"),
            other => self.tell_node(other),
        }
    }

    fn tell_node(&mut self, effect: Effect) {
        let (node, message) = match effect {
            Effect::BecomeStandIn { node, pid, creds } => (node, ToNode::BecomeStandIn { pid, creds }),
            Effect::StandInIs { node, person } => (node, ToNode::StandInIs { person: to_wire(person) }),
            Effect::StandIn { node, kin } => (node, ToNode::StandIn { kin: kin_to_wire(kin) }),
            Effect::Subreaper { node, pid, on } => (node, ToNode::Subreaper { pid, on }),
            Effect::Adopt { node, kin, from } => (node, ToNode::Adopt { kin: kin_to_wire(kin), from }),
            Effect::NoStandIn { node, pid, errno } => (node, ToNode::NoStandIn { pid, errno }),
            Effect::EndStandIn { node, pid, exit, usage } => {
                (node, ToNode::Ended { pid, exit, usage: usage_to_wire(usage) })
            }
            Effect::StopStandIn { node, pid, sig, turn } => (node, ToNode::Stopped { pid, sig, turn }),
            Effect::ContinueStandIn { node, pid, turn } => (node, ToNode::Continued { pid, turn }),
            Effect::Signal { node, target, info, thread, turn } => {
                (node, ToNode::Signal { target, info, thread, turn })
            }
            Effect::KillDone { node, id, errno } => (node, ToNode::KillDone { id, errno }),
            _ => return,
        };
        self.send(node, &message);
    }

    fn start(&mut self, node: NodeId, person: space::Person, kin: Vec<space::Kin>, copy: Option<u32>) {
        let pid = person.pid;
        let (caller, copy) = copy.map_or((pid, 0), |copy| (person.ppid, copy));
        let Some((program, channel)) = self.runs.start(caller, copy, pid) else {
            info!(%pid, "nobody asked for this program any more");
            self.events.push_back(Event::NotStarted { node, pid, status: 126 });
            return;
        };
        let kin = kin.into_iter().map(kin_to_wire).collect();
        self.send(node, &ToNode::Start { person: to_wire(person), program, kin, channel });
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
            Err(_) => self.events.push_back(Event::NativeEnded { pid, exit: None }),
        }
    }

    /// The processes of a group that are no ghosts: their own kernel signals those that are.
    fn signal_natives(&self, pgid: Pid, sender: &Creds, info: &SigInfo) {
        let Ok(pids) = self.proc.pids() else { return };
        for pid in pids {
            if self.ghosts.has(pid) || group_and_session(pid).is_none_or(|(group, _)| group != pgid) {
                continue;
            }
            if self.proc.status(pid).is_ok_and(|s| sender.may_signal(&s.creds)) {
                signal_native(pid, info);
            }
        }
    }
}

/// As kill(2) of the sender, which may have ended by now or be on a node.
fn signal_native(target: Pid, info: &SigInfo) {
    let queue = |info: &SigInfo| pidfd::open(target).and_then(|fd| pidfd::queue(fd.as_fd(), info));
    let sent = match info.code {
        SigInfo::SI_USER if info.pid.0 > 1 => match send_as(info.pid, info.uid, target, None, info.sig) {
            // Its ghost is still there, as a zombie.
            Err(EEXIST) => queue(&SigInfo { code: SigInfo::SI_QUEUE, ..*info }),
            sent => sent,
        },
        code if code < 0 && code != SigInfo::SI_TKILL => queue(info),
        _ => pidfd::open(target).and_then(|fd| pidfd::kill(fd.as_fd(), info.sig)),
    };
    if let Err(errno) = sent {
        debug!(%target, errno, "signal");
    }
}

const EEXIST: i32 = 17;
