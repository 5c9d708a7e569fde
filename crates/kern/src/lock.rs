//! What one process, or one open file, has at a time: record locks (fcntl(2), F_SETLK and F_OFD_SETLK).

use crate::sys::{check, checked};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use vocab::{Fault, Result};

/// A file that this process has locked, until it drops this, or ends. Those that it forks have not, whatever descriptors they keep.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "closing it ends the lock")] File);

impl Lock {
    /// Locks the file `path`, which is made if need be, and which only its owner can open. `None` when another process has it.
    ///
    /// # Errors
    /// As open(2); `Sys` as fcntl(2): ENOLCK.
    pub fn take(path: &Path) -> Result<Option<Lock>> {
        let doing = || format!("lock {}", path.display());
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
        let file = file.map_err(|e| Fault::io(&e, doing()))?;
        Ok(whole(&file, libc::F_SETLK, doing)?.then_some(Lock(file)))
    }
}

/// Locks all of a file that is open for writing, as long as it is open here or where this descriptor has gone. False: another one that has opened it has it.
///
/// # Errors
/// `Sys` as fcntl(2): ENOLCK.
pub fn lock_open(file: &File) -> Result<bool> {
    whole(file, libc::F_OFD_SETLK, || "lock a file".into())
}

fn whole(file: &File, command: i32, doing: impl FnOnce() -> String) -> Result<bool> {
    let (kind, start) = (libc::F_WRLCK as i16, libc::SEEK_SET as i16);
    let whole = libc::flock { l_type: kind, l_whence: start, l_start: 0, l_len: 0, l_pid: 0 };
    // SAFETY: the struct is live and is what both commands take.
    let ret = i64::from(unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const whole) });
    match check(ret) {
        Err(libc::EACCES | libc::EAGAIN) => Ok(false),
        _ => checked(ret, doing).map(|_| true),
    }
}
