//! The thread: one epoll loop for the streams of all programs on this node.

use super::channel::Channel;
use super::leaving::Leaving;
use super::watch::Slot;
use super::Job;
use crate::looking::{Looker, Question, Said};
use crate::order::Order;
use kern::clock::monotonic_us;
use kern::epoll::{Interest, Poller, Ready, Waker};
use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::Arc;
use vocab::{Fault, Result};

/// The poller's tokens of the waker and of what the looker says; others are numbers of channels with a [`Slot`].
const WAKER: u64 = u64::MAX;
const LOOKER: u64 = u64::MAX - 1;

/// Microseconds between two looks for processes that wait for input that nobody reads ahead: soon after a question, since who has just
/// read may want more, then ever less often, and never so often that looking takes more than a hundredth of the time, but for a busy machine on which a look is long.
const LOOK_LEAST_US: u64 = 1_000;
const LOOK_MOST_US: u64 = 100_000;
const LOOK_SHARE: u64 = 100;
const LOOK_LAST_US: u64 = 500_000;

/// See the module.
pub(super) struct Relay {
    poller: Poller,
    waker: Arc<Waker>,
    jobs: Receiver<Job>,
    channels: HashMap<u64, Channel>,
    /// Those that have a deadline, and those whose relay wants to hear of readers.
    shaking: HashSet<u64>,
    /// Those with output that is held.
    holding: HashSet<u64>,
    asked: HashSet<u64>,
    next_look: u64,
    look_gap: u64,
    looker: Looker,
    look_began: u64,
    /// By channel, the wish for which is being looked.
    looked_for: HashMap<u64, u64>,
    order: Arc<Order>,
    leaving: Arc<Leaving>,
}

impl Relay {
    pub(super) fn new(
        jobs: Receiver<Job>,
        waker: Arc<Waker>,
        order: Arc<Order>,
        looker: Looker,
        leaving: Arc<Leaving>,
    ) -> Result<Relay> {
        let poller = Poller::new()?;
        poller.add(waker.as_fd(), WAKER, Interest::READ)?;
        poller.add(looker.fd(), LOOKER, Interest::READ)?;
        Ok(Relay {
            poller,
            waker,
            jobs,
            channels: HashMap::new(),
            shaking: HashSet::new(),
            holding: HashSet::new(),
            asked: HashSet::new(),
            next_look: 0,
            look_gap: LOOK_LEAST_US,
            looker,
            look_began: 0,
            looked_for: HashMap::new(),
            order,
            leaving,
        })
    }

    /// Relays until nobody can ask for anything any more.
    pub(super) fn run(mut self) {
        let mut ready = Vec::new();
        loop {
            if let Err(fault) = self.poller.wait(&mut ready, self.timeout()) {
                tracing::error!(%fault, "the streams of all programs are cut off");
                return;
            }
            for one in &ready {
                match one.token {
                    WAKER => {
                        self.waker.drain();
                        if !self.work() {
                            return;
                        }
                        self.let_go();
                    }
                    LOOKER => self.found(),
                    token => self.go_on(token, one),
                }
            }
            self.be_on_time();
        }
    }

    /// Microseconds until something is due.
    fn timeout(&self) -> Option<u64> {
        let deadlines = self.shaking.iter().filter_map(|n| self.channels.get(n)?.deadline);
        let deadlines = deadlines.chain(self.holding.iter().filter_map(|n| self.channels.get(n)?.held.until()));
        let look = match self.looker.due_us() {
            None => (!self.asked.is_empty()).then_some(self.next_look),
            due => due,
        };
        deadlines.chain(look).min().map(|at| at.saturating_sub(monotonic_us()))
    }

    /// Does what the agent asked; false: it will ask no more.
    fn work(&mut self) -> bool {
        loop {
            match self.jobs.try_recv() {
                Ok(Job::Open { id, line, ends, waits }) => {
                    let channel = Channel::new(id, line, ends, self.order.clone(), self.leaving.clone());
                    self.keep(id, Ok(if waits { channel.waiting() } else { channel }));
                }
                Ok(Job::Redial { id, token, line }) => self.with(id, |channel| Ok(channel.redialled(token, line))),
                Ok(Job::InVain(id)) => self.with(id, Channel::in_vain),
                Ok(Job::Ended(id)) => self.with(id, |mut channel| {
                    channel.ended();
                    Ok(channel)
                }),
                Ok(Job::Left { id, branch }) => self.with(id, |mut channel| channel.left(branch).map(|()| channel)),
                Ok(Job::Stays(id)) => self.with(id, |mut channel| channel.stays().map(|()| channel)),
                Ok(Job::Typed { id, bytes }) => self.with(id, |mut channel| channel.typed(bytes).map(|()| channel)),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn go_on(&mut self, token: u64, ready: &Ready) {
        let (id, slot) = Slot::of(token);
        self.with(id, |channel| channel.ready(slot, ready.hangup));
    }

    /// Sends what may go of the output that is held.
    fn let_go(&mut self) {
        for id in self.holding.iter().copied().collect::<Vec<_>>() {
            self.with(id, Ok);
        }
    }

    fn be_on_time(&mut self) {
        let now = monotonic_us();
        let due = |id: &u64| self.channels.get(id).is_some_and(|c| c.held.until().is_some_and(|at| at <= now));
        if self.holding.iter().any(due) {
            self.let_go();
        }
        let late = |id: &u64| self.channels.get(id).is_some_and(|c| c.deadline.is_some_and(|at| at <= now));
        for id in self.shaking.iter().copied().filter(late).collect::<Vec<_>>() {
            self.with(id, |_| Err(Fault::gone("wait for the relay's handshake")));
        }
        if self.looker.due_us().is_some_and(|due| due <= now) {
            self.found();
        }
        if !self.asked.is_empty() && !self.looker.is_busy() && now >= self.next_look {
            self.look(now);
        }
    }

    /// Begins to look who waits for input.
    fn look(&mut self, now: u64) {
        self.look_began = now;
        self.looked_for.clear();
        let mut inputs = Vec::new();
        for id in &self.asked {
            if let Some((quiet, file, waits)) = self.channels.get(id).and_then(Channel::looks_for) {
                self.looked_for.insert(*id, quiet);
                inputs.push((*id, file, waits));
            }
        }
        match inputs.is_empty() {
            true => self.looked(),
            false => self.looker.ask(Question::Awaited(inputs)),
        }
    }

    /// Takes what has been found.
    fn found(&mut self) {
        for said in self.looker.go_on(usize::MAX) {
            match said {
                Said::Awaited { id } => {
                    if let Some(quiet) = self.looked_for.get(&id).copied() {
                        self.with(id, |mut channel| channel.is_awaited(quiet).map(|()| channel));
                    }
                }
                Said::End => self.looked(),
                Said::At { .. } | Said::Command { .. } | Said::Entries(_) | Said::Last(_) => {}
            }
        }
    }

    fn looked(&mut self) {
        let end = monotonic_us();
        self.next_look = end + self.look_gap.max((end - self.look_began) * LOOK_SHARE).min(LOOK_LAST_US);
        self.look_gap = (2 * self.look_gap).min(LOOK_MOST_US);
    }

    fn with(&mut self, id: u64, act: impl FnOnce(Channel) -> Result<Channel>) {
        if let Some(channel) = self.channels.remove(&id) {
            let channel = act(channel);
            self.keep(id, channel);
        }
    }

    /// Puts a channel (back) in its place, or notes its end.
    fn keep(&mut self, id: u64, channel: Result<Channel>) {
        let settled = channel.and_then(|mut channel| channel.settle(&self.poller).map(|()| channel));
        match settled {
            Ok(channel) => {
                let _ = if channel.deadline.is_some() { self.shaking.insert(id) } else { self.shaking.remove(&id) };
                let _ = if channel.held.until().is_some() { self.holding.insert(id) } else { self.holding.remove(&id) };
                if !channel.is_asked() {
                    self.asked.remove(&id);
                } else if self.asked.insert(id) {
                    (self.next_look, self.look_gap) = (monotonic_us(), LOOK_LEAST_US);
                }
                self.channels.insert(id, channel);
            }
            Err(fault) => {
                match self.shaking.contains(&id) {
                    // Nobody has heard of the program's output or end over it, and nobody will.
                    true => tracing::warn!(streams = id, %fault, "dialling -> over"),
                    false => tracing::debug!(streams = id, %fault, "open -> over"),
                }
                self.drop_channel(id);
            }
        }
    }

    fn drop_channel(&mut self, id: u64) {
        self.channels.remove(&id);
        self.leaving.forget(id);
        self.shaking.remove(&id);
        self.holding.remove(&id);
        self.asked.remove(&id);
    }
}
