//! eventfd(2): a counter.

use super::{All, Seen, Verdict};
use image::files::Kind;
use rustix::event::EventfdFlags;
use rustix::io::ReadWriteFlags;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use vocab::{Fault, Result};

pub(super) fn look(seen: &Seen, _: &All) -> Result<Verdict> {
    if seen.link != b"anon_inode:[eventfd]" {
        return Ok(Verdict::Other);
    }
    let count = seen.number_of("eventfd-count", 16)?;
    let semaphore = told(seen).unwrap_or(false);
    Ok(Verdict::Carried(Kind::EventFd { count, semaphore }))
}

/// Is it a semaphore? Kernels before 6.5 do not tell.
fn told(seen: &Seen) -> Option<bool> {
    seen.field("eventfd-semaphore").ok().map(|value| value == "1")
}

/// The same for a stopped process, whatever the kernel tells: where it does not, one of more than 1 is read, which takes 1 from a semaphore and
/// all from another, and is put back.
pub(super) fn asked(seen: &Seen, count: u64) -> Result<Kind> {
    if let Some(semaphore) = told(seen) {
        return Ok(Kind::EventFd { count, semaphore });
    }
    let fd = super::copy(seen)?;
    if count < 2 {
        add(&fd, 2)?;
    }
    let taken = take(&fd)?;
    let there = if count < 2 { count + 2 } else { count };
    let left = there.checked_sub(taken).filter(|left| *left == 0 || taken == 1);
    let mut left = left.ok_or_else(|| Fault::refused(seen.obstacle("is used by somebody else meanwhile")))?;
    while count < left {
        left -= take(&fd)?;
    }
    if left < count {
        add(&fd, count - left)?;
    }
    Ok(Kind::EventFd { count, semaphore: taken == 1 })
}

/// Reads it; never waits (a process that has it too may have been first).
fn take(fd: &OwnedFd) -> Result<u64> {
    let mut bytes = [0; 8];
    let got = rustix::io::preadv2(fd, &mut [IoSliceMut::new(&mut bytes)], u64::MAX, ReadWriteFlags::NOWAIT);
    match got {
        Ok(8) => Ok(u64::from_ne_bytes(bytes)),
        Ok(_) => Err(Fault::bug("an eventfd that gives no number")),
        Err(e) => Err(Fault::sys(e.raw_os_error(), "look whether an eventfd is a semaphore")),
    }
}

fn add(fd: &OwnedFd, count: u64) -> Result<()> {
    let bytes = count.to_ne_bytes();
    let put = rustix::io::write(fd, &bytes);
    put.map(drop).map_err(|e| Fault::sys(e.raw_os_error(), "put back what was in an eventfd"))
}

pub(super) fn reopen(count: u64, semaphore: bool, flags: u32) -> Result<OwnedFd> {
    let failed = |what: &'static str| move |e: rustix::io::Errno| Fault::sys(e.raw_os_error(), what);
    let mut how = EventfdFlags::CLOEXEC;
    how.set(EventfdFlags::SEMAPHORE, semaphore);
    how.set(EventfdFlags::NONBLOCK, flags & libc::O_NONBLOCK as u32 != 0);
    let fd = rustix::event::eventfd(0, how).map_err(failed("make an eventfd"))?;
    if count != 0 {
        rustix::io::write(&fd, &count.to_ne_bytes()).map_err(failed("set an eventfd's count"))?;
    }
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use vocab::Pid;

    #[test]
    fn what_an_older_kernel_does_not_tell_is_tried_and_nothing_is_changed() {
        for (count, semaphore) in [0, 1, 2, 5].iter().flat_map(|count| [(*count, false), (*count, true)]) {
            let fd = reopen(count, semaphore, 0).expect("an eventfd");
            let (pid, number) = (Pid(std::process::id() as i32), fd.as_raw_fd());
            let seen = Seen { pid, number, link: b"anon_inode:[eventfd]".to_vec(), info: String::new() };
            for _ in 0..2 {
                assert_eq!(asked(&seen, count).expect("own"), Kind::EventFd { count, semaphore });
            }
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).expect("open");
            let there = info.lines().find_map(|line| line.strip_prefix("eventfd-count:")).expect("told");
            assert_eq!(u64::from_str_radix(there.trim(), 16), Ok(count));
        }
    }
}
