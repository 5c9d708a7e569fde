//! Other spaces on the front end's machine, which can be a node of another front end too. The machine's kernel gives their processes numbers among its own, by which a
//! program of this space would reach them.

use crate::front::Front;
use kern::proc::{root, Proc, PROC};
use std::path::{Path, PathBuf};
use vocab::{Fault, Pid, Result};
use wire::node::KillTarget;

/// The init of a node's programs, as the agent calls itself (crates/agent/src/birth.rs).
const AGENT: &[u8] = b"shoal:agent";
/// The process that keeps the stand-ins of a front end (crate::holder).
const HOLDER: &[u8] = b"shoal:holder";
/// What a kill is for that is to find nobody: the first number that the kernel gives no process (PID_MAX_LIMIT).
const NOBODY: Pid = Pid(4_194_304);
/// A user can make a line of ancestors as long as may be, and a node ask for its end again and again: the look is cut off here.
const MOST_ANCESTORS: usize = 128;

/// The PID namespace of a process.
fn namespace(of: &str) -> Option<u64> {
    kern::stat::known(Path::new(&format!("{PROC}/{of}/ns/pid"))).map(|found| found.ino)
}

/// Is this process of the calling one's PID namespace?
fn is_ours(pid: Pid) -> bool {
    let its = namespace(&pid.to_string());
    its.is_none() || its == namespace("self")
}

/// Is this a program of a node on this machine? The init of a PID namespace below ours tells, if it is root's. A process in such a namespace whose init is too far away
/// counts as one.
pub(crate) fn is_of_another_space(proc: &Proc, pid: Pid) -> bool {
    let mut at = pid;
    for _ in 0..MOST_ANCESTORS {
        if is_ours(at) {
            return false;
        }
        let Ok(parent) = proc.parent(at) else { return false };
        if is_ours(parent) {
            return proc
                .status(at)
                .is_ok_and(|status| status.name.as_bytes() == AGENT && status.creds.uid.effective == 0);
        }
        at = parent;
    }
    true
}

/// A machine's numbers are one space's.
///
/// # Errors
/// `Refused` where another front end has stand-ins here.
pub(crate) fn none_has_our_numbers(run_dir: &Path) -> Result<()> {
    let proc = Proc::open(root())?;
    let holds = |pid: Pid| {
        let status = proc.status(pid).ok()?;
        let is_one = status.name.as_bytes() == HOLDER && status.creds.uid.effective == 0 && is_ours(pid);
        let words = proc.cmdline(pid, 4096).ok().filter(|_| is_one)?;
        let mut words = words.split(|byte| *byte == 0).skip_while(|word| *word != b"--run-dir").skip(1);
        let text = String::from_utf8_lossy(words.next()?).into_owned();
        Some(PathBuf::from(text)).filter(|theirs| theirs != run_dir)
    };
    match proc.pids()?.into_iter().find_map(holds) {
        None => Ok(()),
        Some(theirs) => Err(Fault::refused(format!(
            "be a front end beside that of {}: a machine is the front end of one space, and a node of as many as you like",
            theirs.display()
        ))),
    }
}

impl Front {
    /// Is this number that of a process of another space here, and of none of ours?
    fn is_foreign(&self, pid: Pid) -> bool {
        pid < self.config.front_top && !self.ghosts.has(pid) && is_of_another_space(&self.proc, pid)
    }

    /// Whom a program on a node may mean by what it names.
    pub(crate) fn within(&self, target: KillTarget) -> KillTarget {
        match target {
            KillTarget::Process(pid) if self.is_foreign(pid) => KillTarget::Process(NOBODY),
            KillTarget::Thread { pid, .. } if self.is_foreign(pid) => KillTarget::Thread { pid: NOBODY, tid: NOBODY },
            target => target,
        }
    }

    /// # Errors
    /// `Refused` for a program of another space, which would be a process of two.
    pub(crate) fn is_no_stranger(&self, pid: Pid) -> Result<()> {
        match self.is_foreign(pid) {
            true => Err(Fault::refused("run a program from here: the caller is a process of another space")),
            false => Ok(()),
        }
    }
}
