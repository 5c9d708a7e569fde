//! Waiting: when a zombie's ghost is waited for, and when a process is forgotten.

use crate::effect::Command;
use crate::life::Ghost;
use crate::space::Space;
use crate::step::{Act, Mark, What};
use crate::table::{Body, End, Entry};
use vocab::{NodeId, Pid};

impl Space {
    /// The parent on `node` has waited. It counts where the parent's body is; a stand-in's waiting is the agent's own affair.
    pub(crate) fn reaped(&mut self, node: NodeId, pid: Pid) {
        let Some(entry) = self.table.get(pid).filter(|e| !e.reaped) else { return };
        let ppid = entry.person.ppid;
        let left = entry.left && entry.place == node;
        if left || !self.table.get(ppid).is_some_and(|p| p.acts_on(node)) {
            return;
        }
        if let Some(entry) = self.table.get_mut(pid) {
            entry.reaped = entry.ended();
            entry.reaped_early = !entry.reaped;
            if entry.reaped_early {
                return;
            }
        }
        if self.elide(pid) {
            return;
        }
        self.wait_by(ppid, pid);
    }

    fn wait_by(&mut self, ppid: Pid, pid: Pid) {
        let Some(entry) = self.table.get(pid) else { return };
        let mut after = entry.orphaned_by.clone();
        if let End::Queued(id) | End::Issued(id) = entry.end {
            after.push(id);
        }
        let mark = Mark { leaves: vec![entry.person.pgid], after, lasts: entry.asked, ..Mark::default() };
        let wait = self.push(ppid, Act::Command(Command::Reap(pid)), mark);
        if let Some(entry) = self.table.get_mut(pid) {
            entry.wait = wait;
        }
    }

    /// The body was waited for, but no ghost is going to wait for its ghost: the one that was has been killed.
    pub(crate) fn unawaited(&self, pid: Pid) -> bool {
        self.table.get(pid).is_some_and(|e| e.reaped && !e.wait.is_some_and(|id| self.steps.is_open(id)))
    }

    /// Who was to wait for `pid` will not: the one who has taken it does.
    pub(crate) fn wait_otherwise(&mut self, pid: Pid) {
        let Some(entry) = self.table.get(pid) else { return };
        let ppid = entry.person.ppid;
        if self.table.get(ppid).is_some_and(|p| p.has_body() && p.ghost.will_obey()) {
            self.wait_by(ppid, pid);
        } else {
            self.bury(pid);
        }
    }

    /// A process that came and went before its ghost was begun leaves no trace.
    fn elide(&mut self, pid: Pid) -> bool {
        let Some(entry) = self.table.get(pid) else { return false };
        let clones = entry.queue.iter().any(|s| matches!(s.act.what(), Some(What::Clone(_) | What::Kill(_))));
        if entry.ghost != Ghost::Wanted || clones || !entry.children.is_empty() {
            return false;
        }
        self.forget(pid);
        true
    }

    /// The parent's ghost has waited for `pid`.
    pub(crate) fn waited(&mut self, pid: Pid) {
        if self.table.get(pid).is_some_and(|e| e.reaped && e.ended()) {
            self.forget(pid);
        }
    }

    /// Forgets a process that has ended, here and there, and whom nobody will wait for.
    pub(crate) fn bury(&mut self, pid: Pid) {
        let Some(entry) = self.table.get(pid) else { return };
        if !entry.ended() || !entry.children.is_empty() {
            return;
        }
        // A parent waits for it, or leaves it to who takes it; natives see to that themselves.
        let by_us = |p: &Entry| p.leaving || !matches!(p.body, Body::Native | Body::Many(_));
        let zombie = entry.ghost == Ghost::Gone && self.table.get(entry.person.ppid).is_some_and(by_us);
        if matches!(entry.ghost, Ghost::Gone | Ghost::Absent) && !zombie {
            self.forget(pid);
        }
    }

    pub(crate) fn forget(&mut self, pid: Pid) {
        let Some(entry) = self.table.remove(pid) else { return };
        for step in entry.queue {
            self.steps.finish(step.id, &mut self.ready);
        }
        for given in entry.given {
            self.steps.finish(given.id, &mut self.ready);
        }
        if let End::Queued(id) | End::Issued(id) = entry.end {
            self.steps.finish(id, &mut self.ready);
        }
    }
}
