//! Where processes stand for bodies that are elsewhere.

use crate::effect::Effect;
use crate::errno::ESRCH;
use crate::person::Kin;
use crate::space::Space;
use vocab::{NodeId, Pid};

impl Space {
    /// Parent, session leader and group leader of `pid`, outermost first, as far as they live and are not on `node` themselves.
    /// From now on they stand there.
    pub(crate) fn kin_on(&mut self, node: NodeId, pid: Pid) -> Vec<Kin> {
        let Some(entry) = self.table.get(pid) else { return Vec::new() };
        let person = &entry.person;
        let mut kin = Vec::new();
        let mut seen = vec![pid];
        for pid in [person.sid, person.ppid, person.pgid] {
            if seen.contains(&pid) {
                continue;
            }
            seen.push(pid);
            let Some(entry) = self.table.get_mut(pid).filter(|e| !e.ended() && e.place != node) else { continue };
            entry.stands.insert(node);
            kin.push(Kin { person: entry.person.clone(), node: entry.place });
        }
        kin
    }

    /// `pid` is another than it was: its stand-ins follow.
    pub(crate) fn stand_ins_follow(&mut self, pid: Pid) {
        let Some(entry) = self.table.get(pid) else { return };
        for node in entry.stands.iter().filter(|node| **node != entry.place) {
            self.out.push(Effect::StandInIs { node: *node, person: entry.person.clone() });
            self.steps.follow(pid, *node);
        }
    }

    pub(crate) fn stand_in_followed(&mut self, node: NodeId, pid: Pid) {
        self.steps.followed(pid, node);
    }

    pub(crate) fn stand_in_gone(&mut self, node: NodeId, pid: Pid) {
        self.steps.follows_no_more(|who, at| who == pid && at == node);
        if let Some(entry) = self.table.get_mut(pid) {
            entry.stands.remove(&node);
        }
    }

    pub(crate) fn stand_in_wanted(&mut self, node: NodeId, pid: Pid) {
        match self.table.get_mut(pid).filter(|e| !e.ended() && e.place != node) {
            Some(entry) => {
                entry.stands.insert(node);
                let kin = Kin { person: entry.person.clone(), node: entry.place };
                self.out.push(Effect::StandIn { node, kin });
            }
            None => self.out.push(Effect::NoStandIn { node, pid, errno: ESRCH }),
        }
    }
}
