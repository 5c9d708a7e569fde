//! Copies whose program moves to another node: each goes on over its next channel.
//!
//! | the present channel | the next one | the copy |
//! |---|---|---|
//! | goes on | none | as ever |
//! | goes on | has come | shakes hands with it, and takes nothing |
//! | has said `Moved`, and all input that was under way has come back | none | waits: it is neither over nor cut off |
//! | the same | has come | goes on over it |
//! | breaks | has come | goes on over it, without what was under way |
//! | breaks | none | waits for one, or for the daemon's word of the program's end |
//!
//! Of two channels that have come the older is the next: the program has moved twice. One of a move that did not come about is taken back
//! ([`wire::ask::Answer::Stays`]) before there is another.

use super::channels::{index, Channels, State};
use super::copy::{Copy, Next};
use super::queue::{Gathered, Item};
use kern::epoll::Interest;
use link::Secure;
use std::os::fd::{AsFd, OwnedFd};
use vocab::{Fault, NodeId, Result};
use wire::ask::Further;
use wire::stream::{Chunk, Stream, CREDIT};

/// The poller's token of further channels: this, and the copy's number.
pub(super) const FURTHER: u64 = 1 << 32;

impl Channels {
    /// A further channel of copy `number` has been connected.
    pub(super) fn further(&self, state: &mut State, number: usize, fd: OwnedFd, further: &Further) -> Result<()> {
        let key = super::key(&further.key)?;
        let Some(copy) = state.copies.get_mut(number) else { return Ok(()) };
        self.poller.add(fd.as_fd(), FURTHER + number as u64, Interest::READ)?;
        copy.next.push_back(Next { node: further.node, channel: Secure::channel_taker(fd, &key)?, shaking: true });
        match copy.broken.take() {
            Some(fault) => self.lost_on_the_way(state, number, &fault),
            None => self.go_on(state, number),
        }
        Ok(())
    }

    /// The handshakes of further channels go on; what comes behind is left where it is.
    pub(super) fn shake(&self, number: usize) {
        let mut state = self.lock();
        let Some(copy) = state.copies.get_mut(number) else { return };
        for next in copy.next.iter_mut().filter(|next| next.shaking) {
            let shaken = next.channel.receive().and_then(|_| next.channel.flush());
            // A failure is told again to who reads the channel.
            if shaken.is_err() || next.channel.established() {
                next.shaking = false;
                if let Err(fault) = self.poller.remove(next.channel.fd()) {
                    tracing::warn!(%fault, node = %next.node, "a channel cannot rest");
                }
            }
        }
    }

    /// The move for which the newest further channel of copy `number` was made did not come about.
    pub(crate) fn stays(&self, number: usize) {
        if let Some(copy) = self.lock().copies.get_mut(number) {
            copy.next.pop_back();
        }
    }

    /// Something has come back from the node that the program of copy `number` leaves, or the word that it has left.
    pub(super) fn leave(&self, state: &mut State, number: usize) {
        let Some(copy) = state.copies.get_mut(number).filter(|copy| copy.feed.is_back()) else { return };
        copy.channel = None;
        copy.turn += 1;
        copy.moved = true;
        self.go_on(state, number);
    }

    /// The node that the program of copy `number` is about to leave is lost, with what was under way to and from it. If the program is lost too, so is the
    /// next channel.
    pub(super) fn lost_on_the_way(&self, state: &mut State, number: usize, fault: &Fault) {
        let Some(copy) = state.copies.get_mut(number) else { return };
        let text = format!("shoal: {}: what was under way in the program's streams is lost: {fault}\n", copy.node);
        self.queue(Stream::Err).push(Item::Note(text));
        copy.turn += 1;
        copy.moved = true;
        self.go_on(state, number);
    }

    /// A copy whose program has moved goes on over its next channel, when that is there and no more of its output waits for our own
    /// streams than one channel may bring.
    pub(super) fn go_on(&self, state: &mut State, number: usize) {
        let alone = state.alone;
        let Some(copy) = state.copies.get_mut(number).filter(|copy| copy.moved && !copy.over) else { return };
        let Some(next) = copy.next.front() else {
            if alone {
                let fault = Fault::gone("it has moved, and the daemon has gone that would connect them again");
                self.broke(state, number, &fault);
            }
            return;
        };
        if copy.before != [0; 2] {
            return;
        }
        let (fd, token) = (next.channel.fd(), number as u64);
        let watched = match next.shaking {
            true => self.poller.modify(fd, token, Interest::READ),
            false => self.poller.add(fd, token, Interest::READ),
        };
        copy.take_next();
        let node = copy.node;
        for queue in [Stream::Out, Stream::Err].map(|stream| self.queue(stream)) {
            queue.push(Item::Moved { copy: number, node });
        }
        tracing::debug!(%node, copy = number, "moved -> open");
        state.tell_so_far(number);
        state.feed(number);
        self.reader.wake();
        // What came with the handshake is in our own memory.
        self.hub.wake();
        if let Err(fault) = watched {
            self.broke(state, number, &fault);
        }
    }

    /// The daemon has gone: no channel will come any more.
    pub(crate) fn daemon_gone(&self, fault: &Fault) {
        let mut state = self.lock();
        state.alone = true;
        for number in 0..state.copies.len() {
            self.tell_broken(&mut state, number);
            self.go_on(&mut state, number);
        }
        drop(state);
        self.tell_without_asking();
        self.give_up_waiting(false, &format!("shoal: the program's streams were never connected: {fault}\n"));
    }

    /// Where each copy is, by its channel.
    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.lock().copies.iter().map(|copy| copy.node).collect()
    }
}

impl State {
    /// What a channel must be told that comes late, but for input.
    pub(super) fn tell_so_far(&mut self, number: usize) {
        let unread = [Stream::Out, Stream::Err].into_iter().filter(|stream| self.unread[index(*stream)]);
        let unread = unread.map(|stream| Chunk::Broken { stream });
        let so_far: Vec<Chunk> = self.input.so_far().into_iter().chain(unread).collect();
        so_far.iter().for_each(|chunk| self.tell(chunk, |n, _| n == number));
    }
}

impl Copy {
    /// The next channel is the present one from now on.
    fn take_next(&mut self) {
        let Some(next) = self.next.pop_front() else { return };
        self.node = next.node;
        self.channel = Some(next.channel);
        self.moved = false;
        (self.writing, self.in_hand) = (false, true);
        for i in 0..2 {
            self.before[i] = CREDIT.saturating_sub(self.due[i] + self.owed[i]);
        }
        (self.due, self.owed) = ([CREDIT; 2], [0; 2]);
        self.feed.again();
    }
}
