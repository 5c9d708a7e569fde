//! The answers of many monitors to one question, in rounds. Who does not answer in time is marked and delays nobody: it is not asked again until its late
//! answer has come, and no round waits for it until then, but for one in a second of a concentrator's.
//!
//! | state of a monitor | next |
//! |---|---|
//! | no connection | dialled at the next round, unless that failed a moment ago |
//! | dialling | asked when the connection stands; at the deadline silent |
//! | asked | its line is there: answered. At the deadline: silent, and it owes an answer |
//! | owes | silent in every round; its line comes, in a round or between two: that is thrown away, and it is asked again in the next round, which waits for it |
//! | was silent when somebody else asked | asked, and not waited for |
//! | closed, or says what is no answer | silent; no connection |

use crate::join;
use crate::text::Form;
use kern::clock::monotonic_us;
use kern::epoll::{Interest, Poller, Ready};
use kern::sock;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use vocab::errno::{EAGAIN, ECONNREFUSED};
use vocab::Result;

/// Bytes of one answer, at most: of a concentrator of a thousand nodes.
const LONGEST_ANSWER: usize = 16 * 1024 * 1024;
/// Microseconds before a monitor is dialled again that could not be reached.
const PAUSE_US: u64 = 500_000;
/// Microseconds for which a connection may be under way.
const DIALLING_US: u64 = 5_000_000;
/// Microseconds that are waited for a place in the queue of a unix socket.
const QUEUE_US: u64 = 1000;

/// Where a monitor listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// A monitor that is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct From {
    /// What its sample is called instead of what it says itself; not for a concentrator.
    pub name: Option<String>,
    pub address: Address,
}

impl From {
    /// What it is called when it says nothing.
    pub fn label(&self) -> String {
        match (&self.name, &self.address) {
            (Some(name), _) => name.clone(),
            (None, Address::Tcp(address)) => address.to_string(),
            (None, Address::Unix(path)) => path.display().to_string(),
        }
    }
}

#[derive(Debug)]
enum Line {
    None { not_before_us: u64, why: String },
    Dialling { fd: OwnedFd, since_us: u64 },
    Open(OwnedFd),
}

/// What a monitor has said in this round.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Said {
    Nothing,
    /// That many bytes of its input, without the end of the line.
    Answer(usize),
    /// Why it says nothing.
    Silent(String),
}

#[derive(Debug)]
struct Up {
    from: From,
    line: Line,
    input: Vec<u8>,
    said: Said,
    /// It was asked and has not answered yet.
    owes: bool,
    /// When it was asked what it owes (monotonic).
    asked_us: u64,
    /// It was silent the last time, here or where else it was asked: nobody waits for it.
    expected_silent: bool,
    /// It has said something, or its connection stands, since that was asked the last time ([`Gather::heard`]).
    heard: bool,
}

/// What a round is, for one of those that are asked.
#[derive(Clone, Copy)]
struct Round<'r> {
    poller: &'r Poller,
    question: &'r [u8],
    under_way: bool,
    now: u64,
}

/// Monitors, and a round of questions to them.
#[derive(Debug)]
pub struct Gather {
    ups: Vec<Up>,
    poller: Poller,
    ready: Vec<Ready>,
    question: Vec<u8>,
    /// Between [`Gather::begin`] and the end of the round; what comes at another time was owed.
    under_way: bool,
    /// When the round is over (monotonic).
    deadline_us: u64,
    limit_us: u64,
    /// Monitors that are waited for.
    awaited: usize,
}

impl Gather {
    /// `limit_us`: microseconds that a round may take.
    ///
    /// # Errors
    /// `Sys` as epoll_create1(2).
    pub fn new(from: &[From], limit_us: u64) -> Result<Gather> {
        let up = |from: &From| Up {
            from: from.clone(),
            line: Line::None { not_before_us: 0, why: String::new() },
            input: Vec::new(),
            said: Said::Nothing,
            owes: false,
            asked_us: 0,
            expected_silent: false,
            heard: false,
        };
        let ups = from.iter().map(up).collect();
        let (poller, ready, question) = (Poller::new()?, Vec::new(), Vec::new());
        Ok(Gather { ups, poller, ready, question, under_way: false, deadline_us: 0, limit_us, awaited: 0 })
    }

    /// Begins a round: everybody who owes nothing is asked `question`, a line without its end.
    pub fn begin(&mut self, question: &[u8]) {
        let now = monotonic_us();
        self.deadline_us = now.saturating_add(self.limit_us);
        self.under_way = true;
        self.question.clear();
        self.question.extend_from_slice(question);
        self.question.push(b'\n');
        let Gather { ups, poller, question, .. } = self;
        let round = Round { poller, question, under_way: true, now };
        for (number, up) in ups.iter_mut().enumerate() {
            up.begin(number as u64, round);
        }
        self.count();
        if self.awaited == 0 {
            // Where nobody else is waited for, a round without patience would be over before anybody can answer.
            self.ups.iter_mut().for_each(|up| up.expected_silent = false);
            self.count();
        }
    }

    /// When [`Gather::turn`] is to be called at the latest (monotonic, microseconds).
    pub fn deadline(&self) -> u64 {
        self.deadline_us
    }

    /// Takes what has come. True: the round is over, by the answers of all or by the time, or none is under way.
    ///
    /// # Errors
    /// `Sys` as epoll_pwait2(2).
    pub fn turn(&mut self) -> Result<bool> {
        self.wait(Some(0))
    }

    fn wait(&mut self, timeout_us: Option<u64>) -> Result<bool> {
        let Gather { ups, poller, ready, question, under_way, .. } = self;
        poller.wait(ready, timeout_us)?;
        let now = monotonic_us();
        let round = Round { poller, question, under_way: *under_way, now };
        for event in ready.iter() {
            if let Some(up) = ups.get_mut(event.token as usize) {
                up.ready(*event, round);
            }
        }
        if !self.under_way {
            return Ok(true);
        }
        self.count();
        if self.awaited > 0 && now < self.deadline_us {
            return Ok(false);
        }
        let ms = self.limit_us / 1000;
        for up in self.ups.iter_mut().filter(|up| up.said == Said::Nothing) {
            let why =
                if up.expected_silent { "no answer, as before".into() } else { format!("no answer within {ms} ms") };
            up.said = Said::Silent(why);
        }
        self.awaited = 0;
        self.under_way = false;
        Ok(true)
    }

    fn count(&mut self) {
        self.awaited = self.ups.iter().filter(|up| up.said == Said::Nothing && !up.expected_silent).count();
    }

    /// Which of them are silent in the round that is over, before [`Gather::join`].
    pub fn silent_ones(&self) -> Vec<bool> {
        self.ups.iter().map(|up| matches!(up.said, Said::Silent(_))).collect()
    }

    /// Who has said something, or has a connection that stands, since this was asked the last time.
    pub fn heard(&mut self) -> Vec<bool> {
        self.ups.iter_mut().map(|up| std::mem::take(&mut up.heard)).collect()
    }

    /// Says which of them nobody needs to wait for in the next rounds: they were silent when others asked.
    pub fn expect_silence(&mut self, of: &[bool]) {
        self.ups.iter_mut().zip(of).for_each(|(up, silent)| up.expected_silent = *silent);
    }

    /// A whole round, waiting for it.
    ///
    /// # Errors
    /// As [`Gather::turn`].
    pub fn round(&mut self, question: &[u8]) -> Result<()> {
        self.begin(question);
        while !self.wait(Some(self.deadline_us.saturating_sub(monotonic_us())))? {}
        Ok(())
    }

    /// Appends what was said in the round that is over, as one answer without the end of its line, and forgets it.
    pub fn join(&mut self, form: Form, out: &mut Vec<u8>) {
        let mut joined = join::Joined::new(form);
        for up in &mut self.ups {
            let label = up.from.label();
            match std::mem::replace(&mut up.said, Said::Nothing) {
                Said::Answer(length) => {
                    if let Err(why) = joined.answer(up.from.name.as_deref(), &label, &up.input[..length]) {
                        up.close(why);
                    } else {
                        up.input.drain(..(length + 1).min(up.input.len()));
                    }
                }
                Said::Silent(why) => joined.silent(&label, &why),
                Said::Nothing => joined.silent(&label, "not asked"),
            }
        }
        joined.finish(out);
    }

    /// How many are asked.
    pub fn len(&self) -> usize {
        self.ups.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ups.is_empty()
    }

    /// How many are silent in the round that is over, before [`Gather::join`].
    pub fn silent(&self) -> usize {
        self.ups.iter().filter(|up| matches!(up.said, Said::Silent(_))).count()
    }
}

impl AsFd for Gather {
    /// Readable when [`Gather::turn`] has something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

impl Up {
    fn begin(&mut self, number: u64, round: Round<'_>) {
        self.said = Said::Nothing;
        match &self.line {
            Line::Open(_) if self.owes => {
                let seconds = (round.now - self.asked_us) as f64 / 1e6;
                self.said = Said::Silent(format!("no answer for {seconds:.1} s"));
            }
            Line::Open(_) => {
                self.input.clear();
                self.ask(round);
            }
            Line::Dialling { since_us, .. } if round.now > since_us + DIALLING_US => {
                self.close("no connection".into());
            }
            Line::Dialling { .. } => self.said = Said::Silent("no connection yet".into()),
            Line::None { not_before_us, why } if round.now < *not_before_us => self.said = Said::Silent(why.clone()),
            Line::None { .. } => self.dial(number, round),
        }
    }

    fn dial(&mut self, number: u64, round: Round<'_>) {
        let made = match &self.from.address {
            Address::Tcp(address) => sock::tcp_begin(*address),
            Address::Unix(path) => sock::unix_connect(path, QUEUE_US),
        };
        let wanted = Interest::READ | Interest::WRITE;
        let made = made.and_then(|fd| round.poller.add(fd.as_fd(), number, wanted).map(|()| fd));
        match (made, &self.from.address) {
            (Err(fault), _) => self.close(self.unreachable(&fault)),
            (Ok(fd), Address::Tcp(_)) => self.line = Line::Dialling { fd, since_us: round.now },
            (Ok(fd), Address::Unix(_)) => self.opened(fd, number, round),
        }
    }

    fn opened(&mut self, fd: OwnedFd, number: u64, round: Round<'_>) {
        match round.poller.modify(fd.as_fd(), number, Interest::READ) {
            Ok(()) => {
                self.line = Line::Open(fd);
                // It may have come too late for this round: the next one asks.
                if round.under_way && self.said == Said::Nothing {
                    self.ask(round);
                } else {
                    self.heard();
                }
            }
            Err(fault) => self.close(reason(&fault)),
        }
    }

    /// It is there after all: it is waited for again.
    fn heard(&mut self) {
        self.heard = true;
        self.expected_silent = false;
    }

    fn ask(&mut self, round: Round<'_>) {
        let Line::Open(fd) = &self.line else { return };
        match sock::send(fd.as_fd(), round.question) {
            Ok(sent) if sent == round.question.len() => {
                self.owes = true;
                self.asked_us = round.now;
            }
            // It has taken none of the questions before.
            Ok(_) | Err(EAGAIN) => self.close("it takes no question".into()),
            Err(errno) => self.close(std::io::Error::from_raw_os_error(errno).to_string()),
        }
    }

    fn ready(&mut self, event: Ready, round: Round<'_>) {
        match std::mem::replace(&mut self.line, Line::None { not_before_us: 0, why: String::new() }) {
            Line::Dialling { fd, since_us } => match sock::tcp_finish(fd.as_fd()) {
                Ok(true) => self.opened(fd, event.token, round),
                Ok(false) => self.line = Line::Dialling { fd, since_us },
                Err(fault) => self.close(self.unreachable(&fault)),
            },
            Line::Open(fd) => {
                self.line = Line::Open(fd);
                if event.readable || event.hangup {
                    self.read(round.under_way);
                }
            }
            none => self.line = none,
        }
    }

    fn read(&mut self, under_way: bool) {
        let Line::Open(fd) = &self.line else { return };
        // Behind an answer that waits to be joined comes nothing, unless the other side says what was not asked.
        let have = self.input.len();
        let want = have.max(16 * 1024);
        self.input.resize(have + want, 0);
        let got = kern::sys::read(fd.as_fd(), &mut self.input[have..]);
        self.input.truncate(have + got.unwrap_or(0));
        match got {
            Ok(0) => return self.close("it has closed the connection".into()),
            Ok(_) if self.input.len() > LONGEST_ANSWER => return self.close("an answer without an end".into()),
            Ok(_) | Err(EAGAIN) => {}
            Err(errno) => return self.close(std::io::Error::from_raw_os_error(errno).to_string()),
        }
        let end = self.input[have..].iter().position(|byte| *byte == b'\n').map(|at| have + at);
        match (end, self.owes, &self.said) {
            (None, true, _) => {}
            (Some(end), true, Said::Nothing) if under_way => {
                self.owes = false;
                self.said = Said::Answer(end);
                self.heard();
            }
            // Of a round that is over.
            (Some(end), true, _) => {
                self.owes = false;
                self.input.drain(..=end);
                self.heard();
            }
            (_, false, _) => self.close("it says what was not asked".into()),
        }
    }

    /// A monitor as shipped listens for its own machine alone, so a refused connection is mostly that.
    fn unreachable(&self, fault: &vocab::Fault) -> String {
        match &self.from.address {
            Address::Tcp(address) if fault.root_errno() == ECONNREFUSED && !address.ip().is_loopback() => format!(
                "no monitor listens at {address} (mon_listen = \"0.0.0.0\" in the configuration file of that machine has it listen there)"
            ),
            _ => reason(fault),
        }
    }

    /// Lets go of it; it is silent in this round.
    fn close(&mut self, why: String) {
        self.line = Line::None { not_before_us: monotonic_us() + PAUSE_US, why: why.clone() };
        self.input.clear();
        self.owes = false;
        self.said = Said::Silent(why);
    }
}

/// The end of the chain, as the system words it: what is being done is known.
fn reason(fault: &vocab::Fault) -> String {
    match fault.root_errno() {
        0 => fault.to_string(),
        errno => std::io::Error::from_raw_os_error(errno).to_string(),
    }
}
