//! eventfd(2): a counter.

use super::{All, Seen, Verdict};
use image::files::Kind;
use rustix::event::EventfdFlags;
use std::os::fd::OwnedFd;
use vocab::{Fault, Result};

pub(super) fn look(seen: &Seen, _: &All) -> Result<Verdict> {
    if seen.link != b"anon_inode:[eventfd]" {
        return Ok(Verdict::Other);
    }
    let count = seen.number_of("eventfd-count", 16)?;
    // Kernels before 6.5 do not tell.
    let semaphore = seen.field("eventfd-semaphore").is_ok_and(|value| value == "1");
    Ok(Verdict::Carried(Kind::EventFd { count, semaphore }))
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
