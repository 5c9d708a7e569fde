//! The rest of the path that a process walks: the kernel asks for one name after the other, and the front end can answer for all at once.
//!
//! A hint only: what the process has said in its system call is read from outside, and may be anything.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Bytes of a path that are looked at.
const MOST: usize = 1024;
const PAGE: u64 = 4096;

/// The argument that is a path, by the numbers of system calls (asm/unistd_64.h): open, stat, lstat, access, execve, chdir, mkdir, creat, unlink, readlink, chmod, statfs, getxattr, lgetxattr,
/// and openat, newfstatat, unlinkat, readlinkat, fchmodat, faccessat, utimensat, execveat, statx, openat2, faccessat2.
const FIRST: [u64; 14] = [2, 4, 6, 21, 59, 80, 83, 85, 87, 89, 90, 137, 191, 192];
const SECOND: [u64; 11] = [257, 262, 263, 267, 268, 269, 280, 322, 332, 437, 439];

/// The rest behind `name` of the path that the thread has given to its system call; `proc` is where its number is known. `None`: nothing does, or nobody knows.
pub(super) fn rest(proc: &OwnedFd, thread: u32, name: &[u8]) -> Option<Vec<u8>> {
    if thread == 0 {
        return None;
    }
    let open = |what: &str| {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::openat(proc, format!("{thread}/{what}"), flags, Mode::empty()).map(File::from).ok()
    };
    let mut call = String::new();
    open("syscall")?.read_to_string(&mut call).ok()?;
    let at = argument(&call)?;
    let mut room = [0; MOST];
    // An end of the memory in the middle keeps nothing back of what lies before it.
    let first = (PAGE - at % PAGE).min(MOST as u64) as usize;
    let memory = open("mem")?;
    let mut filled = memory.read_at(&mut room[..first], at).ok()?;
    if filled == first && !room[..filled].contains(&0) {
        filled += memory.read_at(&mut room[first..], at + first as u64).unwrap_or(0);
    }
    let path = room[..filled].split(|byte| *byte == 0).next()?;
    behind(path, name)
}

/// The address of the path in a line of /proc/PID/syscall.
fn argument(line: &str) -> Option<u64> {
    let mut words = line.split_ascii_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let at = match number {
        _ if FIRST.contains(&number) => words.next(),
        _ if SECOND.contains(&number) => words.nth(1),
        _ => None,
    };
    u64::from_str_radix(at?.strip_prefix("0x")?, 16).ok().filter(|at| *at != 0)
}

fn behind(path: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let mut parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.find(|part| *part == name)?;
    let rest: Vec<&[u8]> = parts.collect();
    (!rest.is_empty()).then(|| rest.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_name_in_a_path() {
        assert_eq!(behind(b"/usr//lib/./x/y", b"lib").as_deref(), Some(&b"x/y"[..]));
        assert_eq!(behind(b"usr/lib", b"usr").as_deref(), Some(&b"lib"[..]));
        assert_eq!((behind(b"usr/lib", b"lib"), behind(b"usr/lib", b"bin")), (None, None));
    }

    #[test]
    fn the_path_of_a_system_call() {
        let line = |number: u32| format!("{number} 0xffffff9c 0x7ffd1000 0x0 0x0 0x0 0x0 0x7ffe 0x7f3\n");
        assert_eq!(argument(&line(257)), Some(0x7ffd_1000));
        assert_eq!((argument(&line(2)), argument(&line(0))), (Some(0xffff_ff9c), None));
        assert_eq!((argument("running\n"), argument("")), (None, None));
    }
}
