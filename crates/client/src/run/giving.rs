//! Giving input to the copies: when our own standard input may be read, and what follows from that.

use super::channels::{Channels, State};
use super::copy::Copy;
use super::takers::{Allowed, Takers, Wanting};
use kern::epoll::Waker;
use std::sync::{MutexGuard, PoisonError};
use wire::stream::{Chunk, PIECE};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Input {
    /// A copy wants what it was asked for.
    wanted: bool,
    asked: Option<Wanting>,
    ended: bool,
    /// The descendants of an ended program go on to get input: there is one copy, and our input is no terminal, which is the job's alone.
    pub(super) outlives: bool,
    /// They do so now.
    pub(super) outlived: bool,
}

impl Input {
    pub(super) fn new(outlives: bool) -> Input {
        Input { outlives, ..Input::default() }
    }

    fn question(self) -> Chunk {
        Chunk::Quiet { on: self.asked.is_some(), polls: self.asked == Some(Wanting::Waits) }
    }

    /// This copy takes input, as far as we know.
    fn is_for(self, copy: &Copy) -> bool {
        copy.input && !self.ended && (self.outlived || !copy.over)
    }

    /// Nothing is left to do for this copy but to close its channel.
    pub(super) fn is_finished(self, copy: &Copy) -> bool {
        copy.over && copy.closed == [true; 2] && !self.is_left_to(copy)
    }

    /// The copy's descendants get input from now on, or as soon as there is a process to give it.
    fn is_left_to(self, copy: &Copy) -> bool {
        copy.over && copy.input && !self.ended && self.outlives
    }

    /// The question that a channel must be told that comes late.
    pub(super) fn so_far(self) -> Option<Chunk> {
        self.asked.map(|_| self.question())
    }
}

impl State {
    /// Asks every copy whether it wants input, or (`None`) takes that back.
    fn ask(&mut self, asked: Option<Wanting>) {
        self.input.asked = asked;
        self.input.wanted = false;
        let input = self.input;
        self.tell(&input.question(), |_, copy| input.is_for(copy));
    }

    /// A copy wants input.
    pub(super) fn want(&mut self) {
        self.input.wanted = self.input.asked.is_some();
    }
}

impl Takers for Channels {
    fn reader(&self) -> &Waker {
        &self.reader
    }

    fn reading(&self) -> MutexGuard<'_, ()> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allowed(&self) -> Allowed {
        let state = self.lock();
        let mut takers = state.copies.iter().filter(|copy| state.input.is_for(copy)).peekable();
        if takers.peek().is_none() {
            let left = state.copies.iter().any(|copy| state.input.is_left_to(copy));
            return if left { Allowed::Wait } else { Allowed::Over };
        }
        let room = takers.map(|c| if c.channel.is_some() { c.feed.room() } else { 0 }).min().unwrap_or(0);
        match room {
            0 => Allowed::Wait,
            n => Allowed::Read(n.min(PIECE)),
        }
    }

    fn input(&self, bytes: Vec<u8>) {
        let mut state = self.lock();
        let ended = bytes.is_empty();
        let input = state.input;
        for number in 0..state.copies.len() {
            let copy = &mut state.copies[number];
            // The program may have ended since this was read for it: its descendants get it.
            match (input.is_for(copy) || input.is_left_to(copy), ended) {
                (false, _) => continue,
                (true, true) => copy.delivery.ends(),
                // One that is between two channels gets it over the next.
                (true, false) => copy.feed.push(bytes.clone()),
            }
            state.feed(number);
        }
        state.input.ended |= ended;
        drop(state);
        if ended {
            // It asks whether the programs may be told; and a channel may have waited for nothing else.
            self.hub.wake();
        }
    }

    fn ask(&self, wanting: Wanting) {
        self.lock().ask(Some(wanting));
    }

    fn ask_no_more(&self) {
        let mut state = self.lock();
        if state.input.asked.is_some() {
            state.ask(None);
        }
    }

    fn asked(&self) -> Option<Wanting> {
        self.lock().input.asked
    }

    fn take_wanted(&self, wanting: Wanting) -> bool {
        let input = &mut self.lock().input;
        let wanted = input.wanted && input.asked == Some(wanting);
        if wanted {
            (input.wanted, input.asked) = (false, None);
        }
        wanted
    }
}
