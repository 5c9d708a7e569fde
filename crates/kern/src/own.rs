//! What a process has of its own and keeps across exec: limits, niceness, umask.

use crate::sys::checked;
use vocab::{Fault, Result};

/// A resource limit: (resource, soft, hard), `u64::MAX` being RLIM_INFINITY (getrlimit(2)).
pub type Limit = (u32, u64, u64);

/// The resources of Linux: RLIMIT_CPU (0) to RLIMIT_RTTIME (15).
const RESOURCES: std::ops::Range<u32> = 0..16;

/// All resource limits of the process.
pub fn limits() -> Result<Vec<Limit>> {
    RESOURCES.map(limit).collect()
}

fn limit(resource: u32) -> Result<Limit> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `now` lives through the call and has the kernel's layout on 64-bit machines.
    let ret = unsafe { libc::getrlimit(resource as _, &mut now) };
    checked(ret.into(), || format!("read resource limit {resource}")).map(|_| (resource, now.rlim_cur, now.rlim_max))
}

/// The niceness, -20 to 19 (getpriority(2)).
pub fn nice() -> Result<i32> {
    // SAFETY: numbers only. The raw call gives 20 - nice, so that -1 is an error and nothing else.
    let ret = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, 0) };
    checked(ret, || "read the niceness".into()).map(|n| 20 - n as i32)
}

/// The file mode mask, read without changing it: umask(2) itself can only swap it.
pub fn umask() -> Result<u32> {
    let status = std::fs::read("/proc/self/status").map_err(|e| Fault::io(&e, "read /proc/self/status"))?;
    let text = String::from_utf8_lossy(&status);
    text.lines()
        .find_map(|line| line.strip_prefix("Umask:"))
        .and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok())
        .ok_or_else(|| Fault::bug("/proc/self/status says no umask"))
}

/// Gives the calling thread a descriptor table of its own, a copy of the process's.
///
/// What it opens from now on the other threads do not have, nor do processes that they fork.
pub fn unshare_descriptors() -> Result<()> {
    // SAFETY: numbers only; nobody relies on descriptors being shared with this thread afterwards.
    checked(unsafe { libc::unshare(libc::CLONE_FILES) }.into(), || "unshare the descriptor table".into()).map(drop)
}

/// Forks: true in the child, in which only the calling thread goes on (fork(2)).
///
/// A lock that another thread holds now stays held in the child for ever. So hold every lock that the child will take
/// yourself; the C library does so for its allocator. The standard library's streams are such locks too.
pub fn fork() -> Result<bool> {
    // SAFETY: takes nothing; what the child may do is the caller's duty, as said above, and cannot break memory safety.
    checked(unsafe { libc::fork() }.into(), || "fork".into()).map(|pid| pid == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_all_there_and_soft_is_at_most_hard() {
        let limits = limits().expect("getrlimit never fails for known resources");
        assert_eq!(limits.len(), 16);
        assert!(limits.iter().all(|&(_, soft, hard)| soft <= hard));
    }

    #[test]
    fn nice_and_umask_are_in_their_ranges() {
        assert!((-20..20).contains(&nice().expect("own niceness")));
        assert!(umask().expect("own umask") <= 0o777);
    }
}
