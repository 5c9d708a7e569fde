//! Giving input to the copies: when our own standard input may be read, and what follows from that.

use super::branch::{token, Branch, Serial};
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
        copy.input() && !self.ended && (self.outlived || !copy.over)
    }

    /// Nothing is left to do for this copy but to close its channel.
    pub(super) fn is_finished(self, copy: &Copy) -> bool {
        copy.over && copy.closed == [true; 2] && !self.is_left_to(copy)
    }

    /// The copy's descendants get input from now on, or as soon as there is a process to give it.
    fn is_left_to(self, copy: &Copy) -> bool {
        copy.over && copy.input() && !self.ended && self.outlives
    }

    /// The question that a channel must be told that comes late.
    pub(super) fn so_far(self) -> Option<Chunk> {
        self.asked.map(|_| self.question())
    }
}

/// What is to be done for copies of which several branches may want the same input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Nobody wants any, or it is awaited, or there is none.
    Nothing,
    /// It is to come back from the one that has it.
    Recall(Serial),
    /// This one gets it.
    Give(Serial),
    /// It has ended for all.
    End,
}

/// | a branch wants input | another one has some | some waits | |
/// |---|---|---|---|
/// | no | | | Nothing |
/// | yes | yes | | Recall |
/// | yes | it comes back | | Nothing |
/// | yes | no | yes | Give |
/// | yes | no | no, it has ended, and was sent some that it may not have read | Recall of its own |
/// | yes | no | no, it has ended, and nobody has any | End |
/// | yes | no | no | Nothing |
fn step(copy: &Copy) -> Step {
    let Some(wants) = copy.branches.iter().find(|branch| branch.takes() && branch.wants) else { return Step::Nothing };
    let mut others = copy.branches.iter().filter(|branch| branch.serial != wants.serial && branch.flow.is_out());
    match others.next() {
        Some(other) if other.flow.is_coming_back() => Step::Nothing,
        Some(other) => Step::Recall(other.serial),
        None if wants.flow.is_coming_back() => Step::Nothing,
        // It wanted some when it said so; may be before it had this.
        None if copy.feed.is_over() && wants.flow.is_out() => Step::Recall(wants.serial),
        None if copy.feed.is_over() => Step::End,
        None if copy.feed.is_empty() => Step::Nothing,
        None => Step::Give(wants.serial),
    }
}

impl State {
    /// Sends a copy what it may have of its input.
    pub(super) fn feed(&mut self, number: usize) {
        let Some(copy) = self.copies.get_mut(number).filter(|copy| !copy.is_here()) else { return };
        if !copy.input() {
            copy.feed.drop_all();
        }
        if !copy.is_shared() {
            let all: Vec<Serial> = copy.branches.iter().filter(|branch| branch.takes()).map(|b| b.serial).collect();
            all.into_iter().for_each(|serial| self.send(number, serial));
            return self.ask_shared(number, false);
        }
        match step(copy) {
            Step::Nothing => {}
            Step::Recall(serial) => {
                if let Some(chunk) = copy.branch(serial).and_then(|branch| branch.flow.recall()) {
                    self.tell(&chunk, |which, _| which == (number, serial));
                }
            }
            Step::Give(serial) => {
                if let Some(branch) = copy.branch(serial) {
                    branch.wants = false;
                }
                self.send(number, serial);
            }
            Step::End => {
                let all: Vec<Serial> = copy.branches.iter().filter(|b| b.takes()).map(|b| b.serial).collect();
                all.into_iter().for_each(|serial| self.send(number, serial));
            }
        }
        self.ask_shared(number, true);
    }

    /// Sends over one channel what waits and may be sent.
    fn send(&mut self, number: usize, serial: Serial) {
        let paused = self.paused;
        let poller = self.poller.clone();
        let Some(copy) = self.copies.get_mut(number) else { return };
        let Some(branch) = copy.branches.iter_mut().find(|branch| branch.serial == serial) else { return };
        let mut sent = Ok(());
        while let (true, Some(chunk)) = (sent.is_ok(), branch.flow.next(&mut copy.feed)) {
            sent = branch.channel.send(&chunk);
        }
        if let Err(fault) = sent.and_then(|()| branch.channel.flush()) {
            tracing::debug!(node = %branch.node, %fault, "a channel cannot be written");
        }
        if !paused {
            branch.watch(&poller, token((number, serial)));
        }
    }

    /// Where several may want the same input, each is asked whether it does.
    fn ask_shared(&mut self, number: usize, shared: bool) {
        let general = self.input.question();
        let due = |branch: &Branch| match shared {
            true => branch.takes() && !branch.asked && !branch.wants,
            false => branch.asked,
        };
        let chunk = if shared { Chunk::Quiet { on: true, polls: true } } else { general };
        self.tell(&chunk, |(n, _), branch| {
            let due = n == number && due(branch);
            if due {
                branch.asked = shared;
            }
            due
        });
    }

    /// Asks every copy whether it wants input, or (`None`) takes that back.
    fn ask(&mut self, asked: Option<Wanting>) {
        self.input.asked = asked;
        self.input.wanted = asked.is_some() && self.copies.iter().any(|copy| copy.is_shared() && copy.room() > 0);
        let input = self.input;
        let concerned: Vec<bool> = self.copies.iter().map(|copy| input.is_for(copy) && !copy.is_shared()).collect();
        self.tell(&input.question(), |(number, _), branch| concerned[number] && branch.takes());
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
        if state.copies.iter().any(Copy::is_here) {
            return Allowed::Wait; // what is there is the program's to read
        }
        let mut takers = state.copies.iter().filter(|copy| state.input.is_for(copy)).peekable();
        if takers.peek().is_none() {
            let left = state.copies.iter().any(|copy| state.input.is_left_to(copy));
            return if left { Allowed::Wait } else { Allowed::Over };
        }
        let room = takers.map(Copy::room).min().unwrap_or(0);
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
            match (input.is_for(copy) || input.is_left_to(copy) || copy.is_here(), ended) {
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
