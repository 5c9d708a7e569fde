//! `shoal run` for several nodes: one process of the front end, the parent of the copies' ghosts. It has no body; it ends
//! as the copy that ended worst.

use crate::effect::{Command, Effect};
use crate::life::Ghost;
use crate::person::Person;
use crate::signal::our_kill;
use crate::space::Space;
use crate::step::{Act, Mark};
use crate::table::{Body, Entry, Many};
use vocab::{Exit, NodeId, Pid, SigInfo};

impl Space {
    pub(crate) fn run_many(&mut self, parent: Person, to: Vec<NodeId>, kin: Vec<Person>) {
        self.natives(kin);
        let pid = parent.pid;
        let copies = to.len();
        let many = Many { left: copies, to, worst: Exit::Code(0), killed: false };
        self.become_ghost(parent, NodeId::FRONT, Body::Many(many));
        self.out.push(Effect::Copies { parent: pid, worst: Exit::Code(0) });
        if let Some(entry) = self.table.get_mut(pid) {
            entry.asked = true;
        }
        for copy in 0..copies {
            self.push(pid, Act::Copy(copy as u32), Mark::default());
        }
        self.end_if_over(pid);
    }

    /// The ghost of a copy was cloned, under the PID in `result`.
    pub(crate) fn copied(&mut self, parent: Pid, copy: u32, result: Result<i32, i32>) {
        let Some(entry) = self.table.get(parent) else { return };
        let Body::Many(many) = &entry.body else { return };
        let (Some(node), killed) = (many.to.get(copy as usize).copied(), many.killed) else { return };
        match result {
            Ok(pid) => {
                let person = Person { pid: Pid(pid), ppid: parent, ..entry.person.clone() };
                self.table.insert(Entry::new(person, node, Body::Starting, Ghost::Coming));
                self.start(Pid(pid), node, copy);
                if killed {
                    self.kill_body(Pid(pid));
                }
            }
            Err(errno) => {
                self.out.push(Effect::NotCloned { parent, copy, errno });
                self.copy_ended(parent, Exit::Code(126), true);
            }
        }
    }

    /// A child of `parent` ended; it counts if it was a copy.
    pub(crate) fn copy_ended(&mut self, parent: Pid, exit: Exit, asked: bool) {
        let Some(Body::Many(many)) = self.table.get_mut(parent).map(|e| &mut e.body).filter(|_| asked) else { return };
        many.left = many.left.saturating_sub(1);
        if exit.shell_number() > many.worst.shell_number() {
            many.worst = exit;
            self.out.push(Effect::Copies { parent, worst: exit });
        }
        self.end_if_over(parent);
    }

    /// After a restart: the ghosts of copies are those of its children that were found.
    pub(crate) fn copies_found(&mut self, parent: Pid, worst: Exit) {
        let Some(entry) = self.table.get(parent).filter(|e| e.body == Body::Unclaimed) else { return };
        let mut copies = entry.children.clone();
        copies.retain(|pid| self.table.get(*pid).is_some_and(|e| e.body == Body::Unclaimed));
        for pid in &copies {
            if let Some(copy) = self.table.get_mut(*pid) {
                copy.asked = true;
            }
        }
        if let Some(entry) = self.table.get_mut(parent) {
            entry.body = Body::Many(Many { to: Vec::new(), left: copies.len(), worst, killed: false });
            entry.asked = true;
        }
        self.end_if_over(parent);
    }

    fn end_if_over(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        let Body::Many(Many { left: 0, worst, .. }) = entry.body else { return };
        entry.body = Body::Ended(worst);
        let killed = entry.kill_pending;
        self.drop_stops(pid);
        if killed {
            self.flush(pid);
        }
        self.queue_end(pid);
        self.orphan_children(pid);
        self.bury(pid);
    }

    /// What the terminal sends goes to the whole group, copies included; what a process sends to this one is for all of them.
    pub(crate) fn many_signalled(&mut self, pid: Pid, info: SigInfo) {
        if info.sig.stops() {
            self.push(pid, Act::Command(Command::Stop(info.sig)), Mark::default());
        }
        if info.code <= 0 {
            self.signal_copies(pid, info);
        }
    }

    pub(crate) fn signal_copies(&mut self, pid: Pid, info: SigInfo) {
        let Some(entry) = self.table.get(pid) else { return };
        for child in entry.children.clone() {
            self.deliver(child, info);
        }
    }

    pub(crate) fn kill_copies(&mut self, pid: Pid) {
        if let Some(Body::Many(many)) = self.table.get_mut(pid).map(|e| &mut e.body) {
            many.killed = true;
        }
        self.signal_copies(pid, our_kill());
    }
}
