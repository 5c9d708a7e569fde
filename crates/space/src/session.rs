//! Sessions.

use crate::effect::Command;
use crate::space::Space;
use crate::step::{Act, Mark};
use vocab::Pid;

impl Space {
    /// setsid fails while a group of that number exists (linux: `ksys_setsid`, kernel/sys.c), so who leaves it goes first.
    pub(crate) fn session(&mut self, pid: Pid) {
        let Some(entry) = self.table.get_mut(pid) else { return };
        if entry.person.sid == pid {
            return;
        }
        entry.remember();
        let old = std::mem::replace(&mut entry.person.pgid, pid);
        entry.person.sid = pid;
        let mark = Mark { leaves: vec![old], makes: Some(pid), ..Mark::default() };
        self.push(pid, Act::Command(Command::Setsid), mark);
        self.stand_ins_follow(pid);
    }
}
