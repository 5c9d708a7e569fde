//! The channels of all copies, as the relay's threads share them: what may be sent, what is owed, what is over.

use super::branch::{token, which, Branch, Serial, Which};
use super::copy::Copy;
use super::giving::Input;
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

/// The poller's token of the hub's waker, and of the daemon's socket; below them: those of branches ([`token`]).
const HUB: u64 = u64::MAX;
const DAEMON: u64 = u64::MAX - 1;

pub(crate) struct State {
    pub(crate) copies: Vec<Copy>,
    pub(super) input: Input,
    /// Every copy is over, and what came after that is left where it is until all before it has been written.
    pub(super) paused: bool,
    /// No daemon is left that could say anything, or listened to.
    pub(super) alone: bool,
    /// Output and errors: nobody reads ours.
    pub(super) unread: [bool; 2],
    /// What the programs' terminals have been told, where they are others than when they were made.
    pub(super) window: Option<Window>,
    /// Waits for the channels (the copy's number is the token) and for what else the hub listens to.
    pub(super) poller: Arc<Poller>,
}

impl State {
    /// Sends over the channels that `which` picks; a failure is found again, and dealt with, by who reads the channel.
    pub(super) fn tell(&mut self, chunk: &Chunk, mut which: impl FnMut(Which, &mut Branch) -> bool) {
        for (number, copy) in self.copies.iter_mut().enumerate() {
            for branch in &mut copy.branches {
                let its = (number, branch.serial);
                if which(its, branch) {
                    if let Err(fault) = branch.channel.send(chunk).and_then(|()| branch.channel.flush()) {
                        tracing::debug!(node = %branch.node, %fault, "a channel cannot be written");
                    }
                    if !self.paused {
                        branch.watch(&self.poller, token(its));
                    }
                }
            }
        }
    }

    /// One copy may hear that nobody reads `unread` of its streams, and perhaps that its input has ended.
    fn tell_learnt(&mut self, number: usize, unread: &[Stream]) {
        for stream in unread {
            self.tell(&Chunk::Broken { stream: *stream }, |(n, _), _| n == number);
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

    pub(super) fn branch(&mut self, (number, serial): Which) -> Option<&mut Branch> {
        self.copies.get_mut(number)?.branch(serial)
    }

    fn with_something_in_hand(&self) -> Vec<Which> {
        if self.paused {
            return Vec::new();
        }
        let copies = self.copies.iter().enumerate();
        let all = copies.flat_map(|(number, copy)| copy.branches.iter().map(move |branch| (number, branch)));
        all.filter(|(_, branch)| branch.in_hand && branch.turn).map(|(n, branch)| (n, branch.serial)).collect()
    }

    fn pause(&mut self) {
        self.paused = true;
        let poller = self.poller.clone();
        self.copies.iter_mut().flat_map(|copy| &mut copy.branches).for_each(|branch| branch.rest(&poller));
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
            // Nobody will connect them.
            copy.awaited.clear();
            for branch in &mut copy.branches {
                branch.forget_poller();
                branch.watch(&channels.poller, token((number, branch.serial)));
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
                window: None,
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
        let told = ready.iter().map(|r| r.token).filter(|token| *token < DAEMON).map(which);
        in_hand.iter().copied().chain(told.filter(|its| !in_hand.contains(its))).for_each(|its| self.receive(its));
        Ok(())
    }

    /// A channel has been connected: what was said before goes to it too.
    pub(crate) fn connected(&self, number: usize, fd: OwnedFd, further: Option<&Further>) -> Result<()> {
        let mut state = self.lock();
        let copy = state.copies.get_mut(number).ok_or_else(|| Fault::wire("a channel for a copy that is not ours"))?;
        if copy.over && further.is_none_or(|further| further.program) {
            // It was not started, or ended before it could move, and that was told first.
            return Ok(());
        }
        if let Some(further) = further {
            return self.further(&mut state, number, fd, further);
        }
        if copy.begun {
            return Err(Fault::wire("a second channel for one copy"));
        }
        copy.begun = true;
        let branch = Branch::new(0, copy.newest_node(), Secure::channel_taker(fd, &copy.key)?);
        self.begin(&mut state, number, branch);
        Ok(())
    }

    /// A branch's turn has come: what was said before goes to it too.
    pub(super) fn begin(&self, state: &mut State, number: usize, mut branch: Branch) {
        let Some(copy) = state.copies.get_mut(number) else { return };
        branch.turn = true;
        // What came with the handshake is in our own memory.
        branch.in_hand = true;
        let its = (number, branch.serial);
        if !state.paused {
            branch.watch(&self.poller, token(its));
        }
        copy.branches.push(branch);
        state.tell_so_far(its);
        state.feed(number);
        self.reader.wake();
        self.hub.wake();
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

    /// Deals with what has come over a channel.
    pub(super) fn receive(&self, its: Which) {
        let mut state = self.lock();
        if state.paused {
            return;
        }
        let poller = self.poller.clone();
        let Some(branch) = state.branch(its) else { return };
        let received = branch.channel.receive();
        if !branch.turn {
            // Its handshake goes on; what comes behind that is left where it is, and a failure is told again when its turn comes.
            let _again = received.and_then(|_| branch.channel.flush());
            return branch.watch(&poller, token(its));
        }
        // Whole messages that came before an end or a failure still count.
        let taken = self.take_all(&mut state, its);
        let paused = state.paused;
        let Some(branch) = state.branch(its) else { return };
        let flushed = branch.channel.flush();
        // A flush that fails takes in the peer's last words, and the channel tells the failure again.
        branch.in_hand = paused || flushed.is_err() || received.as_ref().is_ok_and(|more| *more);
        match taken.and(if paused { Ok(false) } else { received }) {
            Ok(_) if paused => {}
            Ok(_) => branch.watch(&poller, token(its)),
            Err(fault) => self.broke(&mut state, its, &fault),
        }
    }

    fn take_all(&self, state: &mut State, its: Which) -> Result<()> {
        while let Some(branch) = state.branch(its) {
            match branch.channel.next::<Chunk>()? {
                Some(chunk) => self.take(state, its, chunk)?,
                None => break,
            }
            if state.paused {
                break;
            }
        }
        Ok(())
    }

    fn take(&self, state: &mut State, its: Which, chunk: Chunk) -> Result<()> {
        let (number, serial) = its;
        let Some(copy) = state.copies.get_mut(number) else { return Ok(()) };
        let over = copy.over;
        let Some(branch) = copy.branch(serial) else { return Ok(()) };
        match chunk {
            Chunk::Data { stream: stream @ (Stream::Out | Stream::Err), bytes } => {
                let due = &mut branch.due[index(stream)];
                *due = due
                    .checked_sub(bytes.len() as u32)
                    .ok_or_else(|| Fault::wire(format!("{} sent more than it may", branch.node)))?;
                self.queue(stream).push(Item::Data { of: its, bytes });
            }
            Chunk::End { stream: stream @ (Stream::Out | Stream::Err) } => {
                branch.closed[index(stream)] = true;
                self.queue(stream).push(Item::Flush { of: its });
                self.spent(state, its);
            }
            Chunk::Credit { stream: Stream::In, bytes } => {
                branch.flow.allow(bytes);
                state.feed(number);
                self.reader.wake();
            }
            Chunk::Broken { stream: Stream::In } => {
                branch.input = false;
                self.spent(state, its);
                state.feed(number);
                self.reader.wake();
            }
            Chunk::Wanted => {
                (branch.wants, branch.asked) = (true, false);
                state.want();
                state.feed(number);
                self.reader.wake();
            }
            Chunk::Ended => {
                copy.whole = true;
                self.over(state, number);
            }
            Chunk::Data { stream: Stream::In, bytes } => {
                branch.flow.give_back(bytes)?;
                self.comes_back(state, its);
            }
            Chunk::Back { input } => {
                branch.flow.back(input)?;
                self.comes_back(state, its);
            }
            Chunk::Left { branch: next } if !over || copy.begun => self.leaves(state, its, next),
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
        let all: Vec<Serial> = copy.branches.iter().map(|branch| branch.serial).collect();
        for queue in &self.queues {
            all.iter().for_each(|serial| queue.push(Item::Flush { of: (number, *serial) }));
            queue.push(Item::Mark);
        }
        all.into_iter().for_each(|serial| self.spent(state, (number, serial)));
        self.reader.wake();
        if state.copies.iter().all(|c| c.over) && !state.paused {
            state.pause();
        }
    }

    pub(crate) fn window(&self, window: Window) {
        let mut state = self.lock();
        state.window = Some(window);
        // One whose turn comes later is told then.
        state.tell(&Chunk::Window(window), |_, branch| branch.turn);
    }

    /// Closes the channels on which nothing is left to come. True: there are others.
    pub(crate) fn close_finished(&self) -> bool {
        let mut state = self.lock();
        // The end of the input, which is told last, may have been what was left.
        (0..state.copies.len()).for_each(|number| self.spent(&mut state, (number, 0)));
        let input = state.input;
        for copy in state.copies.iter_mut().filter(|copy| input.is_finished(copy)) {
            copy.branches.clear();
        }
        state.copies.iter().any(|copy| !copy.branches.is_empty())
    }

    /// Copies that have not closed this stream.
    pub(crate) fn open(&self, stream: Stream) -> usize {
        self.lock().copies.iter().filter(|copy| !copy.closed[index(stream)]).count()
    }

    // For what comes after the end of the program.

    /// Forks. The child gets channels of its own, on which it goes on; the parent (`None`) has none any more.
    /// All marks have been reached, so no writer has anything in hand.
    /// `apart`: nobody is to be the child's parent here.
    pub(crate) fn hand_over(&self, apart: bool) -> Result<Option<Channels>> {
        let _reading = self.reading();
        let mut state = self.lock();
        let queues = self.queues.each_ref().map(Queue::lock);
        let child = if apart { own::fork_apart()? } else { own::fork()? }.is_none();
        drop(queues);
        let (copies, input) = (std::mem::take(&mut state.copies), state.input);
        child.then(|| Channels::late(copies, input)).transpose()
    }
}

impl Gathered for Channels {
    fn queue(&self, stream: Stream) -> &Queue {
        &self.queues[index(stream)]
    }

    fn consumed(&self, its: Which, stream: Stream, bytes: usize) {
        let mut state = self.lock();
        let Some(branch) = state.branch(its) else { return };
        let i = index(stream);
        branch.owed[i] += bytes as u32;
        if branch.owed[i] >= PORTION && !branch.closed[i] {
            let bytes = std::mem::take(&mut branch.owed[i]);
            branch.due[i] += bytes;
            state.tell(&Chunk::Credit { stream, bytes }, |which, _| which == its);
        }
    }

    fn marked(&self) {
        if self.marks.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.hub.wake();
        }
    }

    fn passed(&self, copy: usize, branch: u64) {
        self.has_passed(copy, branch);
    }

    fn unread(&self, stream: Stream) {
        let mut state = self.lock();
        state.unread[index(stream)] = true;
        for copy in &mut state.copies {
            copy.closed[index(stream)] = true;
            copy.branches.iter_mut().for_each(|branch| branch.closed[index(stream)] = true);
            copy.delivery.unread(index(stream));
        }
        drop(state);
        self.hub.wake();
    }
}

pub(super) fn index(stream: Stream) -> usize {
    usize::from(stream == Stream::Err)
}
