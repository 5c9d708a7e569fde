//! Waiting for one of several descriptors, with a deadline.

use kern::poll::{poll, Ready};
use std::os::fd::BorrowedFd;
use std::time::Instant;
use vocab::{Fault, Result};

/// Waits until one of `fds` has something to read or is closed on the other side; all `false` when `deadline` passed.
pub(crate) fn readable(fds: &[BorrowedFd<'_>], deadline: Option<Instant>) -> Result<Vec<bool>> {
    let wanted: Vec<(BorrowedFd<'_>, Ready)> = fds.iter().map(|fd| (*fd, Ready::READ)).collect();
    let came = events(&wanted, deadline)?;
    Ok(came.iter().map(|ready| ready.readable || ready.over).collect())
}

/// The same for any mix of reading and writing.
pub(crate) fn events(wanted: &[(BorrowedFd<'_>, Ready)], deadline: Option<Instant>) -> Result<Vec<Ready>> {
    loop {
        let timeout = deadline.map_or(-1, |at| {
            let left = at.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
            i32::try_from(left).unwrap_or(i32::MAX)
        });
        match poll(wanted, timeout) {
            Err(EINTR) => continue,
            other => return other.map_err(|errno| Fault::sys(errno, "wait within the sandbox")),
        }
    }
}

/// errno(3) of an interrupted call.
const EINTR: i32 = 4;
