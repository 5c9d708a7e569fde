//! The files of an image, opened again by who restores it, and the same in the new process.

use crate::bring::{bring, Wanted};
use crate::file_id::{self, Match};
use crate::kinds::{self, Quiet, Reopened};
use crate::mapped::Mapped;
use crate::objects::Made;
use crate::places::{self, Opener, Place};
use crate::wants::Wants;
use image::file_id::Places;
use image::files::{Files, Kind};
use image::Bytes;
use puppet::{Arena, Loan};
use rustix::fs::SeekFrom;
use std::os::fd::{AsFd, OwnedFd};
use vocab::{Fault, Pid, Result};

/// All with numbers above those of the image.
pub(crate) struct Opened {
    files: Vec<Reopened>,
    mapped: Mapped,
    exe: OwnedFd,
    cwd: OwnedFd,
    root: OwnedFd,
    /// Above all numbers of the image.
    base: i32,
    watches: Vec<Quiet>,
}

/// The same in the new process: their numbers there.
#[derive(Clone)]
pub(crate) struct Brought {
    pub(crate) files: Vec<i32>,
    pub(crate) mapped: Vec<Option<i32>>,
    pub(crate) exe: i32,
    pub(crate) cwd: i32,
    pub(crate) root: i32,
}

impl Opened {
    /// `slave`: as for [`kinds::reopen`].
    ///
    /// # Errors
    /// What cannot be opened again, or is another file here.
    pub(crate) fn open(wants: &Wants<'_>, objects: &Made, opener: &Opener, slave: Option<&OwnedFd>) -> Result<Opened> {
        let base = kinds::above_all(wants.files);
        let (files, watches) = kinds::reopen(wants.files, objects, base, opener, slave)?;
        let mapped = Mapped::open(wants, objects, base, opener)?;
        let above = |opened: Result<OwnedFd>| kinds::above(opened?, base);
        let Places { exe, cwd, root } = wants.places;
        let exe = above(places::program(Place::new(wants.exe, exe.as_ref()), opener))?;
        let cwd = above(places::directory(Place::new(wants.cwd, cwd.as_ref()), opener))?;
        let root = above(places::root(Place::new(wants.root, root.as_ref()), opener))?;
        kinds::keep_locks(wants.files, &files)?;
        Ok(Opened { files, mapped, exe, cwd, root, base, watches })
    }

    /// Is what the process has locks on the very file, so that whoever asks for the same lock asks for that of this process?
    ///
    /// # Errors
    /// `Refused` if not.
    pub(crate) fn locked_is_itself(&self, files: &Files) -> Result<()> {
        for (opened, file) in self.files.iter().zip(&files.files) {
            let (Reopened::Ours(fd), Kind::Named { path }) = (opened, &file.kind) else { continue };
            if !file.locks.is_empty() && file_id::compare(file.id.as_ref(), &file_id::of(fd)?) != Match::Itself {
                let path = String::from_utf8_lossy(&path.0);
                return Err(Fault::refused(format!(
                    "it has a lock on {path}, which is a file of another file system here"
                )));
            }
        }
        Ok(())
    }

    /// Do the names lead to what was opened? Whoever has opened another file of the same name since is to have that one.
    pub(crate) fn is_still(&self, wants: &Wants<'_>) -> bool {
        let same = |fd: &OwnedFd, path: &Bytes| {
            let (fd, named) = (rustix::fs::fstat(fd), rustix::fs::stat(&path.0[..]));
            fd.is_ok_and(|fd| named.is_ok_and(|named| (fd.st_dev, fd.st_ino) == (named.st_dev, named.st_ino)))
        };
        let places = [(&self.exe, wants.exe), (&self.cwd, wants.cwd), (&self.root, wants.root)];
        let mut files = self.files.iter().zip(&wants.files.files);
        let mut mapped = self.mapped.each().zip(&wants.memory.areas);
        places.into_iter().all(|(fd, path)| same(fd, path))
            && files.all(|(opened, file)| match (opened, &file.kind) {
                (Reopened::Ours(fd), Kind::Named { path }) => same(fd, path),
                _ => true,
            })
            && mapped.all(|(fd, area)| match (fd, &area.file) {
                // What is private has that size and time.
                (Some(fd), Some(file)) if area.shared => same(fd, &file.path),
                _ => true,
            })
    }

    /// The process has them, and is to close them for good when it does.
    pub(crate) fn let_go(&mut self) {
        self.files.clear();
        self.mapped.files.clear();
    }

    /// The process runs from now on, and is told of what happens to the files that it watches.
    pub(crate) fn watch(&self) {
        self.watches.iter().for_each(Quiet::speaks);
    }

    /// The new process's own descriptors among them.
    pub(crate) fn streams(&self) -> Vec<i32> {
        let stream =
            |file: &Reopened| if let Reopened::Stream(number) = file { Some(i32::from(*number)) } else { None };
        self.files.iter().filter_map(stream).collect()
    }

    /// The limit on descriptors (RLIMIT_NOFILE) with which all of them can be brought into a process that has its own standard streams.
    pub(crate) fn limit(&self) -> u64 {
        /// Those, what else a vessel has, and the line on which they come.
        const OWN: usize = 8;
        let sockets = self.files.iter().filter(|file| matches!(file, Reopened::Socket { .. })).count();
        let places = 3 + self.mapped.files.len();
        ((self.base as usize).max(OWN + 2 * sockets) + self.files.len() + places + 2) as u64
    }

    /// File `number` of the image is at this offset after all.
    pub(crate) fn seek(&self, number: usize, offset: u64) -> Result<()> {
        let Some(Reopened::Ours(file)) = self.files.get(number) else { return Ok(()) };
        rustix::fs::seek(file, SeekFrom::Start(offset))
            .map(drop)
            .map_err(|e| Fault::sys(e.raw_os_error(), format!("set the offset of file {number} of the image")))
    }

    /// Into the new process. `sockets`: as for [`Reopened::wanted`].
    pub(crate) fn bring(&self, loan: &mut Loan<'_>, arena: Arena, pid: Pid, sockets: &[[i32; 2]]) -> Result<Brought> {
        let files = self.files.iter().map(|file| file.wanted(sockets));
        let mut wanted: Vec<Wanted<'_>> = files.collect::<Result<_>>()?;
        wanted.extend([&self.exe, &self.cwd, &self.root].map(|fd| Wanted::Ours(fd.as_fd())));
        wanted.extend(self.mapped.files.iter().map(|fd| Wanted::Ours(fd.as_fd())));
        let mut numbers = bring(loan, arena, pid, &wanted, self.base)?.into_iter();
        let mut next = || numbers.next().ok_or_else(|| Fault::bug("fewer descriptors than were brought"));
        let files = self.files.iter().map(|_| next()).collect::<Result<_>>()?;
        let (exe, cwd, root) = (next()?, next()?, next()?);
        let mapped = self.mapped.files.iter().map(|_| next()).collect::<Result<Vec<_>>>()?;
        let mapped = self.mapped.areas.iter().map(|file| file.and_then(|file| mapped.get(file).copied())).collect();
        Ok(Brought { files, exe, cwd, root, mapped })
    }
}
