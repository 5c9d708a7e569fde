//! An image into a process: a child that does nothing gets the memory, the descriptors and the threads of the image, and runs on where the image has it.

use crate::ahead::Ahead;
use crate::identity::Before;
use crate::kinds::terminal::furnish;
use crate::objects::Made;
use crate::opened::{Brought, Opened};
use crate::ownership::User;
use crate::places::Opener;
use crate::plan::{plan, Plan, Whose};
use crate::prepared::Prepared;
use crate::rebuilt::{Broken, Rebuilt};
use crate::sigstate::Came;
use crate::survey::MANY;
use crate::timers::RunningTimers;
use crate::together::Together;
use crate::unheeded::Unheeded;
use crate::vessel::{Begun, Vessel};
use crate::wants::Wants;
use crate::{
    children, cpu, identity, keys, kinds, login, memory, pages, rebuild, remain, rights, sigstate, threads, timers,
    vdso, waits,
};
use image::files::Files;
use image::process::Process;
use image::thread::Thread;
use image::{Bytes, Reader, Record};
use kern::faultpoint::reach;
use kern::ptrace::{self, Regs};
use kern::timeline::mark;
use puppet::{Arena, Loan, Stopped};
use std::io::Read;
use vocab::{Fault, Kind, Pid, Result, Sig};

/// Bytes of memory that a vessel takes besides what the image has: one arena and the next, and the kernel's pages.
const OF_SCRIPTS: u64 = 2 * Arena::LENGTH + 1024 * 1024;
/// And before there is anything of the image: the program.
const OF_A_VESSEL: u64 = 32 * 1024 * 1024;

/// An image that has been read up to its pages, with its files open: what can fail without a process has been done.
pub struct Coming<R: Read + Send> {
    reader: Reader<R>,
    plan: Plan,
    first: Record,
    /// At its terminal, which has no room for it.
    typed: Vec<u8>,
    prepared: Prepared,
}

/// The files of an image that was only looked at.
pub struct Pinned {
    opened: Opened,
    objects: Made,
}

impl<R: Read + Send> Coming<R> {
    /// Reads on behind the records that a vessel has read ([`Vessel::early`]), which is then to be the process. `user`: the process must be this user's altogether.
    ///
    /// # Errors
    /// `Wire` for a broken image; `Refused` for what is not this user's; what cannot be opened again.
    pub fn go_on(begun: Begun<R>, user: Option<&User>) -> Result<Coming<R>> {
        let coming = Coming::plan(begun, false, (None, user), None)?;
        // The old node has its locks until this one has them: on another file nobody would be kept away.
        coming.prepared.opened().locked_is_itself(&coming.plan.files)?;
        Ok(coming)
    }

    /// The same with files that were opened when the image came: by now their names may lead elsewhere, and nobody else has the process any more.
    ///
    /// # Errors
    /// `Wire` for a broken image.
    pub fn go_on_with(begun: Begun<R>, pinned: Pinned) -> Result<Coming<R>> {
        Coming::plan(begun, false, (None, None), Some(pinned))
    }

    pub(crate) fn plan(
        begun: Begun<R>,
        any_processor: bool,
        whose: Whose<'_>,
        pinned: Option<Pinned>,
    ) -> Result<Coming<R>> {
        let Begun { mut reader, first, foreseen, guessed, terminal, .. } = begun;
        let (mut plan, first) = plan(&mut reader, first, any_processor, whose)?;
        let (owner, _) = whose;
        plan.early.guessed.pages.extend(guessed);
        mark("restore: all but pages read");
        let Plan { process, memory, files, threads, .. } = &plan;
        let (slave, typed) = furnish(terminal, files.terminal.as_ref())?.unzip();
        reach("in opens files");
        let foreseen = foreseen.map(|foreseen| (foreseen.holds(process, memory, files, threads), foreseen));
        let instead = |other: Option<(bool, _)>| other.map(|(_, foreseen)| foreseen);
        let prepared = match (foreseen, pinned) {
            (Some((true, foreseen)), _) => {
                plan.early.guessed.placed = true;
                Prepared::Foreseen(foreseen)
            }
            (other, Some(Pinned { opened, objects })) => {
                plan.objects = objects;
                Prepared::Now { opened, instead_of: instead(other) }
            }
            (other, None) => {
                let Plan { process, memory, files, threads, objects, .. } = &plan;
                let opener = Opener::new(threads, owner.is_none());
                let Process { exe, cwd, root, places, .. } = process;
                let wants = Wants { exe, cwd, root, places, memory, files };
                let opened = Opened::open(&wants, objects, &opener, slave.as_ref())?;
                Prepared::Now { opened, instead_of: instead(other) }
            }
        };
        mark("restore: files opened");
        Ok(Coming { reader, plan, first, typed: typed.unwrap_or_default(), prepared })
    }

    pub fn pid(&self) -> Pid {
        Pid(self.plan.process.pid)
    }

    /// The process gets another number, by which its threads would know each other.
    pub(crate) fn goes_by(&mut self, pid: Pid) -> Result<()> {
        match self.plan.threads.len() {
            1 => {
                self.plan.goes_by(pid);
                Ok(())
            }
            count => Err(Fault::new(Kind::Unsupported, format!("a copy of a process that has {count} threads"))),
        }
    }

    /// Does it take the orphans among its descendants (PR_SET_CHILD_SUBREAPER)?
    pub fn takes_orphans(&self) -> bool {
        self.plan.process.subreaper
    }

    /// Has process `pid`, which is to become it when another program has taken its place, the rights for that, and room within those limits that nobody can lift?
    ///
    /// # Errors
    /// `Refused` if not; `Gone`.
    pub fn fits_into(&self, pid: Pid) -> Result<()> {
        let Plan { memory, process, threads, .. } = &self.plan;
        rights::suffice(pid, process, threads)?;
        let all = |is: fn(&image::memory::Area) -> bool| {
            memory.areas.iter().filter(|area| is(area)).map(|area| area.end - area.start).sum::<u64>()
        };
        // DATA: what is private and can be written to.
        let data = all(|area| !area.shared && area.protection & libc::PROT_WRITE as u32 != 0);
        let needed = [
            (libc::RLIMIT_NOFILE, "descriptors", self.prepared.opened().limit()),
            (libc::RLIMIT_AS, "bytes of memory", (all(|_| true) + OF_SCRIPTS).max(OF_A_VESSEL)),
            (libc::RLIMIT_DATA, "bytes of memory for data", (data + OF_SCRIPTS).max(OF_A_VESSEL)),
        ];
        for (resource, what, needed) in needed {
            let most = remain::most(pid, resource)?;
            if most < needed {
                let what = format!(
                    "while its stand-in becomes it, that takes {needed} {what}, and may have {most}, which shoal may not raise here"
                );
                return Err(Fault::refused(what));
            }
        }
        Ok(())
    }

    /// Reads the rest, of which nothing is made: the image is whole, and what could be tried without a process has been. The source of the image, and its files.
    ///
    /// # Errors
    /// `Wire` for a broken image; `Refused` when a number of a thread is in use here.
    pub fn only_looked_at(mut self) -> Result<(R, Pinned)> {
        // What is to become it may keep them for it.
        let taken = |tid: Pid| kern::proc::exists(tid) && !kern::proc::thread_of(self.pid(), tid);
        if let Some(thread) = self.plan.threads[1..].iter().find(|thread| taken(Pid(thread.tid))) {
            return Err(Fault::refused(format!("the number of its thread {} is in use", thread.tid)));
        }
        pages::pass_over(&mut self.reader, self.first)?;
        let Prepared::Now { opened, .. } = self.prepared else {
            return Err(Fault::bug("files that are in a vessel already"));
        };
        Ok((self.reader.into_source(), Pinned { opened, objects: self.plan.objects }))
    }

    pub(crate) fn cgroups(&self) -> &[Bytes] {
        &self.plan.process.cgroups
    }

    pub fn files(&self) -> &Files {
        &self.plan.files
    }

    /// What was typed at its terminal, and is to follow what that has taken already.
    pub fn take_typed(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.typed)
    }

    /// Is all of it in the image?
    pub(crate) fn is_whole(&self) -> bool {
        self.plan.lazy.is_empty()
    }

    /// As [`crate::survey::Survey::is_large`].
    pub fn is_large(&self) -> bool {
        let Plan { memory, threads, files, .. } = &self.plan;
        memory.areas.len() > MANY || threads.len() > MANY / 8 || files.descriptors.len() > MANY
    }

    /// Makes a process what the image says. Its descriptors 0 to 2 are the standard streams where those of the image led out of the process;
    /// everything else that it has goes. Besides it what the image was read from.
    ///
    /// # Errors
    /// `Wire` for a broken image; what it may not do.
    pub fn rebuild(mut self, mut vessel: Vessel) -> std::result::Result<(Rebuilt, R), Box<Broken>> {
        let pid = vessel.pid();
        vessel.lets_go_on(&mut self.plan.process);
        let (mut others, mut ahead, mut unheeded) = (Vec::new(), None, None);
        let together = Together::here();
        let anywhere = together.bring(pid);
        let (processors, first) = (anywhere.as_deref(), self.first);
        let mut stopped = Sig::new(self.plan.process.stopped);
        let made = (&mut others, &mut ahead, &mut stopped, &mut unheeded);
        let goes = (&together, processors);
        let done = build(&mut vessel, made, &self.plan, (&mut self.reader, first), &self.prepared, goes);
        if let (Err(_), Some(before)) = (&done, &anywhere) {
            // What takes its place may run where it might.
            let _killed = kern::others::set_processors(pid, before);
        }
        let mut threads = vessel.launched();
        threads.append(&mut others);
        self.prepared.let_go();
        let queued = self.plan.queued();
        let running = RunningTimers::of(&self.plan.process);
        let rebuilt = Rebuilt {
            pid,
            threads,
            stopped,
            queued,
            running,
            ahead,
            unheeded,
            prepared: self.prepared,
            _together: together,
        };
        match done {
            Ok(()) => Ok((rebuilt, self.reader.into_source())),
            Err(fault) => Err(Box::new(Broken { fault: fault.doing(format!("restore process {pid}")), rebuilt })),
        }
    }
}

/// What is there of what is built, besides the leader.
type Parts<'a> = (&'a mut Vec<Stopped>, &'a mut Option<Ahead>, &'a mut Option<Sig>, &'a mut Option<(Unheeded, Arena)>);

fn build(
    vessel: &mut Vessel,
    (others, ahead, stopped, unheeded): Parts<'_>,
    plan: &Plan,
    (reader, first): (&mut Reader<impl Read + Send>, Record),
    prepared: &Prepared,
    (together, anywhere): (&Together, Option<&[u8]>),
) -> Result<()> {
    let brought = &equip(vessel, plan, prepared)?;
    let due = vessel.clocks(&plan.header)?;
    mark("restore: clocks go on");
    let opened = vessel.take_open();
    let (leader, remote, pid) = (vessel.leader(), vessel.remote(), vessel.pid());
    let (mut loan, arena) = vessel.lend()?;
    plan.objects.seal()?;
    let missing = rebuild::missing(&mut loan, pid, opened, &plan.lazy)?;
    let open = missing.as_ref().map(|missing| (missing, &plan.lazy[..]));
    let came = pages::fill(pid, remote, &plan.memory.areas, reader, first, &plan.early, (open, together))?;
    rebuild::drop_old(&mut loan, arena, &plan.early, vessel.placed(), &came)?;
    *ahead = missing.map(|missing| Ahead::new(missing, &plan.lazy));
    mark("restore: pages filled");
    if plan.process.stopped == 0 && vessel.is_asleep()? {
        wake(&mut loan, arena, pid)?;
    }
    // Without children here no end can be lost.
    let its = Unheeded::of(&plan.process).filter(|_| children::of(pid).is_ok_and(|all| !all.is_empty()));
    let own = (vessel.before(), vessel.streams_are_its_own());
    // A SIGCONT that waits by now came after this; what comes from now on came after that.
    let stops = vessel.leader().take_stop();
    let continued = take_up(&mut loan, arena, plan, brought, own, its.is_some())?;
    match continued {
        true => *stopped = None,
        false if stops => vessel.leader().put_back_stop(),
        false => {}
    }
    mark("restore: taken up");
    threads::make(&mut loan, arena, &plan.threads[1..], others)?;
    mark("restore: threads made");
    let others = &*others;
    let gate = loan.gate();
    for (thread, saved) in others.iter().zip(&plan.threads[1..]) {
        let mut loan = Loan::take_at(thread, remote, gate)?.for_good();
        let mut script = arena.script();
        threads::set((&mut loan, arena), &mut script, (saved, None), &vessel.before().creds, plan.process.pid)?;
        loan.run(arena, script)?;
        threads::make_room_for_tiles(&mut loan, arena, saved)?;
    }
    mark("restore: threads set");
    let came = match (continued, vessel.stops_anew()?) {
        (true, _) => Came::Continued,
        (false, None) => Came::Unknown,
        (false, Some(true)) => Came::Stops,
        (false, Some(false)) => Came::Nothing,
    };
    become_it(&mut loan, arena, (plan, prepared.name()), vessel.before(), came)?;
    mark("restore: become");
    let mut regs = vec![waits::go_on(&mut loan, remote, arena, &plan.threads[0])?];
    for (thread, saved) in others.iter().zip(&plan.threads[1..]) {
        let mut loan = Loan::take_at(thread, remote, gate)?.for_good();
        regs.push(waits::go_on(&mut loan, remote, arena, saved)?);
    }
    mark("restore: waits");
    *unheeded = its.map(|its| (its, arena));
    if unheeded.is_none() {
        loan.unmap_arena(arena)?;
    }
    identity::set_outside(pid, &plan.process, vessel.before())?;
    let all: Vec<&Stopped> = std::iter::once(leader).chain(others).collect();
    for ((thread, saved), regs) in all.iter().zip(&plan.threads).zip(&regs) {
        finish(thread, saved, regs, anywhere)?;
    }
    mark("restore: registers set");
    for (thread, saved) in all.iter().zip(&plan.threads) {
        let regs = crate::registers::of(saved)?;
        waits::note((pid, thread.tid()), (saved.waits.as_ref(), &regs), remote, &due.clock)?;
    }
    mark("restore: all but its clocks");
    due.wait()
}

/// The kernel's pages, descriptors and mappings.
pub(crate) fn equip(vessel: &mut Vessel, plan: &Plan, prepared: &Prepared) -> Result<Brought> {
    let (opened, instead_of) = match prepared {
        Prepared::Foreseen(foreseen) => {
            if !plan.is_little() {
                vessel.take_more_room(&plan.memory)?;
            }
            let foreign = foreseen.foreign();
            foreign.map_or(Ok(()), |foreign| vdso::nobody_inside(foreign, &plan.threads))?;
            vessel.clear_early(&plan.memory)?;
            return Ok(foreseen.brought().clone());
        }
        Prepared::Now { opened, instead_of } => (opened, instead_of),
    };
    vessel.take_more_room(&plan.memory)?;
    // To unmap what is open would be told, and waited for.
    vessel.close()?;
    if let Some(foreseen) = instead_of {
        vessel.unmap(foreseen.mapped())?;
    }
    if let Some(foreign) = vessel.settle(&plan.memory, plan.vdso.as_deref())? {
        vdso::nobody_inside(&foreign, &plan.threads)?;
    }
    vessel.clear_early(&plan.memory)?;
    mark("restore: vdso in place");
    let (mut loan, arena) = vessel.lend()?;
    let creds = (&plan.threads[0].creds, &vessel.before().creds);
    let sockets = kinds::make_sockets(&mut loan, arena, (plan.process.pid, creds), &plan.files)?;
    let brought = opened.bring(&mut loan, arena, vessel.pid(), &sockets)?;
    mark("restore: descriptors brought");
    rebuild::map(&mut loan, arena, &plan.memory.areas, &brought.mapped, vessel.there())?;
    mark("restore: mapped");
    Ok(brought)
}

/// Its parent is told that it goes on. The SIGCONT that does it is none for the process, which has had its own where it was.
fn wake(loan: &mut Loan<'_>, arena: Arena, pid: Pid) -> Result<()> {
    kern::signal::send(pid, Sig::CONT).map_err(|errno| Fault::sys(errno, format!("continue process {pid}")))?;
    let mut script = arena.script();
    sigstate::drop_waiting(&mut script, std::iter::once(Sig::CONT));
    loan.run(arena, script).map(drop)
}

/// What all threads share and what must be there before they are. `true`: a SIGCONT had come.
pub(crate) fn take_up(
    loan: &mut Loan<'_>,
    arena: Arena,
    plan: &Plan,
    brought: &Brought,
    (before, alone): (&Before, bool),
    keeps_ends: bool,
) -> Result<bool> {
    let pid = plan.process.pid;
    login::set(loan, arena, Pid(pid), plan.process.login)?;
    let place = kern::proc::group_and_session(Pid(pid)).ok_or_else(|| Fault::gone(format!("process {pid}")))?;
    let mut script = arena.script();
    if plan.process.root.0 != b"/" {
        script.call("go to the root directory", libc::SYS_fchdir, &[brought.root as u64]);
        let here = script.text(b".");
        script.call("make it the root", libc::SYS_chroot, &[here]);
    }
    script.call("go to the working directory", libc::SYS_fchdir, &[brought.cwd as u64]);
    identity::set_layout(&mut script, &plan.process, brought.exe);
    identity::set(&mut script, &plan.process, before, place);
    identity::allow_signals(&mut script, &plan.process, before);
    identity::ask_for_registers(&mut script, &plan.process);
    identity::register_for_barriers(&mut script, &plan.process);
    let actions = if keeps_ends { Unheeded::kept(&plan.process) } else { plan.process.actions.clone() };
    let pending = sigstate::set_actions(&mut script, &actions);
    kinds::install(&mut script, &plan.files, &brought.files, alone)?;
    sigstate::waited_to_continue(&loan.run(arena, script)?, pending)
}

/// The last script of the leader: clocks, waiting signals, and what takes its rights away.
pub(crate) fn become_it(
    loan: &mut Loan<'_>,
    arena: Arena,
    (plan, named): (&Plan, Option<&[u8]>),
    before: &Before,
    came: Came,
) -> Result<()> {
    let process = &plan.process;
    let waits = came.leaves(process, &plan.threads);
    let pid = process.pid as u64;
    let children = children::of(Pid(process.pid))?;
    let news = children::catch_up(loan, arena, process, &children)?;
    timers::make(loan, arena, &process.timers, &plan.ringing)?;
    let mut script = arena.script();
    timers::set_itimers(&mut script, process, &plan.ringing);
    sigstate::set_long_queue((loan, arena), &mut script, &waits, (pid, None))?;
    sigstate::set_queue(&mut script, news.as_slice(), pid, None)?;
    memory::guard_and_lock(&mut script, &plan.memory.areas);
    keys::set(&mut script, &plan.memory);
    children::take_news(&mut script, process, &children);
    identity::set_habits(&mut script, process);
    identity::set_locking(&mut script, process);
    identity::set_limits(&mut script, process, before);
    threads::set((loan, arena), &mut script, (&plan.threads[0], named), &before.creds, process.pid)?;
    kinds::set_owners(&mut script, &plan.files);
    identity::set_dumpable(&mut script, process);
    loan.run(arena, script)?;
    threads::make_room_for_tiles(loan, arena, &plan.threads[0])
}

/// Registers, mask and scheduling: the thread is as it was, and only has to run.
fn finish(thread: &Stopped, saved: &Thread, regs: &Regs, anywhere: Option<&[u8]>) -> Result<()> {
    let tid = thread.tid();
    threads::set_scheduling(saved, anywhere)?;
    let length = ptrace::xstate(tid).map_or(0, |state| state.len());
    ptrace::set_xstate(tid, &cpu::fitted(&saved.xstate.0, length)).map_err(|errno| match errno {
        libc::EINVAL => Fault::new(Kind::Unsupported, "this processor does not have all the registers of the image"),
        errno => Fault::sys(errno, format!("set the extended registers of thread {tid}")),
    })?;
    thread.set_regs(regs)?;
    thread.set_sigmask(saved.mask)
}
