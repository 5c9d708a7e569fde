//! A mover of the front end: a process of its own, as on nodes, which outlives the daemon where the process that it moves would not.

use link::Plain;
use mover::Tended;
use std::path::PathBuf;
use std::process::Child;
use vocab::Pid;

/// A child of this daemon, and the line to it. Dropped, it is ended, and a successor does not find it.
pub(crate) struct Mover {
    pub(crate) line: Plain,
    pub(crate) whom: Pid,
    /// `None`: a daemon before this one has started it.
    child: Option<Child>,
    tended: Option<Tended>,
    /// Where a successor of this daemon would find it.
    found: Option<PathBuf>,
}

impl Mover {
    pub(crate) fn new(line: Plain, whom: Pid, child: Option<Child>, found: Option<PathBuf>) -> Mover {
        let tended = child.as_ref().map(|child| Tended::new(Pid(child.id() as i32)));
        Mover { line, whom, child, tended, found }
    }

    /// For [`mover::tend`]; `None`: it is not ours to wait for, and its number may be another's by then.
    pub(crate) fn tended(&mut self) -> Option<&mut Tended> {
        self.tended.as_mut()
    }

    /// Has a daemon before this one started it? Then it takes the end of its line for the end of a daemon, and waits for another one.
    pub(crate) fn is_inherited(&self) -> bool {
        self.child.is_none()
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        // It has ended, or is to.
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
            // It may have had no time for that.
            self.found.iter().for_each(|at| drop(std::fs::remove_file(at)));
        }
    }
}
