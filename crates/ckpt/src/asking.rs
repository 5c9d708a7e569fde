//! What is asked of a process that stands still, by looks at /proc and by scripts in it.

use crate::clocks::Clock;
use crate::freeze::Frozen;
use crate::survey::{Survey, Waiting};
use crate::{apart, children, identity, leaving, proc, sigstate, threads, timers, waits};
use image::process::Process;
use image::thread::{Thread, Wait};
use kern::areas::{areas, Area, AreaFlags};
use kern::remote_memory::RemoteMemory;
use puppet::{Arena, Loan, Stopped};
use std::collections::BTreeMap;
use vocab::{Pid, Result};

/// Reads what will be read of the running process when it stands still, for nothing: with files that stay open ([`kern::proc::kept`]) that will take half as long then.
pub fn rehearse(pid: Pid) {
    // What is wrong is told when it stands still.
    let _process = proc::status(pid).and_then(|status| identity::read(pid, &status));
    leaving::rehearse();
    for tid in proc::numbers_in(pid, "task").unwrap_or_default() {
        let _name = threads::name(pid, Pid(tid));
        let _creds = identity::creds(pid, Pid(tid));
    }
}

/// For scripts that ask, also so `many` things one by one.
pub(crate) fn map_arena(loan: &mut Loan<'_>, areas: &[Area], many: usize) -> Result<Arena> {
    let beside = || Arena::beside(areas.iter().map(|area| (area.start, area.end)));
    match (many <= Arena::FEW / 2).then(beside).flatten() {
        Some(there) => loan.map_arena_there(there),
        None => loan.map_arena(None),
    }
}

/// The mappings; the slow look at them is made again only if they are others by now.
pub(crate) fn areas_now(pid: Pid, seen: &Survey) -> Result<Vec<Area>> {
    let now = areas(pid, false)?;
    let same = |(one, other): (&Area, &Area)| {
        let place = |area: &Area| (area.start, area.end, area.protection, area.shared, area.offset, area.inode);
        place(one) == place(other)
    };
    if now.len() == seen.areas.len() && now.iter().zip(&seen.areas).all(same) {
        return Ok(seen.areas.clone());
    }
    areas(pid, true)
}

/// What the process alone can ask, by its leader, and what that alone can.
pub(crate) fn ask(loan: &mut Loan<'_>, arena: Arena, children: &[Pid], process: &mut Process) -> Result<threads::Own> {
    let mut script = arena.script();
    let actions = sigstate::ask_actions(&mut script);
    let itimers = timers::ask_itimers(&mut script);
    let posix = timers::ask_timers(&mut script, &process.timers);
    let identity = identity::ask(&mut script, arena.base());
    let asked = children::ask(&mut script, children, process);
    let own = threads::ask(&mut script);
    let outcome = loan.run(arena, script)?;
    process.actions = sigstate::actions(&outcome, actions)?;
    process.itimers = timers::itimers(&outcome, itimers)?;
    timers::fill_timers(&outcome, &posix, &mut process.timers)?;
    children::fill(&outcome, &asked, process)?;
    identity::fill(&outcome, &identity, process)?;
    threads::told(loan, arena, &outcome, &own, None)
}

/// Of what it maps the script's memory is an example.
pub(crate) fn note_locking(pid: Pid, arena: Arena, process: &mut Process) -> Result<()> {
    let ours = areas(pid, true)?.into_iter().find(|area| area.start <= arena.base() && arena.base() < area.end);
    if ours.is_some_and(|area| area.flags.contains(AreaFlags::LOCKED_ON_FAULT)) {
        process.locks_what_it_maps |= libc::MCL_ONFAULT as u32;
    }
    Ok(())
}

/// What each thread waits for, by what all did before they were stopped; before anything is done in them.
pub(crate) fn waits(
    frozen: &Frozen,
    (seen, clock): (&BTreeMap<i32, Waiting>, &Clock),
    memory: &RemoteMemory,
) -> Result<Vec<Option<Wait>>> {
    let left =
        |thread: &Stopped| waits::left(frozen.pid, thread, &thread.regs()?, (seen.get(&thread.tid().0), clock), memory);
    frozen.threads.iter().map(left).collect()
}

/// `leader`: what that has told of itself.
///
/// # Errors
/// `Refused` for what is not carried of one; `Gone`.
pub(crate) fn read_threads(
    frozen: &Frozen,
    waits: Vec<Option<Wait>>,
    memory: &RemoteMemory,
    (gate, arena): (u64, Arena),
    (leader, filters): (threads::Own, u64),
) -> Result<Vec<Thread>> {
    let secure_bits = Some(leader.secure_bits);
    let mut leader = Some(leader);
    let read = |((thread, processors), waits): ((&Stopped, Option<&[u8]>), _)| {
        let status = apart::of_thread(frozen.pid, thread.tid())?;
        let own = match leader.take() {
            Some(own) => own,
            None => {
                apart::thread_obeys(thread.tid(), &status, filters)?;
                threads::ask_alone(thread, memory, (gate, arena), secure_bits)?
            }
        };
        threads::read((frozen.pid, &status), (thread, processors), waits, own)
    };
    frozen.each().zip(waits).map(read).collect()
}
