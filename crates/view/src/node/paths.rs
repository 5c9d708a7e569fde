//! The rest of the path that a process walks: the kernel asks for one name after the other, and the front end can answer for all at once.
//!
//! A hint only: what the process has said in its system call is read from outside, and may be anything.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use wire::view::intent;

/// Bytes of a path that are looked at.
const MOST: usize = 1024;
const PAGE: u64 = 4096;

/// The argument that is a path, by the numbers of system calls (asm/unistd_64.h): open, stat, lstat, access, execve, chdir, mkdir, creat, unlink, readlink, chmod, statfs, getxattr, lgetxattr,
/// and openat, newfstatat, unlinkat, readlinkat, fchmodat, faccessat, utimensat, execveat, statx, openat2, faccessat2.
const FIRST: [u64; 14] = [2, 4, 6, 21, 59, 80, 83, 85, 87, 89, 90, 137, 191, 192];
/// open, openat, execve and execveat of these.
const OPEN: u64 = 2;
const OPENAT: u64 = 257;
const EXECVE: u64 = 59;
const EXECVEAT: u64 = 322;
/// Of open(2): O_ACCMODE, O_CREAT, O_TRUNC, O_NOFOLLOW and O_PATH; O_DIRECTORY.
const CHANGES: u64 = 0o3 | 0o100 | 0o1000 | 0o400_000 | 0o10_000_000;
const DIRECTORY: u64 = 0o200_000;
const SECOND: [u64; 11] = [257, 262, 263, 267, 268, 269, 280, 322, 332, 437, 439];

/// What the front end can answer for beyond a name: the rest of the path, and what is going to be done with the file at its end ([`intent`]).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Hint {
    pub(super) path: Vec<u8>,
    pub(super) intent: u8,
}

impl Hint {
    pub(super) const EACH: Hint = Hint { path: Vec::new(), intent: intent::EACH };
}

/// The hint behind `name` of the path that the thread has given to its system call; `proc` is where its number is known. Nothing, where nobody knows.
pub(super) fn hint(proc: &OwnedFd, thread: u32, name: &[u8]) -> Hint {
    said(proc, thread, name).unwrap_or_default()
}

fn said(proc: &OwnedFd, thread: u32, name: &[u8]) -> Option<Hint> {
    if thread == 0 {
        return None;
    }
    let open = |what: &str| {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::openat(proc, format!("{thread}/{what}"), flags, Mode::empty()).map(File::from).ok()
    };
    let mut call = String::new();
    open("syscall")?.read_to_string(&mut call).ok()?;
    let (at, intent) = argument(&call)?;
    let mut room = [0; MOST];
    // An end of the memory in the middle keeps nothing back of what lies before it.
    let first = (PAGE - at % PAGE).min(MOST as u64) as usize;
    let memory = open("mem")?;
    let mut filled = memory.read_at(&mut room[..first], at).ok()?;
    if filled == first && !room[..filled].contains(&0) {
        filled += memory.read_at(&mut room[first..], at + first as u64).unwrap_or(0);
    }
    let path = room[..filled].split(|byte| *byte == 0).next()?;
    behind(path, name).map(|path| Hint { path, intent })
}

/// The address of the path in a line of /proc/PID/syscall, and the intent.
fn argument(line: &str) -> Option<(u64, u8)> {
    let mut words = line.split_ascii_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let mut arguments = words.map_while(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let at = match number {
        _ if FIRST.contains(&number) => arguments.next(),
        _ if SECOND.contains(&number) => arguments.nth(1),
        _ => None,
    };
    let intent = match number {
        OPEN | OPENAT => arguments.next().map_or(0, opens),
        EXECVE | EXECVEAT => intent::EXECUTE,
        _ => 0,
    };
    at.filter(|at| *at != 0).map(|at| (at, intent))
}

/// Of the flags of open(2). What may be made or changed the front end has to hear of by itself.
fn opens(flags: u64) -> u8 {
    match flags {
        _ if flags & CHANGES != 0 => 0,
        _ if flags & DIRECTORY != 0 => intent::LIST,
        _ => intent::READ,
    }
}

fn behind(path: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let mut parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.find(|part| *part == name)?;
    let rest: Vec<&[u8]> = parts.collect();
    Some(rest.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_name_in_a_path() {
        assert_eq!(behind(b"/usr//lib/./x/y", b"lib").as_deref(), Some(&b"x/y"[..]));
        assert_eq!(behind(b"usr/lib", b"usr").as_deref(), Some(&b"lib"[..]));
        assert_eq!((behind(b"usr/lib", b"lib"), behind(b"usr/lib", b"bin")), (Some(Vec::new()), None));
    }

    #[test]
    fn the_path_of_a_system_call() {
        let line =
            |number: u32, flags: u32| format!("{number} 0xffffff9c 0x7ffd1000 {flags:#x} 0x0 0x0 0x0 0x7ffe 0x7f3\n");
        let openat = |flags| argument(&line(257, flags));
        assert_eq!(openat(0o2_000_000), Some((0x7ffd_1000, intent::READ)));
        assert_eq!(openat(0o2_200_000), Some((0x7ffd_1000, intent::LIST)));
        assert_eq!([openat(1), openat(0o100), openat(0o1000), openat(0o10_000_000)], [Some((0x7ffd_1000, 0)); 4]);
        assert_eq!(argument(&line(59, 0)), Some((0xffff_ff9c, intent::EXECUTE)));
        assert_eq!((argument(&line(4, 0)), argument(&line(0, 0))), (Some((0xffff_ff9c, 0)), None));
        assert_eq!((argument("running\n"), argument("")), (None, None));
    }
}
