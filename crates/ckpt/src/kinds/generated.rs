//! Files that the kernel makes while they are read (procfs). The rest of one is made anew where the process is by then, and half of what one machine tells with half of what
//! another does is neither. So a process does not leave while it reads one. The kernel does not tell that it does; what it has read so far is what fdinfo shows, and
//! that stays as it is of a file that was left after a part of it, or opened and not read yet, which is in nobody's way.

use super::{look_at, look_at_all, Seen};
use crate::proc;
use kern::clock;
use kern::poll::poll_for;
use kern::ran::Waited;
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::time::{Duration, Instant};
use vocab::{Fault, Kind, Pid, Result};

/// Files that have been left, by descriptors: which, and how much of each had been read.
pub(crate) type Left = BTreeMap<i32, (Vec<u8>, u64)>;

/// Of which so long nothing was read are left, if whoever would read them could.
const LONG: Duration = Duration::from_millis(50);
/// For so long it is waited for the others.
const PATIENCE: Duration = Duration::from_secs(2);
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

/// How much of one has been read, and since when: the moment, and the processor time of its process in microseconds.
struct Reading {
    link: Vec<u8>,
    pos: u64,
    since: (Instant, u64),
}

impl Reading {
    fn of(seen: &Seen, used_us: u64) -> Result<Reading> {
        Ok(Reading { link: seen.link.clone(), pos: seen.number_of("pos", 10)?, since: (Instant::now(), used_us) })
    }

    /// `turn`: one that is over.
    fn is_left(&self, used_us: u64, turn: &Turn) -> bool {
        let (since, before_us) = self.since;
        let could = since <= turn.begun && u128::from(used_us - before_us.min(used_us)) >= LONG.as_micros();
        since.elapsed() >= LONG && (turn.all_slept || could)
    }
}

/// Threads that at one moment ran, or waited for a processor or a disk. While others of the process compute, whoever would read may have had none.
struct Turn {
    begun: Instant,
    all_slept: bool,
    waiting: Vec<Waited>,
}

impl Turn {
    fn begin(pid: Pid) -> Turn {
        let begun = Instant::now();
        let threads = proc::numbers_in(pid, "task").unwrap_or_default().into_iter().map(Pid);
        let awake: Vec<Pid> = threads.filter(|tid| matches!(state(*tid).as_deref(), Some("R" | "D"))).collect();
        Turn { begun, all_slept: awake.is_empty(), waiting: awake.into_iter().filter_map(Waited::now).collect() }
    }

    /// Has each of them run, or gone to sleep?
    fn is_over(&mut self) -> bool {
        self.waiting.retain(|one| one.may_be_in_it() || state(one.tid()).as_deref() == Some("D"));
        self.waiting.is_empty()
    }
}

fn state(tid: Pid) -> Option<String> {
    proc::stat_fields(tid).ok()?.into_iter().next()
}

/// Which of these (descriptors of a process that runs, looked at just before) are left, once the others are read or closed, or do not become so.
pub(super) fn left(pid: Pid, all: &[Seen]) -> Result<Left> {
    let used = || clock::processor_us(pid).unwrap_or(0);
    let generated = |seen: &&Seen| {
        let opened = std::fs::metadata(seen.path());
        opened.is_ok_and(|opened| is_generated(seen, &opened).unwrap_or(false))
    };
    let mut under_way = BTreeMap::new();
    for seen in all.iter().filter(generated) {
        under_way.insert(seen.number, Reading::of(seen, used())?);
    }
    let (mut left, mut turn, end) = (Left::new(), None, Instant::now() + PATIENCE);
    while !under_way.is_empty() && Instant::now() < end {
        let _ = poll_for(&[], Some(SOON));
        let used_us = used();
        under_way.retain(|number, reading| goes_on(pid, *number, reading, used_us));
        if under_way.values().all(|reading| reading.since.0.elapsed() < LONG) {
            continue;
        }
        let now = turn.get_or_insert_with(|| Turn::begin(pid));
        if now.is_over() {
            let all = under_way.extract_if(.., |_, reading| reading.is_left(used_us, now));
            left.extend(all.map(|(number, reading)| (number, (reading.link, reading.pos))));
            turn = None;
        }
    }
    Ok(left)
}

/// Not if it is closed, or another one, or is read from the beginning.
fn goes_on(pid: Pid, number: i32, reading: &mut Reading, used_us: u64) -> bool {
    let Some(now) = look_at(pid, number).filter(|seen| seen.link == reading.link) else { return false };
    let Ok(now) = Reading::of(&now, used_us) else { return false };
    let before = reading.pos;
    if now.pos != before {
        *reading = now;
    }
    reading.pos >= before
}

/// Waits until such a file that it had not left is no longer open, or long enough: the process, which reads one after the other, is then to be stopped at once.
///
/// # Errors
/// `Gone` when it is.
pub(crate) fn between_two(pid: Pid, known: &Left, end: Instant) -> Result<()> {
    let is_read = |seen: &Seen| {
        let opened = std::fs::metadata(seen.path());
        opened.is_ok_and(|opened| is_at_rest(seen, &opened, known).is_err_and(|fault| is_being_read(&fault)))
    };
    // All are looked at but once: there may be thousands.
    let all = look_at_all(pid)?;
    let numbers: Vec<i32> = all.iter().filter(|seen| is_read(seen)).map(|seen| seen.number).collect();
    let is_still_read = |number: &i32| look_at(pid, *number).is_some_and(|seen| is_read(&seen));
    while numbers.iter().any(is_still_read) && Instant::now() < end {
        let _ = poll_for(&[], Some(SOON));
    }
    Ok(())
}

/// Is that why it could not be written?
pub(crate) fn is_being_read(why: &Fault) -> bool {
    why.kind == Kind::Changed && why.root_errno() == libc::EBUSY
}

/// # Errors
/// `Changed` (and [`is_being_read`]) for a file of a process that stands still which it had not left before.
pub(super) fn is_at_rest(seen: &Seen, opened: &Metadata, left: &Left) -> Result<()> {
    let before = || {
        left.get(&seen.number).is_some_and(|(link, pos)| *link == seen.link && seen.number_of("pos", 10) == Ok(*pos))
    };
    match is_generated(seen, opened)? && !before() {
        true => {
            let why = seen.obstacle("is being read, and nobody else could tell the rest of it");
            Err(Fault { errno: libc::EBUSY, ..Fault::changed(why) })
        }
        false => Ok(()),
    }
}
