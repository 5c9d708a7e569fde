//! POSIX message queues (mq_overview(7)): files of a file system of their own, whose names are no paths. What is in one is not read like a file.

use super::{All, Seen, Verdict};
use vocab::{Fault, Result};

/// linux/magic.h has none (linux: ipc/mqueue.c).
const MQUEUE: i64 = 0x1980_0202;

/// A deleted one looks like a deleted file.
pub(super) fn look(seen: &Seen, _: &All) -> Result<Verdict> {
    if !seen.link.starts_with(b"/") {
        return Ok(Verdict::Other);
    }
    let system = rustix::fs::statfs(seen.path());
    let system = system.map_err(|e| Fault::sys(e.raw_os_error(), format!("look at {}", seen.path())))?;
    Ok(match system.f_type {
        MQUEUE => Verdict::Refused(seen.obstacle("is a POSIX message queue (mq_overview(7)), which is not carried")),
        _ => Verdict::Other,
    })
}
