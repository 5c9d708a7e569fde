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
            self.goes_on_by(pid, our_signal(Sig::CONT));
        }
        let Some(entry) = self.table.get_mut(pid) else { return };
        if entry.ids.is_some_and(|id| self.steps.is_open(id)) && !self.may_still(pid, &info) {
            return self.log(pid, NodeId::FRONT, "not permitted any more: signal", i32::from(info.sig.number()));
        }
        match info.sig {
            Sig::CONT => self.goes_on_by(pid, info),
            _ => self.deliver(pid, info),
        }
    }

    /// A SIGCONT that its ghost has taken. Sent to that once more when it becomes the process, it would take away a SIGSTOP that has come since (linux: `prepare_signal`).
    fn goes_on_by(&mut self, pid: Pid, info: SigInfo) {
        self.deliver(pid, info);
        if let Some(entry) = self.table.get_mut(pid).filter(|entry| entry.leaving && entry.has_body()) {
            entry.went_on = entry.early.pop();
            let place = entry.place;
            self.log(pid, place, "has gone on as it leaves, by", info.pid.0);
        }
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
            Body::Unclaimed => entry.keep(info),
            Body::Starting | Body::Running | Body::Stopped(_) => self.send_to_body(pid, info, None),
            Body::Native if entry.keeps(&info) => entry.keep(info),
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
            entry.turned = true;
            entry.turns
        });
        if entry.leaving {
            return entry.keep(info);
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
            if will_stop {
                self.out.push(Effect::WatchStop { pid: target });
            } else if matches!(entry.body, Body::Native | Body::Many(_)) {
                // Nobody tells of its stops.
                self.out.push(Effect::ContinueStandIn { node, pid: target, turn: Some(turn) });
            }
        }
        self.pass_on(target, info);
    }

    /// To a native process from whoever sends it, and after what others were told to send.
    pub(crate) fn pass_on(&mut self, target: Pid, info: SigInfo) {
        match self.who_sends(target, &info) {
            Some(sender) => self.signal_by_ghost(sender, target, info.sig),
            None => self.deliver(target, info),
        }
    }

    /// Whose ghost sends it to this native process, so that it sees who sent it.
    fn who_sends(&self, target: Pid, info: &SigInfo) -> Option<Pid> {
        let to = self.table.get(target).filter(|entry| entry.body == Body::Native && !entry.keeps(info))?;
        // One that has ended meanwhile has no ghost any more that could.
        let obeys = |pid: Pid| self.table.get(pid).is_some_and(|s| s.ghost.will_obey() && s.end == End::No);
        // What rt_sigqueueinfo says of the sender is the sender's word: nobody is told to send anything for that.
        if obeys(info.pid) && matches!(info.code, SigInfo::SI_USER | SigInfo::SI_TKILL) {
            return Some(info.pid);
        }
        // Nobody sees who has sent SIGSTOP, but it is not to overtake the SIGCONT before it.
        let parent = self.table.get(to.person.ppid).filter(|parent| obeys(parent.person.pid))?;
        let follows = info.sig == Sig::STOP && self.is_signalled(target) && may_signal(parent, to, Some(info.sig));
        follows.then_some(parent.person.pid)
    }

    /// After what others were told to send it.
    fn signal_by_ghost(&mut self, sender: Pid, target: Pid, sig: Sig) {
        let before = self.table.get(target).and_then(|entry| entry.signalled);
        let command = Command::Kill { target: KillTarget::Process(target), sig: sig.number() };
        let mark = Mark { after: before.into_iter().collect(), ..Mark::default() };
        let step = self.push(sender, Act::Kill { command, ask: None }, mark);
        if let Some(entry) = self.table.get_mut(target) {
            entry.signalled = step;
        }
    }

    /// Is this native process yet to be sent a signal: by a ghost, or when it is where it is to be?
    pub fn is_signalled(&self, pid: Pid) -> bool {
        let Some(native) = self.table.get(pid).filter(|entry| entry.body == Body::Native) else { return false };
        let turns = |info: &SigInfo| info.sig.stops() || info.sig == Sig::CONT;
        native.early.iter().any(turns) || native.signalled.is_some_and(|id| self.steps.is_open(id))
    }
}

/// May `sender` send `sig` (none: ask) to `target`? linux: `kill_ok_by_cred` and `check_kill_permission`, kernel/signal.c.
pub(crate) fn may_signal(sender: &Entry, target: &Entry, sig: Option<Sig>) -> bool {
    let same_session = sig == Some(Sig::CONT) && sender.person.sid == target.person.sid;
    same_session || sender.person.creds.may_signal(&target.person.creds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BodyEvent, Event};
    use crate::person::Person;

    const N0: NodeId = NodeId(0);
    const PARENT: Pid = Pid(200);
    const CHILD: Pid = Pid(5000);

    /// A space with a process on a node whose child has come to the front end, and what it wants of an event.
    fn family() -> impl FnMut(Event) -> Vec<Effect> {
        let mut space = Space::new();
        let mut effects = Vec::new();
        let mut step = move |event| {
            space.step(event, &mut effects);
            space.audit().expect("the invariants hold");
            effects.drain(..).filter(|effect| !matches!(effect, Effect::Transition(_))).collect()
        };
        let (creds, name) = (Creds::default(), b"prog".to_vec());
        let person = Person { pid: PARENT, ppid: Pid(100), pgid: PARENT, sid: Pid(100), creds, name };
        let of_parent = |event| Event::Body { node: N0, event };
        let _: Vec<Effect> = step(Event::NodeUp { node: N0 });
        step(Event::Run { person, at: NodeId::FRONT, to: N0, kin: vec![] });
        step(Event::Held { pid: PARENT });
        step(of_parent(BodyEvent::Started { pid: PARENT }));
        step(of_parent(BodyEvent::Forked { parent: PARENT, child: CHILD }));
        step(Event::Done { pid: PARENT, result: Ok(CHILD.0) });
        step(Event::Held { pid: CHILD });
        step(Event::Arrive { pid: CHILD, to: NodeId::FRONT });
        step(Event::Leaves { pid: CHILD });
        step(Event::Moved { pid: CHILD, to: NodeId::FRONT });
        step(Event::IsHome { pid: CHILD });
        step(Event::StandInWanted { node: N0, pid: CHILD, native: None });
        step
    }

    fn hands_over(info: SigInfo, turn: u64) -> Event {
        Event::StandInSignalled { node: N0, target: CHILD, info, turn: Some(turn) }
    }

    fn kills(sig: Sig) -> Effect {
        let command = Command::Kill { target: KillTarget::Process(CHILD), sig: sig.number() };
        Effect::Ghost { pid: PARENT, command }
    }

    #[test]
    fn a_stop_does_not_overtake_the_continuation_before_it() {
        let mut step = family();
        let told = step(hands_over(SigInfo::kill(Sig::CONT, PARENT, 0), 1));
        assert!(told.contains(&kills(Sig::CONT)), "{told:?}");
        let told = step(hands_over(our_signal(Sig::STOP), 2));
        assert!(!told.iter().any(|effect| matches!(effect, Effect::SignalNative { .. })), "{told:?}");
        assert!(told.contains(&Effect::WatchStop { pid: CHILD }), "{told:?}");
        let told = [told, step(Event::Done { pid: PARENT, result: Ok(0) })].concat();
        assert!(told.contains(&kills(Sig::STOP)), "{told:?}");
        step(Event::Done { pid: PARENT, result: Ok(0) });
        let told = step(hands_over(our_signal(Sig::STOP), 3));
        assert!(told.contains(&Effect::SignalNative { target: CHILD, info: our_signal(Sig::STOP) }), "{told:?}");
    }

    #[test]
    fn what_was_seen_before_a_signal_that_is_on_its_way_is_not_told() {
        let mut step = family();
        let stopped = Event::NativeStopped { pid: CHILD, sig: Some(Sig::STOP) };
        let stops = |effect: &Effect| matches!(effect, Effect::StopStandIn { pid: CHILD, .. });
        step(hands_over(SigInfo::kill(Sig::CONT, PARENT, 0), 1));
        let told = step(stopped.clone());
        assert!(!told.iter().any(stops) && told.contains(&Effect::WatchStop { pid: CHILD }), "{told:?}");
        step(Event::Done { pid: PARENT, result: Ok(0) });
        let told = step(stopped);
        assert!(told.iter().any(stops), "{told:?}");
    }
}
