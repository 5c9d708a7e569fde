//! poll(2): waiting for a few descriptors that are not ours to put into an epoll set.

use crate::sys::check;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// The errnos that whoever reads and writes descriptors of unknown modes must tell apart (errno(3)).
pub use libc::{EAGAIN, EINTR, EIO};

/// What is waited for, and what came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ready {
    pub readable: bool,
    pub writable: bool,
    /// The other side is gone (POLLHUP, POLLERR), or the descriptor is none (POLLNVAL); told unasked.
    pub over: bool,
}

impl Ready {
    pub const READ: Ready = Ready { readable: true, writable: false, over: false };
    pub const WRITE: Ready = Ready { readable: false, writable: true, over: false };
    /// Only whether the other side is gone.
    pub const OVER: Ready = Ready { readable: false, writable: false, over: true };

    fn events(self) -> i16 {
        (if self.readable { libc::POLLIN } else { 0 }) | if self.writable { libc::POLLOUT } else { 0 }
    }

    fn from(revents: i16) -> Ready {
        Ready {
            readable: revents & libc::POLLIN != 0,
            writable: revents & libc::POLLOUT != 0,
            over: revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0,
        }
    }
}

/// Waits until something of `wanted` is so, at most `timeout_ms` (-1: for ever); what came stands in the same place.
///
/// # Errors
/// The errno: EINTR when a handler ran.
pub fn poll(wanted: &[(BorrowedFd<'_>, Ready)], timeout_ms: i32) -> Result<Vec<Ready>, i32> {
    poll_for(wanted, u64::try_from(timeout_ms).ok().map(Duration::from_millis))
}

/// The same, with a finer time (ppoll(2)); `None`: for ever.
///
/// # Errors
/// As [`poll`].
pub fn poll_for(wanted: &[(BorrowedFd<'_>, Ready)], timeout: Option<Duration>) -> Result<Vec<Ready>, i32> {
    let mut fds: Vec<libc::pollfd> =
        wanted.iter().map(|(fd, r)| libc::pollfd { fd: fd.as_raw_fd(), events: r.events(), revents: 0 }).collect();
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the pointers and the count are those of a live, writable vector and of a live time or none; no mask of signals is given.
    let came = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout, std::ptr::null()) };
    check(came.into())?;
    Ok(fds.iter().map(|p| Ready::from(p.revents)).collect())
}

/// How many bytes can be read from `fd` at once (FIONREAD); `None` where the file does not say.
pub fn unread(fd: BorrowedFd<'_>) -> Option<usize> {
    let mut bytes = 0i32;
    // SAFETY: FIONREAD writes one int, and `bytes` is one.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &mut bytes) }.into()).ok().map(|_| bytes.max(0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;
    use std::os::fd::AsFd;

    #[test]
    fn a_pipe_tells_bytes_and_the_end() {
        let (read, write) = sys::pipe().expect("a pipe");
        assert_eq!(poll(&[(read.as_fd(), Ready::READ)], 0).expect("poll"), [Ready::default()]);
        sys::write(write.as_fd(), b"abc").expect("room");
        assert_eq!(poll(&[(read.as_fd(), Ready::READ)], -1).expect("poll"), [Ready::READ]);
        assert_eq!(unread(read.as_fd()), Some(3));
        drop(read);
        assert!(poll(&[(write.as_fd(), Ready::OVER)], -1).expect("poll")[0].over);
    }
}
