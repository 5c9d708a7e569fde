//! What nodes say.

use crate::act::FAILED;
use crate::front::Front;
use crate::move_states;
use crate::persons::{self, event_from_wire, target_from_wire};
use crate::places::Change;
use crate::runs::Asker;
use kern::clock::monotonic_us;
use space::Event;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use tracing::{debug, warn};
use vocab::errno::{EAGAIN, ENOMEM};
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::Answer;
use wire::event::BodyEvent;
use wire::node::{ToFront, ToNode};

/// A batch of events, and the numbers of what the ghosts have to do for it.
#[derive(Debug)]
pub(crate) struct Batch {
    batch: u64,
    steps: RangeInclusive<u64>,
    until_us: u64,
}

/// After so many microseconds the node waits no longer for a batch to be seen, and what came behind it is not held up: a ghost may be its
/// user's own program, which does nothing of what it is told.
const SHOW_US: u64 = 3_000_000;
/// And then nobody waits for what that user's ghosts have to do, for so long.
const BLAME_US: u64 = 60_000_000;

/// Users whose ghosts did not do in time what they were told, and until when nobody waits for them (monotonic, in microseconds).
#[derive(Debug, Default)]
pub(crate) struct Tardy(HashMap<u32, u64>);

impl Tardy {
    /// Root's ghosts are the daemons' own programs: when they are late the machine is busy.
    fn blame(&mut self, users: impl Iterator<Item = u32>, now_us: u64) {
        self.0.retain(|_, until| *until > now_us);
        self.0.extend(users.filter(|user| *user != 0).map(|user| (user, now_us + BLAME_US)));
    }

    fn has(&self, user: u32, now_us: u64) -> bool {
        self.0.get(&user).is_some_and(|until| *until > now_us)
    }
}

impl Front {
    pub(crate) fn on_message(&mut self, node: NodeId, message: ToFront) -> Result<()> {
        match message {
            ToFront::Hello { .. } => return Err(Fault::wire("Hello a second time")),
            ToFront::Beat { sent_us, load } => self.on_beat(node, sent_us, load),
            ToFront::Events { batch, events } => self.on_events(node, batch, events),
            ToFront::NotStarted { pid, fault, status } => self.on_not_started(node, pid, fault, status),
            ToFront::Signal { target, info, turn } => {
                self.events.push_back(Event::StandInSignalled { node, target, info, turn });
            }
            ToFront::Kill { id, sender, target, sig } => {
                let target = target_from_wire(self.within(target));
                self.events.push_back(Event::KillAsked { node, id, sender, target, sig });
            }
            ToFront::Ask { id, caller, ask } => self.on_ask(Asker::Remote { node, id }, &caller, ask),
            ToFront::StandInGone { pid } => self.events.push_back(Event::StandInGone { node, pid }),
            ToFront::StandInFollowed { pid } => self.events.push_back(Event::StandInFollowed { node, pid }),
            ToFront::LeaseWanted => match self.leases.give(node) {
                Some(lease) => self.send(node, &ToNode::Lease(lease)),
                None if self.leases.first_denial(node) => {
                    warn!(%node, "no range of PIDs is left for it: forks there fail when its own are used up")
                }
                None => {}
            },
            ToFront::PsBegun { id } => self.on_ps_begun(node, id),
            ToFront::PsDone { id, rows } => self.on_ps_done(node, id, rows),
            ToFront::Entries { id, found, last, errno } => self.on_entries(node, id, found, last, errno),
            ToFront::StandInDone { pid, errno } => {
                debug!(%node, %pid, errno, "stand-in");
                if errno == 0 && !self.space.stands_on(pid, node) {
                    self.events.push_back(Event::Stands { pid, node });
                }
            }
            ToFront::Arriving { pid, port } => self.arriving(node, pid, port),
            ToFront::Ready { pid, streams } => {
                if !streams {
                    self.no_streams(node, pid);
                }
                self.move_says(node, pid, move_states::Change::Ready, None)
            }
            ToFront::Arrived { pid } => self.move_says(node, pid, move_states::Change::Arrived, None),
            ToFront::NotArrived { pid, fault } => {
                self.move_says(node, pid, move_states::Change::NotArrived, Some(fault))
            }
            ToFront::Left { pid, signals, stands } => {
                self.settle();
                self.left(node, pid, signals, stands);
            }
            ToFront::Whole { pid } => self.is_whole(node, pid),
            ToFront::Runs { pid } => self.move_says(node, pid, move_states::Change::Runs, None),
            ToFront::NotLeft { pid, fault } => self.move_says(node, pid, move_states::Change::NotLeft, Some(fault)),
            ToFront::Looked { id, look } => self.looked(node, id, *look),
            ToFront::Moving { pid, progress } => self.move_goes_on(node, pid, progress),
            ToFront::AskerGone { id } => {
                self.moves_asker_gone(Asker::Remote { node, id });
                self.feed_asker_gone(Asker::Remote { node, id });
                self.views.distant.gone(Asker::Remote { node, id });
            }
            ToFront::Suited { id, obstacles } => self.suited(node, id, obstacles),
            ToFront::Branched { branch } => self.branched(branch),
            ToFront::Log { id, piece, fault } => self.log_told(node, id, piece, fault),
            ToFront::Administered { id, fault } => self.administered(node, id, fault),
            ToFront::PassesNoMore { pid } => self.passes.no_more(pid, node),
            ToFront::Barrier { id } => self.delivered(node, id),
            ToFront::StandInWanted { pid } => {
                let native = if self.is_own(pid) { persons::process(&self.proc, pid) } else { None };
                self.events.push_back(Event::StandInWanted { node, pid, native });
            }
        }
        Ok(())
    }

    fn on_beat(&mut self, number: NodeId, sent_us: u64, load: wire::node::Load) {
        let now = monotonic_us();
        if let Some(node) = self.nodes.get_mut(number) {
            if !node.watch.beat_arrived(now) {
                // After its time: `look_after_nodes` finds the node lost.
                return;
            }
            node.change(number, Change::Beat);
            node.load = load;
            node.pending = 0;
        }
        self.send(number, &ToNode::Beat { sent_us });
    }

    fn on_events(&mut self, number: NodeId, batch: u64, events: Vec<BodyEvent>) {
        if let Some(node) = self.nodes.get_mut(number) {
            for event in &events {
                match event {
                    BodyEvent::Forked { .. } | BodyEvent::Started { .. } => node.bodies += 1,
                    BodyEvent::Exited { .. } => node.bodies = node.bodies.saturating_sub(1),
                    _ => {}
                }
            }
        }
        self.lost_on_the_way(number, &events);
        let ended = |event: &BodyEvent| if let BodyEvent::Exited { pid, .. } = event { Some(*pid) } else { None };
        let ended: Vec<Pid> = events.iter().filter_map(ended).collect();
        self.departed_to(number, &ended);
        self.ended_in_doubt(number, &ended);
        self.settle();
        let before = self.space.newest();
        let started = |event: &BodyEvent| if let BodyEvent::Started { pid } = event { Some(*pid) } else { None };
        let started: Vec<Pid> = events.iter().filter_map(started).collect();
        for event in events {
            match event {
                BodyEvent::Stopped { pid, .. } => self.sleepers.state_is(pid, true, monotonic_us()),
                BodyEvent::Continued { pid, .. } => self.sleepers.state_is(pid, false, monotonic_us()),
                _ => {}
            }
            self.events.push_back(Event::Body { node: number, event: event_from_wire(event) });
        }
        self.settle();
        if !ended.is_empty() {
            self.come_no_more(number);
        }
        for pid in started {
            self.passes.started(pid, number);
            self.stands_where_it_passes(pid, number, None);
        }
        self.send(number, &ToNode::EventsDone { batch });
        let (steps, until_us) = (before + 1..=self.space.newest(), monotonic_us() + SHOW_US);
        self.showing.entry(number).or_default().push_back(Batch { batch, steps, until_us });
    }

    /// Tells nodes which of their batches can be seen by now.
    pub(crate) fn tell_shown(&mut self) {
        let mut shown = Vec::new();
        let (space, tardy, now) = (&self.space, &mut self.tardy, monotonic_us());
        let mut is_over = |first: &Batch| {
            let mut waits_for = space.unshown(first.steps.clone()).filter(|user| !tardy.has(*user, now)).peekable();
            let late = waits_for.peek().is_some() && first.until_us <= now;
            if late {
                let users: Vec<u32> = waits_for.collect();
                tardy.blame(users.into_iter(), now);
                return true;
            }
            waits_for.peek().is_none()
        };
        self.showing.retain(|node, batches| {
            let mut newest = None;
            while let Some(first) = batches.front().filter(|first| is_over(first)) {
                newest = Some(first.batch);
                batches.pop_front();
            }
            shown.extend(newest.map(|batch| (*node, batch)));
            !batches.is_empty()
        });
        for (node, batch) in shown {
            self.send(node, &ToNode::EventsShown { batch });
        }
    }

    pub(crate) fn on_not_started(&mut self, node: NodeId, pid: Pid, fault: Fault, status: u8) {
        self.passes.started(pid, node);
        let is_full = status == FAILED && [EAGAIN, ENOMEM].contains(&fault.root_errno());
        if let Some(node) = self.nodes.get_mut(node).filter(|_| is_full) {
            node.full_us = monotonic_us();
        }
        self.tell_not_started(node, pid, fault, status);
        self.events.push_back(Event::NotStarted { node, pid, status });
    }

    /// Tells whoever has asked for the program.
    pub(crate) fn tell_not_started(&mut self, node: NodeId, pid: Pid, fault: Fault, status: u8) {
        if let Some((asker, copy, last)) = self.runs.ended(pid) {
            self.answer(asker, Answer::NotStarted { copy, fault: fault.on(node), status }, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_whose_ghosts_are_late_is_not_waited_for_and_root_is() {
        let mut tardy = Tardy::default();
        tardy.blame([0, 7, 7].into_iter(), 1000);
        assert!(tardy.has(7, 1000) && tardy.has(7, BLAME_US) && !tardy.has(0, 1000) && !tardy.has(8, 1000));
        assert!(!tardy.has(7, 1000 + BLAME_US));
        tardy.blame([8].into_iter(), 2000 + BLAME_US);
        assert_eq!(tardy.0.len(), 1, "who is forgiven is forgotten");
    }
}
