//! Locks on files: of the process (fcntl(2), F_SETLK), of an open file (F_OFD_SETLK), and those of flock(2).

use super::Seen;
use crate::elsewhere::is_deleted;
use crate::obstacle::Obstacle;
use image::files::{Files, Kind, Lock, LockKind};
use kern::lock::{Owner, Range};
use puppet::Script;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use vocab::{Fault, Result};
use zerocopy::{Immutable, IntoBytes};

/// The locks that are held through this descriptor, from its fdinfo:
/// `lock:  1: POSIX  ADVISORY  WRITE 5678 08:01:1234 0 EOF`.
pub(super) fn held(seen: &Seen) -> Result<Vec<Lock>> {
    let lines = seen.info.lines().filter_map(|line| line.strip_prefix("lock:"));
    lines.map(|line| parse(line).ok_or_else(|| seen.strange("lock"))).collect()
}

fn parse(line: &str) -> Option<Lock> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, kind, _, mode, _, _, start, end] = words[..] else { return None };
    let kind = match kind {
        "POSIX" => LockKind::Process,
        "OFDLCK" => LockKind::OpenFile,
        "FLOCK" => LockKind::Whole,
        _ => return None,
    };
    let start: u64 = start.parse().ok()?;
    let length = match end {
        "EOF" => 0,
        end => end.parse::<u64>().ok()? + 1 - start,
    };
    Some(Lock { kind, exclusive: mode == "WRITE", start, length })
}

/// The locks of a process that another node is to have. A lock never changes hands: the new node's must be taken before the old one is let go
/// (linux: fs/locks.c; the owner of F_SETLK is a table of descriptors, that of the others an open file).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Locks {
    None,
    /// Two may have them at a time.
    Shared,
    /// While such a lock went nobody would have it, and so others could take it.
    Exclusive(Obstacle),
}

impl Locks {
    /// The locks of the open files of an image.
    pub(crate) fn of(files: &Files) -> Locks {
        let locked = files.files.iter().enumerate().filter(|(_, file)| !file.locks.is_empty());
        let exclusive = locked.clone().find_map(|(index, file)| {
            let Kind::Named { path } = &file.kind else { return None };
            let lock = file.locks.iter().find(|lock| lock.exclusive)?;
            let number = files.descriptors.iter().find(|descriptor| descriptor.file as usize == index)?.number;
            Some(exclusive(number, &path.0, lock))
        });
        match (exclusive, locked.count()) {
            (Some(why), _) => Locks::Exclusive(why),
            (None, 0) => Locks::None,
            (None, _) => Locks::Shared,
        }
    }
}

/// The exclusive locks of files that others can open, each as what is in the way of a move.
pub(super) fn in_the_way(all: &[Seen]) -> Vec<Obstacle> {
    let named = all.iter().filter(|seen| seen.link.starts_with(b"/") && !is_deleted(&seen.link));
    let of = |seen: &Seen| {
        // Locks of other kinds are told of elsewhere.
        let lock = held(seen).ok()?.into_iter().find(|lock| lock.exclusive)?;
        Some(exclusive(seen.number, &seen.link, &lock))
    };
    named.filter_map(of).collect()
}

fn exclusive(number: i32, path: &[u8], lock: &Lock) -> Obstacle {
    let path = String::from_utf8_lossy(path);
    let call = match lock.kind {
        LockKind::Process => "F_SETLK",
        LockKind::OpenFile => "F_OFD_SETLK",
        LockKind::Whole => "flock(2)",
    };
    format!("descriptor {number} ({path}) has an exclusive lock ({call}), which others could take while the process is moved")
}

/// Takes the locks of an open file in the process that restores. Those of an open file go with it; that of a process is taken here if it is shared, so that others cannot
/// have it until the new process has its own.
///
/// # Errors
/// EAGAIN when another process has one of them.
pub(super) fn keep(file: &OwnedFd, locks: &[Lock]) -> Result<()> {
    for lock in locks {
        let taken = match lock.kind {
            LockKind::Process if lock.exclusive => true,
            LockKind::Process => kern::lock::take(file.as_fd(), Owner::Process, range(lock))?,
            LockKind::OpenFile => kern::lock::take(file.as_fd(), Owner::OpenFile, range(lock))?,
            LockKind::Whole => whole(file, lock.exclusive)?,
        };
        if !taken {
            return Err(Fault::sys(
                libc::EAGAIN,
                "take a lock that the process has, and that another process has by now",
            ));
        }
    }
    Ok(())
}

fn range(lock: &Lock) -> Range {
    Range { exclusive: lock.exclusive, start: lock.start, length: lock.length }
}

fn whole(file: &OwnedFd, exclusive: bool) -> Result<bool> {
    let how = if exclusive { FlockOperation::NonBlockingLockExclusive } else { FlockOperation::NonBlockingLockShared };
    match rustix::fs::flock(file, how) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(Fault::sys(errno.raw_os_error(), "lock a file")),
    }
}

/// `struct flock`.
#[repr(C)]
#[derive(Clone, Copy, IntoBytes, Immutable)]
struct Flock {
    kind: i16,
    whence: i16,
    pad: i32,
    start: u64,
    length: u64,
    pid: i32,
    tail: i32,
}

/// Takes them in the new process, without waiting: somebody else may have them by now, and then the process cannot go on as it was.
pub(super) fn take(script: &mut Script, number: i32, locks: &[Lock]) {
    for lock in locks {
        let what = format!("take a lock of descriptor {number}");
        if lock.kind == LockKind::Whole {
            let how = if lock.exclusive { libc::LOCK_EX } else { libc::LOCK_SH } | libc::LOCK_NB;
            script.call(what, libc::SYS_flock, &[number as u64, how as u64]);
            continue;
        }
        let kind = if lock.exclusive { libc::F_WRLCK } else { libc::F_RDLCK } as i16;
        let flock = Flock { kind, whence: 0, pad: 0, start: lock.start, length: lock.length, pid: 0, tail: 0 };
        let at = script.bytes(flock.as_bytes());
        let command = if lock.kind == LockKind::Process { libc::F_SETLK } else { libc::F_OFD_SETLK };
        script.call(what, libc::SYS_fcntl, &[number as u64, command as u64, at]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_fdinfo() {
        let lock = |kind, exclusive, start, length| Some(Lock { kind, exclusive, start, length });
        assert_eq!(parse(" 1: POSIX  ADVISORY  WRITE 56 08:01:12 0 EOF"), lock(LockKind::Process, true, 0, 0));
        assert_eq!(parse("\t2: OFDLCK ADVISORY  READ -1 08:01:12 10 19"), lock(LockKind::OpenFile, false, 10, 10));
        assert_eq!(parse(" 1: FLOCK  ADVISORY  WRITE 56 08:01:12 0 EOF"), lock(LockKind::Whole, true, 0, 0));
        assert_eq!(parse(" 1: LEASE  ACTIVE  WRITE 56 08:01:12 0 EOF"), None);
    }
}
