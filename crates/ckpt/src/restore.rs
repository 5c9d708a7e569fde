//! An image into a process: a child that does nothing gets the memory, the descriptors and the threads of the image, and runs on where
//! the image has it.

use crate::{identity, kinds, memory, rebuild, sigstate, threads, timers, waits};
use image::files::Files;
use image::memory::Memory;
use image::process::{Header, Process};
use image::thread::{Creds, Thread};
use image::{Reader, Record};
use kern::newborn::newborn;
use kern::ptrace::{self, Regs};
use kern::remote_memory::RemoteMemory;
use puppet::{Arena, Loan, Running, Stopped};
use rustix::fs::{Mode, OFlags};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use vocab::{Fault, Kind, Pid, Result, Sig};
use zerocopy::IntoBytes;

/// What comes before the pages.
struct Plan {
    process: Process,
    memory: Memory,
    files: Files,
    threads: Vec<Thread>,
}

/// Makes the process of an image, as a child of the caller and with the PID that it had. It runs when this returns.
///
/// # Errors
/// `Wire` for a broken image; `Refused` when its PID is in use; what the caller may not do. Nothing of the child is left then.
pub fn restore(image: impl Read) -> Result<Pid> {
    let mut reader = Reader::new(image)?;
    let (plan, first) = plan(&mut reader)?;
    let pid = Pid(plan.process.pid);
    let base = kinds::above_all(&plan.files);
    let opened = kinds::reopen(&plan.files, base)?;
    let mapped = open_mapped(&plan.memory, base)?;
    let exe = open_at(&plan.process.exe.0, OFlags::RDONLY, base)?;
    let cwd = open_at(&plan.process.cwd.0, OFlags::PATH, base)?;
    let child = Child::born(pid)?;
    let done = build(&child, &plan, &mut reader, first, &Opened { files: opened, mapped, exe, cwd });
    done.map_err(|fault| fault.doing(format!("restore process {pid}")))?;
    child.lives();
    Ok(pid)
}

/// A child that is killed unless it is said to live.
struct Child {
    pid: Pid,
    lives: bool,
}

impl Child {
    fn born(pid: Pid) -> Result<Child> {
        match newborn(Some(pid)) {
            Ok(pid) => Ok(Child { pid, lives: false }),
            Err(libc::EEXIST) => Err(Fault::refused(format!("PID {pid} is in use"))),
            Err(errno) => Err(Fault::sys(errno, format!("make a process with PID {pid}"))),
        }
    }

    fn lives(mut self) {
        self.lives = true;
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.lives {
            let handle = kern::pidfd::open(self.pid);
            let _gone_already = handle.and_then(|fd| kern::pidfd::kill(std::os::fd::AsFd::as_fd(&fd), Sig::KILL));
            while matches!(ptrace::wait(self.pid), Ok(halt) if !matches!(halt, ptrace::Halt::Ended(_))) {
                let _dying = ptrace::detach(self.pid, None);
            }
        }
    }
}

/// Files that the child inherits, all with numbers above those of the image.
struct Opened {
    files: Vec<OwnedFd>,
    /// For each area its file.
    mapped: Vec<Option<OwnedFd>>,
    exe: OwnedFd,
    cwd: OwnedFd,
}

/// Reads up to the first record of pages, or the end.
fn plan(reader: &mut Reader<impl Read>) -> Result<(Plan, Record)> {
    let mut header: Option<Header> = None;
    let (mut process, mut memory, mut files) = (None, None, None);
    let mut threads: Vec<Thread> = Vec::new();
    let rest = loop {
        match reader.next_record()? {
            Some(Record::Header(record)) => header = Some(record),
            Some(Record::Process(record)) => process = Some(*record),
            Some(Record::Memory(record)) => memory = Some(record),
            Some(Record::Files(record)) => files = Some(record),
            Some(Record::Thread(record)) => threads.push(*record),
            Some(record) => break record,
            None => return Err(Fault::wire("an image without an end")),
        }
    };
    let missing = |what: &'static str| move || Fault::wire(format!("an image without {what}"));
    let header = header.ok_or_else(missing("a header"))?;
    let plan = Plan {
        process: process.ok_or_else(missing("a process"))?,
        memory: memory.ok_or_else(missing("mappings"))?,
        files: files.ok_or_else(missing("descriptors"))?,
        threads,
    };
    if plan.threads.len() != header.threads as usize
        || plan.threads.first().map(|one| one.tid) != Some(plan.process.pid)
    {
        return Err(missing("all of its threads")());
    }
    rebuild::check(&plan.memory)?;
    Ok((plan, rest))
}

fn open_at(path: &[u8], flags: OFlags, base: i32) -> Result<OwnedFd> {
    let fd = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| Fault::sys(e.raw_os_error(), format!("open {}", String::from_utf8_lossy(path))))?;
    kinds::above(fd, base)
}

/// The files of the mappings, which must be those that they were.
fn open_mapped(memory: &Memory, base: i32) -> Result<Vec<Option<OwnedFd>>> {
    let open = |area: &image::memory::Area| {
        let Some(file) = &area.file else { return Ok(None) };
        let flags = if area.shared && file.writable { OFlags::RDWR } else { OFlags::RDONLY };
        let fd = open_at(&file.path.0, flags, base)?;
        let name = String::from_utf8_lossy(&file.path.0).into_owned();
        let now = rustix::fs::fstat(&fd).map_err(|e| Fault::sys(e.raw_os_error(), format!("look at {name}")))?;
        let modified = now.st_mtime as u64 * 1_000_000_000 + now.st_mtime_nsec;
        // A shared mapping shows what is in the file, whatever that is.
        if !area.shared && (now.st_size as u64 != file.size || modified != file.modified) {
            return Err(Fault::refused(format!("{name} is not the file that was mapped: its size or time is another")));
        }
        Ok(Some(fd))
    };
    memory.areas.iter().map(open).collect()
}

fn build(child: &Child, plan: &Plan, reader: &mut Reader<impl Read>, first: Record, opened: &Opened) -> Result<()> {
    let pid = child.pid;
    let leader = Running::seize(pid, true, true)?;
    leader.interrupt()?;
    let leader = leader.stopped()?;
    let remote = RemoteMemory::open(pid)?;
    let now = identity::creds(pid, pid)?;
    let (mut loan, arena) = rebuild::clear(&leader, &remote, &plan.memory, pid)?;
    let files: Vec<Option<i32>> = opened.mapped.iter().map(|fd| fd.as_ref().map(AsRawFd::as_raw_fd)).collect();
    rebuild::map(&mut loan, arena, &plan.memory.areas, &files)?;
    fill(&remote, plan, reader, first)?;
    take_up(&mut loan, arena, plan, opened)?;
    let others = make_threads(&mut loan, arena, plan)?;
    let gate = loan.gate();
    for (thread, saved) in others.iter().zip(&plan.threads[1..]) {
        let mut loan = Loan::take_at(thread, &remote, gate)?;
        let mut script = arena.script();
        threads::set(&mut script, saved, &now, plan.process.pid)?;
        loan.run(arena, script)?;
    }
    become_it(&mut loan, arena, plan, &now)?;
    let mut regs = vec![waits::go_on(&mut loan, &remote, arena, &plan.threads[0])?];
    for (thread, saved) in others.iter().zip(&plan.threads[1..]) {
        let mut loan = Loan::take_at(thread, &remote, gate)?;
        regs.push(waits::go_on(&mut loan, &remote, arena, saved)?);
    }
    loan.unmap_arena(arena)?;
    identity::set_oom_score(pid, &plan.process)?;
    let all: Vec<&Stopped> = std::iter::once(&leader).chain(&others).collect();
    for ((thread, saved), regs) in all.iter().zip(&plan.threads).zip(&regs) {
        finish(thread, saved, regs)?;
    }
    for (thread, saved) in all.iter().zip(&plan.threads) {
        waits::note(pid, thread.tid(), saved, &remote)?;
    }
    let stopped = Sig::new(plan.process.stopped);
    others.into_iter().try_for_each(|thread| thread.release(None))?;
    leader.release(stopped.map(|_| Sig::STOP))
}

fn fill(remote: &RemoteMemory, plan: &Plan, reader: &mut Reader<impl Read>, first: Record) -> Result<()> {
    let mut next = Some(first);
    loop {
        match next {
            Some(Record::Pages { start, bytes }) => memory::fill(remote, &plan.memory.areas, start, &bytes)?,
            Some(Record::End) => return Ok(()),
            Some(_) => return Err(Fault::wire("a record that is not of pages between records of pages")),
            None => return Err(Fault::wire("an image without an end")),
        }
        next = reader.next_record()?;
    }
}

/// What all threads share and what must be there before they are.
fn take_up(loan: &mut Loan<'_>, arena: Arena, plan: &Plan, opened: &Opened) -> Result<()> {
    let mut script = arena.script();
    script.call("go to the working directory", libc::SYS_fchdir, &[opened.cwd.as_raw_fd() as u64]);
    identity::set_layout(&mut script, &plan.process, opened.exe.as_raw_fd());
    identity::set(&mut script, &plan.process);
    sigstate::set_actions(&mut script, &plan.process.actions);
    loan.run(arena, script)?;
    let mut script = arena.script();
    kinds::install(&mut script, &plan.files, &opened.files)?;
    loan.run(arena, script)?;
    Ok(())
}

/// `struct clone_args`, up to the set of TIDs.
fn clone_args(set_tid: u64) -> [u64; 10] {
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    [flags as u64, 0, 0, 0, 0, 0, 0, 0, set_tid, 1]
}

/// The threads besides the leader, each before its first instruction.
fn make_threads(loan: &mut Loan<'_>, arena: Arena, plan: &Plan) -> Result<Vec<Stopped>> {
    let mut made = Vec::new();
    for saved in &plan.threads[1..] {
        let mut script = arena.script();
        let tid = script.bytes(&saved.tid.to_ne_bytes());
        let args = script.bytes(clone_args(tid).as_bytes());
        let length = size_of::<[u64; 10]>() as u64;
        script.call(format!("make thread {}", saved.tid), libc::SYS_clone3, &[args, length]);
        loan.run(arena, script)?;
        made.push(Stopped::newborn(Pid(saved.tid))?);
    }
    Ok(made)
}

/// The last script of the leader: clocks, waiting signals, and what takes its rights away.
fn become_it(loan: &mut Loan<'_>, arena: Arena, plan: &Plan, now: &Creds) -> Result<()> {
    let process = &plan.process;
    let mut script = arena.script();
    timers::set_itimers(&mut script, &process.itimers);
    timers::set_timers(&mut script, &process.timers);
    sigstate::set_queue(&mut script, &process.queue, process.pid as u64, None)?;
    memory::lock(&mut script, &plan.memory.areas);
    identity::set_limits(&mut script, process)?;
    threads::set(&mut script, &plan.threads[0], now, process.pid)?;
    identity::set_dumpable(&mut script, process);
    loan.run(arena, script).map(drop)
}

/// Registers, mask and scheduling: the thread is as it was, and only has to run.
fn finish(thread: &Stopped, saved: &Thread, regs: &Regs) -> Result<()> {
    let tid = thread.tid();
    threads::set_scheduling(saved)?;
    ptrace::set_xstate(tid, &saved.xstate.0).map_err(|errno| match errno {
        libc::EINVAL => Fault::new(Kind::Unsupported, "this processor does not have all the registers of the image"),
        errno => Fault::sys(errno, format!("set the extended registers of thread {tid}")),
    })?;
    thread.set_regs(regs)?;
    thread.set_sigmask(saved.mask)
}
