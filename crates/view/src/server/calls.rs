//! Arguments and results of system calls.

use std::os::fd::{AsRawFd, BorrowedFd};
use vocab::errno::ENFILE;

pub(crate) type Errno<T> = std::result::Result<T, i32>;

/// S_IFMT.
pub(crate) const FORMAT: u32 = 0o170_000;
/// S_IFDIR.
pub(crate) const DIRECTORY: u32 = 0o040_000;
/// S_IFLNK.
pub(crate) const LINK: u32 = 0o120_000;
/// S_IFREG.
pub(crate) const FILE: u32 = 0o100_000;

/// The path by which an open file is named to calls that take a path.
pub(crate) fn path_of(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

pub(crate) fn errno(error: rustix::io::Errno) -> i32 {
    error.raw_os_error()
}

/// The same of a call that opens something: that this process has no room is nothing that a program has done.
pub(crate) fn no_room(error: rustix::io::Errno) -> i32 {
    match error {
        rustix::io::Errno::MFILE => ENFILE,
        error => errno(error),
    }
}
