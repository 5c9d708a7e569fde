//! signalfd(2): a set of signals; they wait in the process, not in it.

use super::{All, Seen, Verdict};
use image::files::Kind;
use std::os::fd::OwnedFd;
use vocab::Result;

pub(super) fn look(seen: &Seen, _: &All) -> Result<Verdict> {
    if seen.link != b"anon_inode:[signalfd]" {
        return Ok(Verdict::Other);
    }
    Ok(Verdict::Carried(Kind::SignalFd { mask: seen.number_of("sigmask", 16)? }))
}

pub(super) fn reopen(mask: u64, flags: u32) -> Result<OwnedFd> {
    kern::signal::descriptor(mask, flags & libc::O_NONBLOCK as u32 != 0)
}
