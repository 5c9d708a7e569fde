//! What the agent is to find if this mover is killed before it has said so.
//!
//! Whoever says something to the agent wakes it, and it runs first: while a process stands still that is time. So what must not be lost is noted here, in a
//! pipe which the agent reads when the mover has ended and at no other time, and said when nobody waits for it.

use rustix::io::Errno;

/// The only note so far: as [`super::Said::Bound`].
pub const BOUND: u8 = b'B';

/// `false`: nobody reads it.
pub(super) fn note_bound() -> bool {
    rustix::io::retry_on_intr(|| rustix::io::write(rustix::stdio::stdout(), &[BOUND])) == Ok::<usize, Errno>(1)
}
