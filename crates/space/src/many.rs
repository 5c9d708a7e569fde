//! `shoal run` for several nodes: one process of the front end, the parent of the copies' ghosts. It has no body; it ends
//! as the copy that ended worst.

use crate::effect::{Command, Effect};
use crate::life::Ghost;
use crate::person::Person;
use crate::run::FAILED;
use crate::signal::our_kill;
use crate::space::Space;
use crate::step::{Act, Mark};
use crate::table::{Body, Entry, Many};
use std::collections::BTreeSet;
use vocab::{Exit, NodeId, Pid, Sig, SigInfo};

impl Space {
    pub(crate) fn run_many(&mut self, parent: Person, to: Vec<NodeId>, kin: Vec<Person>) {
        self.natives(kin);
        let pid = parent.pid;
        let copies = to.len();
        let (left, worst) = (BTreeSet::new(), Exit::Code(0));
        let many = Many { to, coming: copies, early: Vec::new(), left, worst, killed: false };
        self.become_ghost(parent, NodeId::FRONT, Body::Many(many));
        self.keep_copies(pid);
        if let Some(entry) = self.table.get_mut(pid) {
            entry.asked = true;
        }
        for copy in 0..copies {
            self.push(pid, Act::Copy(copy as u32), Mark::default());
        }
        self.end_if_over(pid);
    }

    /// What a successor of this daemon must know of them.
    fn keep_copies(&mut self, parent: Pid) {
        let Some(Body::Many(many)) = self.table.get(parent).map(|e| &e.body) else { return };
        let copies = (many.coming == 0).then(|| many.left.iter().copied().collect());
        self.out.push(Effect::Copies { parent, worst: many.worst, copies });
    }

    /// The ghost of a copy was cloned, under the PID in `result`.
    pub(crate) fn copied(&mut self, parent: Pid, copy: u32, result: Result<i32, i32>) {
        let Some(entry) = self.table.get_mut(parent) else { return };
        let Body::Many(many) = &mut entry.body else { return };
        let (Some(node), killed) = (many.to.get(copy as usize).copied(), many.killed) else { return };
        many.coming = many.coming.saturating_sub(1);
        let all = many.coming == 0;
        let early = if all { std::mem::take(&mut many.early) } else { many.early.clone() };
        match result {
            Ok(pid) => {
                many.left.insert(Pid(pid));
                let person = Person { pid: Pid(pid), ppid: parent, ..entry.person.clone() };
                // Its parent's ghost, of which it is a copy, is shoal's own.
                let name = Command::Name(person.name.clone());
                self.table.insert(Entry::new(person, node, Body::Starting, Ghost::Coming));
                self.push(Pid(pid), Act::Command(name), Mark::default());
                self.start(Pid(pid), node, Some(copy));
                for info in early {
                    self.deliver(Pid(pid), info);
                }
                if killed {
                    self.kill_body(Pid(pid));
                }
            }
            Err(errno) => {
                self.out.push(Effect::NotCloned { parent, copy, errno });
                self.one_less(parent, Exit::Code(FAILED));
            }
        }
        if all {
            self.keep_copies(parent);
        }
    }

    /// A child of `parent` ended; it counts if it was a copy.
    pub(crate) fn copy_ended(&mut self, parent: Pid, pid: Pid, exit: Exit) {
        let Some(Body::Many(many)) = self.table.get_mut(parent).map(|e| &mut e.body) else { return };
        if many.left.remove(&pid) {
            self.one_less(parent, exit);
        }
    }

    fn one_less(&mut self, parent: Pid, exit: Exit) {
        let Some(Body::Many(many)) = self.table.get_mut(parent).map(|e| &mut e.body) else { return };
        if exit.shell_number() > many.worst.shell_number() {
            many.worst = exit;
            self.keep_copies(parent);
        }
        self.end_if_over(parent);
    }

    /// After a restart. `copies`: those that are left are those of them that were found; `None`: not all were known yet, and those of its
    /// children are that were found.
    pub(crate) fn copies_found(&mut self, parent: Pid, worst: Exit, copies: Option<Vec<Pid>>) {
        let Some(entry) = self.table.get(parent).filter(|e| e.body == Body::Unclaimed) else { return };
        let is_copy = |pid: &Pid| {
            let found = self.table.get(*pid).is_some_and(|e| e.body == Body::Unclaimed);
            found && copies.as_ref().is_none_or(|copies| copies.contains(pid))
        };
        let left: BTreeSet<Pid> = entry.children.iter().copied().filter(is_copy).collect();
        for pid in &left {
            if let Some(copy) = self.table.get_mut(*pid) {
                copy.asked = true;
            }
        }
        if let Some(entry) = self.table.get_mut(parent) {
            entry.body = Body::Many(Many { to: Vec::new(), coming: 0, early: Vec::new(), left, worst, killed: false });
            entry.asked = true;
        }
        self.end_if_over(parent);
    }

    fn end_if_over(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        let worst = match &entry.body {
            Body::Many(Many { coming: 0, left, worst, .. }) if left.is_empty() => *worst,
            _ => return,
        };
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

    /// What the terminal sends goes to the whole group, copies included (those that are there); anything else is for all of them.
    pub(crate) fn many_signalled(&mut self, pid: Pid, info: SigInfo) {
        if info.sig.stops() {
            self.push(pid, Act::Command(Command::Stop(info.sig)), Mark::default());
        }
        if info.sig == Sig::CONT {
            // It came after the stops that are not done yet.
            self.drop_stops(pid);
            self.wake(pid);
        }
        if let Some(Body::Many(many)) = self.table.get_mut(pid).map(|e| &mut e.body) {
            if many.coming > 0 {
                many.early.push(info);
            }
        }
        if !of_terminal(&info) {
            self.signal_copies(pid, info);
        }
    }

    pub(crate) fn signal_copies(&mut self, pid: Pid, info: SigInfo) {
        let Some(Body::Many(many)) = self.table.get(pid).map(|e| &e.body) else { return };
        for copy in many.left.clone() {
            self.deliver(copy, info);
        }
    }

    pub(crate) fn kill_copies(&mut self, pid: Pid) {
        if let Some(Body::Many(many)) = self.table.get_mut(pid).map(|e| &mut e.body) {
            many.killed = true;
        }
        self.signal_copies(pid, our_kill());
    }
}

/// Is it one that a terminal sends, always to a whole group (tty_ioctl(4), termios(3))?
fn of_terminal(info: &SigInfo) -> bool {
    let by_kernel = info.code > 0;
    by_kernel && (info.sig.stops() || matches!(info.sig, Sig::HUP | Sig::INT | Sig::QUIT | Sig::CONT | Sig::WINCH))
}
