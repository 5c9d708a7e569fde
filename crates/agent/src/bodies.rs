//! The processes of the space that run on this node: who they are, and whose children.

use std::collections::{BTreeSet, HashMap};
use vocab::{Creds, Pid};
use wire::event::Person;

/// Where a body is in its life.
///
/// | state | what is known |
/// |---|---|
/// | Live | it runs |
/// | Leaving | its first thread has exited; it ends when the others have, unless one of them exec'd |
/// | Ended | it is a zombie: its end has been told, its parent has not waited yet |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    Live,
    Leaving,
    Ended,
}

/// One body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Body {
    pub(crate) person: Person,
    pub(crate) life: Life,
    /// It takes the orphans among its descendants.
    takes_orphans: bool,
    /// It has made others, here or before it came.
    forks: bool,
    ids: Ids,
    /// It was made by a process in whose place a stand-in is: its end may send that no SIGCHLD.
    left: bool,
    /// Does it live in a PID namespace that was made on this node? `None`: nobody has looked. It is so for life.
    apart: Option<bool>,
    /// Somebody here has a pidfd of it, or may have one.
    held: bool,
}

/// May its user and groups be others than the table has?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ids {
    Known,
    /// It has executed a program, which may have changed them by then, since somebody looked.
    Executed,
    /// It has made a call that changes them, at some time after the gate: it is never known when that has been seen.
    Changes,
}

/// The table of bodies.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    table: HashMap<Pid, Body>,
    /// By parent, which need not be a body.
    children: HashMap<Pid, BTreeSet<Pid>>,
    /// How many bodies have this number as group, and as session, together.
    places: HashMap<Pid, usize>,
    /// Gone, by whose wait is not known; and until when a stand-in may tell that it was its (monotonic, microseconds).
    pub(crate) doubtful: Vec<(u64, Pid)>,
}

impl Bodies {
    pub(crate) fn has(&self, pid: Pid) -> bool {
        self.table.contains_key(&pid)
    }

    /// Is it a body whose end nothing has told of?
    pub(crate) fn is_live(&self, pid: Pid) -> bool {
        self.get(pid).is_some_and(|body| body.life == Life::Live)
    }

    pub(crate) fn get(&self, pid: Pid) -> Option<&Body> {
        self.table.get(&pid)
    }

    pub(crate) fn person(&self, pid: Pid) -> Option<&Person> {
        self.table.get(&pid).map(|body| &body.person)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Body> {
        self.table.values()
    }

    pub(crate) fn children(&self, pid: Pid) -> Vec<Pid> {
        self.children.get(&pid).map_or(Vec::new(), |set| set.iter().copied().collect())
    }

    /// How many those are.
    pub(crate) fn count_children(&self, pid: Pid) -> usize {
        self.children.get(&pid).map_or(0, BTreeSet::len)
    }

    pub(crate) fn add(&mut self, person: Person) {
        self.remove(person.pid);
        self.children.entry(person.ppid).or_default().insert(person.pid);
        self.enter_place(person.pgid);
        self.enter_place(person.sid);
        let (life, ids) = (Life::Live, Ids::Executed);
        self.table.insert(
            person.pid,
            Body { person, life, takes_orphans: false, forks: false, ids, left: false, apart: None, held: false },
        );
    }

    /// A fork: the child is what `forker` is. `None` when the forker is no body.
    pub(crate) fn forked(&mut self, forker: Pid, child: Pid) -> Option<()> {
        let parent = self.table.get_mut(&forker)?;
        parent.forks = true;
        let (person, ids) = (Person { pid: child, ppid: forker, ..parent.person.clone() }, parent.ids);
        self.add(person);
        self.set_ids(child, ids);
        Some(())
    }

    /// It comes from another node, or comes back.
    pub(crate) fn add_arrived(&mut self, person: Person) {
        let pid = person.pid;
        self.add(person);
        if let Some(body) = self.table.get_mut(&pid) {
            body.forks = true;
        }
    }

    /// Its parent has gone elsewhere, and it has not.
    pub(crate) fn is_left(&mut self, pid: Pid) {
        if let Some(body) = self.table.get_mut(&pid) {
            body.left = true;
        }
    }

    pub(crate) fn was_left(&self, pid: Pid) -> bool {
        self.get(pid).is_some_and(|body| body.left)
    }

    /// Has it made others, as far as is known?
    pub(crate) fn has_forked(&self, pid: Pid) -> bool {
        self.get(pid).is_some_and(|body| body.forks)
    }

    pub(crate) fn ids(&self, pid: Pid) -> Ids {
        self.table.get(&pid).map_or(Ids::Changes, |body| body.ids)
    }

    /// What is now so. Whoever [`Ids::Changes`] does so for life.
    pub(crate) fn set_ids(&mut self, pid: Pid, ids: Ids) {
        if let Some(body) = self.table.get_mut(&pid).filter(|body| body.ids != Ids::Changes) {
            body.ids = ids;
        }
    }

    /// Does it live in a PID namespace of its own, as far as anybody has looked?
    pub(crate) fn apart(&self, pid: Pid) -> Option<bool> {
        self.table.get(&pid)?.apart
    }

    pub(crate) fn set_apart(&mut self, pid: Pid, apart: bool) {
        if let Some(body) = self.table.get_mut(&pid) {
            body.apart = Some(apart);
        }
    }

    pub(crate) fn set_held(&mut self, pid: Pid) {
        if let Some(body) = self.table.get_mut(&pid) {
            body.held = true;
        }
    }

    pub(crate) fn is_held(&self, pid: Pid) -> bool {
        self.table.get(&pid).is_some_and(|body| body.held)
    }

    pub(crate) fn remove(&mut self, pid: Pid) -> Option<Body> {
        let body = self.table.remove(&pid)?;
        self.leave_parent(pid, body.person.ppid);
        self.leave_place(body.person.pgid);
        self.leave_place(body.person.sid);
        Some(body)
    }

    fn enter_place(&mut self, number: Pid) {
        *self.places.entry(number).or_default() += 1;
    }

    fn leave_place(&mut self, number: Pid) {
        if let Some(count) = self.places.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                self.places.remove(&number);
            }
        }
    }

    fn leave_parent(&mut self, pid: Pid, ppid: Pid) {
        if let Some(set) = self.children.get_mut(&ppid) {
            set.remove(&pid);
            if set.is_empty() {
                self.children.remove(&ppid);
            }
        }
    }

    /// `true` when that is a change.
    pub(crate) fn set_parent(&mut self, pid: Pid, ppid: Pid) -> bool {
        let Some(body) = self.table.get_mut(&pid) else { return false };
        let before = std::mem::replace(&mut body.person.ppid, ppid);
        if before == ppid {
            return false;
        }
        self.leave_parent(pid, before);
        self.children.entry(ppid).or_default().insert(pid);
        true
    }

    pub(crate) fn set_life(&mut self, pid: Pid, life: Life) {
        if let Some(body) = self.table.get_mut(&pid) {
            body.life = life;
        }
    }

    /// Does it take the orphans among its descendants from now on? `false` when it is no body.
    pub(crate) fn set_takes_orphans(&mut self, pid: Pid, on: bool) -> bool {
        let body = self.table.get_mut(&pid);
        body.map(|body| body.takes_orphans = on).is_some()
    }

    pub(crate) fn takes_orphans(&self, pid: Pid) -> bool {
        self.table.get(&pid).is_some_and(|body| body.takes_orphans)
    }

    /// Those that take orphans.
    pub(crate) fn subreapers(&self) -> Vec<Pid> {
        self.iter().filter(|body| body.takes_orphans).map(|body| body.person.pid).collect()
    }

    /// What changed: a new session implies a new group and is told alone.
    pub(crate) fn set_group(&mut self, pid: Pid, pgid: Pid, sid: Pid) -> Changed {
        let Some(body) = self.table.get_mut(&pid) else { return Changed::Nothing };
        let person = &mut body.person;
        let (old_group, old_session) = (person.pgid, person.sid);
        (person.pgid, person.sid) = (pgid, sid);
        self.enter_place(pgid);
        self.enter_place(sid);
        self.leave_place(old_group);
        self.leave_place(old_session);
        match () {
            () if old_session != sid && sid == pid => Changed::Session,
            () if old_group != pgid => Changed::Group,
            () => Changed::Nothing,
        }
    }

    /// `true` when that is a change.
    pub(crate) fn set_creds(&mut self, pid: Pid, creds: &Creds) -> bool {
        match self.table.get_mut(&pid) {
            Some(body) if body.person.creds != *creds => {
                body.person.creds = creds.clone();
                true
            }
            _ => false,
        }
    }

    /// `true` when that is a change.
    pub(crate) fn set_name(&mut self, pid: Pid, name: &[u8]) -> bool {
        match self.table.get_mut(&pid) {
            Some(body) if body.person.name != name => {
                body.person.name = name.to_vec();
                true
            }
            _ => false,
        }
    }

    /// Has any body `pid` as parent, group or session?
    pub(crate) fn needs(&self, pid: Pid) -> bool {
        self.children.contains_key(&pid) || self.places.contains_key(&pid)
    }
}

/// The outcome of [`Bodies::set_group`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Changed {
    Nothing,
    Group,
    Session,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(pid: i32, ppid: i32) -> Person {
        Person {
            pid: Pid(pid),
            ppid: Pid(ppid),
            pgid: Pid(pid),
            sid: Pid(5),
            creds: Creds::default(),
            name: b"x".to_vec(),
        }
    }

    #[test]
    fn who_changes_ids_once_may_do_so_ever_after_and_so_may_its_children() {
        let mut bodies = Bodies::default();
        bodies.add(person(10, 2));
        assert_eq!((bodies.ids(Pid(10)), bodies.ids(Pid(99))), (Ids::Executed, Ids::Changes));
        bodies.set_ids(Pid(10), Ids::Known);
        bodies.forked(Pid(10), Pid(11)).expect("10 is there");
        assert_eq!(bodies.ids(Pid(11)), Ids::Known);
        for ids in [Ids::Changes, Ids::Executed, Ids::Known] {
            bodies.set_ids(Pid(10), ids);
        }
        bodies.forked(Pid(10), Pid(12)).expect("10 is there");
        assert_eq!([10, 11, 12].map(|pid| bodies.ids(Pid(pid))), [Ids::Changes, Ids::Known, Ids::Changes]);
    }

    #[test]
    fn a_child_inherits_all_but_its_number() {
        let mut bodies = Bodies::default();
        bodies.add(person(10, 2));
        bodies.forked(Pid(10), Pid(11)).expect("10 is there");
        let child = bodies.person(Pid(11)).expect("forked");
        assert_eq!((child.ppid, child.pgid, child.sid), (Pid(10), Pid(10), Pid(5)));
        assert!(bodies.forked(Pid(99), Pid(12)).is_none());
        assert_eq!(bodies.children(Pid(10)), [Pid(11)]);
    }

    #[test]
    fn an_orphan_is_its_new_parents_child() {
        let mut bodies = Bodies::default();
        bodies.add(person(10, 2));
        bodies.forked(Pid(10), Pid(11));
        assert!(bodies.set_parent(Pid(11), Pid(1)));
        assert!(!bodies.set_parent(Pid(11), Pid(1)));
        assert_eq!((bodies.children(Pid(10)), bodies.children(Pid(1))), (vec![], vec![Pid(11)]));
    }

    #[test]
    fn a_stand_in_is_needed_as_parent_group_and_session() {
        let mut bodies = Bodies::default();
        bodies.add(person(10, 2));
        assert!(bodies.needs(Pid(2)) && bodies.needs(Pid(5)) && bodies.needs(Pid(10)) && !bodies.needs(Pid(3)));
        bodies.set_group(Pid(10), Pid(7), Pid(7));
        assert!(bodies.needs(Pid(7)) && !bodies.needs(Pid(5)));
        bodies.remove(Pid(10));
        assert!(bodies.places.is_empty());
        assert!(!bodies.needs(Pid(2)) && !bodies.needs(Pid(5)));
    }

    #[test]
    fn group_and_session_changes_are_told_apart() {
        let mut bodies = Bodies::default();
        bodies.add(person(10, 2));
        assert_eq!(bodies.set_group(Pid(10), Pid(10), Pid(5)), Changed::Nothing);
        assert_eq!(bodies.set_group(Pid(10), Pid(7), Pid(5)), Changed::Group);
        assert_eq!(bodies.set_group(Pid(10), Pid(10), Pid(10)), Changed::Session);
        assert_eq!(bodies.set_group(Pid(99), Pid(1), Pid(1)), Changed::Nothing);
    }
}
