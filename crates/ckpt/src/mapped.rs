//! The files of mappings, opened again: each once, however many mappings it has. A process may have more mappings than descriptors.

use crate::kinds;
use crate::objects::Made;
use crate::places::{self, Opener, Place};
use crate::wants::Wants;
use image::file_id::FileId;
use image::memory::{Area, Mapped as Saved};
use rustix::fs::{OFlags, Stat};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use vocab::{Fault, Result};

pub(crate) struct Mapped {
    pub(crate) files: Vec<OwnedFd>,
    /// For each area which of them it is of.
    pub(crate) areas: Vec<Option<usize>>,
}

/// The file that is opened: name and flags, the object of the image if it has no name, and whether that is the program.
type Key<'a> = (&'a [u8], u32, Option<u32>, bool);

/// A file that is open already: which it was, which of them all it is, and what it is here.
type Known<'a> = (Option<&'a FileId>, usize, Stat);

impl Mapped {
    /// Each must be the file that was mapped. Whether a mapping could become writable was seen by another look than its file: so nothing is given for writing.
    ///
    /// # Errors
    /// What cannot be opened again, or is another file here.
    pub(crate) fn open(wants: &Wants<'_>, objects: &Made, base: i32, opener: &Opener) -> Result<Mapped> {
        let unbelieving = opener.unbelieving();
        let (mut files, mut areas) = (Vec::new(), Vec::new());
        let mut all: BTreeMap<Key<'_>, Vec<Known<'_>>> = BTreeMap::new();
        for area in &wants.memory.areas {
            let Some(file) = &area.file else {
                areas.push(None);
                continue;
            };
            let (flags, opener) = match area.shared && file.writable {
                true => (OFlags::RDWR, &unbelieving),
                false => (OFlags::RDONLY, opener),
            };
            let known =
                all.entry((&file.path.0, flags.bits(), file.object, is_program(wants, area, file))).or_default();
            let index = match known.iter().find(|(id, ..)| *id == file.id.as_ref()) {
                Some((_, index, now)) => {
                    is_the_same(area, file, now)?;
                    *index
                }
                None => {
                    let fd = kinds::above(open(wants, objects, (area, file), (flags, opener))?, base)?;
                    let failed = |e: rustix::io::Errno| Fault::sys(e.raw_os_error(), format!("look at {}", name(file)));
                    let now = rustix::fs::fstat(&fd).map_err(failed)?;
                    is_the_same(area, file, &now)?;
                    files.push(fd);
                    known.push((file.id.as_ref(), files.len() - 1, now));
                    files.len() - 1
                }
            };
            areas.push(Some(index));
        }
        Ok(Mapped { files, areas })
    }

    /// For each area its file.
    pub(crate) fn each(&self) -> impl Iterator<Item = Option<&OwnedFd>> {
        self.areas.iter().map(|file| file.and_then(|file| self.files.get(file)))
    }
}

fn is_program(wants: &Wants<'_>, area: &Area, file: &Saved) -> bool {
    !area.shared && file.path == *wants.exe
}

fn open(
    wants: &Wants<'_>,
    objects: &Made,
    (area, file): (&Area, &Saved),
    (flags, opener): (OFlags, &Opener),
) -> Result<OwnedFd> {
    if let Some(object) = file.object {
        return objects.open_first(object, flags, opener, false);
    }
    let place = Place::new(&file.path, file.id.as_ref());
    match is_program(wants, area, file) {
        true => places::program(place, opener),
        false => places::file(place, flags, opener),
    }
}

/// A shared mapping shows what is in the file, whatever that is.
fn is_the_same(area: &Area, file: &Saved, now: &Stat) -> Result<()> {
    let modified = now.st_mtime as u64 * 1_000_000_000 + now.st_mtime_nsec;
    if file.object.is_some() || area.shared || (now.st_size as u64, modified) == (file.size, file.modified) {
        return Ok(());
    }
    Err(Fault::refused(format!("{} is not the file that was mapped: its size or time is another", name(file))))
}

fn name(file: &Saved) -> String {
    String::from_utf8_lossy(&file.path.0).into_owned()
}
