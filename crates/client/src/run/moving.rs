//! Processes that move to other nodes with streams of a copy: each begins a further channel, a branch.
//!
//! | the branch from which it comes | the new one | |
//! |---|---|---|
//! | goes on | has come | it shakes hands, and is not read |
//! | has said `Left` | has come | it is read from now on; those that stayed where it was go on over theirs |
//! | has said `Left` | none | it is awaited: the copy has not ended |
//! | breaks | has come | it is read from now on, without what was under way; its move may still not come about |
//!
//! A branch is closed when nobody on its node has the streams any more; the program's, when the program has ended. One of a move that did not come about is taken
//! back ([`wire::ask::Answer::Stays`]).

use super::branch::{token, Branch, Which};
use super::channels::{index, Channels, State};
use super::queue::{Gathered, Item};
use link::Secure;
use std::os::fd::OwnedFd;
use vocab::{Fault, NodeId, Result};
use wire::ask::Further;
use wire::stream::{Chunk, Stream};

impl Channels {
    /// A further channel of copy `number` has been connected.
    pub(super) fn further(&self, state: &mut State, number: usize, fd: OwnedFd, further: &Further) -> Result<()> {
        let key = super::key(&further.key)?;
        let Some(copy) = state.copies.get_mut(number) else { return Ok(()) };
        let awaited = copy.awaited.remove(&further.branch);
        let serial = awaited.unwrap_or_else(|| copy.next_serial());
        let mut branch = Branch::new(serial, further.node, Secure::channel_taker(fd, &key)?);
        (branch.id, branch.program, branch.from) = (further.branch, further.program, further.from);
        if awaited.is_some() {
            if further.program {
                copy.branches.iter_mut().for_each(|other| other.program = false);
            }
            self.goes_on((number, serial), (number, serial), further.node);
            self.begin(state, number, branch);
        } else if let Some(fault) = copy.broken.take_if(|_| further.program) {
            branch.turn = false;
            copy.branches.push(branch);
            self.lost_on_the_way(state, number, further.from, &fault);
        } else {
            branch.turn = false;
            branch.watch(&self.poller, token((number, branch.serial)));
            copy.branches.push(branch);
            self.spent(state, (number, serial));
        }
        Ok(())
    }

    /// The move for which this branch was made did not come about.
    pub(crate) fn stays(&self, number: usize, id: u64) {
        let mut state = self.lock();
        let Some(copy) = state.copies.get_mut(number) else { return };
        copy.branches.retain(|branch| branch.turn && !branch.early || branch.id != id);
        self.stays_away(copy, id);
        copy.alongside.remove(&id);
        // What was the last of a stream is known to be that only now.
        self.spent(&mut state, (number, 0));
        state.feed(number);
        self.reader.wake();
    }

    /// One has left for branch `id`, and all that it had written where it was has come.
    pub(super) fn leaves(&self, state: &mut State, from: Which, id: u64) {
        if self.is_home(state, from, id) {
            return;
        }
        let number = from.0;
        let alone = state.alone;
        let Some(copy) = state.copies.get_mut(number) else { return };
        if copy.alongside.contains_key(&id) {
            return self.pass(number, id);
        }
        if let Some(branch) = copy.branches.iter_mut().find(|branch| branch.id == id && branch.early) {
            branch.early = false;
            return self.spent(state, from);
        }
        let Some(at) = copy.branches.iter().position(|branch| branch.id == id && !branch.turn) else {
            if alone {
                return self.broke(state, from, &unconnected());
            }
            let to = copy.next_serial();
            copy.awaited.insert(id, to);
            let node =
                copy.branches.iter().find(|branch| branch.serial == from.1).map_or(copy.newest_node(), |b| b.node);
            return self.goes_on(from, (number, to), node);
        };
        let branch = copy.branches.remove(at);
        let (to, node) = ((number, branch.serial), branch.node);
        if let Some(old) = copy.branch(from.1).filter(|_| branch.program) {
            old.program = false;
        }
        self.goes_on(from, to, node);
        tracing::debug!(%node, copy = number, "a branch is read");
        self.begin(state, number, branch);
        self.spent(state, from);
    }

    /// Lines that were begun on one channel end on another one.
    fn goes_on(&self, from: Which, to: Which, node: NodeId) {
        for queue in [Stream::Out, Stream::Err].map(|stream| self.queue(stream)) {
            queue.push(Item::Moved { from, to, node });
        }
    }

    /// Input has come back, or the word of how much does.
    pub(super) fn comes_back(&self, state: &mut State, its: Which) {
        let Some(copy) = state.copies.get_mut(its.0) else { return };
        let Some(pieces) = copy.branch(its.1).and_then(|branch| branch.flow.take_back()) else { return };
        copy.feed.is_back(pieces);
        if copy.is_here() {
            return self.home_if_back(state, its.0);
        }
        self.spent(state, its);
        state.feed(its.0);
        self.reader.wake();
    }

    /// Something of a branch may have been the last: it is closed, and perhaps one of its copy's streams is.
    pub(super) fn spent(&self, state: &mut State, (number, serial): Which) {
        let Some(copy) = state.copies.get_mut(number) else { return };
        let program = !copy.over && copy.branch(serial).is_some_and(|branch| branch.program);
        if !program && copy.branch(serial).is_some_and(|branch| branch.is_spent()) {
            copy.branches.retain(|branch| branch.serial != serial);
        }
        let speaks = copy.branches.iter().any(|branch| branch.turn && !branch.is_silent());
        if copy.over && !speaks && copy.branches.iter().any(|branch| !branch.turn) {
            // Nobody is left who could say that it is their turn. Of moves that come to nothing after the program's end nobody is told.
            return self.all_begin(state, number, None);
        }
        let waits = copy.waits();
        for stream in [Stream::Out, Stream::Err] {
            let i = index(stream);
            if !waits
                && copy.branches.iter().all(|branch| branch.closed[i])
                && !std::mem::replace(&mut copy.closed[i], true)
            {
                self.queue(stream).push(Item::End);
            }
        }
    }

    /// A node that processes of copy `number` were about to leave is lost, with what was under way to and from it.
    pub(super) fn lost_on_the_way(&self, state: &mut State, number: usize, node: NodeId, fault: &Fault) {
        let Some(copy) = state.copies.get(number) else { return };
        if copy.branches.iter().any(|branch| !branch.turn && branch.from == node) {
            let text = format!("shoal: what was under way in the program's streams is lost: {fault}\n");
            self.queue(Stream::Err).push(Item::Note(text));
        }
        self.all_begin(state, number, Some(node));
    }

    /// Branches are read whose turn nobody will tell, of those that come from `node`.
    fn all_begin(&self, state: &mut State, number: usize, node: Option<NodeId>) {
        let Some(copy) = state.copies.get_mut(number) else { return };
        let is_from = |branch: &Branch| node.is_none_or(|node| branch.from == node);
        let (next, now): (Vec<Branch>, Vec<Branch>) =
            std::mem::take(&mut copy.branches).into_iter().partition(|branch| !branch.turn && is_from(branch));
        copy.branches = now;
        for mut branch in next {
            branch.early = true;
            let node = branch.node;
            self.goes_on((number, 0), (number, branch.serial), node);
            self.begin(state, number, branch);
        }
    }

    /// The daemon has gone: no channel will come any more.
    pub(crate) fn daemon_gone(&self, fault: &Fault) {
        let mut state = self.lock();
        state.alone = true;
        for number in 0..state.copies.len() {
            self.tell_broken(&mut state, number);
            let copy = &mut state.copies[number];
            if !copy.awaited.is_empty() && !copy.over && !copy.branches.iter().any(|branch| branch.program) {
                copy.broken = Some(unconnected());
                self.tell_broken(&mut state, number);
            }
        }
        drop(state);
        self.tell_without_asking();
        self.give_up_waiting(false, &format!("shoal: the program's streams were never connected: {fault}\n"));
    }

    /// All channels, and from where they come.
    pub(crate) fn nodes(&self) -> Vec<(Which, NodeId)> {
        let state = self.lock();
        let copies = state.copies.iter().enumerate();
        copies.flat_map(|(n, copy)| copy.branches.iter().map(move |b| ((n, b.serial), b.node))).collect()
    }
}

/// Why the streams of one that has moved are cut off.
pub(super) fn unconnected() -> Fault {
    Fault::gone("it has moved, and the daemon has gone that would connect them again")
}

impl State {
    /// What a channel must be told that comes late, but for input.
    pub(super) fn tell_so_far(&mut self, its: Which) {
        let unread = [Stream::Out, Stream::Err].into_iter().filter(|stream| self.unread[index(*stream)]);
        let unread = unread.map(|stream| Chunk::Broken { stream });
        let window = self.window.map(Chunk::Window);
        let so_far: Vec<Chunk> = self.input.so_far().into_iter().chain(unread).chain(window).collect();
        so_far.iter().for_each(|chunk| self.tell(chunk, |which, _| which == its));
    }
}
