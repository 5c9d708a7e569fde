//! What one process, or one open file, has at a time: record locks (fcntl(2), F_SETLK and F_OFD_SETLK).

use crate::sys::{check, checked};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
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
        Ok(locked(file.as_fd(), libc::F_SETLK, &whole(), doing)?.then_some(Lock(file)))
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
    locked(file.as_fd(), libc::F_OFD_SETLK, &whole(), || "lock a file".into())
}

/// The owner of a record lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// The calling process (F_SETLK), until it closes any descriptor of the file.
    Process,
    /// Everybody who has the open file (F_OFD_SETLK).
    OpenFile,
}

/// A part of a file that is locked, in bytes; `length` 0: up to the end of the file, wherever that is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    pub exclusive: bool,
    pub start: u64,
    pub length: u64,
}

/// Locks a range, without waiting. False: another owner has some of it.
///
/// # Errors
/// `Sys` as fcntl(2): EBADF for a file that is not open for what the lock is for, ENOLCK.
pub fn take(file: BorrowedFd<'_>, owner: Owner, range: Range) -> Result<bool> {
    let command = if owner == Owner::Process { libc::F_SETLK } else { libc::F_OFD_SETLK };
    let kind = if range.exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
    let flock = libc::flock { l_type: kind as i16, l_start: range.start as i64, l_len: range.length as i64, ..whole() };
    locked(file, command, &flock, || "lock a file".into())
}

/// What somebody else's lock is, or what is to be: `F_RDLCK`, `F_WRLCK` or `F_UNLCK`, first byte, how many (0: to the end), and the owner's PID (-1: an open file).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    pub kind: i32,
    pub start: u64,
    pub length: u64,
    pub pid: i32,
}

/// Locks or unlocks for an open file (F_OFD_SETLK, F_OFD_SETLKW), and waits for others if it is to.
///
/// # Errors
/// An errno of fcntl(2): EAGAIN when another owner has some of it, EINTR, EDEADLK, ENOLCK, EBADF, EINVAL.
pub fn set_record(file: BorrowedFd<'_>, record: Record, waits: bool) -> std::result::Result<(), i32> {
    let flock = flock_of(record);
    let command = if waits { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
    // SAFETY: the struct is live and is what both commands take.
    check(unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const flock) }.into()).map(drop)
}

/// Who keeps this lock from being taken; `F_UNLCK`: nobody (F_OFD_GETLK).
///
/// # Errors
/// An errno of fcntl(2).
pub fn conflict(file: BorrowedFd<'_>, record: Record) -> std::result::Result<Record, i32> {
    let mut flock = flock_of(record);
    // SAFETY: the struct is live and is what the command takes and writes to.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut flock) }.into())?;
    let [start, length] = [flock.l_start, flock.l_len].map(|offset| offset as u64);
    Ok(Record { kind: flock.l_type.into(), start, length, pid: flock.l_pid })
}

fn flock_of(record: Record) -> libc::flock {
    let Record { kind, start, length, .. } = record;
    libc::flock { l_type: kind as i16, l_start: start as i64, l_len: length as i64, ..whole() }
}

fn locked(file: BorrowedFd<'_>, command: i32, range: &libc::flock, doing: impl FnOnce() -> String) -> Result<bool> {
    // SAFETY: the struct is live and is what both commands take.
    let ret = i64::from(unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const *range) });
    match check(ret) {
        Err(libc::EACCES | libc::EAGAIN) => Ok(false),
        _ => checked(ret, doing).map(|_| true),
    }
}

fn whole() -> libc::flock {
    libc::flock { l_type: libc::F_WRLCK as i16, l_whence: libc::SEEK_SET as i16, l_start: 0, l_len: 0, l_pid: 0 }
}
