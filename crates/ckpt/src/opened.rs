//! The files of an image, opened again by who restores it, and the same in the new process.

use crate::bring::{bring, Wanted};
use crate::kinds::{self, Reopened};
use crate::objects::Made;
use crate::places::{self, Opener, Place};
use image::file_id::Places;
use image::files::{Files, Kind};
use image::memory::{Area, Memory};
use image::Bytes;
use puppet::{Arena, Loan};
use rustix::fs::{OFlags, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use vocab::{Fault, Pid, Result};

/// What is to be opened: program, working directory and root; mappings; descriptors.
pub(crate) struct Wants<'a> {
    pub(crate) exe: &'a Bytes,
    pub(crate) cwd: &'a Bytes,
    pub(crate) root: &'a Bytes,
    pub(crate) places: &'a Places,
    pub(crate) memory: &'a Memory,
    pub(crate) files: &'a Files,
}

/// All with numbers above those of the image.
pub(crate) struct Opened {
    files: Vec<Reopened>,
    /// For each area its file.
    mapped: Vec<Option<OwnedFd>>,
    exe: OwnedFd,
    cwd: OwnedFd,
    root: OwnedFd,
    /// Above all numbers of the image.
    base: i32,
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
        let files = kinds::reopen(wants.files, objects, base, opener, slave)?;
        let mapped = open_mapped(wants, objects, base, opener)?;
        let above = |opened: Result<OwnedFd>| kinds::above(opened?, base);
        let Places { exe, cwd, root } = wants.places;
        let exe = above(places::program(Place::new(wants.exe, exe.as_ref()), opener))?;
        let cwd = above(places::directory(Place::new(wants.cwd, cwd.as_ref()), opener))?;
        let root = above(places::root(Place::new(wants.root, root.as_ref()), opener))?;
        Ok(Opened { files, mapped, exe, cwd, root, base })
    }

    /// Do the names lead to what was opened? Whoever has opened another file of the same name since is to have that one.
    pub(crate) fn is_still(&self, wants: &Wants<'_>) -> bool {
        let same = |fd: &OwnedFd, path: &Bytes| {
            let (fd, named) = (rustix::fs::fstat(fd), rustix::fs::stat(&path.0[..]));
            fd.is_ok_and(|fd| named.is_ok_and(|named| (fd.st_dev, fd.st_ino) == (named.st_dev, named.st_ino)))
        };
        let places = [(&self.exe, wants.exe), (&self.cwd, wants.cwd), (&self.root, wants.root)];
        let mut files = self.files.iter().zip(&wants.files.files);
        let mut mapped = self.mapped.iter().zip(&wants.memory.areas);
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
        self.mapped.clear();
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
        let places = 3 + self.mapped.iter().flatten().count();
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
        wanted.extend(self.mapped.iter().flatten().map(|fd| Wanted::Ours(fd.as_fd())));
        let mut numbers = bring(loan, arena, pid, &wanted, self.base)?.into_iter();
        let mut next = || numbers.next().ok_or_else(|| Fault::bug("fewer descriptors than were brought"));
        Ok(Brought {
            files: self.files.iter().map(|_| next()).collect::<Result<_>>()?,
            exe: next()?,
            cwd: next()?,
            root: next()?,
            mapped: self.mapped.iter().map(|fd| fd.as_ref().map(|_| next()).transpose()).collect::<Result<_>>()?,
        })
    }
}

/// The files of the mappings, which must be those that they were. Whether a mapping could become writable was seen by another look than its file: so nothing is given
/// for writing.
fn open_mapped(wants: &Wants<'_>, objects: &Made, base: i32, opener: &Opener) -> Result<Vec<Option<OwnedFd>>> {
    let unbelieving = opener.unbelieving();
    let open = |area: &Area| {
        let Some(file) = &area.file else { return Ok(None) };
        let (flags, opener) = match area.shared && file.writable {
            true => (OFlags::RDWR, &unbelieving),
            false => (OFlags::RDONLY, opener),
        };
        if let Some(object) = file.object {
            return kinds::above(objects.open(object, flags, opener)?, base).map(Some);
        }
        let place = Place::new(&file.path, file.id.as_ref());
        let fd = match !area.shared && file.path == *wants.exe {
            true => places::program(place, opener),
            false => places::file(place, flags, opener),
        };
        let fd = kinds::above(fd?, base)?;
        let name = String::from_utf8_lossy(&file.path.0).into_owned();
        let now = rustix::fs::fstat(&fd).map_err(|e| Fault::sys(e.raw_os_error(), format!("look at {name}")))?;
        let modified = now.st_mtime as u64 * 1_000_000_000 + now.st_mtime_nsec;
        // A shared mapping shows what is in the file, whatever that is.
        if !area.shared && (now.st_size as u64 != file.size || modified != file.modified) {
            return Err(Fault::refused(format!("{name} is not the file that was mapped: its size or time is another")));
        }
        Ok(Some(fd))
    };
    wants.memory.areas.iter().map(open).collect()
}
