//! What /proc on the front end shows of bodies: it is asked for here, and a looker finds it out. Nobody here looks into it.

use crate::agent::Agent;
use crate::looking::{Looker, Question, Said};
use std::collections::VecDeque;
use vocab::errno::EBUSY;
use vocab::Pid;
use wire::entry::Wanted;
use wire::frame::PIECE;
use wire::node::ToFront;

/// Questions that may wait; who asks waits for a tenth of a second.
const MOST: usize = 4096;

/// Questions that are not answered yet.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) looker: Looker,
    /// The first is being found out, if the looker is busy.
    waiting: VecDeque<(u64, Wanted)>,
    found: Vec<u8>,
}

impl Entries {
    pub(crate) fn new(looker: Looker) -> Entries {
        Entries { looker, waiting: VecDeque::new(), found: Vec::new() }
    }
}

impl Agent {
    pub(crate) fn entries_wanted(&mut self, id: u64, wanted: Wanted) {
        if self.entries.waiting.len() >= MOST {
            let refused = ToFront::Entries { id, found: Vec::new(), last: true, errno: EBUSY };
            return self.uplink.send(&refused);
        }
        self.entries.waiting.push_back((id, wanted));
        self.next_entries();
    }

    fn next_entries(&mut self) {
        if self.entries.looker.is_busy() {
            return;
        }
        let Some((_, wanted)) = self.entries.waiting.front() else { return };
        let question = match wanted {
            Wanted::All => {
                let mut pids: Vec<Pid> = self.bodies.iter().map(|body| body.person.pid).collect();
                pids.sort_unstable();
                Question::Entries(pids, None)
            }
            Wanted::Body { pid } => Question::Entries(vec![*pid], None),
            Wanted::Entry { pid, path } => Question::Entries(vec![*pid], Some(path.clone())),
        };
        self.entries.looker.ask(question);
    }

    /// The looker has found something, or does not answer.
    pub(crate) fn entries_looked(&mut self) {
        for said in self.entries.looker.go_on() {
            match said {
                Said::Entries(found) => {
                    self.entries.found.extend(found);
                    if self.entries.found.len() >= PIECE {
                        self.tell_entries(false);
                    }
                }
                Said::End => {
                    self.tell_entries(true);
                    self.entries.waiting.pop_front();
                    self.next_entries();
                }
                Said::At { .. } | Said::Command { .. } | Said::Awaited { .. } => {}
            }
        }
    }

    fn tell_entries(&mut self, last: bool) {
        let Some(id) = self.entries.waiting.front().map(|(id, _)| *id) else { return };
        let found = std::mem::take(&mut self.entries.found);
        self.uplink.send(&ToFront::Entries { id, found, last, errno: 0 });
    }
}
