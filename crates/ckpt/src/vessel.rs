//! A process that is to become another one: it stands still, and there is nothing in it but what comes before the other one stands still.

use crate::children;
use crate::clocks::{self, Asked, Clock, Due, Wanted};
use crate::foresee::Foreseen;
use crate::identity::Before;
use crate::memory;
use crate::pages;
use crate::queued;
use crate::rebuild::{self, Emptied, Open};
use crate::remain::{remain, stop_again, Remains};
use crate::roused::Roused;
use crate::runs::{both, without};
use crate::threads;
use crate::timers::RunningTimers;
use image::forecast::Forecast;
use image::memory::{Area as Saved, Memory};
use image::process::{Header, Process};
use image::{Pages, Reader, Record};
use kern::pagemap::Run;
use kern::remote_memory::RemoteMemory;
use puppet::{Arena, Loan, Running, Stopped};
use std::io::Read;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use vocab::{Pid, Result, Sig, SigInfo};

/// The most of what a process may have many of (timers, say) that scripts for a little arena make: all kinds together take fewer than [`Arena::FEW`] calls.
pub(crate) const FEW: usize = 24;

/// Dropped, it is killed.
pub struct Vessel {
    /// The leader first.
    threads: Vec<Stopped>,
    remote: RemoteMemory,
    emptied: Emptied,
    /// Mappings that are there, and pages that were put into them.
    there: Vec<Saved>,
    placed: Vec<Run>,
    /// The other kernel's code, where it came early.
    vdso: Option<Vec<u8>>,
    /// What its clocks are to be, where that is known before the image says what they were.
    wanted: Option<Wanted>,
    /// And once they are.
    clock: Option<Clock>,
    /// Where memory is to come after the process.
    open: Option<Open>,
    /// Was it stopped before it became one, as the process of the image was to its parent's knowledge? `None`: that is not known.
    asleep: Option<bool>,
    /// A SIGCONT that came after the process of the image was written, and has had its effect. `Some(None)`: it waits for it yet, or a SIGSTOP has thrown it out.
    went_on: Option<Option<SigInfo>>,
    has_streams_alone: bool,
}

/// An image of which everything was read that came while its process ran.
pub struct Begun<R: Read + Send> {
    pub(crate) reader: Reader<R>,
    pub(crate) first: Record,
    wanted: Option<Wanted>,
    pub(crate) foreseen: Option<Box<Foreseen>>,
    /// Pages that are guessed to be what it has.
    pub(crate) guessed: Vec<Pages>,
    /// A process that has the terminal which is to be that of the image as descriptor 0.
    pub(crate) terminal: Option<Pid>,
}

impl<R: Read + Send> Begun<R> {
    /// An image that has a process as it was: its first record is this.
    pub(crate) fn whole(reader: Reader<R>, first: Record) -> Begun<R> {
        Begun { reader, first, wanted: None, foreseen: None, guessed: Vec::new(), terminal: None }
    }

    /// Reads over what comes while the process of the image runs, as [`Vessel::early`] does. `then`: there or not, the clocks have been told, for which nobody
    /// else should have been waited.
    ///
    /// # Errors
    /// `Wire` for a broken image.
    pub fn skipping(image: R, asked: Asked, then: impl FnOnce() -> Result<()>) -> Result<Begun<R>> {
        let mut reader = Reader::vouched(image)?;
        let (mut first, wanted) = clocks_before(&mut reader, Some(asked))?;
        then()?;
        if let Record::Vdso(_) = first {
            first = pages::following(&mut reader)?;
        }
        if let Record::Memory(memory) = first {
            rebuild::check(&memory)?;
            first = pages::following(&mut reader)?;
            while let Record::Early(pages) = first {
                reader.recycle(pages);
                first = pages::following(&mut reader)?;
            }
        }
        let mut guessed = Vec::new();
        if let Record::Forecast(_) = first {
            (guessed, first) = came(&mut reader, |_| Ok(()))?;
        }
        Ok(Begun { reader, first, wanted, foreseen: None, guessed, terminal: None })
    }

    /// The process that is to become that of the image has a terminal of its own as descriptor 0, which may become that of the image. The image is believed: who makes one
    /// says what is typed there.
    #[must_use]
    pub fn with_terminal_of(self, pid: Pid) -> Begun<R> {
        Begun { terminal: Some(pid), ..self }
    }

    /// What is to be added to the clocks of the process, if its machine was asked.
    pub fn clocks(&self) -> Option<Wanted> {
        self.wanted
    }

    /// What the image is read from.
    pub fn source(&mut self) -> &mut R {
        self.reader.source()
    }
}

impl Vessel {
    /// Stops process `pid`, which has one thread and all capabilities, and takes its memory away.
    ///
    /// # Errors
    /// `Gone`; EPERM for who may not trace it. It is killed then.
    pub fn take(pid: Pid) -> Result<Vessel> {
        Vessel::of(stopped(pid)?, None)
    }

    /// The same of one that was not stopped before.
    ///
    /// # Errors
    /// As [`Vessel::take`].
    pub fn take_awake(pid: Pid) -> Result<Vessel> {
        Vessel::of(stopped(pid)?, Some(false))
    }

    /// The same of one that is stopped, as the process of the image was to its parent's knowledge.
    ///
    /// # Errors
    /// As [`Vessel::take`].
    pub fn take_asleep(pid: Pid) -> Result<Vessel> {
        Vessel::of(stopped(pid)?, Some(true))
    }

    /// The same of one that ran though it was stopped, as the process of the image was to its parent's knowledge. If that is not any more, its parent is told that it goes on.
    ///
    /// # Errors
    /// As [`Vessel::take`].
    pub fn take_roused(roused: Roused) -> Result<Vessel> {
        let (leader, asleep) = roused.into_vessel()?;
        Vessel::of(leader, Some(asleep))
    }

    fn of(leader: Stopped, asleep: Option<bool>) -> Result<Vessel> {
        let remote = RemoteMemory::open(leader.tid())?;
        let leader = Doomed(vec![leader]);
        let emptied = rebuild::empty(&leader.0[0], &remote)?;
        let threads = leader.saved();
        let (there, placed, vdso) = (Vec::new(), Vec::new(), None);
        Ok(Vessel {
            threads,
            remote,
            emptied,
            there,
            placed,
            vdso,
            wanted: None,
            clock: None,
            open: None,
            asleep,
            went_on: None,
            has_streams_alone: false,
        })
    }

    pub fn pid(&self) -> Pid {
        self.leader().tid()
    }

    pub(crate) fn leader(&self) -> &Stopped {
        &self.threads[0]
    }

    pub(crate) fn remote(&self) -> &RemoteMemory {
        &self.remote
    }

    /// Has its parent been told that it is stopped, and not that it goes on, and no signal waits by which it will be told?
    ///
    /// # Errors
    /// `Gone`.
    pub(crate) fn is_asleep(&self) -> Result<bool> {
        let leader = self.leader();
        Ok(self.asleep == Some(true)
            && leader.group().is_some()
            && !leader.is_to_continue()?
            && !leader.is_to_stop()?)
    }

    /// By this SIGCONT, which it has taken itself, its process has gone on after it was written: if it is stopped, that is by another signal.
    pub fn goes_on_by(&mut self, info: &SigInfo) {
        self.asleep = Some(false);
        self.went_on = Some(Some(*info));
    }

    /// The same by one that waits for it yet, or is none any more.
    pub fn has_gone_on(&mut self) {
        self.asleep = Some(false);
        self.went_on.get_or_insert(None);
    }

    /// What it is to become was stopped as it was written, and is not any more.
    pub(crate) fn lets_go_on(&self, process: &mut Process) {
        self.went_on.iter().for_each(|by| queued::goes_on(process, by.as_ref()));
    }

    /// Has a signal come to it as a vessel that stops it? `None`: that is not known.
    ///
    /// # Errors
    /// `Gone`.
    pub(crate) fn stops_anew(&self) -> Result<Option<bool>> {
        let Some(asleep) = self.asleep else { return Ok(None) };
        Ok(Some(!asleep && self.leader().group().is_some() || self.leader().is_to_stop()?))
    }

    /// Its standard streams were made for it, and nobody else has them.
    pub fn has_streams_alone(&mut self) {
        self.has_streams_alone = true;
    }

    pub(crate) fn streams_are_its_own(&self) -> bool {
        self.has_streams_alone
    }

    /// Its clocks are to be these ([`Begun::clocks`]).
    pub fn wants(&mut self, clocks: Option<Wanted>) {
        self.wanted = clocks;
    }

    /// Reads what comes while the process of the image runs, straight into its place; up to [`Record::Still`], where there is one. `asked`: when its machine
    /// was, for the clocks of the process, if just now; these it has when this returns. `then` as for [`Begun::skipping`].
    ///
    /// # Errors
    /// `Wire` for a broken image; `Refused` where its clocks would go back.
    pub fn early<R: Read + Send>(
        &mut self,
        image: R,
        asked: Option<Asked>,
        then: impl FnOnce() -> Result<()>,
    ) -> Result<Begun<R>> {
        let mut reader = Reader::vouched(image)?;
        let (mut first, told) = clocks_before(&mut reader, asked)?;
        then()?;
        if let Some(wanted) = told {
            self.wanted = told;
            self.clock = Some(self.set_clocks(wanted)?);
        }
        if let Record::Vdso(code) = first {
            self.vdso = Some(code);
            first = pages::following(&mut reader)?;
        }
        if let Record::Memory(memory) = first {
            rebuild::check(&memory)?;
            self.emptied.make_way(&self.threads[0], &self.remote, &memory)?;
            self.map(&memory)?;
            self.there = memory.areas;
            (self.placed, first) = pages::place(self.pid(), &self.remote, &self.there, &mut reader)?;
        }
        let (mut foreseen, mut guessed) = (None, Vec::new());
        if let Record::Forecast(forecast) = first {
            foreseen = self.prepare(*forecast)?.map(Box::new);
            let there = foreseen.as_ref().map(|foreseen| &foreseen.mapped().areas[..]);
            let put = |came: &Pages| there.map_or(Ok(()), |areas| pages::put(self.pid(), &self.remote, areas, came));
            (guessed, first) = came(&mut reader, put)?;
        }
        Ok(Begun { reader, first, wanted: None, foreseen, guessed, terminal: None })
    }

    /// Makes what is foreseen, as far as that goes.
    fn prepare(&mut self, forecast: Forecast) -> Result<Option<Foreseen>> {
        rebuild::check(&forecast.memory)?;
        let memory = forecast.memory.clone();
        let lazy: Vec<Run> = forecast.lazy.runs.iter().map(|&(start, end)| Run { start, end }).collect();
        rebuild::check_lazy(&memory, &lazy)?;
        let (mut begun, mut open) = (false, None);
        let made = Foreseen::new(forecast, |forecast, opened| {
            let foreign = self.settle(&forecast.memory, None)?;
            let there = self.keep_early(&forecast.memory)?;
            let (mut loan, arena) = self.lend()?;
            let brought = opened.bring(&mut loan, arena, self.pid(), &[])?;
            begun = true;
            rebuild::map(&mut loan, arena, &forecast.memory.areas, &brought.mapped, &there)?;
            let mut script = arena.script();
            threads::set_name(&mut script, &forecast.name.0);
            loan.run(arena, script)?;
            if !lazy.is_empty() {
                open = Some(rebuild::leave_open(&mut loan, self.pid(), &lazy)?);
            }
            Ok((brought, foreign))
        });
        match made {
            Ok(mut foreseen) => {
                self.open = open;
                foreseen.keep_open(self.pid());
                // With more there is more to drop.
                if self.there.is_empty() && children::of(self.pid()).is_ok_and(|children| children.len() <= FEW) {
                    self.emptied.take_less_room(&self.threads[0], &self.remote)?;
                }
                Ok(Some(foreseen))
            }
            // If it is in the way, that is told when the process stands still, and nothing is lost.
            Err(_) => {
                // Before that the arena may be where the image has something.
                if begun {
                    self.unmap(&memory)?;
                }
                Ok(None)
            }
        }
    }

    /// More is to be done with it than a few scripts of a few calls.
    pub(crate) fn take_more_room(&mut self, image: &Memory) -> Result<()> {
        self.emptied.take_more_room(&self.threads[0], &self.remote, image)
    }

    /// Of what was foreseen nothing stays in memory but mappings for which pages have come.
    pub(crate) fn unmap(&self, memory: &Memory) -> Result<()> {
        let run = |area: &Saved| Run { start: area.start, end: area.end };
        let all: Vec<Run> = memory.areas.iter().map(run).collect();
        let there: Vec<Run> = self.there.iter().map(run).collect();
        let (mut loan, arena) = self.lend()?;
        rebuild::unmap(&mut loan, arena, &without(&all, &there))
    }

    /// Mappings for which pages have come stay as far as this image has them; which do.
    fn keep_early(&mut self, image: &Memory) -> Result<Vec<Saved>> {
        let alike = |area: &Saved, Run { start, end }: Run| Saved { start, end, ..area.clone() };
        let stay = |area| memory::stays(area, &self.there).into_iter().map(move |run| alike(area, run));
        let stay: Vec<Saved> = image.areas.iter().flat_map(stay).collect();
        self.clear_early(image)?;
        self.there = stay;
        Ok(self.there.clone())
    }

    /// Its clocks are those of the process of the image, for which it must have one thread.
    ///
    /// # Errors
    /// `Refused` where they would go back.
    pub(crate) fn clocks(&self, header: &Header) -> Result<Due> {
        let wanted = match self.wanted {
            None => Wanted::of(header)?,
            known => known,
        };
        let clock = match (self.clock, wanted) {
            (Some(clock), _) => clock,
            (None, Some(wanted)) => self.set_clocks(wanted)?,
            (None, None) => Clock::of(self.pid())?,
        };
        if wanted.is_none_or(|wanted| wanted.is_exact()) {
            return Ok(Due::at_once(clock));
        }
        let (mut loan, arena) = self.lend()?;
        clocks::settle(&mut loan, arena, self.pid(), (header, clock))
    }

    fn set_clocks(&self, wanted: Wanted) -> Result<Clock> {
        let (mut loan, arena) = self.lend()?;
        clocks::go_on(&mut loan, arena, self.pid(), wanted)
    }

    fn map(&self, memory: &Memory) -> Result<()> {
        let (mut loan, arena) = self.lend()?;
        let files: Vec<Option<i32>> = memory.areas.iter().map(|_| None).collect();
        rebuild::map(&mut loan, arena, &memory.areas, &files, &[])
    }

    /// Makes room for the mappings of an image. `vdso`: the kernel's code in its process; what is returned is where that is, if it is not this kernel's.
    pub(crate) fn settle(&mut self, image: &Memory, vdso: Option<&[u8]>) -> Result<Option<Range<u64>>> {
        self.emptied.make_way(&self.threads[0], &self.remote, image)?;
        let vdso = vdso.or(self.vdso.as_deref());
        self.emptied.go_home(&self.threads[0], &self.remote, image, vdso)
    }

    /// Of mappings for which pages have come those go that the image does not have.
    pub(crate) fn clear_early(&mut self, image: &Memory) -> Result<()> {
        if !self.there.is_empty() {
            let (mut loan, arena) = self.lend()?;
            let stay = rebuild::clear_early(&mut loan, arena, &image.areas, &self.there)?;
            drop(loan);
            self.placed = both(&self.placed, &stay);
        }
        Ok(())
    }

    /// Pages that came early, and of which some may not be what the image has.
    pub(crate) fn placed(&self) -> &[Run] {
        &self.placed
    }

    /// Its only thread, with where scripts are executed.
    pub(crate) fn lend(&self) -> Result<(Loan<'_>, Arena)> {
        Ok((Loan::take_at(self.leader(), &self.remote, self.emptied.gate)?.for_good(), self.emptied.arena))
    }

    /// What it has kept of what it was.
    pub(crate) fn before(&self) -> &Before {
        &self.emptied.before
    }

    /// Mappings that are there already.
    pub(crate) fn there(&self) -> &[Saved] {
        &self.there
    }

    /// Readable when somebody needs what is to come after the process, where that is known already.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.open.as_ref().map(|open| open.missing.as_fd())
    }

    /// Nothing is waited for.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.open.as_mut().map_or(Ok(()), |open| open.only(&[]))
    }

    pub(crate) fn take_open(&mut self) -> Option<Open> {
        self.open.take()
    }

    /// It becomes nothing: another program takes its place.
    ///
    /// # Errors
    /// As [`remain`].
    pub fn remain(self, with: &Remains<'_>) -> Result<()> {
        let pid = self.pid();
        remain(self.launched(), with, &[], &RunningTimers::default(), false)
            .and_then(|done| stop_again(pid, done.stops))
    }

    /// It is another process now.
    pub(crate) fn launched(mut self) -> Vec<Stopped> {
        std::mem::take(&mut self.threads)
    }
}

impl Drop for Vessel {
    fn drop(&mut self) {
        drop(Doomed(std::mem::take(&mut self.threads)));
    }
}

/// Early pages, with each of which something is done, and the record behind them.
fn came<R: Read + Send>(reader: &mut Reader<R>, put: impl Fn(&Pages) -> Result<()>) -> Result<(Vec<Pages>, Record)> {
    let mut all = Vec::new();
    loop {
        match pages::following(reader)? {
            Record::Early(pages) => {
                put(&pages)?;
                all.push(pages);
            }
            other => return Ok((all, other)),
        }
    }
}

/// The first record behind what is told of its clocks.
fn clocks_before<R: Read + Send>(reader: &mut Reader<R>, asked: Option<Asked>) -> Result<(Record, Option<Wanted>)> {
    match pages::following(reader)? {
        Record::Clocks(clocks) => {
            let wanted = asked.map(|asked| Wanted::told(asked, &clocks)).transpose()?;
            Ok((pages::following(reader)?, wanted))
        }
        other => Ok((other, None)),
    }
}

fn stopped(pid: Pid) -> Result<Stopped> {
    let leader = Running::seize(pid, true, true)?;
    leader.interrupt()?;
    leader.stopped()
}

/// Killed when it is dropped, since its memory is not what it was.
struct Doomed(Vec<Stopped>);

impl Doomed {
    fn saved(mut self) -> Vec<Stopped> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        if let Some(leader) = self.0.first() {
            let _gone_already = kern::signal::send(leader.tid(), Sig::KILL);
        }
    }
}
