//! A process moves from one node to another. Who does what when is the front daemon's (`front::moves`); here is what it means for the space.
//!
//! | | the process is on | signals go |
//! |---|---|---|
//! | Arrive | the old node | there |
//! | Leaves | the old node, which ends it | nowhere yet |
//! | Stays | the old node | there, with what was kept |
//! | Moved | the new node | there, with what was kept |
//! | Left | the new node, and the old one has told all that it did there | |
//! | Stands | the new node, and stands on the old one; or it stays, and stands on the new one | |

use crate::effect::Effect;
use crate::life::Ghost;
use crate::person::{Kin, Usage};
use crate::space::Space;
use crate::table::{Body, Entry};
use vocab::{Exit, NodeId, Pid, Sig, SigInfo};

impl Space {
    /// What is to become `pid` is to be made on `to`, with its kin.
    pub(crate) fn arrive(&mut self, pid: Pid, to: NodeId) {
        let Some(entry) = self.table.get(pid).filter(|e| e.has_body() || e.body == Body::Native) else { return };
        let person = entry.person.clone();
        if to.is_front() {
            // All of its kin are there.
            let children = self.unwaited_children(pid);
            return self.out.push(Effect::Arrive { node: to, person, kin: Vec::new(), children });
        }
        if let Some(entry) = self.table.get_mut(pid) {
            entry.comes_to = Some(to);
        }
        let mut kin = self.kin_on(to, pid);
        self.log(pid, to, "to arrive", 0);
        let children = self.unwaited_children(pid);
        let mut then = Vec::new();
        for child in &children {
            let Some(entry) = self.table.get_mut(*child).filter(|e| e.place != to || e.ended()) else {
                continue;
            };
            if !kin.iter().any(|one| one.person.pid == *child) {
                kin.push(Kin { person: entry.person.clone(), node: entry.place });
            }
            match entry.body {
                // It stands there as what it is, for its parent to wait for.
                Body::Ended(exit) => {
                    then.push(Effect::EndStandIn { node: to, pid: *child, exit, usage: Usage::default() });
                    continue;
                }
                Body::Stopped(sig) => {
                    let turn = entry.heard.get(&to).copied();
                    then.push(Effect::StopStandIn { node: to, pid: *child, sig, turn });
                }
                Body::Native => {
                    let turn = entry.heard.get(&to).copied();
                    let stops = entry.halted.map(|sig| Effect::StopStandIn { node: to, pid: *child, sig, turn });
                    then.extend(stops);
                }
                _ => {}
            }
            entry.stands.insert(to);
        }
        self.out.push(Effect::Arrive { node: to, person, kin, children });
        self.out.append(&mut then);
    }

    /// Children of `pid` that it has not waited for, in order.
    pub fn unwaited_children(&self, pid: Pid) -> Vec<Pid> {
        let children = self.table.get(pid).map(|entry| entry.children.clone()).unwrap_or_default();
        let waited = |child: &Pid| self.table.get(*child).is_none_or(|e| e.reaped || e.reaped_early);
        children.into_iter().filter(|child| !waited(child)).collect()
    }

    /// Is it native, and about to leave the front end?
    pub fn is_leaving_home(&self, pid: Pid) -> bool {
        self.table.get(pid).is_some_and(|entry| entry.body == Body::Native && entry.leaving)
    }

    /// Is it a child that its parent on a node has not heard of, and has not there?
    pub fn is_unheard_of(&self, pid: Pid) -> bool {
        self.table.get(pid).is_some_and(|entry| entry.unheard_of)
    }

    pub(crate) fn leaves(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid).filter(|e| e.has_body() || e.body == Body::Native) else { return };
        (entry.leaving, entry.turned) = (true, false);
        let place = entry.place;
        self.log(pid, place, "leaves", 0);
    }

    pub(crate) fn lands(&mut self, pid: Pid) {
        if let Some(entry) = self.table.get_mut(pid).filter(|entry| entry.has_body()) {
            entry.lands = true;
        }
    }

    pub(crate) fn stays(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        let place = entry.place;
        (entry.lands, entry.comes_to) = (false, None);
        self.log(pid, place, "stays", 0);
        self.settle_down(pid);
        // A native one has waited for those that ended meanwhile, or will.
        let children = self.table.get(pid).map(|entry| entry.children.clone()).unwrap_or_default();
        children.into_iter().for_each(|child| self.bury(child));
    }

    /// What has become of it since it left is told there, or since it was to come there: it may have ended already.
    pub(crate) fn stands(&mut self, pid: Pid, node: NodeId) {
        if !self.nodes.contains(&node) {
            return; // it says so when it is back
        }
        self.log(pid, node, "stands where it was", 0);
        let ended = match self.table.get(pid).map(|entry| &entry.body) {
            None => Some(self.unsaid.exit(node, pid).unwrap_or(Exit::NodeLost)),
            Some(Body::Ended(exit)) => Some(*exit),
            Some(_) => None,
        };
        if let Some(exit) = ended {
            return self.end_stand_in(node, pid, exit, Usage::default());
        }
        let Some(entry) = self.table.get_mut(pid).filter(|entry| entry.place != node) else { return };
        entry.stands.insert(node);
        if entry.subreaper {
            self.out.push(Effect::Subreaper { node, pid, on: true });
        }
        let person = entry.person.clone();
        // It may have been stopped when it left, and have gone on since; or the other way round.
        self.stand_in_stops(node, pid);
        self.out.push(Effect::StandInIs { node, person });
        self.steps.follow(pid, node);
    }

    pub(crate) fn moved(&mut self, pid: Pid, to: NodeId) {
        // Where it comes it has all of them.
        for child in self.table.get(pid).map(|entry| entry.children.clone()).unwrap_or_default() {
            if let Some(child) = self.table.get_mut(child) {
                child.unheard_of = false;
            }
        }
        if to.is_front() {
            return self.comes_home(pid);
        }
        if let Some(entry) = self.table.get(pid).filter(|e| e.body == Body::Unclaimed) {
            let person = entry.person.clone();
            return self.claim(to, person);
        }
        if let Some(entry) = self.table.get_mut(pid).filter(|e| e.body == Body::Native) {
            // What takes its place is its ghost.
            let body = entry.halted.take().map_or(Body::Running, Body::Stopped);
            (entry.body, entry.ghost, entry.asked, entry.streams) = (body, Ghost::Coming, true, Some(pid));
        }
        let Some(entry) = self.table.get_mut(pid).filter(|e| e.has_body()) else { return };
        entry.came_from = Some(std::mem::replace(&mut entry.place, to));
        entry.comes_to = None;
        entry.runner = None;
        entry.stands.remove(&to);
        // What the old node was to tell of stops it tells no more, and the new one knows of none.
        (entry.awaited, entry.known) = (0, 0);
        self.log(pid, to, "moved", 0);
        self.settle_down(pid);
        if !self.nodes.contains(&to) {
            self.exited(pid, Exit::NodeLost, crate::person::Usage::default());
        }
    }

    /// These had come to it where it was before, after it was written: they are older than all that the space has kept, and has sent since.
    pub(crate) fn follows(&mut self, node: NodeId, pid: Pid, mut signals: Vec<SigInfo>) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        if entry.leaving {
            signals.retain(|info| entry.went_on.is_none() || !info.sig.stops());
            for later in std::mem::replace(&mut entry.early, signals) {
                entry.keep(later);
            }
            return;
        }
        // What stops and what continues take each other away, whichever came first (linux: `prepare_signal`).
        let turned = entry.turned;
        signals.retain(|info| !(turned && (info.sig.stops() || info.sig == Sig::CONT)));
        for info in signals {
            self.stand_in_signalled(node, pid, info, None);
        }
    }

    /// Its ghost is the process itself from now on, a native one.
    fn comes_home(&mut self, pid: Pid) {
        let lives = |e: &&mut Entry| e.has_body() || e.body == Body::Unclaimed;
        let Some(entry) = self.table.get_mut(pid).filter(lives) else { return };
        let steps: Vec<_> = entry.queue.drain(..).map(|step| step.id).collect();
        let given: Vec<_> = entry.given.drain(..).map(|given| given.id).collect();
        let mut now = std::mem::take(&mut entry.early);
        let went_on = entry.went_on.take();
        if std::mem::take(&mut entry.stop_pending) {
            drop_newest_stop(&mut now);
        }
        if matches!(entry.body, Body::Stopped(_)) && entry.known >= entry.awaited {
            // So is what stood for it, or was until somebody continued that.
            now.retain(|info| !info.sig.stops());
        }
        let killed = now.iter().any(|info| info.sig == Sig::KILL);
        let early = now.split_off(now.iter().position(|info| info.sig.stops() && !killed).unwrap_or(now.len()));
        let person = entry.person.clone();
        let (children, mut stands) = (std::mem::take(&mut entry.children), std::mem::take(&mut entry.stands));
        // What stands there knows of its stops by turns: one without is older than any.
        let (subreaper, heard) = (entry.subreaper, std::mem::take(&mut entry.heard));
        stands.remove(&NodeId::FRONT);
        let watched = self.table.get(person.ppid).is_some_and(Entry::waits_by_ghost);
        let Some(entry) = self.table.get_mut(pid) else { return };
        if let (Body::Stopped(_), false) = (&entry.body, watched) {
            // Nobody there is told any more whether it runs.
            let goes = |node: &NodeId| Effect::ContinueStandIn { node: *node, pid, turn: heard.get(node).copied() };
            self.out.extend(stands.iter().map(goes));
        }
        let halted = if let Body::Stopped(sig) = entry.body { Some(sig).filter(|_| watched) } else { None };
        for id in steps.into_iter().chain(given) {
            self.steps.finish(id, &mut self.ready);
        }
        self.table.remove(pid);
        let native = Entry::new(person, NodeId::FRONT, Body::Native, Ghost::Absent);
        self.table.insert(Entry { children, stands, subreaper, heard, halted, early, settles: true, ..native });
        // Who relayed its streams relays no more but what others have of them now: whoever does so when it leaves again knows nothing of theirs.
        let others = self.table.values_mut().filter(|entry| entry.streams == Some(pid));
        others.for_each(|entry| entry.streams = None);
        self.log(pid, NodeId::FRONT, "came home", 0);
        self.out.push(Effect::WatchNative { pid });
        self.out.extend(went_on.map(|info| Effect::HasGoneOn { pid, info }));
        self.out.extend(now.into_iter().map(|info| Effect::SignalNative { target: pid, info }));
    }

    /// Has its ghost done all that it was told, or can it not any more?
    pub fn is_settled(&self, pid: Pid) -> bool {
        self.table.get(pid).is_none_or(|entry| {
            !entry.ghost.will_obey() || entry.ghost.obeys() && entry.queue.is_empty() && entry.given.is_empty()
        })
    }

    /// The node that it has left has said what it has of it.
    pub(crate) fn left(&mut self, pid: Pid) {
        self.all_said(pid);
        let from = self.table.get_mut(pid).and_then(|entry| entry.came_from.take());
        if from == Some(NodeId::FRONT) {
            self.has_its_place(pid);
        }
    }

    /// What it was sent meanwhile is sent on.
    pub(crate) fn settle_down(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        (entry.leaving, entry.settles) = (false, false);
        let went_on = entry.went_on.take();
        if entry.has_body() || entry.body == Body::Native {
            for info in went_on.into_iter().chain(std::mem::take(&mut entry.early)) {
                self.pass_on(pid, info);
            }
        }
    }
}

/// The SIGSTOP that its ghost has waits for what becomes the process, or has stopped it.
fn drop_newest_stop(early: &mut Vec<SigInfo>) {
    if let Some(at) = early.iter().rposition(|info| info.sig == Sig::STOP) {
        early.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Command;
    use crate::event::{BodyEvent, Event};
    use crate::person::Person;
    use vocab::{Creds, Sig};

    const N0: NodeId = NodeId(0);
    const N1: NodeId = NodeId(1);
    const PID: Pid = Pid(200);
    const CHILD: Pid = Pid(5000);
    const OTHER: Pid = Pid(5001);

    fn person() -> Person {
        let (creds, name) = (Creds::default(), b"prog".to_vec());
        Person { pid: PID, ppid: Pid(100), pgid: PID, sid: Pid(100), creds, name }
    }

    /// Of a space of two nodes in which that process runs on the first: each step, and what it tells.
    fn on_a_node() -> impl FnMut(Event) -> Vec<Effect> {
        let (mut space, mut effects) = (Space::new(), Vec::new());
        let mut step = move |event| {
            space.step(event, &mut effects);
            space.audit().expect("the invariants hold");
            std::mem::take(&mut effects)
        };
        step(Event::NodeUp { node: N0 });
        step(Event::NodeUp { node: N1 });
        step(Event::Run { person: person(), at: NodeId::FRONT, to: N0, kin: vec![] });
        step(Event::Held { pid: PID });
        step(Event::Body { node: N0, event: BodyEvent::Started { pid: PID } });
        step
    }

    #[test]
    fn what_it_did_before_it_moved_counts_also_when_it_is_told_last() {
        let mut space = Space::new();
        let mut effects = Vec::new();
        let mut step = |event| {
            space.step(event, &mut effects);
            space.audit().expect("the invariants hold");
            let killed = effects.drain(..).any(|e| matches!(e, Effect::Signal { .. }));
            (space.unwaited_children(PID), killed)
        };
        let person = person();
        let body = |event| Event::Body { node: N0, event };
        let forked = |child| body(BodyEvent::Forked { parent: PID, child });
        let ended = |pid| body(BodyEvent::Exited { pid, exit: Exit::Code(0), usage: Usage::default() });
        let reaped = |pid| body(BodyEvent::Reaped { pid });
        step(Event::NodeUp { node: N0 });
        step(Event::NodeUp { node: N1 });
        step(Event::Run { person, at: NodeId::FRONT, to: N0, kin: vec![] });
        step(Event::Held { pid: PID });
        step(body(BodyEvent::Started { pid: PID }));
        step(forked(CHILD));
        step(ended(CHILD));
        step(Event::Leaves { pid: PID });
        assert_eq!(step(Event::Moved { pid: PID, to: N1 }), (vec![CHILD], false));
        assert_eq!(step(reaped(CHILD)), (vec![], false));
        assert_eq!(step(forked(OTHER)), (vec![OTHER], false));
        step(ended(OTHER));
        assert_eq!(step(reaped(OTHER)), (vec![], false));
        step(Event::Left { pid: PID });
        assert_eq!(step(forked(Pid(5002))), (vec![], true), "nobody forks there any more");
    }

    #[test]
    fn what_comes_home_is_native_and_a_ghost_again_when_it_leaves() {
        let mut space = Space::new();
        let mut effects = Vec::new();
        let mut step = |event| {
            space.step(event, &mut effects);
            space.audit().expect("the invariants hold");
            let node = space.get(PID).map(|view| view.node);
            (std::mem::take(&mut effects), node, space.is_settled(PID))
        };
        let person = person();
        let body = |node, event| Event::Body { node, event };
        let signal = |sig| vocab::SigInfo::kill(sig, Pid(100), 0);
        step(Event::NodeUp { node: N0 });
        step(Event::Run { person: person.clone(), at: NodeId::FRONT, to: N0, kin: vec![] });
        step(Event::Held { pid: PID });
        step(body(N0, BodyEvent::Started { pid: PID }));
        let (told, ..) = step(Event::Arrive { pid: PID, to: NodeId::FRONT });
        assert!(
            matches!(&told[..], [.., Effect::Arrive { node: NodeId::FRONT, kin, .. }] if kin.is_empty()),
            "{told:?}"
        );
        let (_, _, settled) = step(body(N0, BodyEvent::Forked { parent: PID, child: CHILD }));
        assert!(!settled, "its ghost has yet to clone");
        step(Event::Leaves { pid: PID });
        step(Event::Signalled { pid: PID, info: signal(Sig::TERM) });
        step(Event::Signalled { pid: PID, info: signal(Sig::TSTP) });
        step(Event::Lands { pid: PID });
        let (told, ..) = step(Event::NodeLost { node: N0 });
        assert!(!told.iter().any(|e| matches!(e, Effect::Ghost { command: Command::Die { .. }, .. })), "{told:?}");
        step(Event::NodeUp { node: N0 });
        let (told, node, _) = step(Event::Moved { pid: PID, to: NodeId::FRONT });
        assert_eq!(node, Some(NodeId::FRONT));
        assert!(told.contains(&Effect::WatchNative { pid: PID }));
        let terminates = Effect::SignalNative { target: PID, info: signal(Sig::TERM) };
        assert!(told.contains(&terminates), "{told:?}");
        let stops = Effect::SignalNative { target: PID, info: signal(Sig::TSTP) };
        assert!(!told.contains(&stops), "it is not yet what it was: {told:?}");
        let (told, ..) = step(Event::IsHome { pid: PID });
        assert!(told.contains(&stops), "{told:?}");
        step(Event::Natives { persons: vec![person] });
        let (told, ..) = step(Event::Arrive { pid: PID, to: N0 });
        assert!(told.iter().any(|e| matches!(e, Effect::Arrive { node: N0, .. })), "{told:?}");
        let (_, node, _) = step(Event::Moved { pid: PID, to: N0 });
        assert_eq!(node, Some(N0));
        step(Event::Held { pid: PID });
        let (told, ..) = step(Event::Signalled { pid: PID, info: signal(Sig::TERM) });
        assert!(told.iter().any(|e| matches!(e, Effect::Signal { node: N0, target: PID, .. })), "{told:?}");
        let exited = BodyEvent::Exited { pid: PID, exit: Exit::Code(3), usage: Usage::default() };
        let (told, ..) = step(body(N0, exited));
        assert!(told.contains(&Effect::Ghost { pid: PID, command: Command::Exit(3) }), "{told:?}");
    }

    /// Its parent is on a node, and what stands for it there has taken a SIGSTOP on the way: that one believes no word of its stops which is older than that.
    #[test]
    fn what_stands_for_one_that_comes_home_hears_of_its_stop_after_its_own_word() {
        let mut step = on_a_node();
        step(Event::Body { node: N0, event: BodyEvent::Forked { parent: PID, child: CHILD } });
        step(Event::Held { pid: CHILD });
        step(Event::Arrive { pid: CHILD, to: N1 });
        step(Event::Leaves { pid: CHILD });
        step(Event::Moved { pid: CHILD, to: N1 });
        step(Event::Left { pid: CHILD });
        step(Event::StandInWanted { node: N0, pid: CHILD, native: None });
        step(Event::Arrive { pid: CHILD, to: NodeId::FRONT });
        let info = vocab::SigInfo::kill(Sig::STOP, PID, 0);
        step(Event::StandInSignalled { node: N0, target: CHILD, info, turn: Some(7) });
        step(Event::Leaves { pid: CHILD });
        step(Event::Moved { pid: CHILD, to: NodeId::FRONT });
        let told = step(Event::NativeStopped { pid: CHILD, sig: Some(Sig::STOP) });
        let stops = Effect::StopStandIn { node: N0, pid: CHILD, sig: Sig::STOP, turn: Some(7) };
        assert!(told.contains(&stops), "{told:?}");
    }

    /// Its parent is at home and its stop of no interest elsewhere: what stands for it on a node has handed over a SIGSTOP, and believes no word that is older than that.
    #[test]
    fn what_stands_for_a_stopped_one_that_comes_home_to_its_parent_goes_on() {
        let mut step = on_a_node();
        step(Event::StandInWanted { node: N1, pid: PID, native: None });
        let info = SigInfo::kill(Sig::STOP, Pid::NONE, 0);
        step(Event::StandInSignalled { node: N1, target: PID, info, turn: Some(7) });
        step(Event::Body { node: N0, event: BodyEvent::Stopped { pid: PID, sig: Sig::STOP, turn: Some(1) } });
        step(Event::Arrive { pid: PID, to: NodeId::FRONT });
        step(Event::Leaves { pid: PID });
        let told = step(Event::Moved { pid: PID, to: NodeId::FRONT });
        assert!(told.contains(&Effect::ContinueStandIn { node: N1, pid: PID, turn: Some(7) }), "{told:?}");
    }

    /// It stopped on its node after it was written, by a signal that follows it; its ghost has stopped as well, and may have been continued since by who no daemon knows of.
    #[test]
    fn what_has_stopped_one_that_comes_home_stopped_is_not_sent_to_it_once_more() {
        for stopped in [true, false] {
            let mut step = on_a_node();
            step(Event::Arrive { pid: PID, to: NodeId::FRONT });
            step(Event::Leaves { pid: PID });
            let stop = SigInfo::kill(Sig::STOP, Pid::NONE, 0);
            if stopped {
                step(Event::Body { node: N0, event: BodyEvent::Stopped { pid: PID, sig: Sig::STOP, turn: None } });
            }
            step(Event::Follows { node: N0, target: PID, signals: vec![stop] });
            let mut told = step(Event::Moved { pid: PID, to: NodeId::FRONT });
            told.extend(step(Event::IsHome { pid: PID }));
            assert_eq!(told.contains(&Effect::SignalNative { target: PID, info: stop }), !stopped, "{told:?}");
        }
        // But for one that came after it was continued, of which its node has not heard.
        let mut step = on_a_node();
        step(Event::Body { node: N0, event: BodyEvent::Stopped { pid: PID, sig: Sig::STOP, turn: None } });
        step(Event::Arrive { pid: PID, to: NodeId::FRONT });
        step(Event::Leaves { pid: PID });
        let info = SigInfo::kill(Sig::STOP, Pid::NONE, 0);
        for (sig, turn) in [(Sig::CONT, 1), (Sig::STOP, 2)] {
            step(Event::StandInSignalled { node: N1, target: PID, info: SigInfo { sig, ..info }, turn: Some(turn) });
        }
        let mut told = step(Event::Moved { pid: PID, to: NodeId::FRONT });
        told.extend(step(Event::IsHome { pid: PID }));
        assert!(told.contains(&Effect::SignalNative { target: PID, info }), "{told:?}");
    }

    /// The space keeps what its group is sent, as of all that leave: neither what it was nor what takes its place has it otherwise.
    #[test]
    fn one_that_leaves_the_front_end_has_what_a_job_of_a_shell_there_is_sent() {
        let mut step = on_a_node();
        step(Event::Body { node: N0, event: BodyEvent::Forked { parent: PID, child: CHILD } });
        step(Event::Held { pid: CHILD });
        step(Event::Arrive { pid: PID, to: NodeId::FRONT });
        step(Event::Leaves { pid: PID });
        step(Event::Moved { pid: PID, to: NodeId::FRONT });
        step(Event::IsHome { pid: PID });
        step(Event::Arrive { pid: PID, to: N1 });
        step(Event::Leaves { pid: PID });
        let target = crate::person::KillTarget::Group(PID);
        let told = step(Event::KillAsked { node: N0, id: 1, sender: CHILD, target, sig: Sig::USR1.number() });
        let left = |e: &Effect| matches!(e, Effect::SignalNatives { but, .. } if but.contains(&PID));
        assert!(told.iter().any(left), "{told:?}");
        let told = step(Event::Moved { pid: PID, to: N1 });
        let has = |e: &Effect| matches!(e, Effect::Signal { node: N1, target: PID, info, .. } if info.sig == Sig::USR1);
        assert_eq!(told.iter().filter(|e| has(e)).count(), 1, "{told:?}");
    }

    /// What it would be sent anew takes away what has stopped it since: who makes it the process is told in its place.
    #[test]
    fn a_continuation_that_its_ghost_has_taken_is_not_sent_to_one_that_comes_home() {
        let cont = SigInfo::kill(Sig::CONT, Pid(100), 0);
        let taken = Event::Signalled { pid: PID, info: cont };
        let passed_on = Event::StandInSignalled { node: N1, target: PID, info: cont, turn: Some(1) };
        for (event, anew) in [(taken, false), (passed_on, true)] {
            let mut step = on_a_node();
            step(Event::Arrive { pid: PID, to: NodeId::FRONT });
            step(Event::Leaves { pid: PID });
            step(event);
            let mut told = step(Event::Moved { pid: PID, to: NodeId::FRONT });
            told.extend(step(Event::IsHome { pid: PID }));
            assert_eq!(told.contains(&Effect::SignalNative { target: PID, info: cont }), anew, "{told:?}");
            assert_eq!(told.contains(&Effect::HasGoneOn { pid: PID, info: cont }), !anew, "{told:?}");
        }
    }

    #[test]
    fn what_continues_one_on_its_way_takes_away_what_stops_it_also_where_it_stays() {
        let (stop, cont) = (SigInfo::kill(Sig::TSTP, Pid(100), 0), SigInfo::kill(Sig::CONT, Pid(100), 0));
        let sent = |told: &[Effect]| -> Vec<Sig> {
            let sig = |e: &Effect| if let Effect::Signal { info, .. } = e { Some(info.sig) } else { None };
            told.iter().filter_map(sig).collect()
        };
        for then in [Event::Stays { pid: PID }, Event::Moved { pid: PID, to: N1 }] {
            for (first, second, left) in [(stop, cont, vec![Sig::CONT]), (cont, stop, vec![Sig::CONT, Sig::TSTP])] {
                let mut step = on_a_node();
                step(Event::Arrive { pid: PID, to: N1 });
                step(Event::Leaves { pid: PID });
                step(Event::Signalled { pid: PID, info: first });
                step(Event::Signalled { pid: PID, info: second });
                assert_eq!(sent(&step(then.clone())), left);
            }
        }
    }

    /// SIGSTOP comes to its ghost, which becomes it and has that still.
    #[test]
    fn one_that_comes_home_is_not_stopped_once_more_by_what_its_ghost_has() {
        let comes_home = |stop: Event| {
            let mut step = on_a_node();
            step(Event::Arrive { pid: PID, to: NodeId::FRONT });
            step(Event::Leaves { pid: PID });
            step(stop);
            let mut told = step(Event::Moved { pid: PID, to: NodeId::FRONT });
            told.extend(step(Event::IsHome { pid: PID }));
            let stops = |e: &&Effect| matches!(e, Effect::SignalNative { info, .. } if info.sig == Sig::STOP);
            told.iter().filter(stops).count()
        };
        let waits = Event::Pending { pid: PID, set: vocab::SigSet(Sig::STOP.bit()) };
        assert_eq!(comes_home(waits), 0);
        let info = vocab::SigInfo::kill(Sig::STOP, Pid::NONE, 0);
        let of_node = Event::StandInSignalled { node: N0, target: PID, info, turn: Some(1) };
        assert_eq!(comes_home(of_node), 1, "nothing else has that");
    }

    /// A process that leaves the front end, stopped: SIGCONT comes to it on the way, or to its ghost, or does not. The parent of its ghost is not told anew that it is stopped.
    #[test]
    fn the_ghost_of_one_that_left_stopped_stops_only_by_what_comes_after_that() {
        for (continued, asleep) in [(true, false), (false, true), (false, false)] {
            let mut space = Space::new();
            let mut effects = Vec::new();
            let mut step = |event| {
                space.step(event, &mut effects);
                space.audit().expect("the invariants hold");
                let stop = Command::Stop(Sig::STOP);
                effects.drain(..).filter(|e| *e == Effect::Ghost { pid: PID, command: stop.clone() }).count()
            };
            let person = person();
            let body = |event| Event::Body { node: N0, event };
            step(Event::NodeUp { node: N0 });
            step(Event::Natives { persons: vec![person] });
            step(Event::Arrive { pid: PID, to: N0 });
            step(Event::Leaves { pid: PID });
            let mut stops = step(Event::Moved { pid: PID, to: N0 });
            stops += step(body(BodyEvent::Stopped { pid: PID, sig: Sig::STOP, turn: None }));
            stops += step(Event::Held { pid: PID });
            if continued {
                let info = vocab::SigInfo::kill(Sig::CONT, Pid(100), 0);
                stops += step(Event::StandInSignalled { node: NodeId::FRONT, target: PID, info, turn: None });
            }
            if asleep {
                stops += step(Event::Sleeps { pid: PID });
            }
            assert_eq!(stops, 0, "it is not known yet what has come to it");
            // Stopped, and not as its ghost was, it can only have been since.
            assert_eq!(step(Event::Left { pid: PID }), usize::from(!continued && !asleep));
            if continued {
                assert_eq!(step(body(BodyEvent::Continued { pid: PID, turn: Some(1) })), 0);
                assert_eq!(step(body(BodyEvent::Stopped { pid: PID, sig: Sig::STOP, turn: Some(1) })), 1);
            }
        }
    }

    /// What had come to the old place is older than what the space has kept, or has sent since: of what stops and what continues the newest counts.
    #[test]
    fn what_had_come_before_it_left_comes_before_all_else_or_not_at_all() {
        let signal = |sig| SigInfo::kill(sig, Pid(100), 0);
        for before in [true, false] {
            let mut space = Space::new();
            let mut effects = Vec::new();
            let mut step = |event| {
                space.step(event, &mut effects);
                space.audit().expect("the invariants hold");
                let to = |e| if let Effect::Signal { info, node, .. } = e { Some((node, info.sig)) } else { None };
                effects.drain(..).filter_map(to).collect::<Vec<_>>()
            };
            let person = person();
            let follows = Event::Follows { node: N0, target: PID, signals: vec![signal(Sig::STOP), signal(Sig::TERM)] };
            step(Event::NodeUp { node: N0 });
            step(Event::NodeUp { node: N1 });
            step(Event::Run { person, at: NodeId::FRONT, to: N0, kin: vec![] });
            step(Event::Held { pid: PID });
            step(Event::Body { node: N0, event: BodyEvent::Started { pid: PID } });
            step(Event::Arrive { pid: PID, to: N1 });
            step(Event::Leaves { pid: PID });
            assert_eq!(step(Event::Signalled { pid: PID, info: signal(Sig::CONT) }), []);
            let mut told = if before { step(follows.clone()) } else { Vec::new() };
            told.extend(step(Event::Moved { pid: PID, to: N1 }));
            told.extend(if before { Vec::new() } else { step(follows) });
            assert_eq!(told, [(N1, Sig::CONT), (N1, Sig::TERM)], "told before it has moved: {before}");
        }
    }
}
