//! The core that a stand-in dumps so that its status says that there was one. The body's own core is on the body's machine.

use crate::command::Command;
use crate::family::Family;
use crate::table::Ghosts;
use kern::proc::PROC;
use tracing::warn;
use vocab::Pid;

impl Ghosts {
    /// The same command, with a core only where one can be dumped.
    pub(crate) fn core_if_possible(&self, pid: Pid, command: Command) -> Command {
        match command {
            Command::Die { sig, core: true } => Command::Die { sig, core: self.may_dump(pid) && pattern_is_a_name() },
            other => other,
        }
    }

    /// Memory from which a core is dumped is dumpable, so it must be that stand-in's alone: a `shoal run` below which nothing runs any more.
    fn may_dump(&self, pid: Pid) -> bool {
        let ghost = self.ghosts.get(&pid).filter(|ghost| ghost.slot == Some(0));
        ghost.and_then(|ghost| self.families.get(&ghost.family)).is_some_and(Family::is_first_alone)
    }

    /// A file is being made beside the hold file: by a stand-in that dumps core, or by somebody who has no business there.
    pub(crate) fn creates(&mut self, unique: u64, pid: Pid, uid: u32) {
        let working = self.ghosts.get(&pid).and_then(|ghost| ghost.working);
        if matches!(working, Some((_, Command::Die { core: true, .. }, _))) {
            self.device.created(unique, uid);
        } else {
            warn!(%pid, "refused to make a file beside the hold file");
            self.device.fail(unique, EACCES);
        }
    }
}

/// Is a core a file in the working directory of the process that dumps it (core(5))? A path would be written to in earnest, and a program or a
/// socket would hear of a crash that was none of this machine's.
fn pattern_is_a_name() -> bool {
    let pattern = std::fs::read_to_string(format!("{PROC}/sys/kernel/core_pattern"));
    pattern.is_ok_and(|pattern| !pattern.starts_with(['|', '@']) && !pattern.contains('/'))
}

const EACCES: i32 = 13;
