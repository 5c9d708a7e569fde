//! Stand-ins end as their processes elsewhere have. Some ends are put off, since who takes orphans here would be told what it was told already, or never.
//!
//! | put off: the end of | waits until |
//! |---|---|
//! | an orphan on its way | its former parent has ended ([`crate::adopting`]) |
//! | a parent whose orphans are to stand here | they do, or cannot |
//! | a parent that has yet to wait for children here of which its process has been told | it has |
//! | a parent that waits for children here of which its process has not been told | it waits for nobody ([`crate::unheard`]) |
//! | what is to become a process that arrives | it does not come, or a SIGKILL keeps it from becoming that |
//!
//! A stand-in of which something else has made an end has none that waits.

use crate::agent::Agent;
use crate::bodies::Life;
use crate::deliver::plain;
use crate::standing::WAIT;
use crate::stands::{Held, Later, Stand};
use ghost::Command;
use std::collections::HashMap;
use tracing::debug;
use vocab::{Exit, Fault, Pid, Sig};
use wire::event::Usage;

/// Ends that wait for those to whom they belong.
#[derive(Debug, Default)]
pub(crate) struct Ends(HashMap<Pid, (Exit, Usage)>);

impl Ends {
    /// Is this one to end, and does not yet?
    pub(crate) fn wait_for(&self, pid: Pid) -> bool {
        self.0.contains_key(&pid)
    }
}

impl Agent {
    /// The body of a process that stands here ended.
    pub(crate) fn end_stand_in(&mut self, pid: Pid, exit: Exit, usage: Usage) {
        if self.starts.is_later(pid, Later::Ends(exit, usage)) {
            return;
        }
        self.starts.forget_kin(pid);
        self.stands.take_orphans(pid, false);
        if self.arrival_ended(pid, exit, usage) {
            self.arrives_killed(pid);
            return;
        }
        if self.end_put_off(pid, exit, usage) {
            return;
        }
        let Some(stand) = self.stands.get_mut(pid) else { return self.next_start() };
        stand.ending = true;
        (stand.exit, stand.usage) = (Some(exit), usage);
        if let Some(parent) = Some(stand.native_parent()).filter(|parent| self.bodies.has(*parent)) {
            self.trace_waiting(parent);
        }
        self.ends_here(pid, exit);
    }

    /// A stand-in that is marked as ending is to end so.
    pub(crate) fn ends_here(&mut self, pid: Pid, exit: Exit) {
        let Some(stand) = self.stands.get(pid) else { return };
        let (held, runs) = (stand.held, stand.runs());
        if held == Held::Dying {
            return self.release(pid);
        }
        // A stop, done or pending, must not keep it from its end.
        let caught = matches!(held, Held::Caught | Held::Killed);
        match exit {
            Exit::NodeLost | Exit::Killed { sig: Sig::KILL, .. } if caught || !runs => {
                let _ = plain(pid, Sig::KILL);
            }
            _ if caught => {
                // SIGCONT takes it back (prepare_signal).
                let _ = plain(pid, Sig::CONT);
            }
            _ => self.rouse(pid),
        }
        self.give_end(pid, exit);
        if caught {
            self.ghosts.interrupt(pid);
        }
    }

    fn give_end(&mut self, pid: Pid, exit: Exit) {
        self.ghosts.command(
            pid,
            match exit {
                Exit::Code(code) => Command::Exit(code),
                Exit::Killed { sig, core } => Command::Die { sig, core },
                Exit::NodeLost => Command::Die { sig: Sig::KILL, core: false },
            },
        );
    }

    /// Puts off the end of `pid`, if there is a reason.
    fn end_put_off(&mut self, pid: Pid, exit: Exit, usage: Usage) -> bool {
        if let Some(from) = self.adopting.ends(pid, (exit, usage)) {
            // What was made of it for its parent to become is not it yet, and ends.
            let lives = self.stands.get(pid).is_some_and(|stand| !stand.ending);
            return !(lives && self.moving.arrives(from));
        }
        let waits = self.waits_first(pid);
        if waits {
            debug!(%pid, "its end waits");
            self.ends.0.insert(pid, (exit, usage));
            for child in self.children_that_end(pid) {
                self.waits_for(pid, child);
            }
        }
        waits
    }

    /// Should the end of `pid` wait for `child`, which has ended or will at once, it is not to miss that: not all tell of it by SIGCHLD (clone(2)).
    pub(crate) fn waits_for(&mut self, pid: Pid, child: Pid) -> bool {
        let waits = self.ends.wait_for(pid);
        if waits {
            self.ghosts.command(pid, Command::Wait { pid: child, options: kern::wait::WALL });
        }
        waits
    }

    /// Has it orphans to make, or does it obey and has yet to wait for children of whose end its process has been told? When it ended before that the kernel would give them to
    /// who takes its orphans, and that would be told of them once more.
    fn waits_first(&self, pid: Pid) -> bool {
        let obeys = |stand: &Stand| stand.held == Held::Free && stand.runs() && !stand.ending;
        let ends = |child: &Pid| self.ends.wait_for(*child) || self.starts.ends_later(*child);
        let later = || self.stands.children(pid).iter().any(ends) || self.moving.has_child_ended_on_the_way(pid);
        let is_waiting = || self.unheard.spares(pid) && self.ghosts.works_on(pid, |command| *command == WAIT);
        let waits = || is_waiting() || later() || !self.children_that_end(pid).is_empty();
        self.adopting.waits(pid) || self.stands.get(pid).is_some_and(obeys) && waits()
    }

    /// Children here that have ended, or will at once, and for which nobody has waited.
    fn children_that_end(&self, pid: Pid) -> Vec<Pid> {
        let ended = |child: &Pid| self.bodies.get(*child).is_some_and(|body| body.life == Life::Ended);
        let stands = self.stands.children_of(pid).filter(|stand| stand.ending).map(|stand| stand.person.pid);
        let heard_of = |child: &Pid| !self.unheard.is_spared(*child);
        let bodies = self.bodies.children(pid).into_iter().filter(ended).filter(heard_of);
        self.moving.remaining(pid).chain(stands).chain(bodies).collect()
    }

    /// Something has happened for which the end of `pid` may have waited: if it has not to wait any more, `true`, and it ends.
    pub(crate) fn end_goes_on(&mut self, pid: Pid) -> bool {
        if self.arrives_killed(pid) {
            return true;
        }
        if !self.ends.wait_for(pid) || self.waits_first(pid) {
            return false;
        }
        let end = self.ends.0.remove(&pid);
        end.map(|(exit, usage)| self.end_stand_in(pid, exit, usage)).is_some()
    }

    /// One that was to come has ended where it was, and a SIGKILL keeps what stands for it: that becomes nothing any more, nobody tells that it does not, and so it ends now.
    fn arrives_killed(&mut self, pid: Pid) -> bool {
        let killed = |stand: &Stand| matches!(stand.held, Held::Killed | Held::Dying);
        let in_vain = self.moving.ended_on_the_way(pid) && self.stands.get(pid).is_some_and(killed);
        if in_vain {
            self.arrival_fails(pid, Fault::gone("it has ended where it was"));
        }
        in_vain
    }

    /// It has ended in another way.
    pub(crate) fn ends_no_more(&mut self, pid: Pid) {
        self.ends.0.remove(&pid);
    }
}
