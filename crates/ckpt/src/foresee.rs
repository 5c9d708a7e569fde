//! What a process that is to stand still will have then, and what can be made of that before it does: files are opened and given to the new process, the kernel's
//! pages go where they belong, and memory is mapped. Mostly nothing has changed when it stands still; else all of it is done once more.

use crate::behind::Behind;
use crate::elsewhere::is_deleted;
use crate::kinds;
use crate::memory::{self, file_of};
use crate::objects::{Found, Made};
use crate::opened::{Brought, Opened};
use crate::places::Opener;
use crate::survey::Survey;
use crate::wants::Wants;
use crate::{apart, identity, proc};
use image::files::{Files, Kind};
use image::forecast::Forecast;
use image::memory::{Kept, Memory};
use image::process::Process;
use image::thread::Thread;
use kern::areas::AreaFlags;
use kern::pidfd;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use vocab::{Pid, Result};

/// What the running process has of all this, and what of its memory `stays`; `None` where it has something that only one that stands still can be asked for.
///
/// # Errors
/// `Gone`, and whatever changes just now.
pub fn foresee(pid: Pid, seen: &Survey, stays: Option<&Behind>) -> Result<Option<Forecast>> {
    let mut areas = seen.areas.clone();
    areas.iter_mut().for_each(|area| area.flags.remove(AreaFlags::USERFAULT));
    for area in areas.iter().filter(|area| area.inode != 0 && !area.is_kernels()) {
        if is_deleted(&proc::link(pid, &file_of(area))?) {
            return Ok(None);
        }
    }
    let memory = memory::describe(pid, &areas, &mut Found::default(), &[])?;
    let Some(files) = kinds::foresee(pid, &seen.known, seen.leads)? else { return Ok(None) };
    let ([exe, cwd, root], places) = identity::places(pid)?;
    let name = proc::file(pid, "comm")?.trim_ascii_end().into();
    let lazy = Kept {
        runs: stays.map(|stays| stays.mappings().iter().map(|run| (run.start, run.end)).collect()).unwrap_or_default(),
    };
    let creds = identity::creds(pid, pid)?;
    // Files are opened by these as soon as they are heard of.
    if !apart::has_our_users(pid)? {
        return Ok(None);
    }
    Ok(Some(Forecast { creds, exe, cwd, root, memory, files, name, lazy, places }))
}

/// What a vessel has of it.
pub(crate) struct Foreseen {
    forecast: Forecast,
    opened: Opened,
    brought: Brought,
    /// Where another kernel's code is.
    foreign: Option<Range<u64>>,
    /// What the new process has that is nothing of its own: closed when that runs, since who is at the other end would take a processor sooner.
    leaves: Vec<OwnedFd>,
}

impl Foreseen {
    /// Opens the files, and has them `made` something of in the new process: descriptors, mappings, and where another kernel's code is.
    ///
    /// # Errors
    /// Of either.
    pub(crate) fn new(
        forecast: Forecast,
        make: impl FnOnce(&Forecast, &Opened) -> Result<(Brought, Option<Range<u64>>)>,
    ) -> Result<Foreseen> {
        let opener = Opener::of(&forecast.creds);
        let Forecast { exe, cwd, root, places, memory, files, .. } = &forecast;
        let opened = Opened::open(&Wants { exe, cwd, root, places, memory, files }, &Made::default(), &opener, None)?;
        let (brought, foreign) = make(&forecast, &opened)?;
        Ok(Foreseen { forecast, opened, brought, foreign, leaves: Vec::new() })
    }

    /// Standard streams of the new process that it does not take over are open for as long as this is there.
    pub(crate) fn keep_open(&mut self, pid: Pid) {
        let streams = self.opened.streams();
        let Ok(handle) = pidfd::open(pid) else { return };
        let left = (0..=2).filter(|number| !streams.contains(number));
        self.leaves = left.filter_map(|number| pidfd::getfd(handle.as_fd(), number).ok()).collect();
    }

    /// Has the image just that? Offsets of files may be others, and are set.
    pub(crate) fn holds(&self, process: &Process, memory: &Memory, files: &Files, threads: &[Thread]) -> bool {
        let Forecast { exe, cwd, root, places, memory: foreseen, files: before, .. } = &self.forecast;
        let same_places = (exe, cwd, root, places) == (&process.exe, &process.cwd, &process.root, &process.places);
        let same_rights = Opener::of(&self.forecast.creds).has_rights_of(&Opener::new(threads, true));
        let same = same_places && same_rights && foreseen == memory;
        same && self.opened.is_still(&Wants { exe, cwd, root, places, memory, files: before })
            && self.follow(before, files).is_some()
    }

    fn follow(&self, before: &Files, now: &Files) -> Option<()> {
        let mut same = before.clone();
        if same.files.len() != now.files.len() {
            return None;
        }
        for (number, (one, now)) in same.files.iter_mut().zip(&now.files).enumerate() {
            if one.offset != now.offset && matches!(one.kind, Kind::Named { .. }) {
                self.opened.seek(number, now.offset).ok()?;
                one.offset = now.offset;
            }
        }
        (same == *now).then_some(())
    }

    /// As [`Opened::let_go`].
    pub(crate) fn let_go(&mut self) {
        self.opened.let_go();
    }

    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    pub(crate) fn brought(&self) -> &Brought {
        &self.brought
    }

    pub(crate) fn foreign(&self) -> Option<&Range<u64>> {
        self.foreign.as_ref()
    }

    /// The mappings that are there.
    pub(crate) fn mapped(&self) -> &Memory {
        &self.forecast.memory
    }

    /// What the new process is called.
    pub(crate) fn name(&self) -> &[u8] {
        &self.forecast.name.0
    }
}
