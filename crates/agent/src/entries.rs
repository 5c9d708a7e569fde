//! What /proc on the front end shows of bodies: it is asked for here, and a looker finds it out. Nobody here looks into it.
//!
//! What many read of all is one looker's work, and what somebody reads of one is another's: that may take its time.

use crate::agent::{Agent, Token};
use crate::looking::written::{self, Writer};
use crate::looking::{at_hand, Looker, Of, Question, Said};
use kern::clock::monotonic_us;
use kern::epoll::Interest;
use std::collections::VecDeque;
use vocab::errno::{EBUSY, EIO};
use vocab::{Pid, Result};
use wire::entry::{Content, Entry, Found, Wanted};
use wire::frame::{self, PIECE};
use wire::node::ToFront;

/// Questions that may wait.
const MOST: usize = 4096;
/// Processes that a looker is asked for at a time.
const AT_ONCE: usize = 4096;
/// Nothing more is taken from a looker while so many bytes wait to be sent: what users have in their processes does not fill the link.
const FULL: usize = 1024 * 1024;
/// Bytes that are taken from a looker at a time.
const TURN: usize = 512 * 1024;
/// Whoever waits hears that often that somebody is at it, in microseconds.
const STILL_US: u64 = 50_000;

/// A looker and what it is asked.
#[derive(Debug)]
struct Desk {
    looker: Looker,
    /// The first is being found out, if the looker is busy.
    waiting: VecDeque<(u64, Wanted)>,
    /// Of that one: who has yet to be looked at, and at what.
    rest: Vec<Pid>,
    of: Of,
    /// Whose that is, if it is one.
    user: Option<u32>,
    /// Not all was found.
    cut: bool,
    found: Vec<u8>,
    /// When something was said of it last (monotonic).
    said_us: u64,
    /// Nothing is taken from the looker.
    held: bool,
}

/// Questions that are not answered yet.
#[derive(Debug)]
pub(crate) struct Entries {
    desks: [Desk; 2],
}

impl Entries {
    /// With one who looks at many, and one who looks at one.
    pub(crate) fn new(many: Looker, one: Looker) -> Entries {
        let desk = |looker| Desk {
            looker,
            waiting: VecDeque::new(),
            rest: Vec::new(),
            of: Of::default(),
            user: None,
            cut: false,
            found: Vec::new(),
            said_us: 0,
            held: false,
        };
        Entries { desks: [desk(many), desk(one)] }
    }

    /// When [`Agent::entries_due`] is to be called at the latest (monotonic).
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.desks.iter().filter_map(Desk::due_us).min()
    }
}

impl Desk {
    fn due_us(&self) -> Option<u64> {
        let busy = self.looker.due_us().filter(|_| !self.held)?;
        Some(busy.min(self.said_us + STILL_US))
    }

    fn ask(&mut self) {
        let later = self.rest.split_off(self.rest.len().min(AT_ONCE));
        let now = std::mem::replace(&mut self.rest, later);
        self.looker.ask_at(Question::Entries(now, self.of.clone()), self.user);
    }
}

impl Agent {
    /// # Errors
    /// `Sys` when the lookers cannot be waited for.
    pub(crate) fn poll_entries(&self) -> Result<()> {
        let add = |(number, desk): (u32, &Desk)| {
            self.poller.add(desk.looker.fd(), Token::Entries(number).number(), Interest::READ)
        };
        (0..).zip(&self.entries.desks).try_for_each(add)
    }

    pub(crate) fn entries_wanted(&mut self, id: u64, wanted: Wanted) {
        if let Wanted::Machine { processors } = wanted {
            return self.tell_of_machine(id, processors);
        }
        let refused = match wanted {
            Wanted::Body { pid } | Wanted::Entry { pid, .. } | Wanted::Write { pid, .. } if !self.bodies.has(pid) => {
                Some(0)
            }
            _ => None,
        };
        let found = match &wanted {
            Wanted::Entry { pid, path } if refused.is_none() => at_hand::look(&self.proc, *pid, path),
            Wanted::Write { pid, path, text, uid, capabilities } if refused.is_none() => {
                let who = Writer { uid: *uid, capabilities: *capabilities };
                written::write(&self.proc, *pid, path, text, who)
            }
            _ => None,
        };
        if let Some(found) = found {
            return self.tell_entry(id, &found);
        }
        let which = usize::from(matches!(wanted, Wanted::Entry { .. }));
        let full = self.entries.desks[which].waiting.len() >= MOST;
        if let Some(errno) = refused.or(full.then_some(EBUSY)) {
            return self.uplink.send(&ToFront::Entries { id, found: Vec::new(), last: true, errno });
        }
        self.entries.desks[which].waiting.push_back((id, wanted));
        self.next_entries(which);
    }

    /// What it says of itself is nobody's, and is there at once.
    fn tell_of_machine(&mut self, id: u64, processors: bool) {
        let entry = |(name, text): (&str, Vec<u8>)| Entry { path: name.into(), mode: 0, content: Content::Text(text) };
        let entries = kern::machine::files(processors).into_iter().map(entry).collect();
        let (mut bytes, found) = (Vec::new(), Found { pid: Pid::NONE, uid: 0, gid: 0, entries });
        let errno = frame::encode(&found, &mut bytes).map_or(EIO, |()| 0);
        let mut pieces = bytes.chunks(PIECE).peekable();
        while let Some(piece) = pieces.next() {
            let (found, last) = (piece.to_vec(), pieces.peek().is_none());
            self.uplink.send(&ToFront::Entries { id, found, last, errno });
        }
        if bytes.is_empty() {
            self.uplink.send(&ToFront::Entries { id, found: Vec::new(), last: true, errno });
        }
    }

    fn next_entries(&mut self, which: usize) {
        let desk = &mut self.entries.desks[which];
        if desk.looker.is_busy() {
            return;
        }
        let Some((_, wanted)) = desk.waiting.front() else { return };
        let (pids, of) = match wanted {
            Wanted::All { common, paths } => {
                let mut pids: Vec<Pid> = self.bodies.iter().map(|body| body.person.pid).collect();
                pids.sort_unstable();
                let paths = paths.iter().map(|path| path.clone().into_bytes()).collect();
                (pids, Of { common: *common, whole: false, paths })
            }
            Wanted::Body { pid } => (vec![*pid], Of { common: true, ..Of::default() }),
            // Answered at once; of one that is gone nothing is found.
            Wanted::Machine { .. } | Wanted::Write { .. } => (Vec::new(), Of::default()),
            Wanted::Entry { pid, path } => (vec![*pid], Of { common: false, whole: true, paths: vec![path.clone()] }),
        };
        let one = match &pids[..] {
            [pid] => self.bodies.get(*pid),
            _ => None,
        };
        desk.user = one.map(|body| body.person.creds.uid.real);
        (desk.rest, desk.of, desk.cut, desk.said_us) = (pids, of, false, monotonic_us());
        desk.ask();
    }

    /// Of one, and that is all.
    fn tell_entry(&mut self, id: u64, of: &Found) {
        let mut found = Vec::new();
        // A link fits a frame.
        let _ = frame::encode(of, &mut found);
        self.uplink.send(&ToFront::Entries { id, found, last: true, errno: 0 });
    }

    /// A looker has found something, or does not answer.
    pub(crate) fn entries_looked(&mut self, which: usize) {
        let Some(desk) = self.entries.desks.get_mut(which).filter(|desk| !desk.held) else { return };
        for said in desk.looker.go_on(TURN) {
            let desk = &mut self.entries.desks[which];
            match said {
                Said::Entries(found) => {
                    desk.found.extend(found);
                    if desk.found.len() >= PIECE {
                        self.tell_entries(which, false);
                    }
                }
                Said::End => {
                    desk.cut |= desk.looker.gave_up();
                    if !desk.rest.is_empty() {
                        desk.ask();
                        continue;
                    }
                    self.tell_entries(which, true);
                    self.entries.desks[which].waiting.pop_front();
                    self.next_entries(which);
                }
                Said::Last(_) | Said::At { .. } | Said::Command { .. } | Said::Awaited { .. } => {}
            }
        }
        if self.uplink.queued() >= FULL {
            self.hold_entries(which, true);
        }
    }

    fn hold_entries(&mut self, which: usize, held: bool) {
        let desk = &mut self.entries.desks[which];
        let interest = if held { Interest::empty() } else { Interest::READ };
        if self.poller.modify(desk.looker.fd(), Token::Entries(which as u32).number(), interest).is_ok() {
            desk.held = held;
            desk.looker.wait_on();
        }
    }

    /// What waited for room on the link goes on.
    pub(crate) fn let_entries_go(&mut self) {
        for which in 0..self.entries.desks.len() {
            if self.entries.desks[which].held && self.uplink.queued() < FULL {
                self.hold_entries(which, false);
            }
        }
    }

    pub(crate) fn entries_due(&mut self, now: u64) {
        for which in 0..self.entries.desks.len() {
            if self.entries.desks[which].due_us().is_some_and(|due| due <= now) {
                self.entries_looked(which);
            }
            let desk = &mut self.entries.desks[which];
            if desk.looker.is_busy() && !desk.held && desk.said_us + STILL_US <= now {
                self.tell_entries(which, false);
            }
        }
    }

    fn tell_entries(&mut self, which: usize, last: bool) {
        let desk = &mut self.entries.desks[which];
        let Some(id) = desk.waiting.front().map(|(id, _)| *id) else { return };
        desk.said_us = monotonic_us();
        let found = std::mem::take(&mut desk.found);
        let errno = if last && desk.cut { EIO } else { 0 };
        self.uplink.send(&ToFront::Entries { id, found, last, errno });
    }
}
