//! inotify(7): which files are watched, and watches under chosen numbers.

use crate::sys;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Callers of these decide by the errno.
type Errno<T> = std::result::Result<T, i32>;

/// Opens a file by its handle (open_by_handle_at(2)) with O_PATH. `on`: any file of its file system. Wants CAP_DAC_READ_SEARCH.
///
/// # Errors
/// ESTALE when there is no such file any more, EINVAL for a handle that is none, EPERM.
pub fn open_handle(on: BorrowedFd<'_>, kind: i32, bytes: &[u8]) -> Errno<OwnedFd> {
    /// `struct file_handle` with the most bytes that one may have (MAX_HANDLE_SZ).
    #[repr(C)]
    struct Handle {
        length: u32,
        kind: i32,
        bytes: [u8; 128],
    }
    let mut handle = Handle { length: bytes.len() as u32, kind, bytes: [0; 128] };
    handle.bytes.get_mut(..bytes.len()).ok_or(libc::EINVAL)?.copy_from_slice(bytes);
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    // SAFETY: the handle is live and has as many bytes as it says.
    let fd = unsafe { libc::syscall(libc::SYS_open_by_handle_at, on.as_raw_fd(), &raw mut handle, flags) };
    sys::own(fd, String::new).map_err(|fault| fault.errno)
}

/// `_IOW('I', 0, __s32)`.
const SET_NEXT_WD: libc::Ioctl = (1 << 30) | (4 << 16) | (0x49 << 8);

/// The next watch that is added gets this number, or the first free one above it (Linux 4.17, CONFIG_CHECKPOINT_RESTORE; ENOTTY without).
pub fn set_next_watch(fd: BorrowedFd<'_>, number: i32) -> Errno<()> {
    // SAFETY: the argument is a number.
    sys::check(unsafe { libc::ioctl(fd.as_raw_fd(), SET_NEXT_WD, libc::c_long::from(number)) }.into()).map(drop)
}
