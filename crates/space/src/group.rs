//! Process groups.

use crate::effect::Command;
use crate::space::Space;
use crate::step::{Act, Mark};
use vocab::Pid;

impl Space {
    /// The ghost may join a group only while that exists on the front end, and who leaves it must not be faster.
    pub(crate) fn group(&mut self, pid: Pid, pgid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        entry.remember();
        let old = std::mem::replace(&mut entry.person.pgid, pgid);
        if old == pgid {
            return;
        }
        let own = pgid == pid;
        let mark =
            Mark { leaves: vec![old], makes: own.then_some(pgid), joins: (!own).then_some(pgid), ..Mark::default() };
        self.push(pid, Act::Command(Command::Setpgid(pgid)), mark);
        self.stand_ins_follow(pid);
    }
}
