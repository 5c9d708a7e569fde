//! Files that the kernel makes while they are read (procfs). The rest of one is made anew where the process is by then, and half of what one machine tells with half of what
//! another does is neither. So a process does not leave while it reads one. The kernel does not tell that it does; what it has read so far is what fdinfo shows, and
//! that stays as it is of a file that was left after a part of it, or opened and not read yet, which is in nobody's way.

use super::{look_at, Seen};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::time::{Duration, Instant};
use vocab::{Fault, Pid, Result};

/// Files that have been left, by descriptors: which, and how much of each had been read.
pub(crate) type Left = BTreeMap<i32, (Vec<u8>, u64)>;

/// Of which so long nothing was read are left.
const LONG: Duration = Duration::from_millis(50);
/// For so long it is waited for the others.
const PATIENCE: Duration = Duration::from_millis(500);
/// Nothing tells that they are read or closed.
const SOON: Duration = Duration::from_millis(1);

fn is_generated(seen: &Seen, opened: &Metadata) -> Result<bool> {
    // What has a size the kernel has not made up.
    if !opened.is_file() || opened.len() != 0 {
        return Ok(false);
    }
    let system = rustix::fs::statfs(seen.path());
    let system = system.map_err(|e| Fault::sys(e.raw_os_error(), format!("look at {}", seen.path())))?;
    Ok(system.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

/// Which of these (descriptors of a process that runs, looked at just before) are left, once the others are read or closed, or do not become so.
pub(super) fn left(pid: Pid, all: &[Seen]) -> Result<Left> {
    let now = Instant::now();
    let generated = |seen: &Seen| {
        let opened = std::fs::metadata(seen.path());
        opened.is_ok_and(|opened| is_generated(seen, &opened).unwrap_or(false))
    };
    let mut since: BTreeMap<i32, ((Vec<u8>, u64), Instant)> = BTreeMap::new();
    for seen in all.iter().filter(|seen| generated(seen)) {
        since.insert(seen.number, ((seen.link.clone(), seen.number_of("pos", 10)?), now));
    }
    while now.elapsed() < PATIENCE && since.values().any(|(_, since)| since.elapsed() < LONG) {
        std::thread::sleep(SOON);
        since.retain(|number, ((link, pos), since)| {
            let same = |seen: &Seen| generated(seen) && seen.link == *link;
            let Some(seen) = look_at(pid, *number).filter(same) else { return false };
            let before = std::mem::replace(pos, seen.number_of("pos", 10).unwrap_or(0));
            if before != *pos {
                *since = Instant::now();
            }
            // It reads another one, or from the beginning.
            *pos >= before
        });
    }
    let left = since.into_iter().filter(|(_, (_, since))| since.elapsed() >= LONG);
    Ok(left.map(|(number, (what, _))| (number, what)).collect())
}

/// # Errors
/// `Changed` for a file of a process that stands still which it had not left before.
pub(super) fn is_at_rest(seen: &Seen, opened: &Metadata, left: &Left) -> Result<()> {
    let before = || {
        left.get(&seen.number).is_some_and(|(link, pos)| *link == seen.link && seen.number_of("pos", 10) == Ok(*pos))
    };
    match is_generated(seen, opened)? && !before() {
        true => Err(Fault::changed(seen.obstacle("is being read, and nobody else could tell the rest of it"))),
        false => Ok(()),
    }
}
