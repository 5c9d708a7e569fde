//! Files on their way to the disk, and to their names.

use crate::proc::PROC;
use std::ffi::CString;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Has the kernel begin to write `length` bytes from `offset` on to the disk, without waiting for their arrival (sync_file_range(2)):
/// an fsync(2) that comes later has less to wait for, and that one tells what went wrong.
pub fn begin_writing(file: BorrowedFd<'_>, offset: u64, length: u64) {
    // SAFETY: the call takes four numbers.
    let _fsync_tells =
        unsafe { libc::sync_file_range(file.as_raw_fd(), offset as i64, length as i64, libc::SYNC_FILE_RANGE_WRITE) };
}

/// A file in this folder that has no name, and so is gone with its descriptor however that comes about; `mode`: its permission bits (open(2), O_TMPFILE). `None` where the
/// file system has no such files.
///
/// # Errors
/// What keeps a file from being made there.
pub fn nameless(folder: &Path, mode: u32) -> Result<Option<File>> {
    let mut how = File::options();
    match how.write(true).mode(mode).custom_flags(libc::O_TMPFILE).open(folder) {
        Ok(file) => Ok(Some(file)),
        // EISDIR is said by file systems of before there were such files (open(2)).
        Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Gives such a file this name, which nothing has yet (open(2) tells how).
///
/// # Errors
/// EEXIST; what keeps a file from being made there.
pub fn name(file: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| Error::from_raw_os_error(libc::EINVAL));
    let from = text(format!("{PROC}/self/fd/{}", file.as_raw_fd()).as_bytes())?;
    let to = text(path.as_os_str().as_bytes())?;
    let follow = libc::AT_SYMLINK_FOLLOW;
    // SAFETY: both are strings that live until the call returns.
    match unsafe { libc::linkat(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), follow) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_is_nowhere_until_it_has_a_name() {
        let folder = std::env::temp_dir().join(format!("nameless.{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let there = || std::fs::read_dir(&folder).expect("a folder").count();
        let mut file = nameless(&folder, 0o600).expect("a file").expect("a file system with such files");
        file.write_all(b"whole").expect("room");
        assert_eq!(there(), 0);
        let path = folder.join("name");
        name(file.as_fd(), &path).expect("a name");
        assert_eq!(std::fs::read(&path).expect("there"), b"whole");
        let taken = name(file.as_fd(), &path).map_err(|e| e.raw_os_error());
        assert_eq!(taken, Err(Some(libc::EEXIST)));
        drop(nameless(&folder, 0o600).expect("a file"));
        assert_eq!(there(), 1);
        std::fs::remove_dir_all(&folder).expect("a folder of ours");
    }
}
