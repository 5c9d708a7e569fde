//! File handles (name_to_handle_at(2)): numbers that tell a file from all others of its file system, deleted ones included.

use crate::sys;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Callers of these decide by the errno.
type Errno<T> = std::result::Result<T, i32>;

/// MAX_HANDLE_SZ: bytes of a handle at most.
const MOST: usize = 128;
/// The handle only has to tell the file from others, and need not open it (Linux 6.5; EINVAL before).
const AT_HANDLE_FID: i32 = 0x200;

/// `struct file_handle` with the most bytes that one may have.
#[repr(C)]
struct Raw {
    length: u32,
    kind: i32,
    bytes: [u8; MOST],
}

/// The handle of an open file, which may be open with O_PATH: its kind and bytes. `None` where the file system has none.
pub fn of(file: BorrowedFd<'_>) -> Option<(i32, Vec<u8>)> {
    named(file, AT_HANDLE_FID).or_else(|_| named(file, 0)).ok()
}

/// The handle by which [`open`] opens it again. `None` where the file system has none such.
pub fn to_open(file: BorrowedFd<'_>) -> Option<(i32, Vec<u8>)> {
    named(file, 0).ok()
}

fn named(file: BorrowedFd<'_>, how: i32) -> Errno<(i32, Vec<u8>)> {
    let mut handle = Raw { length: MOST as u32, kind: 0, bytes: [0; MOST] };
    let (mut mount, flags) = (0i32, libc::AT_EMPTY_PATH | how);
    // SAFETY: the name is a string of no bytes; the handle is live and has as many bytes as it says, and so is the mount's number.
    sys::check(unsafe {
        let name = c"".as_ptr();
        libc::syscall(libc::SYS_name_to_handle_at, file.as_raw_fd(), name, &raw mut handle, &raw mut mount, flags)
    })?;
    let bytes = handle.bytes.get(..handle.length as usize).ok_or(libc::EOVERFLOW)?;
    Ok((handle.kind, bytes.to_vec()))
}

/// Opens a file by its handle (open_by_handle_at(2)) with O_PATH. `on`: any file of its file system, but none that is open with O_PATH. Wants CAP_DAC_READ_SEARCH.
///
/// # Errors
/// ESTALE when there is no such file any more, EINVAL for a handle that is none, EPERM.
pub fn open(on: BorrowedFd<'_>, kind: i32, bytes: &[u8]) -> Errno<OwnedFd> {
    by_handle(on.as_raw_fd(), kind, bytes)
}

/// The same with a directory that may be open with O_PATH: nobody who watches it (inotify(7)) is told. The calling thread is there for a moment, and has a working directory of its own from then on.
///
/// # Errors
/// As [`open`]; as fchdir(2).
pub fn open_below(directory: BorrowedFd<'_>, kind: i32, bytes: &[u8]) -> Errno<OwnedFd> {
    // SAFETY: a flag only.
    sys::check(unsafe { libc::unshare(libc::CLONE_FS) }.into())?;
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: a string that is live.
    let before =
        sys::own(unsafe { libc::open(c".".as_ptr(), flags) }.into(), String::new).map_err(|fault| fault.errno)?;
    // SAFETY: a live descriptor.
    let enter = |directory: BorrowedFd<'_>| sys::check(unsafe { libc::fchdir(directory.as_raw_fd()) }.into());
    enter(directory)?;
    let opened = by_handle(libc::AT_FDCWD, kind, bytes);
    enter(before.as_fd())?;
    opened
}

fn by_handle(on: i32, kind: i32, bytes: &[u8]) -> Errno<OwnedFd> {
    let mut handle = Raw { length: bytes.len() as u32, kind, bytes: [0; MOST] };
    handle.bytes.get_mut(..bytes.len()).ok_or(libc::EINVAL)?.copy_from_slice(bytes);
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    // SAFETY: the handle is live and has as many bytes as it says.
    let fd = unsafe { libc::syscall(libc::SYS_open_by_handle_at, on, &raw mut handle, flags) };
    sys::own(fd, String::new).map_err(|fault| fault.errno)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::os::fd::AsFd;
    use std::os::unix::fs::OpenOptionsExt;

    /// Also where the inode number is used again, and of a file that is open with O_PATH only.
    #[test]
    fn a_handle_is_of_one_file() {
        let dir = std::env::temp_dir().join(format!("shoal-handle-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a new one");
        let (one, other) = (dir.join("one"), dir.join("other"));
        let (first, second) = (File::create(&one).expect("a file"), File::create(&other).expect("a file"));
        let path = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(&one).expect("it is there");
        let handle = of(first.as_fd());
        assert_eq!(of(path.as_fd()), handle);
        assert!(handle.is_none() || of(second.as_fd()) != handle);
        std::fs::remove_dir_all(&dir).expect("mine");
        drop((first, path));
    }

    #[test]
    fn a_watched_directory_is_not_told_of_who_opens_by_a_handle_below_it() {
        if !crate::own::is_root() {
            return;
        }
        let dir = std::env::temp_dir().join(format!("shoal-below-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a new one");
        let file = File::create(dir.join("file")).expect("a file");
        let (own, path) = (std::env::current_dir().expect("there"), dir.join(""));
        let name = sys::cstring(path.as_os_str().as_encoded_bytes()).expect("no NUL");
        // SAFETY: numbers only.
        let watch = sys::own(unsafe { libc::inotify_init1(libc::IN_NONBLOCK) }.into(), String::new).expect("inotify");
        // SAFETY: a live descriptor and string.
        let added = unsafe { libc::inotify_add_watch(watch.as_raw_fd(), name.as_ptr(), libc::IN_ALL_EVENTS) };
        assert_eq!(added, 1);
        let directory = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(&dir).expect("it is there");
        if let Some((kind, bytes)) = of(file.as_fd()) {
            let found = open_below(directory.as_fd(), kind, &bytes).expect("root");
            assert_eq!(of(found.as_fd()), of(file.as_fd()));
        }
        assert_eq!(sys::read(watch.as_fd(), &mut [0; 64]), Err(libc::EAGAIN));
        assert_eq!(std::env::current_dir().expect("there"), own);
        std::fs::remove_dir_all(&dir).expect("mine");
    }
}
