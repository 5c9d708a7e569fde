//! A process into an image.

use crate::asking::{areas_now, ask, map_arena, note_locking, read_threads, waits};
use crate::behind::{self, Behind};
use crate::ended::reason;
use crate::freeze::{freeze, freeze_undisturbed, Frozen};
use crate::guess::Guess;
use crate::header::header;
use crate::held::{Held, Written};
use crate::kinds::generated::{self, BeingRead};
use crate::kinds::{Dumped, Left, Locks};
use crate::objects::Found;
use crate::precopy::{precopy, Looked, Precopy};
use crate::queued::{Queued, Waited};
use crate::records::Records;
use crate::rounds::{Rounds, Why};
use crate::survey::{survey, survey_again, waiting, Given, Survey, Waiting};
use crate::timers::RunningTimers;
use crate::together::Together;
use crate::unheeded::Unheeded;
use crate::{
    apart, cgroups, children, dry, identity, keys, kinds, leaving, memory, pages, proc, sigstate, timers, waits,
};
use image::memory::{Kept, Memory};
use image::process::Process;
use image::thread::{Thread, Wait};
use image::Writer;
use kern::areas::{Area, AreaFlags};
use kern::faultpoint::reach;
use kern::pagemap::Run;
use kern::ptrace::Queue;
use kern::remote_memory::RemoteMemory;
use kern::timeline::mark;
use puppet::Loan;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};
use vocab::{Fault, Pid, Result, Sig};

/// What becomes of the process when its image is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// It goes on as if nothing had been.
    GoesOn,
    /// It is killed: from now on the image is the process.
    Ends,
}

/// What a dump was like.
#[derive(Debug, Default)]
pub struct Told {
    /// Bytes that were copied while the process ran, by rounds, and why there was no further one.
    pub rounds: Option<(Rounds, Why)>,
    /// For how long one thread stood still so that the rounds could be.
    pub prepared: Duration,
    /// For how long all of the process stood still.
    pub frozen: Duration,
}

/// Writes an image of process `pid`, whom the caller may trace, for one that will have what is `given`; with `rounds` what is large is copied
/// while it runs.
///
/// # Errors
/// `Refused` for what is not carried, before the process is touched. Whatever fails later, it goes on; `Changed` if it may be tried again. `Gone` when it ends.
pub fn dump(pid: Pid, given: Given, out: impl Write + Send, then: Then, rounds: bool) -> Result<Told> {
    let mut out = Writer::new(out)?;
    let stands = look_and_hold(pid, given, rounds, &mut out).map_err(|fault| reason(pid, fault));
    let (held, early, begun) = stands?;
    let mut told = Told::default();
    match then {
        Then::Ends => {
            reach("dump ends");
            // The image must be one that can be restored, and whole, before the process ends.
            let proved = dry::restore(held.records().clone())
                .map_err(|fault| fault.doing(format!("process {pid} runs on, since it could not be restored here")));
            if let Err(fault) = proved.and_then(|()| out.end()) {
                return held.go_on().and(Err(fault));
            }
            held.end().map_err(|fault| reason(pid, fault))?;
            told.frozen = begun.elapsed();
        }
        Then::GoesOn => {
            held.go_on().map_err(|fault| reason(pid, fault))?;
            told.frozen = begun.elapsed();
            out.end()?;
        }
    }
    if let Some(early) = early {
        told.prepared = early.stopped();
        told.rounds = Some((early.rounds.clone(), early.why));
    }
    Ok(told)
}

/// A process that stands still and is as it was surveyed, what had been copied before, and since when it does.
type Stands = (Held, Option<Precopy>, Instant);

fn look_and_hold(pid: Pid, given: Given, rounds: bool, out: &mut Writer<impl Write + Send>) -> Result<Stands> {
    let mut seen = survey(pid, given)?;
    seen.refuse(pid)?;
    out.vdso(crate::vdso::here()?)?;
    let early = if rounds { precopy(pid, &seen, out)? } else { None };
    if let Some(early) = &early {
        // It has run on since.
        seen = survey_again(pid, given, early.followed())?;
        seen.refuse(pid)?;
    }
    reach("dump stops");
    let begun = Instant::now();
    let held = hold_after(pid, &seen, early.as_ref(), None, out)?;
    match held.is_still_as_surveyed() {
        Ok(()) => Ok((held, early, begun)),
        Err(fault) => held.go_on().and(Err(fault)),
    }
}

/// Stops the process and writes it.
///
/// # Errors
/// What kept it from being stopped, asked or written; it runs on.
pub fn hold(pid: Pid, seen: &Survey, out: &mut Writer<impl Write + Send>) -> Result<Held> {
    hold_after(pid, seen, None, None, out)
}

/// How what is large of its memory goes.
#[derive(Clone, Copy)]
enum Large<'a> {
    Whole,
    /// It has gone in rounds.
    After(&'a Precopy),
    /// It stays behind.
    Behind(&'a Behind),
}

/// The same, but for memory that stays behind, in the process that is held ([`Held::keeper`]).
///
/// # Errors
/// As [`hold`]; `Refused` if it has locks on files: what is held of it would have them for longer than it needs them.
pub fn hold_lazily(
    pid: Pid,
    seen: &Survey,
    behind: &Behind,
    little: Option<&Guess>,
    out: &mut Writer<impl Write + Send>,
) -> Result<Held> {
    let held = hold_with(pid, seen, (Large::Behind(behind), little), out)?;
    match held.has_locks() {
        false => Ok(held),
        true => {
            held.go_on()?;
            Err(Fault::refused(
                "it has locks on files, which would last until all of it has come: it cannot be moved lazily",
            ))
        }
    }
}

/// The same after rounds in which memory was copied already; `seen` must be from after them.
///
/// # Errors
/// As [`hold`].
pub fn hold_after(
    pid: Pid,
    seen: &Survey,
    early: Option<&Precopy>,
    little: Option<&Guess>,
    out: &mut Writer<impl Write + Send>,
) -> Result<Held> {
    hold_with(pid, seen, (early.map_or(Large::Whole, Large::After), little), out)
}

/// How what is large goes, and what of the rest was guessed.
type Goes<'a> = (Large<'a>, Option<&'a Guess>);

/// One that always reads what the kernel tells of it is stopped again and again for so long, until it is between two files.
const BETWEEN: Duration = Duration::from_secs(1);
/// Of that it stands still for so long at most, together: neither is it to be disturbed for longer, nor others by who stops it.
const IN_VAIN: Duration = Duration::from_millis(100);
/// So late a wait for a duration may end which has begun meanwhile.
const LATE: Duration = Duration::from_millis(50);

fn hold_with(pid: Pid, seen: &Survey, goes: Goes<'_>, out: &mut Writer<impl Write + Send>) -> Result<Held> {
    let mut patience = Patience { end: Instant::now() + BETWEEN, in_vain: Duration::ZERO };
    let mut waiting = None;
    loop {
        let begun = Instant::now();
        match hold_now(pid, seen, waiting.as_ref(), goes, out) {
            // Nothing of it has been written yet.
            Err(fault) if generated::is_being_read(&fault) && patience.lasts(Instant::now()) => {
                patience.in_vain += begun.elapsed();
                waiting = Some(between_two(pid, &seen.left, patience.end)?);
            }
            done => return done,
        }
    }
}

struct Patience {
    end: Instant,
    in_vain: Duration,
}

impl Patience {
    fn lasts(&self, now: Instant) -> bool {
        now < self.end && self.in_vain < IN_VAIN
    }
}

/// What its threads wait for just before it is between two files: a wait that has begun since it was looked at would begin anew, and end late by as much.
fn between_two(pid: Pid, left: &Left, end: Instant) -> Result<BTreeMap<i32, Waiting>> {
    let being_read = BeingRead::now(pid, left)?;
    loop {
        let waiting = waiting(pid)?;
        let soon = Instant::now() + LATE;
        if being_read.ends(soon.min(end)) || soon >= end {
            return Ok(waiting);
        }
    }
}

/// `waiting`: what its threads did before this stop, if it is not the first.
fn hold_now(
    pid: Pid,
    seen: &Survey,
    waiting: Option<&BTreeMap<i32, Waiting>>,
    goes: Goes<'_>,
    out: &mut Writer<impl Write + Send>,
) -> Result<Held> {
    mark("dump: stop");
    // Whoever writes a file may be killed (Ctrl-C), and a disk or a reader may make it wait.
    let to_file = out.sealer().sums();
    let frozen = if to_file { freeze_undisturbed(pid)? } else { freeze(pid)? };
    // It has seen no later tick.
    let tick = seen.clock.coarse();
    mark("dump: stopped");
    let written =
        write((&frozen, tick), (seen, waiting), goes, out).map_err(|fault| fault.doing(format!("dump process {pid}")));
    Ok(Held::new(frozen, written?, seen.filters))
}

/// A process that stands still, and what CLOCK_MONOTONIC_COARSE showed it last.
type Still<'a> = (&'a Frozen, i64);

/// Writes everything.
fn write(
    still: Still<'_>,
    (seen, waiting): (&Survey, Option<&BTreeMap<i32, Waiting>>),
    (large, little): Goes<'_>,
    out: &mut Writer<impl Write + Send>,
) -> Result<Written> {
    let (frozen, tick) = still;
    let pid = frozen.pid;
    let mut areas = areas_now(pid, seen)?;
    mark("dump: areas read");
    // It is ours: one of its own would have been refused.
    areas.iter_mut().for_each(|area| area.flags.remove(AreaFlags::USERFAULT));
    let memory = RemoteMemory::open(pid)?;
    let status = proc::status(pid)?;
    apart::obeys(pid, &status, seen.filters)?;
    let mut process = identity::read(pid, &status)?;
    mark("dump: identity read");
    process.stopped = frozen.stopped_by().filter(|_| !seen.begins).map_or(0, Sig::number);
    children::note(&seen.children, &mut process);
    process.timers = timers::timers(pid)?;
    let ran = !seen.same_kernel && leaving::leave_vdso(frozen, &memory, &areas)?;
    let tick = if ran { seen.clock.coarse() } else { tick };
    let waits = waits(frozen, (waiting.unwrap_or(&seen.waiting), &seen.clock), &memory)?;
    mark("dump: waits read");
    let read = (areas, memory, process, &waits[..]);
    // Before all that takes longer the more there is of it: it would stand still for that in vain.
    let is_at_rest = match seen.reads || waiting.is_some() {
        true => generated::all_at_rest(pid, &seen.left),
        false => Ok(()),
    };
    let written = is_at_rest.and_then(|()| write_asked((frozen, tick), seen, (large, little), read, out));
    // For the next dump, in case that this process goes on, and if that is because this one has failed.
    note_waits(frozen, seen, &waits)?;
    written
}

/// What each thread waits for, that has been interrupted by now.
fn note_waits(frozen: &Frozen, seen: &Survey, waits: &[Option<Wait>]) -> Result<()> {
    let memory = RemoteMemory::open(frozen.pid)?;
    frozen.threads.iter().zip(waits).filter(|(_, wait)| wait.is_some()).try_for_each(|(thread, wait)| {
        waits::note((frozen.pid, thread.tid()), (wait.as_ref(), &thread.regs()?), &memory, &seen.clock)
    })
}

/// What was read of a process before it was asked: the last is what its threads wait for.
type Read<'a> = (Vec<Area>, RemoteMemory, Process, &'a [Option<Wait>]);

fn write_asked(
    (frozen, tick): Still<'_>,
    seen: &Survey,
    (large, little): Goes<'_>,
    (mut areas, memory, mut process, waits): Read<'_>,
    out: &mut Writer<impl Write + Send>,
) -> Result<Written> {
    let pid = frozen.pid;
    let mut loan = Loan::take(frozen.leader(), &memory, &areas)?;
    let arena = map_arena(&mut loan, &areas, seen.children.len() + process.timers.len())?;
    let gate = loan.gate();
    // Unmapped when it runs on, which one that moves away never does.
    frozen.lent.set(Some((arena, gate)));
    mark("dump: arena");
    let waited = Waited::now(frozen, &process)?;
    let asked =
        ask(&mut loan, arena, &seen.children, &mut process).and_then(|own| Ok((own, keys::ask(&mut loan, arena)?)));
    let running = RunningTimers::of(&process);
    process.queue = running.without_theirs(&waited.process, sigstate::queue(pid, Queue::Process)?);
    mark("dump: leader asked");
    loan.give_back()?;
    let threads = asked.and_then(|(own, keys)| {
        Ok((keys, read_threads(frozen, waits.to_vec(), &memory, (gate, arena), (own, seen.filters))?))
    });
    mark("dump: threads read");
    let (keys, mut threads) = threads?;
    seen.of_user.as_ref().map_or(Ok(()), |user| user.owns(&threads))?;
    for (thread, waited) in threads.iter_mut().zip(&waited.threads) {
        thread.queue = running.without_theirs(waited, std::mem::take(&mut thread.queue));
    }
    if process.locks_what_it_maps != 0 {
        note_locking(pid, arena, &mut process)?;
    }
    let queued = Queued::of(&mut process, &threads);
    if out.sealer().sums() {
        process.cgroups = cgroups::of(pid)?;
        frozen.may_be_let_go()?;
    }
    if keys != 0 {
        // Which key a mapping has is told by the slow look only, and may have changed since that. It is not to see what is ours.
        frozen.tidy()?;
        areas = kern::areas::areas(pid, true)?;
        areas.iter_mut().for_each(|area| area.flags.remove(AreaFlags::USERFAULT));
    }
    let mut objects = Found::default();
    let behind = if let Large::Behind(behind) = large { behind.runs(&areas) } else { Vec::new() };
    let looked = if let Large::After(early) = large { Some(early.look(&areas)?) } else { None };
    let plain = looked.as_ref().map(Looked::plain);
    let mappings = Memory { keys, ..memory::describe(pid, &areas, &mut objects, plain.as_ref().unwrap_or(&behind))? };
    mark("dump: mappings described");
    let Dumped { files, believed, taken } = kinds::dump(pid, &mut objects, (&seen.known, &seen.left), seen.leads)?;
    mark("dump: descriptors read");
    // Two movers have compared their processors before.
    out.header(&header(threads.len(), &seen.clock, tick, little.is_some())?)?;
    out.process(&process)?;
    // Whose they are is to be known before files are opened.
    threads.iter().try_for_each(|thread| out.thread(thread))?;
    objects.write(out)?;
    out.memory(&mappings)?;
    out.files(&files)?;
    mark("dump: all but pages written");
    write_pages((&memory, &frozen.together), (large, little), (&areas, &threads, &behind, looked), out)?;
    mark("dump: pages written");
    let (stopped, locks) = (process.stopped != 0, Locks::of(&files));
    let (unheeded, watches) = (Unheeded::of(&process), seen.same_kernel && kinds::watches(&files));
    let records = Box::new(Records { process, threads, objects: objects.described(), memory: mappings, files });
    Ok(Written { taken, stopped, queued, running, locks, watches, believed, unheeded, behind, areas, records })
}

/// Mappings and threads, what stays behind, and what was seen of what had gone in rounds.
type Seen<'a> = (&'a [Area], &'a [Thread], &'a [Run], Option<Looked>);

fn write_pages(
    (memory, together): (&RemoteMemory, &Together),
    (large, little): Goes<'_>,
    (areas, threads, behind, looked): Seen<'_>,
    out: &mut Writer<impl Write + Send>,
) -> Result<()> {
    let parts = match large {
        Large::Whole => pages::all(memory.pid(), areas)?,
        Large::Behind(_) => {
            out.lazy(&Kept { runs: behind.iter().map(|run| (run.start, run.end)).collect() })?;
            let first = behind::first(threads, behind)?;
            pages::but(memory.pid(), areas, behind, &first)?
        }
        Large::After(early) => {
            let rest = looked.map(|looked| early.rest(areas, &looked)).transpose()?.unwrap_or_default();
            out.kept(&rest.kept)?;
            rest.parts
        }
    };
    match little {
        Some(guess) => guess.settle(memory, &parts, out),
        None => pages::copy_all(memory, &parts, out, together),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn who_has_stood_still_in_vain_for_long_enough_is_not_stopped_again() {
        let now = Instant::now();
        let patience = |in_vain| Patience { end: now + BETWEEN, in_vain };
        assert!(patience(Duration::ZERO).lasts(now) && patience(IN_VAIN / 2).lasts(now));
        assert!(!patience(IN_VAIN).lasts(now) && !patience(Duration::ZERO).lasts(now + BETWEEN));
    }

    /// Always reads a file of /proc, the next one before it has closed the one before, and has many other files open.
    const READS: &str = "import os, resource
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
for _ in range(min(most - 100, 8000)): os.open('/dev/null', os.O_RDONLY)
os.write(1, b'1')
last = None
while True:
    fd = os.open('/proc/self/maps', os.O_RDONLY)
    if last: os.close(last)
    for _ in range(20): os.read(fd, 50)
    last = fd";

    #[test]
    fn who_always_reads_is_not_stopped_in_vain_for_as_long_as_it_takes_to_write_it() {
        let python = Command::new("python3").args(["-S", "-c", READS]).stdout(Stdio::piped()).spawn();
        let mut child = python.expect("python3");
        let pid = Pid(child.id() as i32);
        child.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("it runs");
        let seen = survey(pid, Given { streams: true, ..Given::default() }).expect("a child");
        let (tells, told) = std::sync::mpsc::channel();
        let hold_it = move || {
            let mut out = Writer::new(std::io::sink()).expect("a sink");
            tells.send(hold(pid, &seen, &mut out).map(drop))
        };
        let holds = std::thread::spawn(hold_it);
        let is_stopped = || proc::stat_fields(pid).is_ok_and(|fields| fields[0] == "t");
        let mut stopped = Duration::ZERO;
        let held = loop {
            let begun = Instant::now();
            let was_stopped = is_stopped();
            match told.recv_timeout(Duration::from_millis(1)) {
                Ok(held) => break held,
                Err(_) if was_stopped && is_stopped() => stopped += begun.elapsed(),
                Err(_) => {}
            }
        };
        child.kill().expect("a child");
        child.wait().expect("killed");
        holds.join().expect("no panic").expect("it is waited for");
        assert!(held.is_err_and(|fault| generated::is_being_read(&fault)));
        // To write it takes seconds.
        assert!(stopped < 4 * IN_VAIN, "{stopped:?}");
    }
}
