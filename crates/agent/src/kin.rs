//! Which stand-ins a program needs before it can be started, and how they are made so that tree, group and session are the
//! kernel's own (docs/mechanisms.md, "Family").

mod terminal;

use crate::bodies::Bodies;
use crate::stands::{Held, Stand, Stands, Why};
use std::collections::{HashMap, HashSet};
use vocab::{Creds, Fault, Pid, Result};
use wire::event::Person;

/// The first stand-in, from which all others come when nobody nearer can make them.
pub(crate) const NURSERY: Pid = Pid::NONE;

/// Make one stand-in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Make {
    /// The stand-in that clones it, or [`NURSERY`].
    pub(crate) maker: Pid,
    /// As a sibling of its maker, so as a child of the maker's parent.
    pub(crate) sibling: bool,
    pub(crate) person: Person,
    pub(crate) why: Why,
    pub(crate) place: Place,
}

/// What a new stand-in does about group and session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Place {
    /// Stays where its maker is.
    #[default]
    Stay,
    /// Leads a new session.
    Session,
    /// Leads a new group.
    Lead,
    /// Joins a group that exists.
    Join(Pid),
}

/// How one program is to be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) makes: Vec<Make>,
    /// The stand-in that clones the program; its own, when that is to become it.
    pub(crate) parent: Pid,
    /// Where the program puts itself.
    pub(crate) place: Place,
    /// These stand here as children of others than they will be: they are to end first.
    pub(crate) ends: Vec<Pid>,
}

/// What is here already, and what the plan will have made.
struct Planner<'a> {
    kin: &'a [Person],
    stands: &'a Stands,
    bodies: &'a Bodies,
    /// Whose process all this is for; a husk is nobody else's.
    user: &'a Creds,
    /// Who takes the orphans of the program, and the program's parent, which has to stand below it.
    taker: Option<(Pid, Pid)>,
    /// Leaders of sessions are made by their parents, too, since one of them may come and become what stands for it.
    begets: bool,
    /// (group, session) of those that will be made.
    made: HashMap<Pid, (Pid, Pid)>,
    /// Those that are being planned: a parent may be in its child's group.
    under_way: HashSet<Pid>,
    makes: Vec<Make>,
}

/// Plans the start of `person` with `kin` alive elsewhere. With `terminal` it gets a session of its own.
///
/// # Errors
/// `Refused` when it is a `shoal run` on this node itself, whose relay the program would take the place of, and when its parent is a
/// process of this node, which nobody can make have a child.
pub(crate) fn plan(person: &Person, terminal: bool, kin: &[Person], stands: &Stands, bodies: &Bodies) -> Result<Plan> {
    plan_with((person, terminal), false, kin, stands, bodies)
}

fn plan_with(
    (person, terminal): (&Person, bool),
    begets: bool,
    kin: &[Person],
    stands: &Stands,
    bodies: &Bodies,
) -> Result<Plan> {
    let taker = kin.iter().find(|one| stands.takes_orphans(one.pid) && one.pid != person.pid);
    let taker = taker.map(|taker| (taker.pid, person.ppid));
    let mut planner = Planner { taker, begets, ..Planner::new(kin, &person.creds, stands, bodies) };
    if stands.get(person.pid).is_some_and(|stand| stand.why == Why::Runner) {
        return Err(Fault::refused(format!("start {}: it is a shoal run on this node itself", person.pid)));
    }
    if bodies.has(person.ppid) {
        let why = "its parent's body is on the same node";
        return Err(Fault::refused(format!("start {} as a child of {}: {why}", person.pid, person.ppid)));
    }
    let leads_session = terminal || person.sid == person.pid;
    let session = if leads_session { Pid::INIT } else { person.sid };
    if let Some(stand) = stands.get(person.pid).filter(|stand| !stand.ending) {
        return match stand.is_users() {
            true => Err(Fault::refused(format!("start {}: a shoal run on this node stands for it", person.pid))),
            false if terminal => planner.in_place_with_terminal(person.pid),
            false => Ok(planner.in_place(person)),
        };
    }
    if let Some((taker, _)) = taker {
        planner.need(taker, 8);
    }
    if planner.known(person.ppid) {
        planner.need(person.ppid, 8);
    }
    // What a user's own stand-in is told for somebody else, that user is told too: so it gets no children of others, which are orphans here.
    let parent = match planner.known(person.ppid) && planner.may_make(person.ppid, &person.creds) {
        true => person.ppid,
        false => planner.step_parent(person, session),
    };
    let place = match () {
        () if leads_session => Place::Session,
        () if person.pgid == person.pid => Place::Lead,
        () => planner.join(person.pgid, session, parent),
    };
    Ok(Plan { makes: planner.makes, parent, place, ends: Vec::new() })
}

/// Plans what is to become `person`, which is on another node: as [`plan`], but that it must have its parent where that is here, and its children.
/// Then its own stand-in becomes it.
///
/// # Errors
/// As [`plan`]; `Refused` when one of them stands here already as another's child.
pub(crate) fn plan_arrival(person: &Person, kin: &[Person], stands: &Stands, bodies: &Bodies) -> Result<Plan> {
    let pid = person.pid;
    let children: Vec<&Person> = kin.iter().filter(|one| one.ppid == pid && one.pid != pid).collect();
    let stand = stands.get(pid).filter(|stand| !stand.ending);
    let ours = |stand: &&Stand| !stand.why.a_body_waits() && !stand.is_users();
    let parent = person.ppid;
    let stands_here = stands.get(parent).is_some_and(|stand| !stand.ending) || kin.iter().any(|one| one.pid == parent);
    if parent.0 > Pid::INIT.0 && !bodies.has(parent) && !stands_here {
        // The front end has not heard that yet. As an orphan here it would not stop by what a terminal sends.
        return Err(Fault::changed(format!(
            "let {pid} come to this node: its parent {parent} has just ceased to stand there"
        )));
    }
    let strange = |stand: &&Stand| person.ppid != Pid::INIT && stand.native_parent() != person.ppid;
    let no = |why: String| Err(Fault::refused(format!("let {pid} come to this node: {why}")));
    if let Some(why) = in_a_childs_group(person, kin, stands) {
        return no(why);
    }
    // A number is not free before they have ended (linux: `alloc_pid`).
    let member = |leader: Pid, ends: &[Pid]| {
        let is_in =
            |one: &&Person| [one.pgid, one.sid].contains(&leader) && one.pid != leader && !ends.contains(&one.pid);
        stands.iter().map(|stand| &stand.person).find(is_in).map(|one| one.pid)
    };
    if stand.filter(ours).filter(strange).is_some() {
        if bodies.needs(pid) {
            return no("it stands there as another's child, and others there need it as that".into());
        }
        if let Some(one) = member(pid, &[]) {
            return no(format!("it stands there as another's child, and {one} in its group or session"));
        }
        return Ok(Plan { makes: Vec::new(), parent: pid, place: Place::Stay, ends: vec![pid] });
    }
    if children.is_empty() && (stand.is_none() || !bodies.has(person.ppid)) {
        return plan_with((person, false), true, kin, stands, bodies);
    }
    match stand {
        Some(stand) if stand.why == Why::Runner => return no("it is a shoal run on this node itself".into()),
        Some(stand) if stand.is_users() => return no("a shoal run on this node stands for it".into()),
        None if bodies.has(person.ppid) => return no(format!("its parent {} has no child there", person.ppid)),
        Some(stand) if bodies.has(person.ppid) && stand.native_parent() != person.ppid => {
            return no(format!("it stands there as a child of {}, not of {}", stand.native_parent(), person.ppid));
        }
        _ => {}
    }
    let foreign = |child: &&&Person| stands.get(child.pid).is_some_and(|stand| stand.native_parent() != pid);
    let ends: Vec<Pid> = children.iter().filter(foreign).map(|child| child.pid).collect();
    let stays = |pid: &&Pid| bodies.needs(**pid) || stands.get(**pid).is_some_and(|stand| stand.why.a_body_waits());
    if let Some(child) = ends.iter().find(stays) {
        return no(format!("its child {child} stands there as another's"));
    }
    if let Some((child, one)) = ends.iter().find_map(|child| Some((child, member(*child, &ends)?))) {
        return no(format!("its child {child} stands there as another's, and {one} in its group or session"));
    }
    if !ends.is_empty() {
        return Ok(Plan { makes: Vec::new(), parent: pid, place: Place::Stay, ends });
    }
    let all: Vec<Person> = kin.iter().chain([person]).cloned().collect();
    let mut planner = Planner { begets: true, ..Planner::new(&all, &person.creds, stands, bodies) };
    if stand.is_none() {
        planner.need(pid, 8);
    }
    // One that has ended may not be waited for yet.
    for child in children.into_iter().filter(|child| !stands.has(child.pid) && !bodies.has(child.pid)) {
        let taken = member(child.pid, &[]).is_some() || bodies.needs(child.pid);
        if taken {
            return no(format!(
                "its child {} does not stand there, and others of the group or session that it leads do",
                child.pid
            ));
        }
        planner.make_child(child, pid);
    }
    match stand {
        None => Ok(Plan { makes: planner.makes, parent: pid, place: Place::Stay, ends }),
        Some(_) => Ok(planner.in_place(person)),
    }
}

/// Who is made joins a group that is there, and its child is made by it: so neither a parent in its child's group can come nor that child, unless the parent stands here.
fn in_a_childs_group(person: &Person, kin: &[Person], stands: &Stands) -> Option<String> {
    let Person { pid, ppid, .. } = *person;
    let is_in_it = |parent: &Person, child: Pid| parent.pgid == child && !stands.has(parent.pid);
    if kin.iter().any(|child| child.ppid == pid && child.pid != pid && is_in_it(person, child.pid)) {
        return Some("it is in the group that its child leads".into());
    }
    let parent = kin.iter().find(|one| one.pid == ppid && is_in_it(one, pid));
    parent.map(|_| format!("its parent {ppid} is in the group that it leads"))
}

/// Plans that `person`, with `kin` alive elsewhere, stands here because somebody wants a handle on it: as its parent's child, and in its group behind
/// a leader who stands for himself, as each of them may come here, and be wanted.
pub(crate) fn plan_handle(person: &Person, kin: &[Person], stands: &Stands, bodies: &Bodies) -> Vec<Make> {
    let all: Vec<Person> = kin.iter().chain([person]).cloned().collect();
    let mut planner = Planner { begets: true, ..Planner::new(&all, &person.creds, stands, bodies) };
    planner.need(person.pid, 8);
    for make in planner.makes.iter_mut().filter(|make| make.person.pid == person.pid) {
        make.why = Why::Handle;
    }
    planner.makes
}

/// Plans that `person`, an orphan of `from`, stands here as the child of the stand-in of that, unless it does already.
///
/// # Errors
/// `Gone` when that can make no child any more.
pub(crate) fn plan_orphan(
    person: &Person,
    from: Pid,
    kin: &[Person],
    stands: &Stands,
    bodies: &Bodies,
) -> Result<Vec<Make>> {
    let able = |stand: &Stand| !stand.ending && stand.runs() && stand.held == Held::Free;
    if stands.get(person.pid).is_some_and(|stand| !stand.ending) {
        return Ok(Vec::new()); // planned again: its stand-in was long in coming
    }
    if !stands.get(from).is_some_and(|stand| able(stand) && stand.may_make(&person.creds)) {
        return Err(Fault::gone(format!("let {} stand as a child of {from}: that ends", person.pid)));
    }
    let mut planner = Planner::new(kin, &person.creds, stands, bodies);
    let place = match () {
        () if person.sid == person.pid => Place::Session,
        () if person.pgid == person.pid => Place::Lead,
        () => planner.join(person.pgid, person.sid, from),
    };
    planner.make(Make { maker: from, sibling: false, person: person.clone(), why: Why::Handle, place });
    Ok(planner.makes)
}

impl<'a> Planner<'a> {
    fn make_child(&mut self, child: &Person, maker: Pid) {
        let place = match () {
            () if child.sid == child.pid => Place::Session,
            () if child.pgid == child.pid => Place::Lead,
            () => self.join(child.pgid, child.sid, maker),
        };
        self.make(Make { maker, sibling: false, person: child.clone(), why: Why::Kin, place });
    }

    fn new(kin: &'a [Person], user: &'a Creds, stands: &'a Stands, bodies: &'a Bodies) -> Planner<'a> {
        let (made, under_way, makes) = (HashMap::new(), HashSet::new(), Vec::new());
        Planner { kin, stands, bodies, user, taker: None, begets: false, made, under_way, makes }
    }
}

impl Planner<'_> {
    /// It stands here already, as leader of a group whose other members came first: its stand-in becomes the program.
    fn in_place(mut self, person: &Person) -> Plan {
        let pid = person.pid;
        let at = self.place_of(pid);
        let place = match () {
            () if at.1 == pid => Place::Stay,
            () if person.sid == pid => Place::Session,
            () if at.0 == person.pgid => Place::Stay,
            () if person.pgid == pid => Place::Lead,
            () => self.join(person.pgid, person.sid, pid),
        };
        Plan { makes: self.makes, parent: pid, place, ends: Vec::new() }
    }

    fn person(&self, pid: Pid) -> Option<&Person> {
        self.kin.iter().find(|person| person.pid == pid)
    }

    fn here(&self, pid: Pid) -> bool {
        self.made.contains_key(&pid) || self.stands.get(pid).is_some_and(|stand| !stand.ending) || self.bodies.has(pid)
    }

    /// Is it here, or do we know enough to make it?
    fn known(&self, pid: Pid) -> bool {
        pid != Pid::INIT && (self.here(pid) || self.person(pid).is_some())
    }

    fn place_of(&self, pid: Pid) -> (Pid, Pid) {
        let of = |person: &Person| (person.pgid, person.sid);
        let made = self.made.get(&pid).copied();
        made.or_else(|| self.stands.get(pid).map(|stand| of(&stand.person)))
            .or_else(|| self.bodies.person(pid).map(of))
            .unwrap_or((Pid::INIT, Pid::INIT))
    }

    fn make(&mut self, make: Make) {
        let pid = make.person.pid;
        let (group, session) = self.place_of(make.maker);
        let place = match make.place {
            Place::Session => (pid, pid),
            Place::Lead => (pid, session),
            Place::Join(group) => (group, session),
            Place::Stay => (group, session),
        };
        self.made.insert(pid, place);
        self.makes.push(make);
    }

    /// Makes `pid` stand here, unless it does. `depth` bounds what a foolish list of kin can ask for.
    fn need(&mut self, pid: Pid, depth: u32) {
        let Some(person) = self.person(pid).cloned() else { return };
        if self.here(pid) || depth == 0 || !self.under_way.insert(pid) {
            return;
        }
        self.need_now(pid, &person, depth);
        self.under_way.remove(&pid);
    }

    fn need_now(&mut self, pid: Pid, person: &Person, depth: u32) {
        let leads = person.sid == pid;
        if (!leads || self.begets) && self.person(person.ppid).is_some() {
            self.need(person.ppid, depth - 1);
            if self.here(pid) {
                return; // kin in a circle: made on the way
            }
        }
        if leads {
            let (maker, sibling) = match self.begets && self.able(person.ppid, &person.creds) {
                true => (person.ppid, false),
                false => self.founder(pid, &person.creds),
            };
            self.make(Make { maker, sibling, person: person.clone(), why: Why::Kin, place: Place::Session });
            return;
        }
        let (maker, sibling) = self.maker(person);
        let place = match person.pgid {
            group if group == pid => Place::Lead,
            group => self.join(group, person.sid, maker),
        };
        self.make(Make { maker, sibling, person: person.clone(), why: Why::Kin, place });
    }

    /// Who makes a stand-in for `person`, and whether as a sibling.
    ///
    /// Its parent if that can. Otherwise a member of the session, as its own child unless the person is an orphan: a group whose
    /// members have a parent in their session is no orphaned group, and must not look like one here.
    fn maker(&mut self, person: &Person) -> (Pid, bool) {
        let in_session = |planner: &Self, pid| planner.place_of(pid).1 == person.sid;
        if self.able(person.ppid, &person.creds) && in_session(self, person.ppid) {
            return (person.ppid, false);
        }
        if let Some((taker, _)) =
            self.taker.filter(|(taker, parent)| *parent == person.pid && self.able(*taker, &person.creds))
        {
            if in_session(self, taker) {
                return (taker, false);
            }
        }
        let member = self.member(person.sid, &person.creds);
        (member, member == NURSERY || person.ppid == Pid::INIT)
    }

    /// Is it there, or will be, and does what it is told, for a process of this user? One that is stopped does nothing before it is continued.
    fn able(&self, pid: Pid, creds: &Creds) -> bool {
        let stays = self.stands.get(pid).is_some_and(|stand| !stand.ending && stand.runs());
        (self.made.contains_key(&pid) || stays) && self.may_make(pid, creds)
    }

    /// May `pid`, or who makes it, make a process of this user?
    fn may_make(&self, pid: Pid, creds: &Creds) -> bool {
        let mut pid = pid;
        while let Some(make) = self.makes.iter().find(|make| make.person.pid == pid) {
            pid = make.maker;
        }
        self.stands.get(pid).is_none_or(|stand| stand.may_make(creds))
    }

    /// Who makes the leader of session `sid`, and whether as a sibling. If the program's parent is in it and who takes orphans is not,
    /// then it was made below that.
    fn founder(&self, sid: Pid, creds: &Creds) -> (Pid, bool) {
        let of = |pid: Pid| self.person(pid).map(|person| person.sid).unwrap_or(self.place_of(pid).1);
        let below = |(taker, parent): &(Pid, Pid)| *taker != sid && of(*taker) != sid && of(*parent) == sid;
        match self.taker.filter(below).filter(|(taker, _)| self.able(*taker, creds)) {
            Some((taker, _)) => (taker, false),
            None => (NURSERY, true),
        }
    }

    /// A stand-in in session `sid`; the leader's is made if there is none. [`NURSERY`] for the session of init, and when
    /// only bodies are in it: its number is taken then, and nobody but they could have a child there.
    fn member(&mut self, sid: Pid, creds: &Creds) -> Pid {
        if sid.0 <= 1 {
            return NURSERY;
        }
        let stands = self.stands;
        let candidates = self.made.keys().copied().chain(stands.pids());
        let mut members: Vec<Pid> =
            candidates.filter(|pid| self.able(*pid, creds) && self.place_of(*pid).1 == sid).collect();
        members.sort_unstable();
        match members.iter().find(|pid| **pid == sid).or(members.first()) {
            Some(member) => *member,
            None if self.bodies.needs(sid) || self.here(sid) => NURSERY,
            None if self.begets && self.person(sid).is_some_and(|leader| leader.sid == sid) => {
                self.need(sid, 8);
                if self.here(sid) {
                    sid
                } else {
                    NURSERY
                }
            }
            None => {
                let (person, why) = self.leader(sid, sid);
                let (maker, sibling) = self.founder(sid, self.whose(&person, why));
                self.make(Make { maker, sibling, person, why, place: Place::Session });
                sid
            }
        }
    }

    /// Who leads a group or session: the person if it lives, else a husk with the number.
    fn leader(&self, pid: Pid, sid: Pid) -> (Person, Why) {
        match self.person(pid) {
            Some(person) => (person.clone(), Why::Kin),
            None => {
                let (creds, name) = (Creds::default(), b"shoal:number".to_vec());
                (Person { pid, ppid: Pid::INIT, pgid: pid, sid, creds, name }, Why::Husk)
            }
        }
    }

    fn whose<'p>(&'p self, person: &'p Person, why: Why) -> &'p Creds {
        if why == Why::Husk {
            self.user
        } else {
            &person.creds
        }
    }

    /// How somebody cloned by `from` comes into group `pgid` of session `sid`; the group's leader is made if the group has no member here.
    fn join(&mut self, pgid: Pid, sid: Pid, from: Pid) -> Place {
        if pgid.0 <= 1 || self.place_of(from).0 == pgid {
            return Place::Stay;
        }
        if self.place_of(from).1 != sid {
            return Place::Lead; // no group can be joined from another session (setpgid(2), EPERM)
        }
        let in_group = |person: &Person| person.pgid == pgid && person.sid == sid;
        let exists = self.made.values().any(|place| *place == (pgid, sid))
            || self.stands.iter().any(|stand| in_group(&stand.person) && !stand.ending)
            || self.bodies.iter().any(|body| in_group(&body.person));
        if !exists && self.person(pgid).is_some_and(|leader| leader.pgid == pgid && leader.sid == sid) {
            // As a child of its own parent if that can be: its program may come to this node too, and the stand-in become it.
            self.need(pgid, 8);
        }
        let exists = exists || self.made.get(&pgid) == Some(&(pgid, sid));
        if !exists && !self.here(pgid) {
            let (person, why) = self.leader(pgid, sid);
            let whose = self.whose(&person, why).clone();
            let member = self.member(sid, &whose);
            if !self.here(pgid) {
                self.make(Make { maker: member, sibling: true, person, why, place: Place::Lead });
            }
        }
        Place::Join(pgid)
    }

    /// A parent for one whose own is gone: it ends at once, and the kernel gives the program to init.
    fn step_parent(&mut self, person: &Person, session: Pid) -> Pid {
        let maker = self.member(session, &person.creds);
        let (creds, name) = (Creds::default(), b"shoal:orphan".to_vec());
        // The number is one of our own, given when it is made; until then the child's stands for it.
        let husk = Person { pid: STEP_PARENT, ppid: Pid::INIT, pgid: person.pgid, sid: session, creds, name };
        self.make(Make { maker, sibling: true, person: husk, why: Why::Husk, place: Place::Stay });
        STEP_PARENT
    }
}

/// In a plan: the stand-in whose number is not known before it is made.
pub(crate) const STEP_PARENT: Pid = Pid(-1);

#[cfg(test)]
mod tests;
