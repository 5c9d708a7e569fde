//! The descriptors that a restore takes, beyond those of the process: one for each file that is mapped, and for what it is made with.

use kern::others;
use vocab::Pid;

/// The limit on descriptors of the calling process, as high as it can go, for the process and whatever is forked. Dropped, the limit is what it was.
pub(crate) struct ManyFiles(Option<(u64, u64)>);

impl ManyFiles {
    pub(crate) fn allowed() -> ManyFiles {
        ManyFiles(others::lift_limit(Pid::NONE, libc::RLIMIT_NOFILE).ok())
    }
}

impl Drop for ManyFiles {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // The limit was allowed a moment ago.
            let _ = others::set_limit(Pid::NONE, libc::RLIMIT_NOFILE, before);
        }
    }
}
