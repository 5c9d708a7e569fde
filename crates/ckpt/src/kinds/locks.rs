//! Locks on files: of the process (fcntl(2), F_SETLK), of an open file (F_OFD_SETLK), and those of flock(2).

use super::Seen;
use image::files::{Lock, LockKind};
use puppet::Script;
use vocab::Result;
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

/// Takes them, without waiting: somebody else may have them by now, and then the process cannot go on as it was.
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
