//! A concentrator: it answers with what many monitors answer, which may be concentrators themselves.
//!
//! The question goes to them as it came, and their answers come out as they are: it knows nothing of what they sample. A client has connections of its own
//! to all of them as long as it is served, since of what has changed each is told what is news to it; one that has never asked for that leaves them to the next.

use crate::ask::{Ask, Verb};
use crate::gather::{From, Gather};
use crate::serve::{Answers, Turn, OTHERS};
use crate::text::{self, Form};
use kern::epoll::{Interest, Poller, Ready};
use std::collections::HashMap;
use std::os::fd::AsFd;
use tracing::warn;
use vocab::{Fault, Result};

/// Clients that are served at one time.
const MOST_SETS: usize = 64;
/// Connections kept for clients to come.
const MOST_SPARE: usize = 2;

struct Set {
    gather: Gather,
    client: Option<u32>,
    /// In which form it was asked what is under way.
    asked: Option<Form>,
    /// Monitors remember what they have told it.
    remembered: bool,
}

/// Answers with what others answer.
pub struct Concentrator {
    from: Vec<From>,
    limit_us: u64,
    sets: HashMap<u64, Set>,
    next: u64,
    /// Who was silent in the last round of anybody.
    silent: Vec<bool>,
}

impl Concentrator {
    /// `limit_us`: microseconds after which who has not answered is marked.
    pub fn new(from: Vec<From>, limit_us: u64) -> Concentrator {
        Concentrator { from, limit_us, sets: HashMap::new(), next: 0, silent: Vec::new() }
    }

    fn set_of(&mut self, poller: &Poller, client: u32) -> Result<&mut Set> {
        let of =
            |wanted: Option<u32>| self.sets.iter().find(|(_, set)| set.client == wanted).map(|(number, _)| *number);
        let number = match of(Some(client)).or_else(|| of(None)) {
            Some(number) => number,
            None if self.sets.len() >= MOST_SETS => {
                return Err(Fault::refused(format!("{MOST_SETS} clients are served already")))
            }
            None => {
                let gather = Gather::new(&self.from, self.limit_us)?;
                let number = self.next;
                poller.add(gather.as_fd(), OTHERS + number, Interest::READ)?;
                self.next += 1;
                self.sets.insert(number, Set { gather, client: None, asked: None, remembered: false });
                number
            }
        };
        let set = self.sets.get_mut(&number).ok_or_else(|| Fault::bug("a set that was there a moment ago"))?;
        set.client = Some(client);
        Ok(set)
    }
}

impl Answers for Concentrator {
    fn answer(&mut self, poller: &Poller, client: u32, line: &[u8], out: &mut Vec<u8>) -> Turn {
        let silent = self.silent.clone();
        let begun = Ask::read(line).and_then(|ask| match self.set_of(poller, client) {
            Ok(set) => {
                set.remembered |= ask.verb == Verb::Changed;
                set.asked = Some(ask.form);
                set.gather.expect_silence(&silent);
                set.gather.begin(ask.line().as_bytes());
                Ok(())
            }
            Err(fault) => Err((ask.form, fault.to_string())),
        });
        match begun {
            Ok(()) => Turn::Later,
            Err((form, why)) => {
                text::write_error(form, &why, out);
                out.push(b'\n');
                Turn::Answered
            }
        }
    }

    fn gone(&mut self, client: u32) {
        let Some((number, set)) = self.sets.iter_mut().find(|(_, set)| set.client == Some(client)) else { return };
        let number = *number;
        // One whose round is under way would give its answers to the next client.
        let clean = !set.remembered && set.asked.is_none();
        set.client = None;
        let spare = self.sets.values().filter(|set| set.client.is_none()).count();
        if !clean || spare > MOST_SPARE {
            self.sets.remove(&number);
        }
    }

    fn ready(&mut self, _: &Poller, event: Ready) {
        // A round that is over is looked at in `later`, for its time too.
        if let Some(set) = self.sets.get_mut(&(event.token - OTHERS)).filter(|set| set.asked.is_none()) {
            if let Err(fault) = set.gather.turn() {
                warn!(%fault, "monitors cannot be waited for");
            }
        }
    }

    fn deadline(&self) -> Option<u64> {
        self.sets.values().filter(|set| set.asked.is_some()).map(|set| set.gather.deadline()).min()
    }

    fn later(&mut self, _: &Poller, _: u64, answers: &mut Vec<(u32, Vec<u8>)>) {
        for set in self.sets.values_mut() {
            let (Some(form), Some(client)) = (set.asked, set.client) else { continue };
            match set.gather.turn() {
                Ok(false) => continue,
                Ok(true) => {}
                Err(fault) => warn!(%fault, "monitors cannot be waited for"),
            }
            self.silent = set.gather.silent_ones();
            let mut answer = Vec::new();
            set.gather.join(form, &mut answer);
            answer.push(b'\n');
            set.asked = None;
            answers.push((client, answer));
        }
    }
}
