//! Whom an open file signals when something can be read or written (fcntl(2), F_SETOWN_EX and F_SETSIG).

use crate::sys;
use std::os::fd::{AsRawFd, BorrowedFd};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// F_OWNER_TID, F_OWNER_PID or F_OWNER_PGRP.
    pub kind: i32,
    /// Of the thread, process or group, in the caller's numbers; 0 for none.
    pub id: i32,
    /// 0: SIGIO.
    pub signal: i32,
}

/// # Errors
/// EBADF for a file that was opened with O_PATH.
pub fn owner(fd: BorrowedFd<'_>) -> std::result::Result<Owner, i32> {
    const F_GETOWN_EX: i32 = 16;
    const F_GETSIG: i32 = 11;
    let mut owner = [0i32; 2];
    // SAFETY: the argument is a live `struct f_owner_ex`, which has these two numbers.
    sys::check(unsafe { libc::fcntl(fd.as_raw_fd(), F_GETOWN_EX, owner.as_mut_ptr()) }.into())?;
    // SAFETY: takes no argument.
    let signal = sys::check(unsafe { libc::fcntl(fd.as_raw_fd(), F_GETSIG) }.into())?;
    Ok(Owner { kind: owner[0], id: owner[1], signal: signal as i32 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn an_owner_is_told_as_it_was_set() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        assert_eq!(owner(one.as_fd()).map(|owner| owner.id), Ok(0));
        let own = std::process::id() as i32;
        // SAFETY: numbers.
        unsafe {
            libc::fcntl(one.as_raw_fd(), libc::F_SETOWN, own);
            libc::fcntl(one.as_raw_fd(), 10, libc::SIGUSR1);
        }
        assert_eq!(owner(one.as_fd()), Ok(Owner { kind: 1, id: own, signal: libc::SIGUSR1 }));
    }
}
