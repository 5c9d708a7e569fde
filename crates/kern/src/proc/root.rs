//! Where this process looks at the processes of its machine.
//!
//! On a front end /proc shows, for a process of the space, what it does on its node. Whoever works with what stands for it here, the daemon and the
//! movers above all, needs a procfs that shows this machine alone, and may not wait for those who serve the other one.

use std::fmt;
use std::sync::OnceLock;

static ROOT: OnceLock<String> = OnceLock::new();

/// The path of that procfs, where it is put into a text: `{PROC}/{pid}/maps`.
pub static PROC: Root = Root(());

/// See [`PROC`].
pub struct Root(());

impl fmt::Display for Root {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(root())
    }
}

/// The path of that procfs: `/proc`, if [`look_at`] has not been called.
pub fn root() -> &'static str {
    ROOT.get().map_or("/proc", String::as_str)
}

/// From now on this process looks at the procfs at `path`. For the beginning of a program; what comes second does not count.
pub fn look_at(path: String) {
    let _first = ROOT.set(path);
}
