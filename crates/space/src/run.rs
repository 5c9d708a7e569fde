//! `shoal run`: a process becomes the ghost of what it starts.

use crate::effect::Effect;
use crate::life::Ghost;
use crate::person::Person;
use crate::signal::{our_kill, our_signal};
use crate::space::Space;
use crate::table::{Body, Entry};
use vocab::{NodeId, Pid, Sig};

/// What `shoal run` exits with when the failure is not the program's.
pub(crate) const FAILED: u8 = 125;

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
            entry.awaited = 0;
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
        let person = entry.person.clone();
        let kin = self.kin_on(node, pid);
        self.log(pid, node, "start", 0);
        self.out.push(Effect::Start { node, person, kin, copy });
    }

    /// Makes those known that are up to a subreaper, so that it is found; of the others only what they are not any more.
    pub(crate) fn ancestors(&mut self, line: Vec<(Person, bool)>) {
        let known = line.iter().rposition(|(_, takes)| *takes).map_or(0, |last| last + 1);
        self.natives(line[..known].iter().map(|(person, _)| person.clone()).collect());
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
                    entry.person = Person { ppid: entry.person.ppid, ..person };
                    self.table.set_parent(pid, ppid);
                }
                Some(_) => {}
                None => {
                    self.table.insert(Entry::new(person, NodeId::FRONT, Body::Native, Ghost::Absent));
                    self.out.push(Effect::WatchNative { pid });
                }
            }
        }
    }
}
