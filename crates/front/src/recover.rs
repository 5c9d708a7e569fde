//! What a daemon finds that follows another one: the stand-ins, whose bodies their nodes will claim, each as it comes back.

use crate::front::Front;
use crate::parents::Kept;
use ghost::Happened;
use kern::clock::monotonic_us;
use link::beat::Agreed;
use space::Event;
use std::collections::BTreeSet;
use tracing::{info, warn};
use vocab::{Pid, Result};

/// Stand-ins that neither hold nor are stopped are waited for so long, in microseconds: one command, of which none blocks.
const FIND_US: u64 = 2_000_000;

impl Front {
    /// Finds the stand-ins of a daemon before this one. Before any node or client is heard.
    pub(crate) fn recover(&mut self) -> Result<()> {
        let mut happened = Vec::new();
        let found = crate::holder::users(&self.proc, &self.hold_file())?;
        let stopped = self.ghosts.recover(&found, monotonic_us() + FIND_US, &mut happened)?;
        let mut all: BTreeSet<Pid> = stopped.clone();
        all.extend(happened.iter().filter_map(|one| match one {
            Happened::Held { pid } | Happened::Dying { pid } => Some(*pid),
            _ => None,
        }));
        for pid in &all {
            match crate::persons::read(&self.proc, *pid) {
                Ok(person) => self.events.push_back(Event::GhostFound { person, stopped: stopped.contains(pid) }),
                Err(fault) => warn!("{fault}"),
            }
        }
        for (parent, Kept { worst, copies }) in self.parents.left_by_predecessor(&all) {
            self.events.push_back(Event::CopiesFound { parent, worst, copies });
        }
        self.recover_homes();
        for one in happened {
            if !matches!(one, Happened::Held { .. }) {
                self.on_ghost(one);
            }
        }
        self.settle_at_us = Some(monotonic_us() + Agreed::within(self.config.lost_after).lost_us);
        info!(ghosts = all.len(), stopped = stopped.len(), "takes over");
        self.settle();
        self.recover_aways()?;
        self.look_who_is_claimed();
        Ok(())
    }

    /// Stand-ins keep their signals until their nodes are back: a daemon that follows this one before that gets them again.
    pub(crate) fn look_who_is_claimed(&mut self) {
        let known = |pid: &Pid| self.space.get(*pid).is_none_or(|view| !view.unclaimed);
        let claimed: Vec<Pid> = self.ghosts.unclaimed().filter(known).collect();
        claimed.into_iter().for_each(|pid| self.ghosts.claimed(pid));
    }

    /// The time in which nodes could come back is over: what no node has claimed has ended.
    pub(crate) fn settle_in_time(&mut self, now: u64) {
        if self.settle_at_us.is_none_or(|at| now < at) {
            return;
        }
        self.settle_at_us = None;
        for node in self.leases.owners() {
            if self.nodes.get(node).is_none() {
                self.leases.take_back(node);
            }
        }
        self.departed_settle();
        self.doubts_over();
        self.stands_settle();
        self.events.push_back(Event::Settled);
        self.settle();
        self.look_who_is_claimed();
        info!("settled");
        self.early_again();
    }
}
