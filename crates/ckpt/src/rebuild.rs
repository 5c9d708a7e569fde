//! The memory of a new process: everything that it has inherited goes, everything of the image comes.

use crate::early::Early;
use crate::keys::TOP;
use crate::runs::{either, without};
use crate::{identity, memory, vdso};
use image::memory::{Area as Saved, Memory};
use kern::areas::{areas, Area};
use kern::missing::{self, Missing};
use kern::pagemap::{Run, PAGE};
use kern::ptrace;
use kern::remote_memory::RemoteMemory;
use puppet::{Arena, Loan, Script, Stopped};
use std::ops::Range;
use vocab::{Fault, Kind, Pid, Result};

/// The lowest address that is used for our own: below, mmap_min_addr may forbid it.
const BOTTOM: u64 = 0x10_0000;

/// Mappings that no process can have would lead a restore astray before the kernel refuses them.
pub(crate) fn check(image: &Memory) -> Result<()> {
    let areas = image.areas.iter().map(|area| (area.start, area.end));
    let mut from = 0;
    for (start, end) in areas {
        if start < from || end <= start || end > TOP || start % PAGE != 0 || end % PAGE != 0 {
            return Err(Fault::wire(format!("a mapping at {start:#x}-{end:#x} that no process can have")));
        }
        from = end;
    }
    if let Some(area) = image.areas.iter().find(|area| area.page != 0 && !area.page.is_power_of_two()) {
        return Err(Fault::wire(format!("pages of {} bytes, which no process can have", area.page)));
    }
    match image.vdso.0.checked_add(image.vdso.1) {
        Some(end) if end <= TOP => Ok(()),
        _ => Err(Fault::wire("a vdso where no process can have it")),
    }
}

/// What stays behind is memory of no file, in one mapping each, and in order.
pub(crate) fn check_lazy(image: &Memory, lazy: &[Run]) -> Result<()> {
    let mut from = 0;
    for run in lazy {
        let inside = |area: &&Saved| area.start <= run.start && run.end <= area.end;
        let plain = image.areas.iter().find(inside).is_some_and(|area| area.file.is_none() && !area.shared);
        if !plain || run.start < from || run.end <= run.start || run.start % PAGE != 0 || run.end % PAGE != 0 {
            return Err(Fault::wire(format!(
                "what stays behind at {:#x}-{:#x} is no memory of its own",
                run.start, run.end
            )));
        }
        from = run.end;
    }
    Ok(())
}

/// Mappings in which pages that are missing are waited for.
pub(crate) struct Open {
    pub(crate) missing: Missing,
    pub(crate) runs: Vec<Run>,
}

/// From now on pages that are missing there are waited for.
pub(crate) fn leave_open(loan: &mut Loan<'_>, pid: Pid, lazy: &[Run]) -> Result<Open> {
    let number = loan.must("make a userfaultfd", libc::SYS_userfaultfd, &[missing::FLAGS])?;
    let missing = Missing::take(pid, number as i32)?;
    loan.must("close a descriptor", libc::SYS_close, &[number as u64])?;
    let mut open = Open { missing, runs: Vec::new() };
    open.only(lazy)?;
    Ok(open)
}

/// The same where it may have been done already; `None` if nothing is missing after all.
pub(crate) fn missing(loan: &mut Loan<'_>, pid: Pid, open: Option<Open>, lazy: &[Run]) -> Result<Option<Missing>> {
    let open = match open {
        Some(mut open) => {
            open.only(lazy)?;
            Some(open)
        }
        None if lazy.is_empty() => None,
        None => Some(leave_open(loan, pid, lazy)?),
    };
    Ok(open.map(|open| open.missing).filter(|_| !lazy.is_empty()))
}

impl Open {
    /// Nowhere else than there.
    pub(crate) fn only(&mut self, lazy: &[Run]) -> Result<()> {
        if self.runs != lazy {
            std::mem::take(&mut self.runs).iter().try_for_each(|run| self.missing.remove(run.start, run.end))?;
            for run in lazy {
                self.missing.add(run.start, run.end)?;
                self.runs.push(*run);
            }
        }
        Ok(())
    }
}

/// A process with nothing in it but the kernel's pages and an arena.
pub(crate) struct Emptied {
    pub(crate) arena: Arena,
    /// Where the `syscall` instruction of the vdso is.
    pub(crate) gate: u64,
    /// The kernel's pages, behind the arena.
    kernels: Vec<Area>,
    /// Where they were.
    home: u64,
    /// They have gone to where an image has them, or (where that is) lead what it has there to them.
    settled: Option<Settled>,
    pub(crate) before: identity::Before,
}

/// Where an image has the kernel's pages, and, if it is another kernel's, where what leads to this one's is.
struct Settled {
    image: (u64, u64),
    foreign: Option<Range<u64>>,
}

/// Empties the process but for the kernel's pages, which go behind an arena, where few programs have anything.
pub(crate) fn empty(thread: &Stopped, remote: &RemoteMemory) -> Result<Emptied> {
    const SELDOM_USED: u64 = 0x2000_0000_0000;
    let now = areas(thread.tid(), false)?;
    let kernels: Vec<Area> = now.iter().filter(|area| memory::is_vdso(area)).cloned().collect();
    let (Some(first), Some(last)) = (kernels.first(), kernels.last()) else {
        return Err(Fault::new(Kind::Unsupported, "this kernel gives processes no vdso"));
    };
    let (home, length) = (first.start, last.end - first.start);
    let base = gap(&now, &Memory::default(), SELDOM_USED, Arena::LENGTH + length)?;
    let mut loan = Loan::take(thread, remote, &now)?.for_good();
    leave_rseq(&mut loan, thread.tid())?;
    let arena = loan.map_arena(Some(base))?;
    let mut script = arena.script();
    identity::raise(&mut script, thread.tid())?;
    let before = identity::ask_before(&mut script);
    if rustix::process::geteuid().is_root() {
        // It has rights that its user has not, one of its threads longer than another: nobody else is to come to its memory meanwhile.
        script.call("be nobody's to look into", libc::SYS_prctl, &[libc::PR_SET_DUMPABLE as u64, 0, 0, 0, 0]);
    }
    move_all(&mut script, &kernels, home, arena.end());
    script.call("unmap what was inherited", libc::SYS_munmap, &[0, base]);
    script.call("unmap what was inherited", libc::SYS_munmap, &[arena.end() + length, TOP - arena.end() - length]);
    let gate = loan.gate() - home + arena.end();
    let before = identity::before(thread.tid(), &loan.run(arena, script)?, before)?;
    Ok(Emptied { arena, gate, kernels: all_moved(&kernels, home, arena.end()), home, settled: None, before })
}

impl Emptied {
    /// Of the kernel's pages.
    fn length(&self) -> u64 {
        self.kernels.first().zip(self.kernels.last()).map_or(0, |(first, last)| last.end - first.start)
    }

    /// Are they where the arena is?
    fn are_behind(&self) -> bool {
        self.settled.as_ref().is_none_or(|settled| settled.foreign.is_some())
    }

    /// Is it where this image has something?
    fn is_in_the_way(&self, image: &Memory) -> bool {
        let (start, end) = (self.arena.base(), self.arena.end() + if self.are_behind() { self.length() } else { 0 });
        let vdso = (image.vdso.0, image.vdso.0 + image.vdso.1);
        image.areas.iter().map(|area| (area.start, area.end)).chain([vdso]).any(|area| area.0 < end && area.1 > start)
    }

    /// Goes where the image has nothing, nor the process.
    pub(crate) fn make_way(&mut self, thread: &Stopped, remote: &RemoteMemory, image: &Memory) -> Result<()> {
        if !self.is_in_the_way(image) {
            return Ok(());
        }
        if self.settled.is_some() && self.are_behind() {
            return Err(Fault::changed("it has mapped something where what leads to this kernel's code is"));
        }
        let base = gap(&areas(thread.tid(), false)?, image, BOTTOM, Arena::LENGTH + self.length())?;
        let mut loan = Loan::take_at(thread, remote, self.gate)?.for_good();
        let (arena, old) = (loan.map_arena(Some(base))?, self.arena);
        let mut script = arena.script();
        if self.are_behind() {
            move_all(&mut script, &self.kernels, old.end(), arena.end());
        }
        script.call("unmap a script's memory", libc::SYS_munmap, &[old.base(), old.length()]);
        loan.run(arena, script)?;
        if self.are_behind() {
            self.kernels = all_moved(&self.kernels, old.end(), arena.end());
            self.gate = self.gate - old.end() + arena.end();
        }
        self.arena = arena;
        Ok(())
    }

    /// Everything is mapped, and there is little left to do: what that is done in is to be unmapped fast ([`Arena::beside`]).
    pub(crate) fn take_less_room(&mut self, thread: &Stopped, remote: &RemoteMemory) -> Result<()> {
        let now = areas(thread.tid(), false)?;
        match Arena::beside(now.iter().map(|area| (area.start, area.end))) {
            Some(there) if !self.are_behind() => {
                let mut loan = Loan::take_at(thread, remote, self.gate)?.for_good();
                let arena = loan.map_arena_there(there)?;
                self.change_arena(&mut loan, arena)
            }
            _ => Ok(()),
        }
    }

    /// There is more to do than was thought.
    pub(crate) fn take_more_room(&mut self, thread: &Stopped, remote: &RemoteMemory, image: &Memory) -> Result<()> {
        if !self.arena.is_little() {
            return Ok(());
        }
        let base = gap(&areas(thread.tid(), false)?, image, BOTTOM, Arena::LENGTH)?;
        let mut loan = Loan::take_at(thread, remote, self.gate)?.for_good();
        let arena = loan.map_arena(Some(base))?;
        self.change_arena(&mut loan, arena)
    }

    fn change_arena(&mut self, loan: &mut Loan<'_>, arena: Arena) -> Result<()> {
        loan.unmap_arena(self.arena)?;
        self.arena = arena;
        Ok(())
    }

    /// The kernel's pages go where the image has them, if `vdso`, the code among them, is this kernel's; else they stay, and what the image has leads
    /// to them: where it is.
    pub(crate) fn go_home(
        &mut self,
        thread: &Stopped,
        remote: &RemoteMemory,
        image: &Memory,
        vdso: Option<&[u8]>,
    ) -> Result<Option<Range<u64>>> {
        match &self.settled {
            Some(settled) if settled.image == image.vdso => return Ok(settled.foreign.clone()),
            Some(Settled { foreign: Some(_), .. }) => return Err(Fault::changed("it has moved the kernel's pages")),
            // It has executed another program, say.
            Some(_) => self.leave_home(thread, remote)?,
            None => {}
        }
        let here = vdso::here()?;
        if let Some(old) = vdso.filter(|old| image.vdso.1 != 0 && (*old != here || image.vdso.1 != self.length())) {
            let at = self.bridge(thread, remote, image, old)?;
            self.settled = Some(Settled { image: image.vdso, foreign: Some(at.clone()) });
            return Ok(Some(at));
        }
        if image.vdso.1 != 0 && image.vdso.1 != self.length() {
            let what = format!(
                "the image is of a kernel whose vdso has {} bytes, here it has {}",
                image.vdso.1,
                self.length()
            );
            return Err(Fault::new(Kind::Unsupported, what));
        }
        let home = if image.vdso.1 == 0 { self.home } else { image.vdso.0 };
        let mut loan = Loan::take_at(thread, remote, self.gate)?.for_good();
        let mut script = self.arena.script();
        move_all(&mut script, &self.kernels, self.arena.end(), home);
        loan.run(self.arena, script)?;
        self.gate = self.gate - self.arena.end() + home;
        self.kernels = all_moved(&self.kernels, self.arena.end(), home);
        self.settled = Some(Settled { image: image.vdso, foreign: None });
        Ok(None)
    }

    /// The kernel's pages go behind the arena again. There is nothing else in the process.
    fn leave_home(&mut self, thread: &Stopped, remote: &RemoteMemory) -> Result<()> {
        let Some(home) = self.kernels.first().map(|first| first.start) else { return Ok(()) };
        let behind = self.arena.end();
        let mut loan = Loan::take_at(thread, remote, self.gate)?.for_good();
        let mut script = self.arena.script();
        move_all(&mut script, &self.kernels, home, behind);
        loan.run(self.arena, script)?;
        self.gate = self.gate - home + behind;
        self.kernels = all_moved(&self.kernels, home, behind);
        self.settled = None;
        Ok(())
    }

    /// The functions of another kernel's code, where the image has it, lead to those of this one.
    fn bridge(&self, thread: &Stopped, remote: &RemoteMemory, image: &Memory, old: &[u8]) -> Result<Range<u64>> {
        // The last of the kernel's pages, in all kernels so far.
        let end = image.vdso.0 + image.vdso.1;
        let start = end.checked_sub(old.len() as u64).filter(|start| *start >= image.vdso.0 && start % PAGE == 0);
        let start = start.ok_or_else(|| Fault::wire("a vdso that is longer than its pages"))?;
        let at = self.kernels.iter().find(|area| area.path == b"[vdso]").map(|area| area.start);
        let at = at.ok_or_else(|| Fault::bug("a process without a vdso"))?;
        let code = vdso::bridged(old, vdso::here()?, at)?;
        let mut loan = Loan::take_at(thread, remote, self.gate)?.for_good();
        let protection = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let how = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        let args = [start, end - start, protection, how, u64::MAX, 0];
        loan.must("make room for another kernel's code", libc::SYS_mmap, &args)?;
        remote.write(start, &code)?;
        Ok(start..end)
    }
}

fn all_moved(areas: &[Area], from: u64, to: u64) -> Vec<Area> {
    areas.iter().map(|area| moved(area, from, to)).collect()
}

fn moved(area: &Area, from: u64, to: u64) -> Area {
    let by = |address: u64| address - from + to;
    Area { start: by(area.start), end: by(area.end), ..area.clone() }
}

/// Moves mappings that begin at `from` to `to`, each at its distance from the first.
fn move_all(script: &mut Script, areas: &[Area], from: u64, to: u64) {
    let how = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
    for area in areas {
        let args = [area.start, area.length(), area.length(), how, area.start - from + to];
        script.call("move the kernel's pages", libc::SYS_mremap, &args);
    }
}

/// The restorer's registration was inherited with its memory, which goes.
fn leave_rseq(loan: &mut Loan<'_>, tid: Pid) -> Result<()> {
    const UNREGISTER: u64 = 1;
    let rseq = match ptrace::rseq(tid) {
        Ok(rseq) if rseq.address != 0 => rseq,
        _ => return Ok(()),
    };
    let args = [rseq.address, rseq.size.into(), UNREGISTER, rseq.signature.into()];
    loan.must("leave the restartable sequence", libc::SYS_rseq, &args).map(drop)
}

/// An address range from `lowest` on that is free both in the process as it is and in the image, stacks' room to grow included.
fn gap(now: &[Area], image: &Memory, lowest: u64, length: u64) -> Result<u64> {
    /// Kept below each mapping, for a stack that grows and its guard.
    const ROOM: u64 = 16 * 1024 * 1024;
    let mut taken: Vec<(u64, u64)> = now.iter().map(|area| (area.start, area.end)).collect();
    taken.extend(image.areas.iter().map(|area| (area.start, area.end)));
    taken.push((image.vdso.0, image.vdso.0 + image.vdso.1));
    taken.sort_unstable();
    let mut from = lowest;
    for (start, end) in taken.into_iter().filter(|(start, end)| end > start && *start < TOP) {
        if start >= from + length + ROOM {
            return Ok(from);
        }
        from = from.max(end.next_multiple_of(4096));
    }
    match TOP.checked_sub(from + length) {
        Some(_) => Ok(from),
        None => Err(Fault::refused("the image leaves no address range that a restore could work in")),
    }
}

/// Maps the areas of the image, some hundred with each script; what is `there` of them already stays.
pub(crate) fn map(
    loan: &mut Loan<'_>,
    arena: Arena,
    areas: &[Saved],
    files: &[Option<i32>],
    there: &[Saved],
) -> Result<()> {
    const AT_ONCE: usize = 256;
    for (areas, files) in areas.chunks(AT_ONCE).zip(files.chunks(AT_ONCE)) {
        let mut script = arena.script();
        memory::map(&mut script, areas, files, there);
        loan.run(arena, script)?;
    }
    Ok(())
}

/// Of mappings that were made early (`there`) those go that the image does not have any more; which stay.
pub(crate) fn clear_early(loan: &mut Loan<'_>, arena: Arena, areas: &[Saved], there: &[Saved]) -> Result<Vec<Run>> {
    let mapped: Vec<Run> = there.iter().map(run).collect();
    let stay: Vec<Run> = areas.iter().flat_map(|area| memory::stays(area, there)).collect();
    unmap(loan, arena, &without(&mapped, &stay))?;
    Ok(stay)
}

/// Of pages that were there early (`placed`), and of those that were guessed, there stays what was kept and what has come since. Most of what was written
/// has come again: to take that away before would break huge pages.
pub(crate) fn drop_old(loan: &mut Loan<'_>, arena: Arena, early: &Early, placed: &[Run], came: &[Run]) -> Result<()> {
    let guessed = &early.guessed;
    if placed.is_empty() && guessed.gone.is_empty() {
        return Ok(());
    }
    if !placed.is_empty() && !without(&early.kept, placed).is_empty() {
        return Err(Fault::wire("kept pages that have not come"));
    }
    let gone = if guessed.placed { &guessed.gone[..] } else { &[] };
    drop_all(loan, arena, &either(&without(&without(placed, &early.kept), came), gone))
}

/// What is in memory there goes.
fn drop_all(loan: &mut Loan<'_>, arena: Arena, all: &[Run]) -> Result<()> {
    for some in all.chunks(at_once(arena)) {
        let mut script = arena.script();
        for run in some {
            let args = [run.start, run.end - run.start, libc::MADV_DONTNEED as u64];
            script.call("drop what is gone", libc::SYS_madvise, &args);
        }
        loan.run(arena, script)?;
    }
    Ok(())
}

/// Nothing is mapped there any more.
pub(crate) fn unmap(loan: &mut Loan<'_>, arena: Arena, all: &[Run]) -> Result<()> {
    for some in all.chunks(at_once(arena)) {
        let mut script = arena.script();
        for run in some {
            script.call("unmap what is there no more", libc::SYS_munmap, &[run.start, run.end - run.start]);
        }
        loan.run(arena, script)?;
    }
    Ok(())
}

/// Calls of one script.
fn at_once(arena: Arena) -> usize {
    if arena.is_little() {
        Arena::FEW
    } else {
        2048
    }
}

fn run(area: &Saved) -> Run {
    Run { start: area.start, end: area.end }
}
