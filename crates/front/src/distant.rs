//! Views of /proc on nodes (`shoal shell` there): each is told which processes are elsewhere, and asks what those show, as the front end's own does
//! ([`crate::views`]). A view is a question ([`wire::ask::Ask::Ghosts`]) of a client of the node's agent, which ends with that client, or with the node's link.

use crate::front::Front;
use crate::runs::Asker;
use crate::told::about;
use kern::clock::monotonic_us;
use procfs::told::{News, Told};
use space::{Event, Space};
use std::collections::{BTreeMap, HashMap};
use tracing::info;
use vocab::{Fault, NodeId, Pid};
use wire::ask::Answer;
use wire::entry::Wanted;
use wire::run::Caller;

/// Numbers of questions from here on are this daemon's own; those below are of the front end's own view, which counts microseconds.
const OURS: u64 = 1 << 63;
/// Questions that are not answered, of all views together; those that are older than this, in microseconds, never will be: the view has given them up.
const MOST: usize = 65_536;
const LOST_US: u64 = 10_000_000;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Distant {
    views: BTreeMap<Asker, Told>,
    /// What is asked of nodes, by number: for whom, what that one calls it, and when it was asked (monotonic).
    asked: HashMap<u64, (Asker, u64, u64)>,
    last: u64,
}

impl Distant {
    pub(crate) fn about(&mut self, event: &Event) {
        self.views.values_mut().for_each(|told| about(told, event));
    }

    /// Whose question this is; with `last` it is answered.
    pub(crate) fn asked(&mut self, id: u64, last: bool) -> Option<(Asker, u64)> {
        let known = match last {
            true => self.asked.remove(&id),
            false => self.asked.get(&id).copied(),
        };
        known.map(|(asker, id, _)| (asker, id))
    }

    pub(crate) fn gone(&mut self, asker: Asker) {
        self.views.remove(&asker);
        self.asked.retain(|_, (of, ..)| *of != asker);
    }

    /// Who waits for answers there has been told that none come ([`wire::ask::Answer::Failed`]), and asks anew.
    pub(crate) fn link_lost(&mut self, node: NodeId) {
        let is_there = |asker: &Asker| matches!(asker, Asker::Remote { node: at, .. } if *at == node);
        self.views.retain(|asker, _| !is_there(asker));
        self.asked.retain(|_, (of, ..)| !is_there(of));
    }
}

/// Where a process is that a view on node `at` is to show: it is on another one.
fn shown(space: &Space, at: NodeId, pid: Pid) -> Option<NodeId> {
    let node = space.get(pid)?.node;
    (!node.is_front() && node != at).then_some(node)
}

impl Front {
    /// Somebody on a node asks for a view, who is root there.
    pub(crate) fn distant_view(&mut self, asker: Asker) {
        let Asker::Remote { node, .. } = asker else { return };
        info!(%node, "/proc there shows what other nodes do, to who has a view of that");
        self.views.distant.views.insert(asker, Told::nothing_of(self.space.iter().map(|view| view.person.pid)));
        // It waits for the first word before it shows anything, and there may be nothing to tell.
        let nothing = Answer::Ghosts { stand: Vec::new(), gone: Vec::new(), others: Vec::new() };
        self.tell_distant_views();
        self.answer(asker, nothing, false);
    }

    pub(crate) fn tell_distant_views(&mut self) {
        let (space, mut all) = (&self.space, Vec::new());
        for (asker, told) in &mut self.views.distant.views {
            let Asker::Remote { node: at, .. } = *asker else { continue };
            while let Some(News { stand, gone, others }) = told.news(|pid| shown(space, at, pid)) {
                all.push((*asker, Answer::Ghosts { stand, gone, others }));
            }
        }
        // A link that takes none of it is closed, and then its views are gone.
        for (asker, answer) in all {
            self.answer(asker, answer, false);
        }
    }

    pub(crate) fn on_distant_entries_wanted(
        &mut self,
        asker: Asker,
        caller: &Caller,
        id: u64,
        node: NodeId,
        wanted: Wanted,
    ) {
        let now = monotonic_us();
        if self.views.distant.asked.len() >= MOST {
            self.views.distant.asked.retain(|_, (.., at_us)| *at_us + LOST_US > now);
        }
        let refused = match () {
            () if caller.creds.uid.effective != 0 => "tell what is in /proc: that is for root",
            () if self.views.distant.asked.len() >= MOST => "ask for more: too many questions wait for their nodes",
            () => {
                let number = OURS | self.views.distant.last;
                self.views.distant.last = (self.views.distant.last + 1) % OURS;
                self.views.distant.asked.insert(number, (asker, id, now));
                return self.ask_for_entries(number, node, wanted);
            }
        };
        self.answer(asker, Answer::Failed(Fault::refused(refused)), true);
    }
}
