//! Local clients: their questions go to the front end with the identity that the kernel gives them, the answers come back;
//! channels that other nodes dial to this one are handed to the client that waits for them.

use crate::agent::{Agent, Token};
use crate::clients::{polled, poller_number, REST_US, TAKEN, UNREAD};
use kern::clock::{monotonic_us, thread_us};
use kern::epoll::{Interest, Poller};
use kern::sock::{peek, peer_address, peer_groups, peer_identity, tcp_tune, Peer};
use link::crowd::Crowd;
use link::fair::{Fair, Owner};
use link::guests::{restrict, Guests};
use link::listener::Listener;
use link::preamble::{Greeting, Preamble};
use link::rarely::Rarely;
use link::Plain;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use tracing::{debug, warn};
use vocab::{Creds, Fault, Ids, Pid, Result};
use wire::ask::{Answer, Ask, Further};
use wire::node::ToFront;
use wire::run::Caller;

const GREETING_US: u64 = 5_000_000;
/// Questions of one client that are taken before others get their turn.
const ASKS: usize = 8;
/// From one look at stand-ins of a user in debt to the next, in microseconds.
const LOOK_US: u64 = 2_000;
/// How long a channel may be here before the answer that tells whose it is.
const UNCLAIMED_US: u64 = 5_000_000;

struct Client {
    link: Plain,
    peer: Peer,
    /// The events that the poller tells of the client, but for the time in which the client waits for its turn.
    interest: Interest,
}

impl Client {
    /// Events that the poller is to tell: a client that reads nothing is not asked anything.
    fn wants(&self) -> Interest {
        match self.link.queued() > UNREAD && self.peer.creds().uid != 0 {
            true => Interest::WRITE,
            false => Interest::reading_and(self.link.wants_write()),
        }
    }

    /// Its process, while it has its number.
    fn pid(&self) -> Option<Pid> {
        self.peer.pid(self.link.fd())
    }
}

/// Who waits for a channel.
struct Wanted {
    client: u32,
    copy: u32,
    further: Option<Further>,
}

/// Clients, their questions, and channels on the way to them.
pub(crate) struct Asks {
    local: Listener,
    channels: Listener,
    clients: HashMap<u32, Client>,
    /// The clients, as their users'.
    guests: Guests<u32>,
    /// The owners in their turn.
    pub(crate) fair: Fair<u32>,
    /// Accounts of their own for what it takes to let somebody in: who connects without end is served all the same.
    pub(crate) arrivals: Fair<u32>,
    greetings: HashMap<u32, Greeting>,
    /// Those that have not said yet what they are, and those that nobody waits for.
    crowd: Crowd<u32>,
    /// Lines of the log about these.
    lines: Rarely,
    next: u32,
    questions: HashMap<u64, u32>,
    next_question: u64,
    /// Relays whose stand-in has yet to hand over a signal: the front end is to hear of that before it is asked.
    unquiet: Vec<(u32, Ask)>,
    /// When those are looked at that were not, because their user was in debt.
    look_us: Option<u64>,
    wanted: HashMap<[u8; 16], Wanted>,
    /// Nobody waits for them yet: until when they are kept, and which of the crowd they are.
    unclaimed: HashMap<[u8; 16], (OwnedFd, u64, u32)>,
}

impl Asks {
    /// Opens the local socket and the channel port, and lets epoll watch them.
    ///
    /// # Errors
    /// `Sys` when the socket cannot be made at `path`.
    pub(crate) fn open(path: &Path, poller: &Poller) -> Result<(Asks, u16)> {
        let local = kern::sock::unix_listen(path, 0o666)?;
        let channels = kern::sock::tcp_listen_anywhere()?;
        let port = kern::sock::local_address(channels.as_fd())?.port();
        let local = Listener::new(local, Token::Local.number(), poller)?;
        let channels = Listener::new(channels, Token::Channels.number(), poller)?;
        let asks = Asks {
            local,
            channels,
            clients: HashMap::new(),
            guests: Guests::default(),
            fair: Fair::default(),
            arrivals: Fair::default(),
            greetings: HashMap::new(),
            crowd: Crowd::default(),
            lines: Rarely::default(),
            next: 0,
            questions: HashMap::new(),
            next_question: 0,
            unquiet: Vec::new(),
            look_us: None,
            wanted: HashMap::new(),
            unclaimed: HashMap::new(),
        };
        Ok((asks, port))
    }

    /// The owner of a client; `None` when there is no such client.
    pub(crate) fn owner(&self, number: u32) -> Option<Owner> {
        self.clients.get(&number).map(|client| Owner::of_user(client.peer.creds().uid))
    }

    /// Takes a client off the poller until its turn.
    pub(crate) fn unpoll(&self, poller: &Poller, number: u32) {
        if let Some(client) = self.clients.get(&number) {
            let _ = poller.remove(client.link.fd());
        }
    }

    /// Puts it back; false when that fails.
    pub(crate) fn poll_again(&self, poller: &Poller, number: u32) -> bool {
        let added = |client: &Client| poller.add(client.link.fd(), poller_number(number), client.interest);
        self.clients.get(&number).map(added).is_none_or(polled)
    }

    /// Has the poller tell other things of it; false when that fails.
    pub(crate) fn poll_for(&self, poller: &Poller, number: u32, interest: Interest) -> bool {
        let changed = |client: &Client| poller.modify(client.link.fd(), poller_number(number), interest);
        self.clients.get(&number).map(changed).is_none_or(polled)
    }

    /// Events that the poller told of a client, and those that it is to tell from now on, if they are others.
    pub(crate) fn interest_changes(&mut self, number: u32) -> Option<(Interest, Interest)> {
        let client = self.clients.get_mut(&number)?;
        let now = client.wants();
        let before = std::mem::replace(&mut client.interest, now);
        (before != now).then_some((before, now))
    }

    /// Closes one of the crowd.
    fn turn_away(&mut self, number: u32) {
        self.crowd.leave(number);
        self.greetings.remove(&number);
        self.unclaimed.retain(|_, (_, _, which)| *which != number);
    }

    /// When something has waited long enough (monotonic).
    pub(crate) fn due_us(&self) -> Option<u64> {
        let greetings = self.greetings.values().map(Greeting::deadline_us);
        let listeners = [&self.local, &self.channels].into_iter().filter_map(|listener| listener.due_us());
        let others = listeners.chain(self.look_us);
        greetings.chain(self.unclaimed.values().map(|(_, until, _)| *until)).chain(others).min()
    }
}

impl Agent {
    /// Takes new local clients.
    pub(crate) fn take_clients(&mut self) {
        let mut in_debt = false;
        for _ in 0..TAKEN {
            let before = thread_us();
            let Some(fd) = self.asks.local.take(&self.poller, monotonic_us()) else { break };
            let Ok(peer) = Peer::of(fd.as_fd()) else { continue };
            let uid = peer.creds().uid;
            self.take_client(fd, peer);
            in_debt |= self.arrived_since(Owner::of_user(uid), before);
        }
        if in_debt {
            self.asks.local.rest(&self.poller, monotonic_us() + REST_US);
        }
    }

    fn take_client(&mut self, fd: OwnedFd, peer: Peer) {
        // Closed already, and nothing was said: it is not worth a turn.
        if matches!(peek(fd.as_fd(), &mut [0]), Ok(Some(0))) {
            return;
        }
        let (number, uid) = (self.asks.next, peer.creds().uid);
        self.asks.next = number.wrapping_add(1);
        if let Err(fault) = self.poller.add(fd.as_fd(), poller_number(number), Interest::READ) {
            warn!(%fault, "local client");
            return;
        }
        let client = Client { link: Plain::new(fd).in_slices(), peer, interest: Interest::READ };
        self.asks.clients.insert(number, client);
        if let Err(fault) = self.asks.guests.enter(number, uid) {
            self.answer_client(number, &Answer::Failed(fault));
            self.drop_client(number);
        }
    }

    /// A client has said something, or takes more, and it is its turn. True: there may be more, of which the poller does not tell.
    pub(crate) fn serve_client(&mut self, number: u32) -> bool {
        match self.take_asks(number) {
            Ok(more) => {
                self.flush_client(number);
                more
            }
            Err(fault) => {
                debug!(number, %fault, "local client");
                self.drop_client(number);
                false
            }
        }
    }

    /// As many questions as are one client's turn.
    fn take_asks(&mut self, number: u32) -> Result<bool> {
        let mut received = Ok(true);
        for _ in 0..ASKS {
            let Some(client) = self.asks.clients.get_mut(&number) else { return Ok(false) };
            if client.wants() == Interest::WRITE {
                return Ok(false);
            }
            match client.link.next::<Ask>()? {
                Some(ask) => self.asked(number, ask),
                None if !received? => return Ok(false),
                None => received = client.link.receive(),
            }
        }
        Ok(true)
    }

    pub(crate) fn drop_client(&mut self, number: u32) {
        self.asks.clients.remove(&number);
        self.asks.guests.leave(number);
        self.asks.fair.forget(number);
        self.asks.unquiet.retain(|(of, _)| *of != number);
        let gone: Vec<u64> = self.asks.questions.iter().filter(|(_, of)| **of == number).map(|(id, _)| *id).collect();
        for id in gone {
            self.asks.questions.remove(&id);
            self.uplink.send(&ToFront::AskerGone { id });
        }
        self.asks.wanted.retain(|_, wanted| wanted.client != number);
    }

    fn flush_client(&mut self, number: u32) {
        let Some(client) = self.asks.clients.get_mut(&number) else { return };
        let flushed = client.link.flush().and_then(|()| self.asks.guests.keeps(number, client.link.kept()));
        if let Err(fault) = flushed {
            debug!(number, %fault, "local client");
            self.drop_client(number);
        } else if !self.wait_for_client(number) {
            self.drop_client(number);
        }
    }

    /// Asks for relays whose stand-ins have handed over all they had.
    pub(crate) fn ask_for_the_quiet(&mut self) {
        self.asks.look_us = None;
        for (number, ask) in std::mem::take(&mut self.asks.unquiet) {
            let Some(owner) = self.asks.owner(number) else { continue };
            if self.asks.fair.is_in_debt(owner, monotonic_us()) {
                self.asks.unquiet.push((number, ask));
                self.asks.look_us = Some(monotonic_us() + LOOK_US);
                continue;
            }
            let before = thread_us();
            self.asked(number, ask);
            self.charge_since(owner, before);
        }
    }

    fn asked(&mut self, number: u32, mut ask: Ask) {
        let client = self.asks.clients.get(&number).and_then(Client::pid);
        if let (Ask::Delivered { .. }, Some(stand_in)) = (&ask, client) {
            if !self.ghosts.is_quiet(stand_in) {
                if self.asks.unquiet.iter().any(|(of, _)| *of == number) {
                    let fault = Fault::refused("wait for signals to be delivered: the same client waits already");
                    return self.answer_client(number, &Answer::Failed(fault.on(self.number)));
                }
                return self.asks.unquiet.push((number, ask));
            }
        }
        let passed = self.caller(number, &ask);
        let lives = || self.asks.clients.get(&number).is_some_and(|client| client.pid().is_some());
        let passed = passed.and_then(|caller| restrict(&mut ask, &caller, &self.proc, lives).map(|()| caller));
        let passed = passed.and_then(|caller| match self.uplink.up() {
            true => Ok(caller),
            false => Err(Fault::gone("the front end cannot be reached from this node").on(self.number)),
        });
        match passed {
            Ok(caller) => {
                self.asks.next_question += 1;
                let id = self.asks.next_question;
                self.asks.questions.insert(id, number);
                self.tell_all(caller.pid); // the front end must know the caller before its question
                if let Err(fault) = self.uplink.try_send(&ToFront::Ask { id, caller, ask }) {
                    self.asks.questions.remove(&id);
                    self.answer_client(number, &Answer::Failed(fault.on(self.number)));
                }
            }
            Err(fault) => self.answer_client(number, &Answer::Failed(fault)),
        }
    }

    /// Who asks, as the kernel has it.
    fn caller(&self, number: u32, ask: &Ask) -> Result<Caller> {
        let client = self.asks.clients.get(&number).ok_or_else(|| Fault::gone("the caller is gone"))?;
        let peer = client.peer.creds();
        let person = self.person(peer.pid);
        match person.filter(|_| client.pid().is_some()) {
            Some(person) if self.bodies.has(peer.pid) => {
                let (ppid, pgid, sid) = (person.ppid, person.pgid, person.sid);
                let creds = peer_identity(client.link.fd(), &person.creds)?;
                Ok(Caller { pid: peer.pid, creds, ppid, pgid, sid })
            }
            _ if matches!(ask, Ask::Run { .. }) => {
                Err(Fault::refused("run a program from here: the caller is no process of the space").on(self.number))
            }
            _ => {
                let groups = peer_groups(client.link.fd()).unwrap_or_default();
                let creds = Creds { uid: Ids::all(peer.uid), gid: Ids::all(peer.gid), groups };
                Ok(Caller { pid: Pid::NONE, creds, ppid: Pid::NONE, pgid: Pid::NONE, sid: Pid::NONE })
            }
        }
    }

    fn answer_client(&mut self, number: u32, answer: &Answer) {
        if let Some(client) = self.asks.clients.get_mut(&number) {
            if let Err(fault) = client.link.send(answer) {
                debug!(number, %fault, "local client");
                self.drop_client(number);
            }
        }
        self.flush_client(number);
    }

    /// The front end answers a client's question.
    pub(crate) fn answered(&mut self, id: u64, mut answer: Answer, last: bool) {
        let Some(&number) = self.asks.questions.get(&id) else { return };
        if last {
            self.asks.questions.remove(&id);
        }
        if let Answer::Granted { hold, copies } = &mut answer {
            // It opens the hold file as soon as it has this, which may be before the front end's own word of it comes.
            let peer = self.asks.clients.get(&number).map(|client| (client.peer.creds().pid, client.pid()));
            match peer.filter(|_| copies.iter().all(|copy| copy.node != self.number)) {
                Some((_, Some(pid))) => self.become_stand_in(pid),
                Some((was, None)) => self.end_program(was, None),
                None => {}
            }
            // The front end does not know where this node keeps its hold file.
            hold.clone_from(&self.hold);
            for (copy, one) in copies.iter().enumerate() {
                if let Ok(token) = <[u8; 16]>::try_from(one.token.as_slice()) {
                    self.asks.wanted.insert(token, Wanted { client: number, copy: copy as u32, further: None });
                }
            }
        }
        if let Answer::Stays { branch, .. } = &answer {
            let is = |wanted: &Wanted| wanted.further.as_ref().is_some_and(|further| further.branch == *branch);
            if self.asks.wanted.extract_if(|_, wanted| is(wanted)).next().is_some() {
                return; // it has not heard of it
            }
        }
        self.answer_client(number, &answer);
        self.claim();
    }

    /// Streams of a process that moves are relayed by a client: another channel comes for that one.
    pub(crate) fn branch(&mut self, id: u64, token: &[u8], copy: u32, further: Further) {
        let client = self.asks.questions.get(&id).copied();
        if let (Some(client), Ok(token)) = (client, <[u8; 16]>::try_from(token)) {
            self.asks.wanted.insert(token, Wanted { client, copy, further: Some(further) });
            self.claim();
        }
    }

    /// Hands over the channels that came before it was known whose they are.
    fn claim(&mut self) {
        let here: Vec<[u8; 16]> = self.asks.unclaimed.keys().copied().collect();
        for token in here.into_iter().filter(|token| self.asks.wanted.contains_key(token)).collect::<Vec<_>>() {
            if let Some((fd, _, number)) = self.asks.unclaimed.remove(&token) {
                self.channel(token, fd, number);
            }
        }
    }

    /// The link is gone: nobody will answer what was asked.
    pub(crate) fn asks_lost_link(&mut self) {
        for (_, number) in std::mem::take(&mut self.asks.questions) {
            let fault = Fault::gone("the link to the front end broke").on(self.number);
            self.answer_client(number, &Answer::Failed(fault));
        }
    }

    /// Takes connections on the channel port.
    pub(crate) fn take_greetings(&mut self) {
        let mut in_debt = false;
        for _ in 0..TAKEN {
            let before = thread_us();
            let Some(fd) = self.asks.channels.take(&self.poller, monotonic_us()) else { break };
            let Ok(from) = peer_address(fd.as_fd()) else { continue };
            let number = self.asks.next;
            self.asks.next = number.wrapping_add(1);
            let greeting = Greeting::new(fd, monotonic_us() + GREETING_US);
            if self.poller.add(greeting.fd(), Token::Greeting(number).number(), Interest::READ).is_ok() {
                self.asks.greetings.insert(number, greeting);
                if let Some(gone) = self.asks.crowd.enter(number, from.ip()) {
                    if let Some(dropped) = self.asks.lines.may(monotonic_us()) {
                        warn!(%from, dropped, "too many connections on the channel port, the oldest of them closed");
                    }
                    self.asks.turn_away(gone);
                }
            }
            in_debt |= self.arrived_since(Owner::Strangers, before);
        }
        if in_debt {
            self.asks.channels.rest(&self.poller, monotonic_us() + REST_US);
        }
    }

    /// A connection on the channel port says what it is.
    pub(crate) fn serve_greeting(&mut self, number: u32) {
        let Some(greeting) = self.asks.greetings.get_mut(&number) else { return };
        match greeting.read(monotonic_us()) {
            Ok(None) => {}
            Ok(Some(Preamble::Channel(token))) => {
                let Some(greeting) = self.asks.greetings.remove(&number) else { return };
                let fd = greeting.into_fd();
                let _ = self.poller.remove(fd.as_fd());
                if let Err(fault) = tcp_tune(fd.as_fd(), self.life.channel_patience_ms()) {
                    warn!(%fault, "channel port");
                }
                self.channel(token, fd, number);
            }
            Ok(Some(Preamble::Control | Preamble::View | Preamble::Join(_))) => {
                self.refuse_greeting(number, "somebody takes this node for a front end");
            }
            Err(fault) => self.refuse_greeting(number, &fault.to_string()),
        }
    }

    fn refuse_greeting(&mut self, number: u32, why: &str) {
        if let Some(dropped) = self.asks.lines.may(monotonic_us()) {
            warn!(dropped, "channel port: {why}");
        }
        self.asks.turn_away(number);
    }

    fn channel(&mut self, token: [u8; 16], fd: OwnedFd, number: u32) {
        let Some(Wanted { client, copy, further }) = self.asks.wanted.remove(&token) else {
            if let Some((_, _, before)) = self.asks.unclaimed.insert(token, (fd, monotonic_us() + UNCLAIMED_US, number))
            {
                self.asks.crowd.leave(before);
            }
            return;
        };
        self.asks.crowd.leave(number);
        if let Some(waiting) = self.asks.clients.get_mut(&client) {
            let branch = further.as_ref().map(|further| further.branch);
            match waiting.link.send_with(&Answer::Channel { copy, further }, fd) {
                Ok(_) => branch.into_iter().for_each(|branch| self.uplink.send(&ToFront::Branched { branch })),
                Err(fault) => debug!(client, %fault, "local client"),
            }
        }
        self.flush_client(client);
    }

    /// Lets go of what has waited too long.
    pub(crate) fn expire_asks(&mut self) {
        let now = monotonic_us();
        self.asks.local.listen_again(&self.poller, now);
        self.asks.channels.listen_again(&self.poller, now);
        let over = |(_, until, number): &(OwnedFd, u64, u32)| (*until <= now).then_some(*number);
        for number in self.asks.unclaimed.values().filter_map(over).collect::<Vec<_>>() {
            self.asks.turn_away(number);
        }
        let late = |(number, greeting): (&u32, &Greeting)| (greeting.deadline_us() <= now).then_some(*number);
        for number in self.asks.greetings.iter().filter_map(late).collect::<Vec<_>>() {
            self.serve_greeting(number);
        }
    }
}
