//! The channels of all copies, as the relay's threads share them: what may be sent, what is owed, what is over.

use super::copy::Copy;
use super::giving::Input;
use super::moving::FURTHER;
use super::queue::{Gathered, Item, Queue};
use super::takers::Takers;
use kern::epoll::{Interest, Poller, Ready, Waker};
use kern::own;
use link::Secure;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vocab::{Fault, NodeId, Result};
use wire::ask::Further;
use wire::run::Window;
use wire::stream::{Chunk, Stream, CREDIT};

/// Consumed bytes are told to the node in portions of this size.
const PORTION: u32 = CREDIT / 4;

/// The poller's token of the hub's waker, and of the daemon's socket; below them: numbers of copies, and [`FURTHER`].
const HUB: u64 = u64::MAX;
const DAEMON: u64 = u64::MAX - 1;

pub(crate) struct State {
    pub(crate) copies: Vec<Copy>,
    pub(super) input: Input,
    /// Every copy is over, and what came after that is left where it is until all before it has been written.
    paused: bool,
    /// No daemon is left that could say anything, or listened to.
    pub(super) alone: bool,
    /// Output and errors: nobody reads ours.
    pub(super) unread: [bool; 2],
    /// Waits for the channels (the copy's number is the token) and for what else the hub listens to.
    poller: Arc<Poller>,
}

impl State {
    /// Sends to the copies that `which` picks; a failure is found again, and dealt with, by who reads the channel.
    pub(super) fn tell(&mut self, chunk: &Chunk, mut which: impl FnMut(usize, &mut Copy) -> bool) {
        for (number, copy) in self.copies.iter_mut().enumerate() {
            if which(number, copy) {
                if let Some(channel) = &mut copy.channel {
                    if let Err(fault) = channel.send(chunk).and_then(|()| channel.flush()) {
                        tracing::debug!(node = %copy.node, %fault, "a channel cannot be written");
                    }
                }
                if !self.paused {
                    copy.watch(&self.poller, number);
                }
            }
        }
    }

    /// Sends a copy what it may have of its input.
    pub(super) fn feed(&mut self, number: usize) {
        let Some(copy) = self.copies.get_mut(number) else { return };
        let Some(channel) = &mut copy.channel else { return };
        if !copy.input {
            copy.feed.drop_all();
        }
        let mut sent = Ok(());
        while let (true, Some(chunk)) = (sent.is_ok(), copy.feed.next()) {
            sent = channel.send(&chunk);
        }
        if let Err(fault) = sent.and_then(|()| channel.flush()) {
            tracing::debug!(node = %copy.node, %fault, "a channel cannot be written");
        }
        if !self.paused {
            copy.watch(&self.poller, number);
        }
    }
}

impl State {
    /// Copy `number` may hear that nobody reads `unread` of its streams, and perhaps that its input has ended.
    fn tell_learnt(&mut self, number: usize, unread: &[Stream]) {
        for stream in unread {
            self.tell(&Chunk::Broken { stream: *stream }, |n, _| n == number);
        }
        if let Some(copy) = self.copies.get_mut(number).filter(|copy| copy.delivery.may_end()) {
            copy.feed.end();
            self.feed(number);
        }
    }

    fn tell_without_asking(&mut self) {
        for number in 0..self.copies.len() {
            let unread = self.copies[number].delivery.unasked();
            self.tell_learnt(number, &unread);
        }
    }

    fn with_something_in_hand(&self) -> Vec<usize> {
        let some = |copy: &Copy| copy.in_hand && copy.channel.is_some() && !self.paused;
        self.copies.iter().enumerate().filter(|(_, copy)| some(copy)).map(|(number, _)| number).collect()
    }

    fn pause(&mut self) {
        self.paused = true;
        for channel in self.copies.iter().filter_map(|c| c.channel.as_ref()) {
            if let Err(fault) = self.poller.remove(channel.fd()) {
                tracing::warn!(%fault, "a channel cannot rest");
            }
        }
    }
}

/// Shared by the relay's threads.
pub(crate) struct Channels {
    state: Mutex<State>,
    /// See [`Channels::reading`].
    pub(super) reading: Mutex<()>,
    pub(super) poller: Arc<Poller>,
    pub(super) queues: [Queue; 2],
    /// Marks that the writers have not reached: two for each copy.
    marks: AtomicUsize,
    /// For the thread that reads the channels.
    pub(crate) hub: Waker,
    /// For the thread that reads standard input.
    pub(crate) reader: Waker,
}

impl Channels {
    /// `terminal`: our input is one.
    pub(crate) fn new(copies: Vec<(NodeId, [u8; 32])>, terminal: bool) -> Result<Channels> {
        let outlives = copies.len() == 1 && !terminal;
        let copies = copies.into_iter().map(|(node, key)| Copy::new(node, key)).collect();
        Channels::of(copies, Input::new(outlives))
    }

    /// The channels that are left when the programs have ended, for their descendants.
    fn late(copies: Vec<Copy>, input: Input) -> Result<Channels> {
        let channels = Channels::of(copies, input)?;
        let mut state = channels.lock();
        for (number, copy) in state.copies.iter_mut().enumerate() {
            if let Some(channel) = &copy.channel {
                copy.writing = channel.wants_write();
                channels.poller.add(channel.fd(), number as u64, Interest::reading_and(copy.writing))?;
            }
        }
        state.input.outlived = input.outlives;
        state.alone = true;
        if !input.outlives {
            state.copies.iter_mut().for_each(|copy| copy.delivery.ends());
        }
        state.tell_without_asking();
        drop(state);
        Ok(channels)
    }

    fn of(copies: Vec<Copy>, input: Input) -> Result<Channels> {
        let poller = Arc::new(Poller::new()?);
        let hub = Waker::new()?;
        poller.add(hub.as_fd(), HUB, Interest::READ)?;
        Ok(Channels {
            marks: AtomicUsize::new(2 * copies.len()),
            state: Mutex::new(State {
                copies,
                input,
                paused: false,
                alone: false,
                unread: [false; 2],
                poller: poller.clone(),
            }),
            reading: Mutex::default(),
            poller,
            queues: Default::default(),
            hub,
            reader: Waker::new()?,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that had to be written before the process may end has been.
    pub(crate) fn all_marked(&self) -> bool {
        self.marks.load(Ordering::SeqCst) == 0
    }

    // From the hub.

    /// Waits for the daemon's answers too.
    pub(crate) fn listen(&self, daemon: BorrowedFd<'_>) -> Result<()> {
        self.poller.add(daemon, DAEMON, Interest::READ)
    }

    /// Waits until there is something to do, and deals with what the channels brought.
    pub(crate) fn wait(&self, ready: &mut Vec<Ready>) -> Result<()> {
        let in_hand = self.lock().with_something_in_hand();
        self.poller.wait(ready, (!in_hand.is_empty()).then_some(0))?;
        if self.hub.drain() {
            self.reader.wake();
        }
        let told = ready.iter().map(|r| r.token).filter(|token| *token < DAEMON);
        told.clone().filter_map(|token| token.checked_sub(FURTHER)).for_each(|number| self.shake(number as usize));
        let told = told.filter(|token| *token < FURTHER).map(|token| token as usize);
        in_hand.iter().copied().chain(told.filter(|number| !in_hand.contains(number))).for_each(|n| self.receive(n));
        Ok(())
    }

    /// A channel has been connected: what was said before goes to it too.
    pub(crate) fn connected(&self, number: usize, fd: OwnedFd, further: Option<&Further>) -> Result<()> {
        let mut state = self.lock();
        let copy = state.copies.get_mut(number).ok_or_else(|| Fault::wire("a channel for a copy that is not ours"))?;
        if copy.over {
            // It was not started, or ended before it could move, and that was told first.
            return Ok(());
        }
        if let Some(further) = further {
            return self.further(&mut state, number, fd, further);
        }
        if copy.channel.is_some() || copy.turn > 0 {
            return Err(Fault::wire("a second channel for one copy"));
        }
        self.poller.add(fd.as_fd(), number as u64, Interest::READ)?;
        copy.channel = Some(Secure::channel_taker(fd, &copy.key)?);
        copy.watch(&self.poller, number);
        self.reader.wake();
        state.tell_so_far(number);
        state.feed(number);
        Ok(())
    }

    /// The copies of which the daemon is to be asked whether they have had their signals; they count as asked.
    pub(crate) fn to_ask(&self) -> Vec<u32> {
        let mut state = self.lock();
        let copies = state.copies.iter_mut().enumerate().filter(|(_, copy)| !copy.over);
        copies.filter_map(|(number, copy)| copy.delivery.ask().then_some(number as u32)).collect()
    }

    /// Copy `number` has had the signals that were for it when it was asked about.
    pub(crate) fn delivered(&self, number: usize) {
        let mut state = self.lock();
        let Some(copy) = state.copies.get_mut(number) else { return };
        let unread = copy.delivery.answered();
        state.tell_learnt(number, &unread);
    }

    /// Nobody is left who could say whether the copies have had their signals.
    pub(crate) fn tell_without_asking(&self) {
        self.lock().tell_without_asking();
    }

    /// Deals with what has come over the channel of copy `number`.
    fn receive(&self, number: usize) {
        let mut state = self.lock();
        if state.paused {
            return;
        }
        let Some(copy) = state.copies.get_mut(number) else { return };
        let turn = copy.turn;
        let Some(received) = copy.channel.as_mut().map(Secure::receive) else { return };
        // Whole messages that came before an end or a failure still count.
        let taken = self.take_all(&mut state, number);
        let paused = state.paused;
        let Some(copy) = state.copies.get_mut(number) else { return };
        if copy.turn != turn {
            // What became of that channel does not matter, and of the present one nothing is known yet.
            return taken.unwrap_or_else(|fault| self.broke(&mut state, number, &fault));
        }
        let flushed = match &mut copy.channel {
            Some(channel) => channel.flush(),
            None => Ok(()),
        };
        // A flush that fails takes in the peer's last words, and the channel tells the failure again.
        copy.in_hand = paused || flushed.is_err() || received.as_ref().is_ok_and(|more| *more);
        match taken.and(if paused { Ok(false) } else { received }) {
            Ok(_) if paused => {}
            Ok(_) => copy.watch(&self.poller, number),
            Err(fault) => self.broke(&mut state, number, &fault),
        }
    }

    fn take_all(&self, state: &mut State, number: usize) -> Result<()> {
        while let Some(channel) = state.copies.get_mut(number).and_then(|c| c.channel.as_mut()) {
            if state.paused {
                break;
            }
            match channel.next::<Chunk>()? {
                Some(chunk) => self.take(state, number, chunk)?,
                None => break,
            }
        }
        Ok(())
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
                let before = std::mem::replace(&mut copy.closed[index(stream)], true);
                self.queue(stream).push(Item::Flush { copy: number });
                if !before {
                    self.queue(stream).push(Item::End);
                }
            }
            Chunk::Credit { stream: Stream::In, bytes } => {
                copy.feed.allow(bytes);
                state.feed(number);
                self.reader.wake();
            }
            Chunk::Broken { stream: Stream::In } => {
                copy.input = false;
                self.reader.wake();
            }
            Chunk::Wanted => {
                state.want();
                self.reader.wake();
            }
            Chunk::Ended => {
                copy.whole = true;
                self.over(state, number);
            }
            Chunk::Data { stream: Stream::In, bytes } => {
                copy.feed.give_back(bytes)?;
                self.leave(state, number);
            }
            Chunk::Moved { input } if !copy.over => {
                copy.feed.left(input)?;
                self.leave(state, number);
            }
            other => return Err(Fault::wire(format!("{other:?} has no business on its way to a relay"))),
        }
        Ok(())
    }

    /// All that had to come of this copy has come.
    pub(super) fn over(&self, state: &mut State, number: usize) {
        let Some(copy) = state.copies.get_mut(number) else { return };
        if std::mem::replace(&mut copy.over, true) {
            return;
        }
        copy.next.clear();
        for queue in &self.queues {
            queue.push(Item::Flush { copy: number });
            queue.push(Item::Mark);
        }
        self.reader.wake();
        if state.copies.iter().all(|c| c.over) && !state.paused {
            state.pause();
        }
    }

    pub(crate) fn window(&self, window: Window) {
        self.lock().tell(&Chunk::Window(window), |_, _| true);
    }

    /// Closes the channels on which nothing is left to come. True: there are others.
    pub(crate) fn close_finished(&self) -> bool {
        let mut state = self.lock();
        let input = state.input;
        for copy in state.copies.iter_mut().filter(|copy| input.is_finished(copy)) {
            copy.channel = None;
        }
        state.copies.iter().any(|c| c.channel.is_some())
    }

    /// Copies that have not closed this stream.
    pub(crate) fn open(&self, stream: Stream) -> usize {
        self.lock().copies.iter().filter(|copy| !copy.closed[index(stream)]).count()
    }

    // For what comes after the end of the program.

    /// Forks. The child gets channels of its own, on which it goes on; the parent (`None`) has none any more.
    /// All marks have been reached, so no writer has anything in hand.
    pub(crate) fn hand_over(&self) -> Result<Option<Channels>> {
        let _reading = self.reading();
        let mut state = self.lock();
        let queues = self.queues.each_ref().map(Queue::lock);
        let child = own::fork()?.is_none();
        drop(queues);
        let (copies, input) = (std::mem::take(&mut state.copies), state.input);
        child.then(|| Channels::late(copies, input)).transpose()
    }
}

impl Gathered for Channels {
    fn queue(&self, stream: Stream) -> &Queue {
        &self.queues[index(stream)]
    }

    fn consumed(&self, number: usize, stream: Stream, bytes: usize) {
        let mut state = self.lock();
        let Some(copy) = state.copies.get_mut(number) else { return };
        let i = index(stream);
        // A channel gets credit for what came over it.
        let old = copy.before[i].min(bytes as u32);
        copy.before[i] -= old;
        copy.owed[i] += bytes as u32 - old;
        if copy.owed[i] >= PORTION && !copy.closed[i] {
            let bytes = std::mem::take(&mut copy.owed[i]);
            copy.due[i] += bytes;
            state.tell(&Chunk::Credit { stream, bytes }, |n, _| n == number);
        }
        self.go_on(&mut state, number);
    }

    fn marked(&self) {
        if self.marks.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.hub.wake();
        }
    }

    fn unread(&self, stream: Stream) {
        let mut state = self.lock();
        state.unread[index(stream)] = true;
        for copy in &mut state.copies {
            copy.closed[index(stream)] = true;
            copy.delivery.unread(index(stream));
        }
        drop(state);
        self.hub.wake();
    }
}

pub(super) fn index(stream: Stream) -> usize {
    usize::from(stream == Stream::Err)
}
