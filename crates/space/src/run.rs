//! `shoal run`: a process becomes the ghost of what it starts.

use crate::effect::Effect;
use crate::life::Ghost;
use crate::person::Person;
use crate::signal::{our_kill, our_signal};
use crate::space::Space;
use crate::table::{Body, Entry};
use vocab::{Exit, NodeId, Pid, Sig};

/// What `shoal run` exits with when the failure is not the program's.
pub(crate) const FAILED: u8 = 125;

/// Of a line of ancestors, each with whether it takes orphans, those that are to be known: up to the last that does.
pub fn known_of(line: &[(Person, bool)]) -> &[(Person, bool)] {
    &line[..line.iter().rposition(|(_, takes)| *takes).map_or(0, |last| last + 1)]
}

impl Space {
    pub(crate) fn run(&mut self, person: Person, at: NodeId, to: NodeId, kin: Vec<Person>) {
        self.natives(kin);
        let (pid, mut again) = (person.pid, Vec::new());
        if at.is_front() {
            self.become_ghost(person, to, Body::Starting);
        } else {
            self.catch_up(at, &person);
            let Some(entry) = self.table.get_mut(pid).filter(|e| e.place == at && e.has_body()) else {
                return self.log(pid, at, "run by nobody", 0);
            };
            let was_stopped = matches!(entry.body, Body::Stopped(_));
            entry.body = Body::Starting;
            entry.place = to;
            entry.runner = Some((at, None));
            (entry.awaited, entry.known) = (0, 0);
            // What was sent to where it was before may be lost with that node.
            let (kill, stop) = (entry.kill_pending || entry.killed, entry.stop_pending);
            again.extend(kill.then(our_kill));
            again.extend(stop.then(|| our_signal(Sig::STOP)));
            if at != to {
                entry.stands.remove(&to);
                entry.stands.insert(at);
                let creds = entry.person.creds.clone();
                self.out.push(Effect::BecomeStandIn { node: at, pid, creds });
            }
            if was_stopped {
                self.goes_on(pid); // who asks runs
            }
        }
        self.start(pid, to, None);
        for info in again {
            self.deliver(pid, info);
        }
    }

    /// The `shoal run` on `node` that was to stand for `pid` has ended by itself: so does the program, as that did. Natively they are one process, and
    /// what hits it between fork and exec ends it.
    pub(crate) fn runner_ended(&mut self, node: NodeId, pid: Pid, exit: Exit) {
        let its = |e: &&mut Entry| e.place != node && e.has_body() && e.runner == Some((node, None));
        let Some(entry) = self.table.get_mut(pid).filter(its) else { return };
        entry.runner = Some((node, Some(exit)));
        self.log(pid, node, "shoal run ended, wait status", exit.to_status());
        // Its signal first: a parent beside the program sees what the kernel there says.
        if let Exit::Killed { sig, .. } = exit {
            self.deliver(pid, our_signal(sig));
        }
        self.kill_body(pid);
    }

    /// The node has just read who asks: its word on that may be ahead of its events, and a program must never start with more rights
    /// than its caller has.
    fn catch_up(&mut self, at: NodeId, person: &Person) {
        let pid = person.pid;
        let known = self.table.get(pid).filter(|e| e.place == at && e.has_body()).map(|e| e.person.clone());
        let Some(known) = known else { return };
        if known.creds != person.creds {
            self.credentials(pid, person.creds.clone());
        }
        if person.sid == pid && known.sid != pid {
            self.session(pid);
        } else if person.pgid != known.pgid {
            self.group(pid, person.pgid);
        }
    }

    /// The process `person.pid` of the front end will hold. It may have been kin before.
    pub(crate) fn become_ghost(&mut self, person: Person, to: NodeId, body: Body) {
        let mut entry = Entry::new(person, to, body, Ghost::Coming);
        if let Some(mut old) = self.table.remove(entry.person.pid) {
            std::mem::swap(&mut entry.children, &mut old.children);
            std::mem::swap(&mut entry.stands, &mut old.stands);
            entry.stands.remove(&to);
        }
        self.table.insert(entry);
    }

    /// Lets the node start the program of `pid`.
    pub(crate) fn start(&mut self, pid: Pid, node: NodeId, copy: Option<u32>) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        entry.asked = true;
        entry.streams = Some(pid);
        let person = entry.person.clone();
        let kin = self.kin_on(node, pid);
        self.log(pid, node, "start", 0);
        self.out.push(Effect::Start { node, person, kin, copy });
    }

    /// Makes those known that are up to a subreaper, so that it is found; of the others only what they are not any more.
    pub(crate) fn ancestors(&mut self, line: Vec<(Person, bool)>) {
        self.natives(known_of(&line).iter().map(|(person, _)| person.clone()).collect());
        for (person, takes) in line {
            let native = self.table.get_mut(person.pid).filter(|e| e.body == Body::Native && e.subreaper != takes);
            let Some(entry) = native else { continue };
            entry.subreaper = takes;
            for node in entry.stands.clone() {
                self.out.push(Effect::Subreaper { node, pid: person.pid, on: takes });
            }
        }
    }

    /// Makes processes of the front end known, as kin.
    pub(crate) fn natives(&mut self, kin: Vec<Person>) {
        for person in kin {
            let pid = person.pid;
            if pid == Pid::INIT || pid == Pid::NONE {
                continue;
            }
            match self.table.get_mut(pid) {
                Some(entry) if entry.body == Body::Native => {
                    let ppid = person.ppid;
                    let now = Person { ppid: entry.person.ppid, ..person };
                    let before = std::mem::replace(&mut entry.person, now);
                    let is_another = before != entry.person;
                    self.table.set_parent(pid, ppid);
                    if is_another {
                        self.stand_ins_follow(pid);
                    }
                }
                Some(_) => {}
                None => {
                    let unheard_of = self.table.get(person.ppid).is_some_and(Entry::waits_by_ghost);
                    let native = Entry::new(person, NodeId::FRONT, Body::Native, Ghost::Absent);
                    self.table.insert(Entry { unheard_of, ..native });
                    self.out.push(Effect::WatchNative { pid });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BodyEvent, Event};
    use crate::person::Usage;
    use vocab::Creds;

    const N0: NodeId = NodeId(0);
    const N1: NodeId = NodeId(1);
    const PID: Pid = Pid(200);

    /// What comes of `pid` on node 1, which a `shoal run` on node 0 has become, when that has ended as `before` and then the program as `after`.
    fn end(before: Exit, after: Exit) -> (Vec<Effect>, Vec<Effect>) {
        let mut space = Space::new();
        let mut step = |event| {
            let mut effects = Vec::new();
            space.step(event, &mut effects);
            space.audit().expect("the invariants hold");
            effects
        };
        step(Event::NodeUp { node: N0 });
        step(Event::NodeUp { node: N1 });
        let (creds, name) = (Creds::default(), b"prog".to_vec());
        let person = Person { pid: PID, ppid: Pid(100), pgid: PID, sid: Pid(100), creds, name };
        step(Event::Run { person: person.clone(), at: NodeId::FRONT, to: N0, kin: vec![] });
        step(Event::Held { pid: PID });
        step(Event::Body { node: N0, event: BodyEvent::Started { pid: PID } });
        step(Event::Run { person, at: N0, to: N1, kin: vec![] });
        let exited = |exit| BodyEvent::Exited { pid: PID, exit, usage: Usage::default() };
        let killed = step(Event::Body { node: N0, event: exited(before) });
        (killed, step(Event::Body { node: N1, event: exited(after) }))
    }

    #[test]
    fn what_ends_a_shoal_run_while_its_program_is_started_elsewhere_ends_the_program_in_the_same_way() {
        let killed = |sig| Exit::Killed { sig, core: false };
        let (kill, term) = (killed(Sig::KILL), killed(Sig::TERM));
        for (before, sent) in [(term, vec![Sig::TERM, Sig::KILL]), (Exit::Code(125), vec![Sig::KILL])] {
            let (first, then) = end(before, kill);
            let to_node =
                |e: &Effect| if let Effect::Signal { node: N1, info, .. } = e { Some(info.sig) } else { None };
            assert_eq!(first.iter().filter_map(to_node).collect::<Vec<_>>(), sent);
            assert!(then.contains(&Effect::Ended { pid: PID, exit: before }), "{then:?}");
            assert!(then.contains(&Effect::EndStandIn { node: N0, pid: PID, exit: before, usage: Usage::default() }));
        }
    }
}
