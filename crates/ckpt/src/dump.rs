//! A process into an image.

use crate::freeze::{freeze, Frozen};
use crate::survey::{survey, Survey};
use crate::{identity, kinds, memory, sigstate, threads, timers, waits};
use image::process::{Header, Process};
use image::thread::Thread;
use image::Writer;
use kern::areas::{areas, Area};
use kern::ptrace::Queue;
use kern::remote_memory::RemoteMemory;
use puppet::{Arena, Loan};
use std::io::Write;
use std::os::fd::AsFd;
use vocab::{Fault, Pid, Result, Sig};

/// What becomes of the process when its image is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// It goes on as if nothing had been.
    GoesOn,
    /// It is killed: from now on the image is the process.
    Ends,
}

/// Writes an image of process `pid`, whom the caller may trace.
///
/// # Errors
/// `Refused` for what is not carried, before the process is touched. Whatever fails later, it goes on.
pub fn dump(pid: Pid, out: impl Write, then: Then) -> Result<()> {
    let seen = survey(pid)?;
    seen.refuse(pid)?;
    let mut out = Writer::new(out)?;
    let frozen = freeze(pid)?;
    let signal = write(&frozen, &seen, &mut out).map_err(|fault| fault.doing(format!("dump process {pid}")))?;
    match then {
        Then::Ends => {
            // The image must be whole before the process ends.
            out.end()?;
            let handle = kern::pidfd::open(pid).and_then(|fd| kern::pidfd::kill(fd.as_fd(), Sig::KILL));
            handle.map_err(|errno| Fault::sys(errno, format!("end process {pid}")))?;
            let _ended = frozen.thaw(None);
            Ok(())
        }
        Then::GoesOn => {
            frozen.thaw(signal)?;
            out.end().map(drop)
        }
    }
}

/// Writes everything; a SIGSTOP that came meanwhile is told.
fn write(frozen: &Frozen, seen: &Survey, out: &mut Writer<impl Write>) -> Result<Option<Sig>> {
    let pid = frozen.pid;
    let areas = areas_now(pid, seen)?;
    let memory = RemoteMemory::open(pid)?;
    let mut process = identity::read(pid)?;
    process.stopped = frozen.stopped_by().map_or(0, Sig::number);
    process.queue = sigstate::queue(pid, Queue::Process)?;
    process.timers = timers::timers(pid)?;
    let mut loan = Loan::take(frozen.leader(), &memory, &areas)?;
    let arena = loan.map_arena(None)?;
    let gate = loan.gate();
    let asked = ask(&mut loan, arena, &mut process);
    let signal = loan.give_back()?;
    let threads = asked.and_then(|()| read_threads(frozen, seen, &memory, gate, arena));
    let mut loan = Loan::take_at(frozen.leader(), &memory, gate)?;
    loan.unmap_arena(arena)?;
    let signal = loan.give_back()?.or(signal);
    let threads = threads?;
    out.header(&header(threads.len())?)?;
    out.process(&process)?;
    out.memory(&memory::describe(pid, &areas)?)?;
    out.files(&kinds::dump(pid)?)?;
    threads.iter().try_for_each(|thread| out.thread(thread))?;
    memory::write_pages(pid, &areas, out)?;
    // For the next dump, in case that this process goes on.
    frozen
        .threads
        .iter()
        .zip(&threads)
        .try_for_each(|(thread, saved)| waits::note(pid, thread.tid(), saved, &memory))?;
    Ok(signal)
}

/// The mappings; the slow look at them is made again only if they are others by now.
fn areas_now(pid: Pid, seen: &Survey) -> Result<Vec<Area>> {
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

/// What the process alone can ask, by its leader.
fn ask(loan: &mut Loan<'_>, arena: Arena, process: &mut Process) -> Result<()> {
    let mut script = arena.script();
    let actions = sigstate::ask_actions(&mut script);
    let itimers = timers::ask_itimers(&mut script);
    let posix = timers::ask_timers(&mut script, &process.timers);
    let identity = identity::ask(&mut script);
    let outcome = loan.run(arena, script)?;
    process.actions = sigstate::actions(&outcome, actions)?;
    process.itimers = timers::itimers(&outcome, itimers)?;
    timers::fill_timers(&outcome, &posix, &mut process.timers)?;
    identity::fill(&outcome, &identity, process)
}

fn read_threads(frozen: &Frozen, seen: &Survey, memory: &RemoteMemory, gate: u64, arena: Arena) -> Result<Vec<Thread>> {
    let read = |thread| {
        let waiting = seen.waiting.get(&puppet::Stopped::tid(thread).0).copied();
        threads::read(frozen.pid, thread, memory, gate, arena, waiting)
    };
    frozen.threads.iter().map(read).collect()
}

fn header(threads: usize) -> Result<Header> {
    let clock = |id| {
        let time = rustix::time::clock_gettime(id);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let path = "/proc/sys/kernel/random/boot_id";
    let boot = std::fs::read_to_string(path).map_err(|e| Fault::io(&e, format!("read {path}")))?;
    Ok(Header {
        release: rustix::system::uname().release().to_string_lossy().into_owned(),
        taken_at: clock(rustix::time::ClockId::Realtime),
        monotonic: clock(rustix::time::ClockId::Monotonic),
        boottime: clock(rustix::time::ClockId::Boottime),
        boot: boot.trim().to_owned(),
        threads: threads as u32,
    })
}
