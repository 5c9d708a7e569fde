//! A mover of the front end: a process of its own, as on nodes.

use link::Plain;
use std::process::Child;
use vocab::Pid;

/// A child of this daemon, and the line to it. Dropped, it is ended.
pub(crate) struct Mover {
    pub(crate) line: Plain,
    pub(crate) whom: Pid,
    child: Child,
}

impl Mover {
    pub(crate) fn new(line: Plain, whom: Pid, child: Child) -> Mover {
        Mover { line, whom, child }
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        // It has ended, or is to.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
