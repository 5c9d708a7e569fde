//! Memory copied while the process runs, in rounds, so that it stands still only for what it has written since the last of them.

use crate::objects::Found;
use crate::pages::{self, Part};
use crate::rounds::{Rounds, Why};
use crate::runs::{both, bytes, either, without};
use crate::survey::Survey;
use crate::undisturbed::Undisturbed;
use crate::{memory, proc, waits};
use image::memory::Kept;
use image::Writer;
use kern::areas::{Area, AreaFlags};
use kern::huge::HUGE;
use kern::pagemap::{PageMap, Run};
use kern::remote_memory::RemoteMemory;
use kern::uffd::{self, Tracking};
use puppet::{Loan, Running, Stopped};
use std::io::Write;
use std::time::{Duration, Instant};
use vocab::{Fault, Pid, Result};

/// Mappings of fewer bytes are left to the end.
const SMALL_AREA: u64 = 1024 * 1024;
/// Less is copied while the process stands still: it takes no longer than to prepare all this.
pub(crate) const SMALL: u64 = 4 * 1024 * 1024;

/// Memory of a running process of which it is known what is written. Dropped, the process is left as it was.
pub struct Followed {
    pid: Pid,
    map: PageMap,
    memory: RemoteMemory,
    /// The mappings, as they were then.
    areas: Vec<Area>,
    followed: Vec<Run>,
    /// For how long a thread stood still at the beginning.
    pub stopped: Duration,
    _tracking: Tracking,
}

/// The same, with what has been copied of it while it ran.
pub struct Precopy {
    of: Followed,
    copied: Vec<Run>,
    pub rounds: Rounds,
    pub why: Why,
}

/// How a process is copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// What is large while it runs, in rounds.
    Rounds,
    /// All while it stands still, since there is little that is large.
    Little,
    /// All while it stands still: it has a file open for reading past the cache (O_DIRECT), and a read past the page tables into memory that a
    /// round has copied already would not be noticed.
    ReadsDirectly,
}

/// How it would be copied now, and how many bytes are in large mappings.
pub(crate) fn way(pid: Pid, seen: &Survey, map: &PageMap) -> Result<(Way, u64)> {
    let large = seen.areas.iter().filter(|area| is_large(area));
    let there = large.map(|area| map.own_pages(area.start, area.end, false).map(|runs| bytes(&runs)));
    let there = there.sum::<Result<u64>>()?;
    let way = match there < SMALL {
        true => Way::Little,
        false if reads_directly(pid)? => Way::ReadsDirectly,
        false => Way::Rounds,
    };
    Ok((way, there))
}

/// Copies what is large in rounds, until the process is to be stopped. `None` where it cannot be followed, or is not worth it.
///
/// # Errors
/// `Gone`; what keeps the image from being written. The process runs on.
pub fn precopy(pid: Pid, seen: &Survey, out: &mut Writer<impl Write>) -> Result<Option<Precopy>> {
    follow(pid, seen)?.map(|followed| followed.copy(out, |_, _| {})).transpose()
}

/// Begins to follow what is large, for which a thread of it stands still for a moment. `None` as [`precopy`].
///
/// # Errors
/// `Gone`; it runs on.
pub fn follow(pid: Pid, seen: &Survey) -> Result<Option<Followed>> {
    if way(pid, seen, &PageMap::open(pid)?)?.0 != Way::Rounds {
        return Ok(None);
    }
    let large = seen.areas.iter().filter(|area| is_large(area));
    let begun = Instant::now();
    let Some((tracking, map, memory)) = track(pid, seen)? else { return Ok(None) };
    let stopped = begun.elapsed();
    // The process may have another mapping there by now, or none: that one is copied in the end.
    let areas: Vec<Area> = large.filter(|area| tracking.add(area.start, area.end).is_ok()).cloned().collect();
    let followed = areas.iter().map(|area| Run { start: area.start, end: area.end }).collect();
    Ok(Some(Followed { pid, map, memory, areas, followed, stopped, _tracking: tracking }))
}

impl Followed {
    /// Says in which mappings early pages will be, for who makes them before the process stands still.
    ///
    /// # Errors
    /// What keeps the image from being written.
    pub fn announce(&self, out: &mut Writer<impl Write>) -> Result<()> {
        out.memory(&memory::describe(self.pid, &self.areas, &mut Found::default(), &[])?)
    }

    /// Copies it in rounds, until the process is to be stopped; `begins` hears of each, with its number and bytes.
    ///
    /// # Errors
    /// `Gone`; what keeps the image from being written. The process runs on.
    pub fn copy(self, out: &mut Writer<impl Write>, mut begins: impl FnMut(usize, u64)) -> Result<Precopy> {
        let (mut rounds, mut copied) = (Rounds::default(), Vec::new());
        let why = loop {
            let mut written = Vec::new();
            for area in &self.followed {
                written.extend(self.map.written_since(area.start, area.end)?);
            }
            begins(rounds.copied.len() + 1, bytes(&written));
            // What was copied before and could not be now is not what it was.
            copied = without(&copied, &written);
            copied = either(&copied, &pages::copy_early(&self.memory, &written, out)?);
            if let Some(why) = rounds.done(bytes(&written)) {
                break why;
            }
        };
        Ok(Precopy { of: self, copied, rounds, why })
    }
}

pub(crate) fn is_large(area: &Area) -> bool {
    let plain = area.inode == 0 && !area.shared && !area.is_kernels() && !area.flags.contains(AreaFlags::GROWSDOWN);
    plain && area.protection & libc::PROT_READ as u32 != 0 && area.length() >= SMALL_AREA
}

/// Has it a file open for reading past the cache (O_DIRECT)? The disk writes into its memory then.
fn reads_directly(pid: Pid) -> Result<bool> {
    for fd in proc::numbers_in(pid, "fd")? {
        // It may be closed by now.
        let info = proc::file(pid, &format!("fdinfo/{fd}")).unwrap_or_default();
        let text = String::from_utf8_lossy(&info).into_owned();
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
        if flags & libc::O_DIRECT != 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Has the leader make what tells the writes, and takes it away from it: the process does not see it. `None` if the kernel does not
/// have it. With it come the page map and the memory, all three of one memory: as long as the leader stands still no thread of its process executes a program.
fn track(pid: Pid, seen: &Survey) -> Result<Option<(Tracking, PageMap, RemoteMemory)>> {
    let leader = Running::seize_soon(pid)?;
    leader.interrupt()?;
    let leader = leader.leader_stopped()?;
    let _until_it_runs_on = Undisturbed::now()?;
    let (map, memory) = (PageMap::open(pid)?, RemoteMemory::open(pid)?);
    let waits = waits::left(pid, &leader, &leader.regs()?, (seen.waiting.get(&pid.0), &seen.clock), &memory)?;
    let tracking = make_tracking(pid, &leader, &memory);
    // Its wait has been interrupted once now.
    waits::note((pid, leader.tid()), (waits.as_ref(), &leader.regs()?), &memory, &seen.clock)?;
    leader.run_on()?;
    Ok(tracking?.map(|tracking| (tracking, map, memory)))
}

fn make_tracking(pid: Pid, leader: &Stopped, memory: &RemoteMemory) -> Result<Option<Tracking>> {
    let mut loan = Loan::take(leader, memory, &kern::areas::areas(pid, false)?)?;
    let made = loan.call(libc::SYS_userfaultfd, &[uffd::FLAGS])?;
    let tracking = (made >= 0).then(|| Tracking::take(pid, made as i32).ok()).flatten();
    if made >= 0 {
        loan.must("close a descriptor", libc::SYS_close, &[made as u64])?;
    }
    loan.give_back()?;
    Ok(tracking)
}

/// What is to be written of a process that stands still, and what of the early pages is as it was.
#[derive(Default)]
pub(crate) struct Rest {
    pub(crate) kept: Kept,
    pub(crate) parts: Vec<Part>,
}

/// Runs of mappings that were followed all the time, and what in each was perhaps written since it was copied last.
pub(crate) struct Looked(Vec<(Run, Vec<Run>)>);

impl Looked {
    /// Where there are no guards: to install one is to write (linux: `guard_install_set_pte`; nothing of the old entry stays, nor that it is followed).
    pub(crate) fn plain(&self) -> Vec<Run> {
        self.0.iter().flat_map(|(run, written)| without(&[*run], written)).collect()
    }
}

impl Precopy {
    /// Where the process may be followed.
    pub fn followed(&self) -> &[Run] {
        &self.of.followed
    }

    /// For how long a thread stood still at the beginning.
    pub fn stopped(&self) -> Duration {
        self.of.stopped
    }

    /// Does this mapping continue one that is followed, with all that it had then?
    fn is_as_it_was(&self, area: &Area, run: &Run) -> bool {
        let was = self.of.areas.iter().find(|was| was.start <= run.start && run.end <= was.end);
        was.is_some_and(|was| was.flags == area.flags && was.path == area.path)
    }

    /// What of these mappings has been followed all the time, and was perhaps written since it was copied last.
    ///
    /// # Errors
    /// `Changed` when the process has executed another program since: whoever still has the memory that was followed could write that one's.
    pub(crate) fn look(&self, areas: &[Area]) -> Result<Looked> {
        let mut all = Vec::new();
        match self.of.memory.is_current()? {
            Some(true) => {}
            Some(false) => return Err(Fault::changed("it has executed another program meanwhile")),
            None => return Ok(Looked(all)),
        }
        for area in areas.iter().filter(|area| pages::has_own(area)) {
            for run in both(&[Run { start: area.start, end: area.end }], &self.of.followed) {
                if self.is_as_it_was(area, &run) {
                    // If it is a new mapping it is not followed.
                    let written = self.of.map.perhaps_written(run.start, run.end)?;
                    all.extend(written.map(|written| (run, written)));
                }
            }
        }
        Ok(Looked(all))
    }

    pub(crate) fn rest(&self, areas: &[Area], looked: &Looked) -> Result<Rest> {
        let (mut kept, mut parts) = (Vec::new(), Vec::new());
        for area in areas.iter().filter(|area| pages::has_own(area)) {
            let whole = [Run { start: area.start, end: area.end }];
            let within = |(run, _): &&(Run, Vec<Run>)| area.start <= run.start && run.end <= area.end;
            let followed = || looked.0.iter().filter(within);
            let mut left = without(&whole, &followed().map(|(run, _)| *run).collect::<Vec<_>>());
            for (run, written) in followed() {
                let copied = both(&self.copied, &[*run]);
                let same = without(&copied, written);
                let same = without(&same, &self.emptied(&same)?);
                left.extend(without(&[*run], &same));
                kept.extend(same);
            }
            left.sort_unstable_by_key(|run| run.start);
            for run in self.own(area, &left)? {
                pages::cut(run, area, &mut parts);
            }
        }
        let kept = Kept { runs: kept.iter().map(|run| (run.start, run.end)).collect() };
        Ok(Rest { kept, parts })
    }

    /// The pages of these that hold something: few are asked for one by one, for many all of the mapping is looked at.
    fn own(&self, area: &Area, runs: &[Run]) -> Result<Vec<Run>> {
        const FEW: usize = 2000;
        if runs.len() > FEW {
            return Ok(both(&self.of.map.own_pages(area.start, area.end, area.shared)?, runs));
        }
        let own = runs.iter().map(|run| self.of.map.own_pages(run.start, run.end, area.shared));
        Ok(own.collect::<Result<Vec<_>>>()?.concat())
    }

    /// Those of `runs` whose whole table is gone, which [`PageMap::perhaps_written`] does not tell: then each page of it is, and one will
    /// do for all that a table has.
    fn emptied(&self, runs: &[Run]) -> Result<Vec<Run>> {
        let (mut gone, mut known) = (Vec::new(), None);
        for run in runs {
            let mut from = run.start;
            while from < run.end {
                let to = run.end.min((from + 1).next_multiple_of(HUGE));
                let (table, holds) = match known {
                    Some((table, holds)) if table == from / HUGE => (table, holds),
                    _ => (from / HUGE, self.of.map.holds(from)?),
                };
                known = Some((table, holds));
                if !holds {
                    gone.push(Run { start: from, end: to });
                }
                from = to;
            }
        }
        Ok(gone)
    }

    pub fn pid(&self) -> Pid {
        self.of.pid
    }
}
