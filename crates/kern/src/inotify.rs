//! inotify(7): watches under chosen numbers.

use crate::sys;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Callers of these decide by the errno.
type Errno<T> = std::result::Result<T, i32>;

/// `_IOW('I', 0, __s32)`.
const SET_NEXT_WD: libc::Ioctl = (1 << 30) | (4 << 16) | (0x49 << 8);

/// The next watch that is added gets this number, or the first free one above it (Linux 4.17, CONFIG_CHECKPOINT_RESTORE; ENOTTY without).
pub fn set_next_watch(fd: BorrowedFd<'_>, number: i32) -> Errno<()> {
    // SAFETY: the argument is a number.
    sys::check(unsafe { libc::ioctl(fd.as_raw_fd(), SET_NEXT_WD, libc::c_long::from(number)) }.into()).map(drop)
}
