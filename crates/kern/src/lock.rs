//! What one process, or one open file, has at a time: record locks (fcntl(2), F_SETLK and F_OFD_SETLK).

use crate::sys::{check, checked};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use vocab::{Fault, Pid, Result};

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
        Ok(locked(&file, libc::F_SETLK, doing)?.then_some(Lock(file)))
    }

    /// The process that has it.
    pub fn holder(path: &Path) -> Option<Pid> {
        let file = OpenOptions::new().write(true).open(path).ok()?;
        let mut found = whole();
        // SAFETY: the struct is live and is what F_GETLK takes and writes to.
        let ret = i64::from(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut found) });
        check(ret).ok()?;
        (found.l_type != libc::F_UNLCK as i16 && found.l_pid > 0).then_some(Pid(found.l_pid))
    }
}

/// Locks all of a file that is open for writing, as long as it is open here or where this descriptor has gone. False: another one that has opened it has it.
///
/// # Errors
/// `Sys` as fcntl(2): ENOLCK.
pub fn lock_open(file: &File) -> Result<bool> {
    locked(file, libc::F_OFD_SETLK, || "lock a file".into())
}

fn locked(file: &File, command: i32, doing: impl FnOnce() -> String) -> Result<bool> {
    let whole = whole();
    // SAFETY: the struct is live and is what both commands take.
    let ret = i64::from(unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const whole) });
    match check(ret) {
        Err(libc::EACCES | libc::EAGAIN) => Ok(false),
        _ => checked(ret, doing).map(|_| true),
    }
}

fn whole() -> libc::flock {
    libc::flock { l_type: libc::F_WRLCK as i16, l_whence: libc::SEEK_SET as i16, l_start: 0, l_len: 0, l_pid: 0 }
}
