//! Whom an open file signals (fcntl(2), F_SETOWN_EX, F_SETSIG and O_ASYNC): the process, one of its threads, or the group that it leads.

use super::Seen;
use crate::obstacle::Obstacle;
use crate::proc;
use image::files::{Files, Kind, OpenFile, Owner};
use kern::sigio;
use puppet::Script;
use std::os::fd::AsFd;
use vocab::Result;
use zerocopy::IntoBytes;

/// Threads, processes, groups (`F_OWNER_TID` and so on).
const TID: i32 = 0;
const PID: i32 = 1;
const F_SETOWN_EX: u64 = 15;
const F_SETSIG: u64 = 10;

/// The owner, or what is said of one that is elsewhere.
pub(super) fn of(seen: &Seen) -> Result<std::result::Result<Option<Owner>, Obstacle>> {
    // A file that was opened with O_PATH signals nobody.
    let Ok(owner) = sigio::owner(super::copy(seen)?.as_fd()) else { return Ok(Ok(None)) };
    let sigio::Owner { kind, id, signal } = owner;
    let own = match kind {
        _ if id == 0 => true,
        TID => proc::numbers_in(seen.pid, "task")?.contains(&id),
        _ => id == seen.pid.0,
    };
    let who = match kind {
        TID => "thread",
        PID => "process",
        _ => "group",
    };
    Ok(match own {
        true => Ok((id != 0 || signal != 0).then_some(Owner { kind, id, signal })),
        false => Err(seen.obstacle(&format!("sends its signals to {who} {id}"))),
    })
}

/// Once the threads are there and have their rights: the kernel keeps those of who sets an owner.
pub(crate) fn set(script: &mut Script, files: &Files) {
    let all = super::numbered(files).filter(|(_, file)| !matches!(file.kind, Kind::Standard { .. }));
    all.for_each(|(number, file)| set_one(script, number as u64, file));
}

fn set_one(script: &mut Script, number: u64, file: &OpenFile) {
    if let Some(Owner { kind, id, signal }) = file.owner {
        let at = script.bytes([kind, id].as_bytes());
        script.call("set whom a file signals", libc::SYS_fcntl, &[number, F_SETOWN_EX, at]);
        script.call("set the signal of a file", libc::SYS_fcntl, &[number, F_SETSIG, signal as u64]);
    }
    if file.flags & libc::O_ASYNC as u32 != 0 {
        /// What F_SETFL sets.
        const SET: i32 = libc::O_APPEND | libc::O_NONBLOCK | libc::O_DIRECT | libc::O_NOATIME | libc::O_ASYNC;
        let flags = u64::from(file.flags & SET as u32);
        script.call("have a file signal", libc::SYS_fcntl, &[number, libc::F_SETFL as u64, flags]);
    }
}
