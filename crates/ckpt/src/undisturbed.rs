//! Whoever has a process make calls does not end half-way. Its threads would go on with what they were told, or take the SIGTRAP by which a call of ours ends.

use kern::signal;
use vocab::{Result, SigSet};

/// No signal reaches the calling thread but SIGKILL and SIGSTOP; what has come meanwhile does when this is dropped.
pub(crate) struct Undisturbed(SigSet);

impl Undisturbed {
    pub(crate) fn now() -> Result<Undisturbed> {
        signal::block_all().map(Undisturbed)
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        // It was the mask a moment ago.
        let _ = signal::set_mask(self.0);
    }
}
