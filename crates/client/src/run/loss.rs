//! Copies whose channel has broken, whose node is lost, or which never began.

use super::branch::Which;
use super::channels::{Channels, State};
use super::copy::Copy;
use super::moving::unconnected;
use super::queue::{Gathered, Item};
use kern::relay::RELAY;
use vocab::{Fault, NodeId};
use wire::stream::Stream;

impl Channels {
    /// A channel is of no use any more. Why, the daemon knows better, if it is there.
    pub(super) fn broke(&self, state: &mut State, its: Which, fault: &Fault) {
        let (number, serial) = its;
        let Some(copy) = state.copies.get_mut(number) else { return };
        let Some(at) = copy.branches.iter().position(|branch| branch.serial == serial) else { return };
        let branch = copy.branches.remove(at);
        // One of those may have been to say it.
        copy.alongside.keys().for_each(|id| self.pass(number, *id));
        self.queues.iter().for_each(|queue| queue.push(Item::Flush { of: its }));
        let goes_on = copy.branches.iter().any(|other| other.program);
        if branch.program && !copy.over && !goes_on {
            copy.broken = match (copy.awaited.is_empty(), state.alone) {
                (true, _) => Some(fault.clone()),
                (false, true) => Some(unconnected()),
                (false, false) => None,
            };
        }
        let ended = copy.ended;
        self.lost_on_the_way(state, number, branch.node, &fault.clone().on(branch.node));
        self.spent(state, its);
        state.feed(number);
        self.reader.wake();
        self.home_if_cut(state, number);
        if state.alone || ended {
            self.tell_broken(state, number);
        }
    }

    /// Nothing comes any more over channels from this node but what has reached us.
    pub(crate) fn node_lost(&self, node: NodeId) {
        let all: Vec<Which> = self.nodes().into_iter().filter(|(_, of)| *of == node).map(|(its, _)| its).collect();
        for its in all {
            self.receive(its);
            let mut state = self.lock();
            if !state.paused && state.branch(its).is_some_and(|branch| branch.turn) {
                self.broke(&mut state, its, &Fault::gone("the node is lost"));
            }
        }
    }

    /// The user is told that the streams of copy `number` were cut off, if they were: there is no better reason.
    pub(super) fn tell_broken(&self, state: &mut State, number: usize) {
        let Some(copy) = state.copies.get_mut(number) else { return };
        let Some(fault) = copy.broken.take() else { return };
        let text = format!("shoal: {}: the program's streams were cut off: {fault}\n", copy.newest_node());
        RELAY.set_cut();
        self.queue(Stream::Err).push(Item::Note(text));
        self.over(state, number);
    }

    /// The program of copy `number` has ended by itself.
    pub(crate) fn ended(&self, number: usize) {
        let mut state = self.lock();
        let Some(copy) = state.copies.get_mut(number) else { return };
        copy.ended = true;
        self.tell_broken(&mut state, number);
    }

    /// Nothing will come of this copy: it was not started, or its node is lost. `why` is told to the user.
    pub(crate) fn give_up(&self, number: usize, why: Option<String>) {
        let mut state = self.lock();
        self.tell_broken(&mut state, number);
        if let Some(why) = why {
            self.queue(Stream::Err).push(Item::Note(why));
        }
        if let Some(copy) = state.copies.get_mut(number) {
            copy.branches.retain(|branch| !branch.program);
        }
        self.over(&mut state, number);
    }

    /// The node of this copy is lost, and it has ended with it. Of several copies this process is the parent, which has time.
    pub(crate) fn lost(&self, number: usize) {
        let mut state = self.lock();
        let alone = state.copies.len() == 1;
        if let Some(copy) = state.copies.get_mut(number) {
            // This is why.
            copy.broken = None;
        }
        let why = state.copies.get(number).filter(|c| !c.over).map(|c| format!("shoal: {} is lost\n", c.newest_node()));
        drop(state);
        self.give_up(number, why);
        if alone {
            RELAY.set_lost();
        }
    }

    /// The nodes are lost for which `lives` is not true.
    pub(crate) fn lost_but(&self, lives: impl Fn(NodeId) -> bool) {
        let gone = |copy: &Copy| !lives(copy.newest_node());
        let copies: Vec<(bool, bool)> = self.lock().copies.iter().map(|copy| (gone(copy), copy.whole)).collect();
        for (number, (gone, whole)) in copies.into_iter().enumerate() {
            match (gone, whole) {
                (true, false) => self.lost(number),
                // The program had ended by itself before.
                (true, true) => self.give_up(number, None),
                (false, _) => {}
            }
        }
    }

    /// Those that have no channel will not get one (`all`: nor will the others be read any more).
    pub(crate) fn give_up_waiting(&self, all: bool, why: &str) {
        let waiting: Vec<usize> = {
            let state = self.lock();
            let goes_on = |c: &Copy| c.branches.iter().any(|branch| branch.program);
            let waits = |c: &Copy| !c.over && (all || !goes_on(c));
            state.copies.iter().enumerate().filter(|(_, c)| waits(c)).map(|(i, _)| i).collect()
        };
        for number in waiting {
            RELAY.set_cut();
            self.give_up(number, Some(why.to_owned()));
        }
    }
}
