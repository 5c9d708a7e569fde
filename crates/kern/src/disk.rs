//! Bytes of a file on their way to the disk.

use std::os::fd::{AsRawFd, BorrowedFd};

/// Has the kernel begin to write `length` bytes from `offset` on to the disk, without waiting for their arrival (sync_file_range(2)):
/// an fsync(2) that comes later has less to wait for, and that one tells what went wrong.
pub fn begin_writing(file: BorrowedFd<'_>, offset: u64, length: u64) {
    // SAFETY: the call takes four numbers.
    let _fsync_tells =
        unsafe { libc::sync_file_range(file.as_raw_fd(), offset as i64, length as i64, libc::SYNC_FILE_RANGE_WRITE) };
}
