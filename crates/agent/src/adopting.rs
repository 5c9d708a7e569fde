//! Orphans elsewhere whose subreaper runs here. Only a process itself can have children, so the stand-in of the parent that ends makes
//! theirs while it is there; when it ends, this kernel gives them to the subreaper as it would give processes (linux: `find_new_reaper`).
//!
//! | state of an orphan | next |
//! |---|---|
//! | coming | its stand-in is made: waiting; it cannot be: forgotten, and the front end is told |
//! | waiting | its former parent's stand-in is gone: a child of the subreaper, which stops and ends as its body does |
//!
//! Until then stops and ends are put off: they would be told to the former parent. So is the end of a stand-in that has yet to wait for children.

use crate::agent::Agent;
use crate::stands::{Held, Stand, Why};
use crate::starts::Work;
use ghost::Command;
use std::collections::HashMap;
use vocab::{Exit, Pid, Sig};
use wire::event::Usage;
use wire::node::{Kin, ToFront};

/// One orphan, until it is the subreaper's.
#[derive(Debug)]
struct Orphan {
    /// Its former parent.
    from: Pid,
    made: bool,
    stopped: Option<Sig>,
    ended: Option<(Exit, Usage)>,
}

/// All orphans on their way, and ends of their former parents that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Adopting {
    orphans: HashMap<Pid, Orphan>,
    ends: HashMap<Pid, (Exit, Usage)>,
}

impl Adopting {
    /// Puts off a stop, or takes it back. `false` when `pid` is no orphan on its way.
    pub(crate) fn stops(&mut self, pid: Pid, stopped: Option<Sig>) -> bool {
        match self.orphans.get_mut(&pid) {
            Some(orphan) => {
                orphan.stopped = stopped;
                true
            }
            None => false,
        }
    }

    /// Puts off an end: of an orphan, or of a parent whose orphans are not made yet.
    fn ends(&mut self, pid: Pid, end: (Exit, Usage)) -> bool {
        if let Some(orphan) = self.orphans.get_mut(&pid) {
            orphan.ended = Some(end);
            return true;
        }
        let waits = self.waits(pid);
        if waits {
            self.ends.insert(pid, end);
        }
        waits
    }

    fn waits(&self, from: Pid) -> bool {
        self.orphans.values().any(|orphan| orphan.from == from && !orphan.made)
    }

    /// The orphan stands here, or cannot. The end of its former parent, if that has waited for this only.
    fn made(&mut self, pid: Pid, from: Pid, made: bool) -> Option<(Exit, Usage)> {
        match self.orphans.get_mut(&pid) {
            Some(orphan) if made => orphan.made = true,
            _ => {
                self.orphans.remove(&pid);
            }
        }
        if self.waits(from) {
            return None;
        }
        self.ends.remove(&from)
    }

    /// Those that the end of `from` has given to another.
    fn given(&mut self, from: Pid) -> Vec<(Pid, Orphan)> {
        self.orphans.extract_if(|_, orphan| orphan.from == from && orphan.made).collect()
    }
}

impl Agent {
    /// Lets an orphan of `from` stand here, so that its subreaper gets it.
    pub(crate) fn adopt(&mut self, kin: Kin, from: Pid) {
        let pid = kin.person.pid;
        if self.bodies.has(pid) || self.stands.has(pid) || self.starts.has(pid) {
            return; // it is somebody's child here already, and will stay that
        }
        self.adopting.orphans.insert(pid, Orphan { from, made: false, stopped: None, ended: None });
        self.starts.queue.push_back(Work::Orphan { person: kin.person, from });
        self.next_start();
    }

    pub(crate) fn orphan_made(&mut self, pid: Pid, from: Pid, made: bool) {
        let end = self.adopting.made(pid, from, made);
        if !made {
            self.uplink.send(&ToFront::StandInGone { pid });
        }
        if let Some((exit, usage)) = end {
            self.end_stand_in(from, exit, usage);
        }
    }

    pub(crate) fn end_put_off(&mut self, pid: Pid, exit: Exit, usage: Usage) -> bool {
        if self.adopting.ends(pid, (exit, usage)) {
            return true;
        }
        let waits = self.waits_first(pid);
        if waits {
            self.adopting.ends.insert(pid, (exit, usage));
        }
        waits
    }

    /// Is this a stand-in that has yet to wait for children here of which its process has been told, and will? When it ended the kernel would give them to who takes its
    /// orphans, and that would be told of them once more.
    fn waits_first(&self, pid: Pid) -> bool {
        let obeys = |stand: &Stand| stand.held == Held::Free && stand.runs() && !stand.ending;
        if !self.stands.get(pid).is_some_and(obeys) || self.moving.arrives(pid) {
            return false;
        }
        let ends = |child: &Pid| self.stands.get(*child).is_some_and(|stand| stand.ending);
        self.moving.has_to_wait(pid) || self.stands.children(pid).iter().any(ends)
    }

    /// It has waited for one, or does not obey any more: if its end was put off for no other reason, `true`, and it ends.
    pub(crate) fn end_goes_on(&mut self, pid: Pid) -> bool {
        if self.waits_first(pid) || self.adopting.waits(pid) {
            return false;
        }
        let end = self.adopting.ends.remove(&pid);
        end.map(|(exit, usage)| self.end_stand_in(pid, exit, usage)).is_some()
    }

    /// It has ended in another way.
    pub(crate) fn ends_no_more(&mut self, pid: Pid) {
        self.adopting.ends.remove(&pid);
    }

    /// The stand-in `from` ends now, and the kernel gives its children to the subreaper.
    pub(crate) fn adopted_here(&mut self, from: Pid) {
        for (pid, orphan) in self.adopting.given(from) {
            let Some(stand) = self.stands.get_mut(pid) else { continue };
            // Its parent is a body, as that of a `shoal run` is: it waits by itself, and nobody else sees that it has.
            stand.native_parent = stand.person.ppid;
            stand.why = Why::Runner;
            if let Some(sig) = orphan.stopped {
                self.mirror(pid, Some(sig));
            }
            if let Some((exit, usage)) = orphan.ended {
                self.end_stand_in(pid, exit, usage);
            }
        }
    }

    /// A process elsewhere takes orphans, or no more: so does its stand-in.
    pub(crate) fn stand_in_takes_orphans(&mut self, pid: Pid, on: bool) {
        self.stands.take_orphans(pid, on);
        if self.stands.get(pid).is_some_and(|stand| !stand.ending) {
            self.ghosts.command(pid, Command::Subreaper(on));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orphan(from: i32) -> Orphan {
        Orphan { from: Pid(from), made: false, stopped: None, ended: None }
    }

    fn end(code: u8) -> (Exit, Usage) {
        (Exit::Code(code), Usage::default())
    }

    #[test]
    fn a_parent_ends_when_all_its_orphans_stand_and_they_end_after_it() {
        let mut adopting = Adopting::default();
        assert!(!adopting.ends(Pid(10), end(1)) && !adopting.stops(Pid(11), Some(Sig::STOP)));
        adopting.orphans = HashMap::from([(Pid(11), orphan(10)), (Pid(12), orphan(10)), (Pid(21), orphan(20))]);
        assert!(adopting.ends(Pid(10), end(3)));
        assert!(adopting.ends(Pid(11), end(4)) && adopting.stops(Pid(12), Some(Sig::STOP)));
        assert_eq!(adopting.made(Pid(11), Pid(10), true), None);
        assert_eq!(adopting.made(Pid(12), Pid(10), true), Some(end(3)));
        assert!(!adopting.ends(Pid(10), end(3)));
        let mut given = adopting.given(Pid(10));
        given.sort_by_key(|(pid, _)| *pid);
        let given: Vec<_> = given.iter().map(|(pid, o)| (pid.0, o.stopped, o.ended)).collect();
        assert_eq!(given, [(11, None, Some(end(4))), (12, Some(Sig::STOP), None)]);
        assert!(!adopting.ends(Pid(11), end(4)));
    }

    #[test]
    fn an_orphan_that_cannot_stand_keeps_nobody() {
        let mut adopting = Adopting::default();
        adopting.orphans.insert(Pid(11), orphan(10));
        assert!(adopting.ends(Pid(10), end(3)));
        assert_eq!(adopting.made(Pid(11), Pid(10), false), Some(end(3)));
        assert!(adopting.given(Pid(10)).is_empty());
    }
}
