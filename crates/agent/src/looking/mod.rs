//! Looking at what processes have in their memory and what their calls wait for, which may take as long as their users like.
//!
//! Who reads a process's arguments or the list that it polls takes the lock of its memory and may read a page of a file that its user serves and
//! does not answer for; a thread that waits so can even outlive SIGKILL, and the agent, init of its namespace, with it. So processes
//! do it that are children of the outer process and in no namespace of the space (`server`). The agent asks them over a socket
//! and never waits: what is not answered in time is not known, and the user at whose processes it stopped is passed over for a while.

pub(crate) mod at_hand;
mod entries;
mod line;
mod reader;
mod server;
pub(crate) mod written;

pub(crate) use line::{Of, Question, Said};
pub(crate) use reader::{Input, Waits};
pub(crate) use server::Server;

use kern::clock::monotonic_us;
use kern::sock::{self, Kind};
use kern::sys;
use server::LINES;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use vocab::Result;

/// Microseconds without a word after which the process that looks is given up: for the main loop, whose front end waits a second, and for
/// the streams, and for what /proc shows elsewhere: of many, and a single file, which may be work for the kernel (smaps of a large memory).
const PATIENCE_US: [u64; LINES] = [200_000, 1_000_000, 200_000, 3_000_000];
/// So often a question is asked at most.
const TRIES: u32 = 3;
/// How long a user is passed over at whose processes looking has stopped; each time twice as long, since what waits there may be there for good.
const PASSED_OVER_US: (u64, u64) = (1_000_000, 3_600_000_000);

/// One who asks.
#[derive(Debug)]
pub(crate) struct Looker {
    line: OwnedFd,
    /// A byte, our number, starts a process that answers our questions, in place of the one before.
    starter: Option<(OwnedFd, u8)>,
    patience_us: u64,
    started: bool,
    number: u64,
    open: Option<Open>,
    /// Room for what it says, while it is asked something.
    packet: Vec<u8>,
    /// The last question was given up.
    gave_up: bool,
    /// Users: until when, and for how long.
    passed_over: BTreeMap<u32, (u64, u64)>,
}

/// A question that is not answered yet.
#[derive(Debug)]
struct Open {
    question: Question,
    /// How often it has been asked.
    tries: u32,
    heard: u64,
    /// At whose processes it is.
    uid: Option<u32>,
    /// At whose it has been since it was asked last.
    been: BTreeSet<u32>,
    /// It has said at whose it is, since it was asked last.
    told: bool,
}

impl Looker {
    /// The agent's and the server's ends for those who ask: the main loop, the thread of streams, and the main loop for others' /proc, twice.
    ///
    /// # Errors
    /// `Sys` when no descriptors are to be had.
    pub(crate) fn all() -> Result<([Looker; LINES], Server)> {
        let (begin, starter) = sys::pipe()?;
        let one = |number: u8| {
            let (line, its) = sock::socketpair(Kind::SeqPacket)?;
            let starter = starter.try_clone().map_err(|e| vocab::Fault::io(&e, "duplicate a pipe"))?;
            Ok((Looker::new(line, Some((starter, number)), PATIENCE_US[usize::from(number)])?, its))
        };
        let ((table, a), (streams, b), (entries, c), (entry, d)) = (one(0)?, one(1)?, one(2)?, one(3)?);
        Ok(([table, streams, entries, entry], Server::new(begin, [a, b, c, d])))
    }

    /// One whose questions a thread of this process answers: where all users are one.
    ///
    /// # Errors
    /// `Sys` when there is no descriptor or thread to be had.
    pub(crate) fn within() -> Result<Looker> {
        let (line, its) = sock::socketpair(Kind::SeqPacket)?;
        let thread = std::thread::Builder::new().name("looker".into());
        let started = thread.spawn(move || server::serve(&its, std::path::Path::new(kern::proc::root())));
        started.map_err(|e| vocab::Fault::io(&e, "start a thread that looks"))?;
        Looker::new(line, None, PATIENCE_US[1])
    }

    fn new(line: OwnedFd, starter: Option<(OwnedFd, u8)>, patience_us: u64) -> Result<Looker> {
        sys::set_nonblocking(line.as_fd(), true)?;
        let passed_over = BTreeMap::new();
        let (packet, open) = (Vec::new(), None);
        Ok(Looker { line, starter, patience_us, started: false, number: 0, open, packet, gave_up: false, passed_over })
    }

    /// Readable when [`Looker::go_on`] has something to say.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    /// Was the last question given up? Then what was found is not all.
    pub(crate) fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// Nobody has listened for a while: that it has said nothing meanwhile does not count.
    pub(crate) fn wait_on(&mut self) {
        if let Some(open) = &mut self.open {
            open.heard = monotonic_us();
        }
    }

    /// Is a question open? Only one at a time is.
    pub(crate) fn is_busy(&self) -> bool {
        self.open.is_some()
    }

    /// When to call [`Looker::go_on`] at the latest (monotonic).
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.heard + self.patience_us)
    }

    /// Asks; what was asked before is given up.
    pub(crate) fn ask(&mut self, question: Question) {
        self.ask_at(question, None);
    }

    /// The same, of one process; `at`: whose it is, as far as is known, which need not be said then.
    pub(crate) fn ask_at(&mut self, question: Question, at: Option<u32>) {
        let now = monotonic_us();
        self.gave_up = false;
        let passed_over = |uid: &u32| self.passed_over.get(uid).is_some_and(|(until, _)| *until > now);
        let uid = at.filter(|uid| !passed_over(uid));
        self.open = Some(Open { question, tries: 1, heard: now, uid, been: uid.into_iter().collect(), told: false });
        if !std::mem::replace(&mut self.started, true) {
            self.start();
        }
        self.send(now);
    }

    fn start(&mut self) {
        if let Some((starter, number)) = &self.starter {
            // With nobody to start one there is no answer, which is an answer.
            let _ = sys::write(starter.as_fd(), &[*number]);
        }
    }

    fn send(&mut self, now: u64) {
        let Some(open) = &self.open else { return };
        self.number += 1;
        let passed_over = self.passed_over.iter().filter(|(_, (until, _))| *until > now).map(|(uid, _)| *uid);
        // What cannot be sent is not answered, and given up in time.
        let _ = sock::send(self.line.as_fd(), &open.question.packet(self.number, passed_over, open.uid));
    }

    /// What has been found since the last call, up to about `most` bytes. [`Said::End`] is the last of a question, also when it is given up.
    pub(crate) fn go_on(&mut self, most: usize) -> Vec<Said> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        let mut packet = std::mem::take(&mut self.packet);
        packet.resize(line::PACKET, 0);
        while bytes < most {
            let Ok(length @ 1..) = sys::read(self.line.as_fd(), &mut packet) else { break };
            bytes += length;
            let Some(open) = &mut self.open else { continue };
            let Some(said) = Said::of(&packet[..length], self.number) else { continue };
            open.heard = monotonic_us();
            match said {
                Said::At { uid } => {
                    // The one before was not what it was taken for.
                    if !std::mem::replace(&mut open.told, true) {
                        open.been.clear();
                    }
                    open.uid = Some(uid);
                    open.been.insert(uid);
                }
                Said::End | Said::Last(_) => {
                    // What was in the way there is not any more.
                    let been = std::mem::take(&mut open.been);
                    self.passed_over.retain(|uid, _| !been.contains(uid));
                    self.open = None;
                    if let Said::Last(last) = said {
                        found.push(Said::Entries(last));
                    }
                    found.push(Said::End);
                }
                said => found.push(said),
            }
        }
        if self.give_up(monotonic_us()) {
            found.push(Said::End);
        }
        if self.is_busy() {
            self.packet = packet;
        }
        found
    }

    /// The process that looks has said nothing for too long: another goes on without that user. True: no other shall.
    fn give_up(&mut self, now: u64) -> bool {
        let Some(open) = &mut self.open else { return false };
        if now < open.heard + self.patience_us {
            return false;
        }
        if let Some(uid) = open.uid.take() {
            let (least, most) = PASSED_OVER_US;
            let span = self.passed_over.get(&uid).map_or(least, |(_, span)| (2 * span).min(most));
            self.passed_over.insert(uid, (now + span, span));
            tracing::warn!(uid, seconds = span / 1_000_000, "a process of this user does not let itself be looked at");
        }
        open.been.clear();
        open.told = false;
        open.heard = now;
        open.tries += 1;
        let over = open.tries > TRIES;
        self.start();
        match over {
            true => (self.open, self.gave_up) = (None, true),
            false => self.send(now),
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kern::poll::{poll, Ready};

    fn answers(looker: &mut Looker) -> Vec<Said> {
        let mut all = Vec::new();
        while all.last() != Some(&Said::End) {
            let left = looker.due_us().map_or(0, |due| due.saturating_sub(monotonic_us()) / 1000 + 1);
            poll(&[(looker.fd(), Ready::READ)], left as i32).expect("poll");
            all.extend(looker.go_on(usize::MAX));
        }
        all
    }

    #[test]
    fn arguments_are_found_and_the_end_comes_last() {
        let mut looker = Looker::within().expect("a looker");
        looker.ask(Question::Commands);
        assert!(looker.is_busy());
        let me = vocab::Pid(std::process::id() as i32);
        let said = answers(&mut looker);
        assert!(said.iter().any(|one| matches!(one, Said::Command { pid, words } if *pid == me && !words.is_empty())));
        assert!(!looker.is_busy());
    }

    #[test]
    fn who_does_not_answer_is_given_up_and_that_user_passed_over() {
        let (line, its) = sock::socketpair(Kind::SeqPacket).expect("pair");
        let (begin, starter) = sys::pipe().expect("pipe");
        let mut looker = Looker::new(line, Some((starter, 7)), 100).expect("a looker");
        let mut packet = [0; 512];
        let mut ask = |number: u64, uid: u32| {
            let length = sys::read(its.as_fd(), &mut packet).expect("a question");
            let asked = line::Asked::of(&packet[..length]).expect("a question");
            assert_eq!(asked.number, number);
            sock::send(its.as_fd(), &Said::At { uid }.packet(number)).expect("sent");
            asked.passed_over
        };
        looker.ask(Question::Commands);
        assert!(ask(1, 1000).is_empty());
        assert_eq!(looker.go_on(usize::MAX), []);
        assert_eq!(sys::read(begin.as_fd(), &mut [0; 9]), Ok(1));
        let heard = looker.open.as_ref().expect("open").heard;
        assert!(!looker.give_up(heard + 99));
        assert!(!looker.give_up(heard + 100));
        assert_eq!(sys::read(begin.as_fd(), &mut [0; 9]), Ok(1));
        assert_eq!(ask(2, 1001), [1000]);
        assert_eq!(looker.go_on(usize::MAX), []);
        assert!(!looker.give_up(monotonic_us() + 100));
        assert_eq!(ask(3, 1002), [1000, 1001]);
        assert_eq!(looker.go_on(usize::MAX), []);
        assert!(looker.give_up(monotonic_us() + 100));
        assert_eq!(looker.passed_over[&1000].1, PASSED_OVER_US.0);
        assert!(looker.gave_up());
        // What it says too late counts no more.
        looker.ask(Question::Commands);
        sock::send(its.as_fd(), &Said::End.packet(2)).expect("sent");
        assert_eq!(looker.go_on(usize::MAX), []);
        assert!(looker.is_busy());
        // Whoever lets himself be looked at again is not passed over any more.
        assert_eq!(ask(4, 1000), [1000, 1001, 1002]);
        sock::send(its.as_fd(), &Said::End.packet(4)).expect("sent");
        assert_eq!(looker.go_on(usize::MAX), [Said::End]);
        assert!(!looker.gave_up());
        assert_eq!(looker.passed_over.keys().collect::<Vec<_>>(), [&1001, &1002]);
    }
}
