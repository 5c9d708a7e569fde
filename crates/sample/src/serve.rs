//! Many clients, one line after the other, on one epoll loop; whoever answers is behind [`Answers`].
//!
//! A client is read again only when all its lines are answered and it has taken the answers, so it costs no more memory than the longest of them. One that does
//! not take them within [`PATIENCE_US`] is dropped, one that says a line that is too long too. When there are too many, one of whoever has the most makes room:
//! the one that has been silent longest.

use crate::ask::LONGEST_LINE;
use kern::clock::monotonic_us;
use kern::epoll::{Interest, Poller, Ready};
use kern::sock;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tracing::{debug, warn};
use vocab::errno::EAGAIN;
use vocab::Result;

/// Clients at one time.
const MOST_CLIENTS: usize = 512;
/// Microseconds for which an answer may wait to be taken.
const PATIENCE_US: u64 = 10_000_000;
/// Bytes of answers that wait; beyond it no more questions are read.
const FULL: usize = 256 * 1024;
/// Microseconds for which one client's lines are answered before others have their turn.
const TURN_US: u64 = 2000;
/// Clients that are taken in one turn.
const COMERS: usize = 32;

/// Tokens of the loop's own; whoever answers has those from [`OTHERS`] on.
const CLIENTS: u64 = 1 << 32;
/// Below: tokens of listeners (from 0) and clients.
pub const OTHERS: u64 = 1 << 48;

/// What becomes of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The answer stands in the buffer.
    Answered,
    /// It comes later ([`Answers::later`]); until then the client is not read.
    Later,
}

/// Who answers. A client has a number, which is used again only after [`Answers::gone`].
pub trait Answers {
    /// One line of a client, without its end; the answer, with its end, goes to `out`.
    fn answer(&mut self, poller: &Poller, client: u32, line: &[u8], out: &mut Vec<u8>) -> Turn;
    /// A client has gone.
    fn gone(&mut self, client: u32);
    /// A descriptor of its own is ready, under a token from [`OTHERS`] on.
    fn ready(&mut self, poller: &Poller, event: Ready);
    /// When [`Answers::later`] is to be called at the latest (monotonic, microseconds).
    fn deadline(&self) -> Option<u64>;
    /// Answers that are there now, to those whose turn was [`Turn::Later`].
    fn later(&mut self, poller: &Poller, now_us: u64, answers: &mut Vec<(u32, Vec<u8>)>);
}

/// Who is behind a client: those with many are the first to lose one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Whose {
    User(u32),
    /// Of IPv6 the network: a machine has as many addresses there as it likes.
    Address(IpAddr),
    Unknown,
}

impl Whose {
    fn of(client: BorrowedFd<'_>) -> Whose {
        match (sock::peer_address(client), sock::peer_credentials(client)) {
            (Ok(address), _) => Whose::Address(match address.ip().to_canonical() {
                IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
                ip => ip,
            }),
            (_, Ok(creds)) => Whose::User(creds.uid),
            _ => Whose::Unknown,
        }
    }
}

struct Client {
    fd: OwnedFd,
    whose: Whose,
    input: Vec<u8>,
    /// Bytes of `input` that are answered.
    taken: usize,
    output: Vec<u8>,
    sent: usize,
    interest: Interest,
    /// It is among those of [`Server::hungry`].
    hungry: bool,
    /// An answer is under way.
    asked: bool,
    /// It says no more.
    ended: bool,
    /// When it said or took something the last time (monotonic).
    seen_us: u64,
}

/// The loop.
pub struct Server<A> {
    pub answers: A,
    poller: Poller,
    listeners: Vec<OwnedFd>,
    clients: HashMap<u32, Client>,
    next: u32,
    /// Clients with lines that have yet to be answered.
    hungry: Vec<u32>,
}

impl<A: Answers> Server<A> {
    /// # Errors
    /// `Sys` as epoll_create1(2).
    pub fn new(answers: A) -> Result<Server<A>> {
        let (listeners, clients, hungry) = (Vec::new(), HashMap::new(), Vec::new());
        Ok(Server { answers, poller: Poller::new()?, listeners, clients, next: 0, hungry })
    }

    /// Takes clients of this socket, which listens and does not block.
    ///
    /// # Errors
    /// `Sys` as epoll_ctl(2).
    pub fn listen(&mut self, listener: OwnedFd) -> Result<()> {
        self.poller.add(listener.as_fd(), self.listeners.len() as u64, Interest::READ)?;
        self.listeners.push(listener);
        Ok(())
    }

    /// The loop's own poller.
    pub fn poller(&self) -> &Poller {
        &self.poller
    }

    /// One turn: waits at most until `until_us` (monotonic) for something to do, and does it.
    ///
    /// # Errors
    /// `Sys` as epoll_pwait2(2); what is wrong with one client ends that client only.
    pub fn turn(&mut self, until_us: Option<u64>, ready: &mut Vec<Ready>) -> Result<()> {
        let now = monotonic_us();
        let patience = self.clients.values().filter(|c| !c.output.is_empty()).map(|c| c.seen_us + PATIENCE_US).min();
        let until = [until_us, self.answers.deadline(), patience].into_iter().flatten().min();
        let timeout = if self.hungry.is_empty() { until.map(|at| at.saturating_sub(now)) } else { Some(0) };
        self.poller.wait(ready, timeout)?;
        let now = monotonic_us();
        for event in ready.iter() {
            match event.token {
                token if token >= OTHERS => self.answers.ready(&self.poller, *event),
                token if token >= CLIENTS => self.serve((token - CLIENTS) as u32, *event, now),
                token => self.accept(token as usize, now),
            }
        }
        for number in std::mem::take(&mut self.hungry) {
            if let Some(client) = self.clients.get_mut(&number) {
                client.hungry = false;
                self.go_on(number, now);
            }
        }
        let mut answers = Vec::new();
        self.answers.later(&self.poller, now, &mut answers);
        for (number, answer) in answers {
            let Some(client) = self.clients.get_mut(&number) else { continue };
            client.asked = false;
            client.output.extend_from_slice(&answer);
            self.go_on(number, now);
        }
        let late = |c: &Client| !c.output.is_empty() && now >= c.seen_us + PATIENCE_US;
        let slow: Vec<u32> = self.clients.iter().filter(|(_, c)| late(c)).map(|(number, _)| *number).collect();
        for number in slow {
            debug!(number, "a client does not take its answer: dropped");
            self.drop_client(number);
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize, now: u64) {
        let Some(listener) = self.listeners.get(listener) else { return };
        let mut came = Vec::new();
        loop {
            match sock::accept(listener.as_fd()) {
                Ok(Some(fd)) => came.push(fd),
                Ok(None) => break,
                Err(fault) => {
                    // Of the open-file limit: a client less is a place more.
                    warn!(%fault, "a client cannot be taken");
                    self.make_room(None);
                    break;
                }
            }
            if came.len() >= COMERS {
                break;
            }
        }
        for fd in came {
            let whose = Whose::of(fd.as_fd());
            if self.clients.len() >= MOST_CLIENTS {
                self.make_room(Some(whose));
            }
            // Of a unix socket there is nothing to tune.
            let _ = sock::tcp_tune(fd.as_fd(), (PATIENCE_US / 1000) as u32);
            while self.clients.contains_key(&self.next) {
                self.next = self.next.wrapping_add(1);
            }
            let number = self.next;
            self.next = self.next.wrapping_add(1);
            if self.poller.add(fd.as_fd(), CLIENTS + u64::from(number), Interest::READ).is_ok() {
                let (input, output) = (Vec::new(), Vec::new());
                let client = Client {
                    fd,
                    whose,
                    input,
                    taken: 0,
                    output,
                    sent: 0,
                    interest: Interest::READ,
                    hungry: false,
                    asked: false,
                    ended: false,
                    seen_us: now,
                };
                self.clients.insert(number, client);
            }
        }
    }

    /// One of whoever has the most, with the one that comes, goes.
    fn make_room(&mut self, comes: Option<Whose>) {
        let mut counts: HashMap<Whose, usize> = HashMap::new();
        let all = self.clients.values().map(|client| client.whose).chain(comes);
        all.for_each(|whose| *counts.entry(whose).or_default() += 1);
        let of = |client: &Client| counts.get(&client.whose).copied().unwrap_or_default();
        let victim = self.clients.iter().max_by_key(|(_, client)| (of(client), std::cmp::Reverse(client.seen_us)));
        if let Some(number) = victim.map(|(number, _)| *number) {
            self.drop_client(number);
        }
    }

    fn drop_client(&mut self, number: u32) {
        if self.clients.remove(&number).is_some() {
            self.answers.gone(number);
        }
    }

    fn serve(&mut self, number: u32, event: Ready, now: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        // A client that has something to be answered is not read: what it says meanwhile waits in the kernel.
        let waits = client.is_busy() || client.line().is_some();
        if (event.readable || event.hangup) && !waits && !client.read(now) {
            return self.drop_client(number);
        }
        if event.hangup && (waits || client.ended) {
            return self.drop_client(number);
        }
        self.go_on(number, now);
    }

    /// Sends what there is, answers what has been asked, and waits for what the client does next.
    fn go_on(&mut self, number: u32, now: u64) {
        let Server { answers, clients, poller, hungry, .. } = self;
        let Some(client) = clients.get_mut(&number) else { return };
        let mut lives = client.send(now);
        let until = monotonic_us() + TURN_US;
        while lives && !client.is_busy() {
            let Some(end) = client.line() else { break };
            if monotonic_us() >= until {
                if !client.hungry {
                    hungry.push(number);
                }
                client.hungry = true;
                break;
            }
            let turn = answers.answer(poller, number, &client.input[client.taken..end], &mut client.output);
            client.taken = end + 1;
            client.asked = turn == Turn::Later;
            lives = client.send(now);
        }
        client.input.drain(..client.taken);
        client.taken = 0;
        let has_line = client.line().is_some();
        if !has_line && (client.input.len() > LONGEST_LINE || !client.input.iter().all(|byte| is_text(*byte))) {
            lives = false;
        }
        if !lives || (client.ended && !has_line && !client.asked && client.output.is_empty()) {
            return self.drop_client(number);
        }
        let interest = client.wants(has_line);
        if interest != client.interest {
            client.interest = interest;
            if poller.modify(client.fd.as_fd(), CLIENTS + u64::from(number), interest).is_err() {
                self.drop_client(number);
            }
        }
    }
}

/// A byte of a question; who says others speaks something else, and would wait for an answer for ever.
fn is_text(byte: u8) -> bool {
    byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t' | b'\r')
}

impl Client {
    /// It is not to be asked for more now.
    fn is_busy(&self) -> bool {
        self.asked || self.output.len() - self.sent > FULL
    }

    /// Where the first line ends that is not answered.
    fn line(&self) -> Option<usize> {
        self.input[self.taken..].iter().position(|byte| *byte == b'\n').map(|at| self.taken + at)
    }

    fn wants(&self, has_line: bool) -> Interest {
        let reading = if has_line || self.is_busy() || self.ended { Interest::empty() } else { Interest::READ };
        reading | if self.output.is_empty() { Interest::empty() } else { Interest::WRITE }
    }

    /// Reads once; false when it is gone.
    fn read(&mut self, now: u64) -> bool {
        let mut buffer = [0u8; LONGEST_LINE];
        match kern::sys::read(self.fd.as_fd(), &mut buffer) {
            Ok(0) => self.ended = true,
            Ok(got) => {
                self.input.extend_from_slice(&buffer[..got]);
                self.seen_us = now;
            }
            Err(EAGAIN) => {}
            Err(_) => return false,
        }
        true
    }

    /// Sends what the client takes; false when it is gone.
    fn send(&mut self, now: u64) -> bool {
        while self.sent < self.output.len() {
            match sock::send(self.fd.as_fd(), &self.output[self.sent..]) {
                Ok(sent) => {
                    self.sent += sent;
                    self.seen_us = now;
                }
                Err(EAGAIN) => return true,
                Err(_) => return false,
            }
        }
        self.output.clear();
        self.sent = 0;
        // A long answer is an exception.
        self.output.shrink_to(FULL);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Arc;

    /// Says what it is told.
    struct Echo;

    impl Answers for Echo {
        fn answer(&mut self, _: &Poller, _: u32, line: &[u8], out: &mut Vec<u8>) -> Turn {
            out.extend_from_slice(line);
            out.push(b'\n');
            Turn::Answered
        }

        fn gone(&mut self, _: u32) {}

        fn ready(&mut self, _: &Poller, _: Ready) {}

        fn deadline(&self) -> Option<u64> {
            None
        }

        fn later(&mut self, _: &Poller, _: u64, _: &mut Vec<(u32, Vec<u8>)>) {}
    }

    #[test]
    fn who_asks_without_a_pause_keeps_nobody_waiting_and_costs_no_memory() {
        let path = std::env::temp_dir().join(format!("shoal-serve.{}", std::process::id()));
        let mut server = Server::new(Echo).expect("a loop");
        server.listen(sock::unix_listen(&path, 0o600).expect("a socket")).expect("epoll");
        let connect = || UnixStream::connect(&path).expect("it listens");
        let over = Arc::new(AtomicBool::new(false));
        let greedy = connect();
        let (mut says, mut takes) = (greedy.try_clone().expect("a copy"), greedy.try_clone().expect("a copy"));
        let writer = std::thread::spawn(move || while says.write_all(&b"x\n".repeat(4096)).is_ok() {});
        let reader = std::thread::spawn(move || while takes.read(&mut [0; 65536]).is_ok_and(|n| n > 0) {});
        let (honest, told) = (connect(), over.clone());
        let asker = std::thread::spawn(move || {
            let (mut from, mut to) = (BufReader::new(honest.try_clone().expect("a copy")), honest);
            for n in 0..50 {
                let (question, mut answer) = (format!("question {n}\n"), String::new());
                to.write_all(question.as_bytes()).and_then(|()| from.read_line(&mut answer)).expect("an answer");
                assert_eq!(answer, question);
            }
            told.store(true, Ordering::Relaxed);
        });
        let (until, mut ready, mut most) = (monotonic_us() + 20_000_000, Vec::new(), 0);
        while !over.load(Ordering::Relaxed) && monotonic_us() < until {
            server.turn(Some(monotonic_us() + 10_000), &mut ready).expect("a turn");
            most = server.clients.values().map(|client| client.input.len()).max().unwrap_or(0).max(most);
            assert!(server.hungry.len() <= 2, "each is hungry once");
        }
        assert!(over.load(Ordering::Relaxed), "the other one is answered");
        assert!(most <= 2 * LONGEST_LINE, "{most} bytes of one client wait");
        drop(server);
        [writer, reader, asker].into_iter().for_each(|thread| thread.join().expect("it has done its part"));
        let _ = std::fs::remove_file(&path);
    }

    #[test]
    fn whoever_has_the_most_makes_room() {
        let mut server = Server::new(Echo).expect("a loop");
        let (ours, _) = sock::socketpair(sock::Kind::Stream).expect("a pair");
        let mut add = |number: u32, whose: Whose, seen_us: u64| {
            let client = Client {
                fd: ours.try_clone().expect("a copy"),
                whose,
                input: Vec::new(),
                taken: 0,
                output: Vec::new(),
                sent: 0,
                interest: Interest::READ,
                hungry: false,
                asked: false,
                ended: false,
                seen_us,
            };
            server.clients.insert(number, client);
        };
        add(0, Whose::User(0), 1);
        (1..4).for_each(|number| add(number, Whose::User(7), 10 - u64::from(number)));
        add(4, Whose::User(8), 2);
        let left = |server: &Server<Echo>| {
            let mut left: Vec<u32> = server.clients.keys().copied().collect();
            left.sort_unstable();
            left
        };
        server.make_room(Some(Whose::User(0)));
        assert_eq!(left(&server), [0, 1, 2, 4], "of the three the one that was silent longest");
        server.make_room(Some(Whose::User(7)));
        assert_eq!(left(&server), [0, 1, 4]);
    }
}
