//! A process that stands still and has been written: it is looked at once more, goes on, ends, or something else takes its place.

use crate::behind::Keeper;
use crate::elsewhere::nobody_elses;
use crate::freeze::Frozen;
use crate::kinds::terminal::Taken;
use crate::kinds::Locks;
use crate::queued::{number, since, Queued, REAL_TIME};
use crate::records::Records;
use crate::remain::{remain, Done, Remains};
use crate::timers::RunningTimers;
use crate::undisturbed::Undisturbed;
use crate::unheeded::Unheeded;
use crate::{apart, children, sigstate, sysv};
use kern::areas::{areas, Area, AreaFlags};
use kern::pagemap::Run;
use kern::pidfd;
use kern::poll::{poll, Ready};
use kern::ptrace::{queued, Queue, RawInfo};
use kern::remote_memory::RemoteMemory;
use puppet::{Loan, Stopped};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use vocab::{Fault, Pid, Result, Sig};

/// Milliseconds in which a process that was killed is expected to have closed its files.
const END_MS: i32 = 10_000;

/// A process that stands still and of which everything has been written but the end of the image. Dropped, it runs on.
pub struct Held {
    /// What was taken is put back before it runs on: fields are dropped in their order.
    written: Written,
    frozen: Frozen,
    /// A SIGSTOP was taken from it while it was written, that is not in the image.
    met_stop: Cell<bool>,
    /// And one that is.
    knows_stop: bool,
    /// How many its survey found, which the image has.
    filters: u64,
}

/// What is to be known of a process when it has been written.
pub(crate) struct Written {
    /// Put back before it runs on, if it does.
    pub(crate) taken: Option<Taken>,
    /// By a signal, as the image has it.
    pub(crate) stopped: bool,
    pub(crate) queued: Queued,
    pub(crate) running: RunningTimers,
    pub(crate) locks: Locks,
    /// The process watches files (inotify(7)), and goes on on the same machine.
    pub(crate) watches: bool,
    /// Links of descriptors that nobody else had when it was surveyed.
    pub(crate) believed: BTreeSet<Vec<u8>>,
    /// It leaves the ends of its children to the kernel.
    pub(crate) unheeded: Option<Unheeded>,
    pub(crate) behind: Vec<Run>,
    /// As they were written.
    pub(crate) areas: Vec<Area>,
    /// The records of the image, but for memory.
    pub(crate) records: Box<Records>,
}

/// A signal that waits for a process, or for one of its threads.
pub struct Waiting {
    pub thread: Option<Pid>,
    pub info: RawInfo,
}

/// Bytes in memory of a process that is looked at slowly once more. For so many the kernel takes no longer than it takes to rebuild the process (smaps: it looks at each page).
const SOON: u64 = 64 << 20;

impl Held {
    pub(crate) fn new(frozen: Frozen, written: Written, filters: u64) -> Held {
        let knows_stop = written.queued.has(Sig::STOP);
        let met_stop = Cell::new(frozen.take_stop() && !knows_stop);
        Held { written, frozen, met_stop, knows_stop, filters }
    }

    pub fn pid(&self) -> Pid {
        self.frozen.pid
    }

    /// Its threads but for the first.
    pub fn threads(&self) -> impl Iterator<Item = Pid> + '_ {
        self.frozen.threads.iter().skip(1).map(Stopped::tid)
    }

    /// Only now, so that nobody has to wait for it: is it in the namespaces, and all of its threads in the same, in which it was surveyed, does nobody else have what
    /// was only this process's then, and has it these `children`, in order, and no others? `trusted` processes take nothing from others.
    ///
    /// # Errors
    /// `Changed` or `Refused` when not: then the image is not to be used.
    pub fn is_as_surveyed(&self, children: &[Pid], trusted: &[Pid]) -> Result<()> {
        let now = children::of(self.pid())?;
        if now != children {
            let list = |all: &mut dyn Iterator<Item = &Pid>| all.map(|pid| format!(" {pid}")).collect::<String>();
            let more = list(&mut now.iter().filter(|pid| !children.contains(pid)));
            let fewer = list(&mut children.iter().filter(|pid| !now.contains(pid)));
            return Err(Fault::changed(format!("its children have changed on the way (more:{more}; fewer:{fewer})")));
        }
        apart::none_is(&self.frozen, &self.written.areas, self.filters)?;
        sysv::uses_none(self.pid())?;
        self.written.taken.as_ref().map_or(Ok(()), |taken| taken.is_alone(self.pid()))?;
        nobody_elses(self.pid(), &self.written.believed, trusted)?;
        self.is_advised_as_written()
    }

    /// The same of one that has no children and that is written into a file: whoever does that may be killed again afterwards.
    pub(crate) fn is_still_as_surveyed(&self) -> Result<()> {
        let _until_it_is_at_rest = Undisturbed::now()?;
        let found = self.is_as_surveyed(&[], &[]);
        self.frozen.leader().is_at_rest()?;
        self.frozen.leader().hand_back_stop()?;
        found
    }

    /// The quick look at its mappings does not show what it has locked, advised or sealed of one as a whole since they were surveyed.
    fn is_advised_as_written(&self) -> Result<()> {
        if self.written.areas.iter().map(|area| area.held).sum::<u64>() > SOON {
            return Ok(());
        }
        let flags = |area: &Area| (area.flags - AreaFlags::USERFAULT, area.key);
        let now: BTreeMap<_, _> =
            areas(self.pid(), true)?.iter().map(|area| ((area.start, area.end), flags(area))).collect();
        // Beside one of its own there may be one that is lent.
        let is_other = |area: &&Area| now.get(&(area.start, area.end)).is_some_and(|now| *now != flags(area));
        match self.written.areas.iter().find(is_other) {
            None => Ok(()),
            Some(area) => {
                let (start, end) = (area.start, area.end);
                Err(Fault::changed(format!("its mapping {start:x}-{end:x} was locked, advised or sealed on the way")))
            }
        }
    }

    /// The records of the image, but for memory.
    pub(crate) fn records(&self) -> &Records {
        &self.written.records
    }

    /// Is some of its memory not in the image?
    pub fn keeps_some(&self) -> bool {
        !self.written.behind.is_empty()
    }

    /// What of its memory is not in the image.
    ///
    /// # Errors
    /// `Gone`.
    pub fn keeper(&self) -> Result<Keeper> {
        Keeper::of(self.pid(), self.written.behind.clone())
    }

    /// Has it locks on files, which nobody else can have until it has ended?
    pub fn has_locks(&self) -> bool {
        self.written.locks != Locks::None
    }

    /// Must it have ended before it runs elsewhere? What it closes when it ends, on the machine where it runs by then, it would be told of (inotify(7)).
    pub fn must_end_first(&self) -> bool {
        self.has_locks() || self.written.watches && !self.keeps_some()
    }

    /// Can the new node take its locks before it gives them up here?
    ///
    /// # Errors
    /// `Changed` when not: it may have let them go in a moment.
    pub fn locks_can_go(&self) -> Result<()> {
        match &self.written.locks {
            Locks::Exclusive(why) => Err(Fault::changed(why.clone())),
            Locks::None | Locks::Shared => Ok(()),
        }
    }

    /// Was it stopped by a signal when it was made to stand still, and when it was written?
    pub fn was_stopped(&self) -> bool {
        self.written.stopped
    }

    /// Signals that have come since everything was written, or since the last call, but for those of timers, which run on in the image.
    ///
    /// # Errors
    /// `Gone` when it was killed.
    pub fn come_since(&self) -> Result<Vec<Waiting>> {
        let read = |tid: Pid, queue, thread, known: &[RawInfo]| -> Result<Vec<Waiting>> {
            let all = queued(tid, queue);
            let all = all.map_err(|errno| Fault::sys(errno, format!("read the signals that wait for {tid}")))?;
            let new = since(known, all).into_iter().filter(|info| !self.written.running.signal(info));
            Ok(new.map(|info| Waiting { thread, info }).collect())
        };
        let mut come = Vec::new();
        let early = self.met_stop.take();
        if self.frozen.take_stop() || early {
            // A SIGCONT that waits came after it: it would have been taken away.
            let mut info = RawInfo::default();
            info[0] = libc::SIGSTOP as u64;
            come.push(Waiting { thread: None, info });
        }
        come.extend(read(self.pid(), Queue::Process, None, &self.written.queued.process)?);
        for (thread, known) in self.frozen.threads.iter().zip(&self.written.queued.threads) {
            come.extend(read(thread.tid(), Queue::Thread, Some(thread.tid()), known)?);
        }
        Ok(come)
    }

    /// From now on it does not run past its image: it is killed if the calling process ends. The signals of the image are with that from now on. One more
    /// of the same number would be none as long as they waited here too (linux: `legacy_queue`). And of its `children` each stays that ends, for what takes its place.
    ///
    /// # Errors
    /// `Gone` when it was killed; `Changed` when the kernel has taken one of these: then it may go on.
    pub fn bind(&mut self, children: &[Pid]) -> Result<()> {
        self.bind_signals(children)?;
        // It is not to be hung up when its old terminal ends; nor may that fail now.
        if let Some(Err(fault)) = self.written.taken.take().map(Taken::goes) {
            tracing::warn!(%fault, "its old terminal may hang it up");
        }
        Ok(())
    }

    fn bind_signals(&mut self, children: &[Pid]) -> Result<()> {
        self.frozen.threads.iter().try_for_each(|thread| thread.die_with_tracer(false))?;
        // Of real-time signals each waits for itself.
        let once: Vec<Sig> = self.written.queued.of_leader().filter(|sig| sig.number() < REAL_TIME).collect();
        let unheeded = self.written.unheeded.as_ref().filter(|_| !children.is_empty());
        if once.is_empty() && unheeded.is_none() {
            return Ok(());
        }
        let memory = RemoteMemory::open(self.pid())?;
        let mut loan = Loan::take(self.frozen.leader(), &memory, &areas(self.pid(), false)?)?;
        let arena = loan.map_arena(None)?;
        if let Some(unheeded) = unheeded {
            let mut script = arena.script();
            unheeded.keep(&mut script);
            loan.run(arena, script)?;
            if children::of(self.pid())? != children || !children::are_there(children) {
                unheeded.leave(&mut loan, arena, self.pid())?;
                loan.unmap_arena(arena)?;
                loan.give_back()?;
                return Err(Fault::changed("one of its children has ended on the way"));
            }
        }
        // A script that does nothing is none.
        if !once.is_empty() {
            let mut script = arena.script();
            sigstate::drop_waiting(&mut script, once.into_iter());
            loan.run(arena, script)?;
        }
        loan.give_back()?;
        let queues = std::iter::once(&mut self.written.queued.process).chain(self.written.queued.threads.first_mut());
        queues.for_each(|queue| queue.retain(|info| number(info).is_some_and(|sig| sig.number() >= REAL_TIME)));
        Ok(())
    }

    /// It is killed: from now on the image is the process. When this returns its locks on files are free.
    ///
    /// # Errors
    /// `Sys` as kill(2).
    pub fn end(mut self) -> Result<()> {
        let pid = self.pid();
        let failed = |errno| Fault::sys(errno, format!("end process {pid}"));
        let handle = pidfd::open(pid).map_err(failed)?;
        pidfd::kill(handle.as_fd(), Sig::KILL).map_err(failed)?;
        std::mem::take(&mut self.frozen.threads).into_iter().rev().for_each(Stopped::dies);
        if self.must_end_first() {
            poll(&[(handle.as_fd(), Ready::READ)], END_MS).map_err(failed)?;
        }
        Ok(())
    }

    /// Another program takes its place: from now on the image is the process. `come` are the signals that have come since it was written and that
    /// go after the image; later ones wait for the program, but a SIGSTOP, which does not wait. Its locks on files are free.
    ///
    /// # Errors
    /// As [`remain`].
    pub fn remain(mut self, with: &Remains<'_>, come: &[Waiting]) -> Result<Done> {
        let pid = self.pid();
        // Those that wait for other threads go with these.
        let of_leader = |one: &&Waiting| one.thread.is_none_or(|tid| tid == pid);
        let come = come.iter().filter(of_leader).filter_map(|one| number(&one.info));
        let taken: Vec<Sig> = self.written.queued.of_leader().chain(come).collect();
        let met = self.frozen.take_stop();
        // By one that waited when it was written, and that it has not taken.
        let stopped = self.written.stopped && self.frozen.stopped_by().is_none();
        remain(self.frozen.scattered(), with, &taken, &self.written.running, stopped)
            .map(|done| Done { stops: met || done.stops, ..done })
    }

    /// It goes on as if nothing had been.
    ///
    /// # Errors
    /// `Gone` when it was killed.
    pub fn go_on(mut self) -> Result<()> {
        drop(self.written.taken.take());
        self.frozen.thaw(self.met_stop.take() || self.knows_stop)
    }
}
