//! The channels of all copies, as the relay's threads share them: what may be sent, what is owed, what is over.

use super::output::{Item, Queue};
use kern::epoll::Waker;
use link::secure::Secure;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vocab::{Fault, NodeId, Result};
use wire::run::Window;
use wire::stream::{Chunk, Stream, CREDIT, PIECE};

/// Consumed bytes are told to the node in portions of this size.
const PORTION: u32 = CREDIT / 4;

/// One copy of the program.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) node: NodeId,
    pub(crate) key: [u8; 32],
    pub(crate) channel: Option<Secure>,
    /// The program's end is known, with all that was written before it; or nothing more can come.
    pub(crate) over: bool,
    /// The program still takes input, as far as we know.
    input: bool,
    /// Input that may still be sent.
    credit: u32,
    /// Output and errors: consumed, and not yet told.
    owed: [u32; 2],
    /// Output and errors: how much may still come.
    due: [u32; 2],
    /// Output and errors: the end has come.
    closed: [bool; 2],
}

impl Copy {
    fn new(node: NodeId, key: [u8; 32]) -> Copy {
        Copy {
            node,
            key,
            channel: None,
            over: false,
            input: true,
            credit: CREDIT,
            owed: [0; 2],
            due: [CREDIT; 2],
            closed: [false; 2],
        }
    }

    /// Sends to the node; a failure is found again, and dealt with, by who reads the channel.
    fn tell(&mut self, chunk: &Chunk) {
        if let Some(channel) = &mut self.channel {
            if let Err(fault) = channel.send(chunk).and_then(|()| channel.flush()) {
                tracing::debug!(node = %self.node, %fault, "a channel cannot be written");
            }
        }
    }

    fn is_ready_for_input(&self) -> bool {
        self.channel.as_ref().is_some_and(Secure::established)
    }
}

/// What the reader of standard input may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Allowed {
    /// Read at most so many bytes.
    Read(usize),
    /// Nothing now.
    Wait,
    /// Nothing any more: no copy takes input.
    Over,
}

#[derive(Debug, Default)]
struct Input {
    /// A copy wants to read while we are quiet.
    wanted: bool,
    quiet: bool,
    ended: bool,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) copies: Vec<Copy>,
    input: Input,
}

/// Shared by the relay's threads.
#[derive(Debug)]
pub(crate) struct Channels {
    state: Mutex<State>,
    queues: [Queue; 2],
    /// Marks that the writers have not reached: two for each copy.
    marks: AtomicUsize,
    /// For the thread that reads the channels.
    pub(crate) hub: Waker,
    /// For the thread that reads standard input.
    pub(crate) reader: Waker,
}

impl Channels {
    pub(crate) fn new(copies: Vec<(NodeId, [u8; 32])>) -> Result<Channels> {
        Ok(Channels {
            marks: AtomicUsize::new(2 * copies.len()),
            state: Mutex::new(State {
                copies: copies.into_iter().map(|(node, key)| Copy::new(node, key)).collect(),
                input: Input::default(),
            }),
            queues: Default::default(),
            hub: Waker::new()?,
            reader: Waker::new()?,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn queue(&self, stream: Stream) -> &Queue {
        &self.queues[index(stream)]
    }

    /// All that had to be written before the process may end has been.
    pub(crate) fn all_marked(&self) -> bool {
        self.marks.load(Ordering::SeqCst) == 0
    }

    // From the writers.

    pub(crate) fn marked(&self) {
        if self.marks.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.hub.wake();
        }
    }

    /// Bytes of a copy have been written out: the node may send as many more.
    pub(crate) fn consumed(&self, copy: usize, stream: Stream, bytes: usize) {
        let mut state = self.lock();
        let Some(copy) = state.copies.get_mut(copy) else { return };
        let i = index(stream);
        copy.owed[i] += bytes as u32;
        if copy.owed[i] >= PORTION && !copy.closed[i] {
            let bytes = std::mem::take(&mut copy.owed[i]);
            copy.due[i] += bytes;
            copy.tell(&Chunk::Credit { stream, bytes });
            self.wake_if_stuck(&state);
        }
    }

    /// Nobody reads our own stream: let the programs know.
    pub(crate) fn unread(&self, stream: Stream) {
        let mut state = self.lock();
        for copy in &mut state.copies {
            copy.tell(&Chunk::Broken { stream });
            copy.closed[index(stream)] = true;
        }
        self.wake_if_stuck(&state);
    }

    // From the reader of standard input.

    pub(crate) fn allowed(&self) -> Allowed {
        let state = self.lock();
        let mut takers = state.copies.iter().filter(|c| c.input && !c.over).peekable();
        if takers.peek().is_none() {
            return Allowed::Over;
        }
        let room = takers.map(|c| if c.is_ready_for_input() { c.credit as usize } else { 0 }).min().unwrap_or(0);
        match room {
            0 => Allowed::Wait,
            n => Allowed::Read(n.min(PIECE)),
        }
    }

    /// Input for every copy; no bytes: the end of it.
    pub(crate) fn input(&self, bytes: Vec<u8>) {
        let mut state = self.lock();
        let used = bytes.len() as u32;
        let ended = bytes.is_empty();
        let chunk = match ended {
            true => Chunk::End { stream: Stream::In },
            false => Chunk::Data { stream: Stream::In, bytes },
        };
        for copy in state.copies.iter_mut().filter(|c| c.input && !c.over) {
            copy.credit = copy.credit.saturating_sub(used);
            copy.tell(&chunk);
        }
        state.input.ended |= ended;
        self.wake_if_stuck(&state);
    }

    /// Says whether input is read only when it is wanted; saying it again asks again.
    pub(crate) fn quiet(&self, on: bool) {
        let mut state = self.lock();
        state.input.quiet = on;
        state.input.wanted = false;
        for copy in state.copies.iter_mut().filter(|c| c.input && !c.over) {
            copy.tell(&Chunk::Quiet { on });
        }
        self.wake_if_stuck(&state);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.lock().input.wanted
    }

    // From the hub.

    /// A channel has been connected: what was said before goes to it too.
    pub(crate) fn connected(&self, copy: usize, fd: std::os::fd::OwnedFd) -> Result<()> {
        let mut state = self.lock();
        let (quiet, ended) = (state.input.quiet, state.input.ended);
        let copy = state.copies.get_mut(copy).ok_or_else(|| Fault::wire("a channel for a copy that is not ours"))?;
        if copy.channel.is_some() || copy.over {
            return Err(Fault::wire("a second channel for one copy"));
        }
        copy.channel = Some(Secure::channel_taker(fd, &copy.key)?);
        if quiet {
            copy.tell(&Chunk::Quiet { on: true });
        }
        if ended {
            copy.tell(&Chunk::End { stream: Stream::In });
        }
        Ok(())
    }

    /// Deals with what has come over the channel of `copy`; false: there is more.
    pub(crate) fn receive(&self, number: usize) -> bool {
        let mut state = self.lock();
        let Some(Copy { channel: Some(channel), .. }) = state.copies.get_mut(number) else { return true };
        let was_ready = channel.established();
        let mut end = channel.receive();
        if !was_ready && channel.established() {
            self.reader.wake();
        }
        loop {
            let Some(Copy { channel: Some(channel), .. }) = state.copies.get_mut(number) else { return true };
            match channel.next::<Chunk>() {
                Ok(Some(chunk)) => {
                    if let Err(fault) = self.take(&mut state, number, chunk) {
                        end = Err(fault);
                        break;
                    }
                }
                Ok(None) => break,
                Err(fault) => {
                    end = Err(fault);
                    break;
                }
            }
        }
        let end = end.and_then(|more| match state.copies.get_mut(number) {
            Some(Copy { channel: Some(channel), .. }) => channel.flush().map(|()| more),
            _ => Ok(false),
        });
        match end {
            Ok(more) => !more,
            Err(fault) => {
                self.broke(&mut state, number, &fault);
                true
            }
        }
    }

    fn take(&self, state: &mut State, number: usize, chunk: Chunk) -> Result<()> {
        let Some(copy) = state.copies.get_mut(number) else { return Ok(()) };
        match chunk {
            Chunk::Data { stream: stream @ (Stream::Out | Stream::Err), bytes } => {
                let due = &mut copy.due[index(stream)];
                *due = due
                    .checked_sub(bytes.len() as u32)
                    .ok_or_else(|| Fault::wire(format!("{} sent more than it may", copy.node)))?;
                self.queue(stream).push(Item::Data { copy: number, bytes });
            }
            Chunk::End { stream: stream @ (Stream::Out | Stream::Err) } => {
                copy.closed[index(stream)] = true;
                self.queue(stream).push(Item::Flush { copy: number });
            }
            Chunk::Credit { stream: Stream::In, bytes } => {
                copy.credit = copy.credit.saturating_add(bytes);
                self.reader.wake();
            }
            Chunk::Broken { stream: Stream::In } => {
                copy.input = false;
                self.reader.wake();
            }
            Chunk::Wanted => {
                state.input.wanted = true;
                self.reader.wake();
            }
            Chunk::Ended => self.over(state, number),
            other => return Err(Fault::wire(format!("{other:?} has no business on its way to a relay"))),
        }
        Ok(())
    }

    /// All that had to come of this copy has come.
    fn over(&self, state: &mut State, number: usize) {
        let Some(copy) = state.copies.get_mut(number) else { return };
        if std::mem::replace(&mut copy.over, true) {
            return;
        }
        for queue in &self.queues {
            queue.push(Item::Flush { copy: number });
            queue.push(Item::Mark);
        }
        self.reader.wake();
    }

    fn broke(&self, state: &mut State, number: usize, fault: &Fault) {
        let Some(copy) = state.copies.get_mut(number) else { return };
        copy.channel = None;
        if !copy.over {
            let text = format!("shoal: {}: the program's streams were cut off: {fault}\n", copy.node);
            self.queue(Stream::Err).push(Item::Note(text));
        }
        self.over(state, number);
    }

    /// Nothing will come of this copy: it was not started, or its node is lost. `why` is told to the user.
    pub(crate) fn give_up(&self, number: usize, why: Option<String>) {
        let mut state = self.lock();
        if let Some(why) = why {
            self.queue(Stream::Err).push(Item::Note(why));
        }
        if let Some(copy) = state.copies.get_mut(number) {
            copy.channel = None;
        }
        self.over(&mut state, number);
    }

    /// Those that have no channel will not get one.
    pub(crate) fn give_up_unconnected(&self, why: &str) {
        let waiting: Vec<usize> = {
            let state = self.lock();
            let waits = |c: &Copy| c.channel.is_none() && !c.over;
            state.copies.iter().enumerate().filter(|(_, c)| waits(c)).map(|(i, _)| i).collect()
        };
        for number in waiting {
            self.give_up(number, Some(why.to_owned()));
        }
    }

    pub(crate) fn window(&self, window: Window) {
        let mut state = self.lock();
        state.copies.iter_mut().for_each(|copy| copy.tell(&Chunk::Window(window)));
        self.wake_if_stuck(&state);
    }

    /// Closes the channels on which nothing is left to come.
    pub(crate) fn close_finished(&self) {
        for copy in &mut self.lock().copies {
            if copy.over && copy.closed == [true; 2] {
                copy.channel = None;
            }
        }
    }

    /// Not all could be written at once: the hub waits until it can.
    fn wake_if_stuck(&self, state: &State) {
        if state.copies.iter().any(|c| c.channel.as_ref().is_some_and(Secure::wants_write)) {
            self.hub.wake();
        }
    }
}

fn index(stream: Stream) -> usize {
    usize::from(stream == Stream::Err)
}
