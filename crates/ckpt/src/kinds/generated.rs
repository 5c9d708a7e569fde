//! Files that the kernel makes while they are read (procfs). The rest of one is made anew where the process is by then, and half of what one machine tells with half of what
//! another does is neither. So a process does not leave while it reads one. The kernel does not tell that it does; what it has read so far is what fdinfo shows, and
//! that stays as it is of a file that was left after a part of it, or opened and not read yet, which is in nobody's way.

use super::{look_at, Seen};
use crate::proc;
use kern::clock;
use kern::poll::poll_for;
use kern::proc::PROC;
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
    let now = look_at(pid, number).ok().flatten().filter(|seen| seen.link == reading.link);
    let Some(now) = now else { return false };
    let Ok(now) = Reading::of(&now, used_us) else { return false };
    let before = reading.pos;
    if now.pos != before {
        *reading = now;
    }
    reading.pos >= before
}

/// Such files that it had not left. Of a process that reads one after the other it is waited until none of them is open: it is then to be stopped at once.
pub(crate) struct BeingRead<'a> {
    pid: Pid,
    known: &'a Left,
    numbers: Vec<i32>,
}

impl BeingRead<'_> {
    /// # Errors
    /// `Gone`.
    pub(crate) fn now(pid: Pid, known: &Left) -> Result<BeingRead<'_>> {
        // All are looked at but once: there may be thousands.
        let all = empty_files(pid)?;
        let read = all.iter().filter(|(seen, opened)| is_read(seen, opened, known));
        Ok(BeingRead { pid, known, numbers: read.map(|(seen, _)| seen.number).collect() })
    }

    /// Is none of them open any more, until `end` at most?
    pub(crate) fn ends(&self, end: Instant) -> bool {
        let is_still_read = |number: &i32| {
            empty_file(self.pid, *number).is_some_and(|(seen, opened)| is_read(&seen, &opened, self.known))
        };
        loop {
            if !self.numbers.iter().any(is_still_read) {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            let _ = poll_for(&[], Some(SOON));
        }
    }
}

fn is_read(seen: &Seen, opened: &Metadata, known: &Left) -> bool {
    is_at_rest(seen, opened, known).is_err_and(|fault| is_being_read(&fault))
}

/// Regular files of which nobody knows how long they are: only these are generated, and to ask so much is quick.
fn empty_files(pid: Pid) -> Result<Vec<(Seen, Metadata)>> {
    Ok(proc::numbers_in(pid, "fd")?.into_iter().filter_map(|number| empty_file(pid, number)).collect())
}

fn empty_file(pid: Pid, number: i32) -> Option<(Seen, Metadata)> {
    let opened = std::fs::metadata(format!("{PROC}/{pid}/fd/{number}")).ok()?;
    let is_empty = opened.is_file() && opened.len() == 0;
    is_empty.then(|| look_at(pid, number).ok().flatten()).flatten().map(|seen| (seen, opened))
}

/// With so many descriptors to look at all for such files is little beside what else is to be done with them.
const MANY: usize = 100;

/// Has it such a file open, left or not, or may it open one and have so many that it would take long to come upon that?
pub(crate) fn may_read(pid: Pid) -> Result<bool> {
    Ok(proc::numbers_in(pid, "fd")?.len() > MANY
        || empty_files(pid)?.iter().any(|(seen, opened)| is_generated(seen, opened).unwrap_or(false)))
}

/// # Errors
/// As [`is_at_rest`], for any of its files.
pub(crate) fn all_at_rest(pid: Pid, left: &Left) -> Result<()> {
    empty_files(pid)?.iter().try_for_each(|(seen, opened)| is_at_rest(seen, opened, left))
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
