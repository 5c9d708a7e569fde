//! Whose children processes and stand-ins are here after their parent has ended, as this kernel has decided.

use crate::agent::Agent;
use crate::bodies::Life;
use ghost::Command;
use kern::clock::monotonic_us;
use kern::proc::exists;
use vocab::{Exit, Pid};
use wire::event::Usage;

/// For so long, in microseconds, a stand-in is waited for that may have a wait to tell of.
const DOUBTFUL_US: u64 = 1_000_000;

impl Agent {
    /// Its children have got another parent by now: all the same one (linux: `forget_original_parent`), so one of them tells for all.
    pub(crate) fn reparent_children(&mut self, pid: Pid) {
        self.reparent_stand_ins(pid);
        let ended = |child: &Pid| self.bodies.get(*child).is_some_and(|body| body.life == Life::Ended);
        let waited_for = |child: &Pid| ended(child) && !exists(*child);
        let (gone, children): (Vec<_>, Vec<_>) = self.bodies.children(pid).into_iter().partition(waited_for);
        self.bodies.doubtful.extend(gone.into_iter().map(|child| (monotonic_us() + DOUBTFUL_US, child)));
        let parent = children.iter().find_map(|child| self.proc.parent(*child).ok());
        for child in children {
            let lives = exists(child);
            if !lives && parent == Some(Pid::INIT) {
                // `pid` has waited for it before that ended: of those that init gets its own wait tells.
                self.leaving.insert(child);
                continue;
            }
            if !lives {
                self.bodies.doubtful.push((monotonic_us() + DOUBTFUL_US, child));
            }
            parent.into_iter().for_each(|parent| self.apply_parent(child, parent));
        }
    }

    /// All records are read. Stand-ins whose parents here have ended by then have another one, before that waits for them: what is gone by now those parents have waited
    /// for, which nobody could tell later.
    pub(crate) fn orphans_are_known(&mut self) {
        self.watch();
        let ends = |pid: &Pid| self.bodies.get(*pid).is_some_and(|body| body.life != Life::Live);
        for parent in self.stands.parents().filter(ends).collect::<Vec<_>>() {
            if kern::pending::read(parent).is_none_or(|now| matches!(now.state, b'Z' | b'X')) {
                self.runners_waited_for(parent);
                self.reparent_stand_ins(parent);
            }
        }
    }

    /// So have those that stand here as its children, and those that move, if it is not about to end yet.
    pub(crate) fn reparent_stand_ins(&mut self, pid: Pid) {
        let is_body = self.bodies.has(pid);
        for child in self.stands.children(pid) {
            let parent = self.proc.parent(child);
            // Whoever got it from a body has waited for it already: another body, or what stands here for a process elsewhere, which tells.
            if parent.is_err() && is_body {
                self.bodies.doubtful.push((monotonic_us() + DOUBTFUL_US, child));
            }
            self.stands.set_native_parent(child, parent.unwrap_or(Pid::INIT));
        }
        self.reparent_moving(pid);
    }

    /// What a stand-in gets of a parent that ends, and has waited for, that tells of. What nobody has told of by now that parent had waited for.
    pub(crate) fn settle_doubtful(&mut self, now: u64) {
        let (due, later) = std::mem::take(&mut self.bodies.doubtful).into_iter().partition(|(due, _)| *due <= now);
        self.bodies.doubtful = later;
        for (_, pid) in due {
            if self.bodies.has(pid) && !exists(pid) {
                self.ended(pid, Exit::Code(0), Usage::default());
                self.reaped(pid);
            } else if self.stands.get(pid).is_some_and(|stand| stand.ending) && !exists(pid) {
                self.runner_reaped(pid);
            }
        }
    }

    /// Its children that arrive, or remain here, have got another parent by now.
    fn reparent_moving(&mut self, pid: Pid) {
        let proc = &self.proc;
        for (child, of) in self.moving.reparent(pid, |child| proc.parent(child).unwrap_or(Pid::INIT)) {
            self.is_to_be_waited_for(child, of);
        }
    }

    /// `pid` remains here, which is nothing to its parent if that arrives meanwhile: it begins when it has been waited for.
    pub(crate) fn is_to_be_waited_for(&mut self, pid: Pid, parent: Pid) {
        if self.moving.arrives(parent) && self.stands.has(parent) {
            self.ghosts.command(parent, Command::Wait { pid, options: kern::wait::WALL });
        } else {
            self.waits_for(parent, pid);
        }
    }
}
