//! Numbers of threads that a program brings along (`shoal restore -n`): whoever asks for it has them here, in threads that do nothing (`kern::idle`), so that nobody
//! else on this machine gets one as long as the stand-in is there; and the nodes give out none of this machine's own.

use crate::front::Front;
use crate::runs::Asker;
use vocab::{Fault, Pid, Result};

impl Front {
    /// May a program that process `pid` asks for have these numbers for its threads?
    ///
    /// # Errors
    /// `Refused` for one that is leased to nodes, or may be, and for one that `pid` does not have.
    pub(crate) fn may_bring(&self, asker: Asker, pid: Pid, numbers: &[Pid]) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        if !matches!(asker, Asker::Local(_)) {
            return Err(Fault::refused("a process with several threads can be restored from the front end only"));
        }
        let threads = self.proc.tasks(pid);
        let threads = threads.map_err(|errno| Fault::sys(errno, format!("look at the threads of {pid}")))?;
        let top = self.config.front_top;
        match numbers.iter().find(|number| **number >= top || !threads.contains(number)) {
            None => Ok(()),
            Some(number) if *number >= top => Err(Fault::refused(format!(
                "its thread {number} has a number for processes that nodes make: from {top} on they are theirs"
            ))),
            Some(number) => Err(Fault::refused(format!("nobody keeps the number {number} of its thread free"))),
        }
    }
}
