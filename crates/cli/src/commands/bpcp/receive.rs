//! The side of `bpcp` that writes files.
//!
//! A file is written under a name of its own and renamed when it is complete: nobody sees half of one, and a copy of a file onto itself, by way of a
//! node that has the same file system, does not empty it. Below a directory that is copied no link is followed, whatever the sender says.

use super::record::{time, In, Record, Traits, PIECE};
use super::Side;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use vocab::{Fault, Result};

/// Receives into `place`, which is a directory or (of a single thing) the new name. What cannot be written is told of, each by its name; whether all
/// could.
///
/// # Errors
/// `Gone` for a stream that was cut off, `Wire` for one that is none, `Refused` if `place` must be a directory and is none.
pub(super) fn receive(side: &Side, place: &Path, several: bool, from: impl Read) -> Result<bool> {
    let is_directory = fs::metadata(place).is_ok_and(|found| found.is_dir());
    let needs_directory = several || place.as_os_str().as_bytes().ends_with(b"/");
    let mut incoming = In::new(from)?;
    let mut receiver = Receiver { side, place, is_directory, open: Vec::new(), all: true, buffer: vec![0; PIECE] };
    if needs_directory && !is_directory {
        return Err(Fault::refused(format!("{} is no directory", side.shown(place))));
    }
    loop {
        match incoming.record()? {
            Record::End => return Ok(receiver.all),
            Record::Up => receiver.close()?,
            Record::Directory(name, traits) => {
                let path = receiver.path(&name)?;
                let made = path.and_then(|path| receiver.directory(path));
                receiver.open.push((made, traits));
            }
            Record::File(name, traits) => {
                let path = receiver.path(&name)?;
                receiver.file(path, &traits, &mut incoming)?;
            }
            Record::Link(name, target) => {
                if let Some(path) = receiver.path(&name)? {
                    if let Err(e) = link(OsStr::from_bytes(&target), &path) {
                        receiver.fails(&path, &e);
                    }
                }
            }
        }
    }
}

struct Receiver<'s> {
    side: &'s Side,
    place: &'s Path,
    /// `place` is a directory, into which things go by their names.
    is_directory: bool,
    /// Directories from the outside in that are being filled; one that could not be made has no path, and what is in it is dropped.
    open: Vec<(Option<Filled>, Traits)>,
    all: bool,
    buffer: Vec<u8>,
}

impl Receiver<'_> {
    /// Where a thing goes; nowhere if its directory could not be made.
    ///
    /// # Errors
    /// `Wire` for a name that leads elsewhere.
    fn path(&self, name: &[u8]) -> Result<Option<PathBuf>> {
        let outermost = self.open.is_empty();
        if outermost && name == b"." {
            return Ok(Some(self.place.to_owned()));
        }
        if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') || name.contains(&0) {
            return Err(Fault::wire(format!("a file of a copy is called {}", name.escape_ascii())));
        }
        Ok(match self.open.last() {
            Some((directory, _)) => directory.as_ref().map(|directory| directory.path.join(OsStr::from_bytes(name))),
            None if self.is_directory => Some(self.place.join(OsStr::from_bytes(name))),
            // An existing name may be a link to where the file is.
            None => Some(fs::canonicalize(self.place).unwrap_or_else(|_new| self.place.to_owned())),
        })
    }

    fn directory(&mut self, path: PathBuf) -> Option<Filled> {
        // The place itself may be a link, as who names it means it.
        if self.open.is_empty() && self.is_directory && path == self.place {
            return Some(Filled { path, is_new: false });
        }
        match directory(&path) {
            Ok(is_new) => Some(Filled { path, is_new }),
            Err(e) => {
                self.fails(&path, &e);
                None
            }
        }
    }

    /// A directory is complete: what it is to be like would have been in the way before.
    fn close(&mut self) -> Result<()> {
        let outside = || Fault::wire("a copy leaves a directory that it has not entered");
        let (filled, traits) = self.open.pop().ok_or_else(outside)?;
        let Some(Filled { path, is_new }) = filled else { return Ok(()) };
        // Without -p a directory that was there keeps what it was like.
        if is_new || self.side.preserve {
            if let Err(e) = File::open(&path).and_then(|file| furnish(&file, &traits, self.side)) {
                self.fails(&path, &e);
            }
        }
        Ok(())
    }

    /// Takes the content of a file from the stream, also if it can go nowhere.
    fn file(&mut self, path: Option<PathBuf>, traits: &Traits, incoming: &mut In<impl Read>) -> Result<()> {
        let mut begun = path.as_deref().map(Begun::new);
        let mut buffer = std::mem::take(&mut self.buffer);
        let taken = loop {
            match incoming.piece(&mut buffer) {
                Ok(Ok(piece)) => {
                    if let Some(Ok(file)) = &mut begun {
                        if let Err(e) = file.file.write_all(piece) {
                            begun = Some(Err(e));
                        }
                    }
                }
                Ok(Err(whole)) => break Ok(whole),
                Err(fault) => break Err(fault),
            }
        };
        self.buffer = buffer;
        let whole = taken?;
        self.all &= whole;
        let (Some(begun), Some(path)) = (begun, path) else { return Ok(()) };
        // A file that could not be read is told of by the sender.
        let done = begun.and_then(|file| if whole { file.complete(traits, self.side) } else { Ok(()) });
        if let Err(e) = done {
            self.fails(&path, &e);
        }
        Ok(())
    }

    fn fails(&mut self, path: &Path, error: &std::io::Error) {
        self.all = false;
        self.side.complain(path, &Fault::io(error, "write"));
    }
}

/// A directory that is being filled.
struct Filled {
    path: PathBuf,
    is_new: bool,
}

/// A file that is not complete yet. Dropped, it is removed.
struct Begun {
    file: File,
    /// Where it is until then; a device or pipe is written as it is.
    hidden: Option<PathBuf>,
    path: PathBuf,
}

impl Begun {
    fn new(path: &Path) -> std::io::Result<Begun> {
        let found = fs::symlink_metadata(path).ok().map(|found| found.file_type());
        if found.is_some_and(|kind| kind.is_dir()) {
            return Err(ErrorKind::IsADirectory.into());
        }
        if found.is_some_and(|kind| kind.is_char_device() || kind.is_block_device() || kind.is_fifo()) {
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok(Begun { file, hidden: None, path: path.to_owned() });
        }
        let hidden = path.with_file_name(format!(".bpcp.{}", std::process::id()));
        // Left by a process with the same number that was killed.
        let _ = fs::remove_file(&hidden);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&hidden)?;
        Ok(Begun { file, hidden: Some(hidden), path: path.to_owned() })
    }

    fn complete(mut self, traits: &Traits, side: &Side) -> std::io::Result<()> {
        let Some(hidden) = &self.hidden else { return Ok(()) };
        furnish(&self.file, traits, side)?;
        fs::rename(hidden, &self.path)?;
        self.hidden = None;
        Ok(())
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = fs::remove_file(hidden);
        }
    }
}

/// Mode and, with -p, owner and times. Without the owner, who may not be given by everybody, no right of the owner's is given (set-user-ID bits).
fn furnish(file: &File, traits: &Traits, side: &Side) -> std::io::Result<()> {
    if !side.preserve {
        return file.set_permissions(Permissions::from_mode(traits.mode & 0o777 & !side.umask));
    }
    let owned = std::os::unix::fs::fchown(file, Some(traits.owner), Some(traits.group)).is_ok();
    let mode = if owned { traits.mode & 0o7777 } else { traits.mode & 0o1777 };
    file.set_permissions(Permissions::from_mode(mode))?;
    file.set_times(FileTimes::new().set_accessed(time(traits.accessed)).set_modified(time(traits.modified)))
}

/// Makes the directory, or takes the one that is there; whether it is new. A link to one is not followed.
fn directory(path: &Path) -> std::io::Result<bool> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists && fs::symlink_metadata(path)?.is_dir() => Ok(false),
        made => made.map(|()| true),
    }
}

fn link(target: &OsStr, path: &Path) -> std::io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_dir() => fs::remove_file(path)?,
        _ => {}
    }
    std::os::unix::fs::symlink(target, path)
}
