//! A process moves from one node to another. Who does what when is the front daemon's (`front::moves`); here is what it means for the space.
//!
//! | | the process is on | signals go |
//! |---|---|---|
//! | Arrive | the old node | there |
//! | Leaves | the old node, which ends it | nowhere yet |
//! | Stays | the old node | there, with what was kept |
//! | Moved | the new node | there, with what was kept |

use crate::effect::Effect;
use crate::space::Space;
use crate::table::Body;
use vocab::{NodeId, Pid};

impl Space {
    /// What is to become `pid` is to be made on `to`, with its kin.
    pub(crate) fn arrive(&mut self, pid: Pid, to: NodeId) {
        let Some(entry) = self.table.get(pid).filter(|e| e.has_body()) else { return };
        let person = entry.person.clone();
        let kin = self.kin_on(to, pid);
        self.log(pid, to, "to arrive", 0);
        self.out.push(Effect::Arrive { node: to, person, kin });
    }

    pub(crate) fn leaves(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid).filter(|e| e.has_body()) else { return };
        entry.leaving = true;
        let place = entry.place;
        self.log(pid, place, "leaves", 0);
    }

    pub(crate) fn stays(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        let place = entry.place;
        self.log(pid, place, "stays", 0);
        self.settle_down(pid);
    }

    pub(crate) fn moved(&mut self, pid: Pid, to: NodeId) {
        if let Some(entry) = self.table.get(pid).filter(|e| e.body == Body::Unclaimed) {
            let person = entry.person.clone();
            return self.claim(to, person);
        }
        let Some(entry) = self.table.get_mut(pid).filter(|e| e.has_body()) else { return };
        entry.place = to;
        entry.stands.remove(&to);
        // What the old node was to tell of stops it tells no more, and the new one knows of none.
        entry.awaited = 0;
        self.log(pid, to, "moved", 0);
        self.settle_down(pid);
        if !self.nodes.contains(&to) {
            self.exited(pid, vocab::Exit::NodeLost, crate::person::Usage::default());
        }
    }

    /// What it was sent meanwhile is sent on.
    fn settle_down(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        entry.leaving = false;
        if entry.has_body() {
            for info in std::mem::take(&mut entry.early) {
                self.deliver(pid, info);
            }
        }
    }
}
