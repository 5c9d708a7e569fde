//! The main loop's part of the order between output and events (see [`crate::order`]).

use crate::agent::Agent;
use crate::bodies::Life;
use crate::order::Order;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::node::ToFront;

/// So many looks may wait for the front end at once; questions beyond are answered by the next one. The brake on storms.
const MOST: usize = 4;

/// What output waits for.
#[derive(Debug)]
pub(crate) struct Showing {
    pub(crate) order: Arc<Order>,
    /// Questions up to this number, and how many changes must be shown for them.
    looks: VecDeque<(u64, u64)>,
    /// The newest question that has led to a look.
    looked: u64,
}

impl Showing {
    pub(crate) fn new(order: Arc<Order>) -> Showing {
        Showing { order, looks: VecDeque::new(), looked: 0 }
    }
}

impl Agent {
    /// Output waits: what has happened by now is told.
    fn look_for_output(&mut self, asked: u64) {
        self.watch();
        for (pid, what) in self.checks.all() {
            self.look(pid, what);
        }
        // Those of which no record tells the last step: it may be done.
        let leaving = self.handles.pids();
        let (ended, others): (Vec<_>, Vec<_>) =
            leaving.partition(|pid| self.bodies.get(*pid).is_some_and(|body| body.life == Life::Ended));
        self.leaving.extend(others);
        for pid in ended.into_iter().filter(|pid| !kern::proc::exists(*pid)).collect::<Vec<_>>() {
            self.seen_reaped(pid);
        }
        self.settle();
        self.tell_now();
        self.showing.looked = asked;
        self.showing.looks.push_back((asked, self.events.changes()));
    }

    /// Sends what waits, though a batch be under way.
    pub(crate) fn tell_now(&mut self) {
        while let Some((batch, events)) = self.events.take_now() {
            self.pace.told(kern::clock::monotonic_us());
            self.uplink.send(&ToFront::Events { batch, events });
        }
    }

    /// At the end of each turn of the loop: looks for the output that waits, and lets that go which waits for nothing any more.
    pub(crate) fn let_output_go(&mut self) {
        let order = self.showing.order.clone();
        if !self.uplink.up() {
            // Nobody shows anything; what runs meanwhile shall not wait for it.
            self.showing.looks.clear();
            order.set_shown(true);
            return self.grant(order.asked());
        }
        // Before and after: a look is made where there is room, and may find that it waits for nothing.
        self.grant_shown();
        let asked = order.asked();
        if asked > self.showing.looked && self.showing.looks.len() < MOST {
            self.look_for_output(asked);
            self.grant_shown();
        }
        let nothing = self.events.shown() == self.events.changes()
            && self.checks.is_empty()
            && self.leaving.is_empty()
            && self.volley.due_us().is_none()
            && self.handles.is_empty();
        order.set_shown(nothing);
    }

    fn grant_shown(&mut self) {
        let mut newest = None;
        while let Some((asked, _)) = self.showing.looks.front().filter(|look| self.events.shown() >= look.1) {
            newest = Some(*asked);
            self.showing.looks.pop_front();
        }
        if let Some(asked) = newest {
            self.grant(asked);
        }
    }

    fn grant(&self, asked: u64) {
        if self.showing.order.granted() < asked {
            self.showing.order.grant(asked);
            self.streams.granted();
        }
    }
}
