//! The side of `bpcp` that reads files.

use super::record::{Out, Record, Traits, PIECE};
use super::Side;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use vocab::errno::EPIPE;
use vocab::{Fault, Result};

/// Sends what `paths` name. Whatever cannot be read is told of, each by its name, and the rest is sent; whether all was.
///
/// # Errors
/// `Sys` if the stream cannot be written.
pub(super) fn send(side: &Side, paths: &[OsString], to: impl Write) -> Result<bool> {
    let out = Out::new(to)?;
    let mut sender = Sender { side, out, all: true, buffer: vec![0; PIECE] };
    let sent = paths.iter().try_for_each(|path| {
        // Without -r a link is what it leads to, as for cp(1).
        let path = Path::new(path);
        let found = if side.recursive { fs::symlink_metadata(path) } else { fs::metadata(path) };
        let name = name_of(path);
        match found {
            Ok(found) => sender.entry(path, name, &found),
            Err(e) => {
                sender.fails(path, &e);
                Ok(())
            }
        }
    });
    match sent.and_then(|()| sender.out.record(&Record::End)) {
        // The receiver has ended, and has said why.
        Err(fault) if fault.root_errno() == EPIPE => Ok(false),
        sent => sent.map(|()| sender.all),
    }
}

/// What a thing is called where it goes; `.` for one that names no name of its own, whose content goes there (`dir/.`).
fn name_of(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes();
    match path.file_name() {
        Some(name) if !bytes.ends_with(b"/.") => name.as_bytes().to_vec(),
        _ => b".".to_vec(),
    }
}

struct Sender<'s, W> {
    side: &'s Side,
    out: Out<W>,
    all: bool,
    buffer: Vec<u8>,
}

impl<W: Write> Sender<'_, W> {
    fn entry(&mut self, path: &Path, name: Vec<u8>, found: &Metadata) -> Result<()> {
        let kind = found.file_type();
        if kind.is_dir() && !self.side.recursive {
            self.refuses(path, "is a directory (-r copies it)");
        } else if kind.is_dir() {
            return self.directory(path, name, found);
        } else if kind.is_file() {
            return self.file(path, name, found);
        } else if kind.is_symlink() {
            match fs::read_link(path) {
                Ok(target) => return self.out.record(&Record::Link(name, target.into_os_string().into_vec())),
                Err(e) => self.fails(path, &e),
            }
        } else {
            self.refuses(path, "is no file, directory or symbolic link");
        }
        Ok(())
    }

    fn directory(&mut self, path: &Path, name: Vec<u8>, found: &Metadata) -> Result<()> {
        // Names alone: a directory of millions must not take their metadata into memory.
        let mut names: Vec<OsString> = match fs::read_dir(path) {
            Ok(entries) => entries.flatten().map(|entry| entry.file_name()).collect(),
            Err(e) => {
                self.fails(path, &e);
                return Ok(());
            }
        };
        names.sort_unstable();
        self.out.record(&Record::Directory(name, traits(found)))?;
        for name in names {
            let path: PathBuf = path.join(&name);
            match fs::symlink_metadata(&path) {
                Ok(found) => self.entry(&path, name.into_vec(), &found)?,
                Err(e) => self.fails(&path, &e),
            }
        }
        self.out.record(&Record::Up)
    }

    fn file(&mut self, path: &Path, name: Vec<u8>, found: &Metadata) -> Result<()> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(e) => {
                self.fails(path, &e);
                return Ok(());
            }
        };
        self.out.record(&Record::File(name, traits(found)))?;
        let whole = loop {
            match file.read(&mut self.buffer) {
                Ok(0) => break true,
                Ok(got) => self.out.piece(&self.buffer[..got])?,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.fails(path, &e);
                    break false;
                }
            }
        };
        self.out.content_ends(whole)
    }

    fn fails(&mut self, path: &Path, error: &std::io::Error) {
        self.all = false;
        self.side.complain(path, &Fault::io(error, "read"));
    }

    fn refuses(&mut self, path: &Path, why: &str) {
        self.all = false;
        self.side.complain(path, &OsStr::new(why).to_string_lossy());
    }
}

fn traits(found: &Metadata) -> Traits {
    Traits {
        mode: found.mode() & 0o7777,
        owner: found.uid(),
        group: found.gid(),
        accessed: (found.atime(), found.atime_nsec() as u32),
        modified: (found.mtime(), found.mtime_nsec() as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_keeps_its_name_unless_it_is_named_by_a_dot() {
        for (path, name) in [
            ("a", "a"),
            ("/b/a", "a"),
            ("b/a/", "a"),
            (".", "."),
            ("..", "."),
            ("a/.", "."),
            ("a/..", "."),
            ("/", "."),
            ("a.", "a."),
        ] {
            assert_eq!(name_of(Path::new(path)), name.as_bytes(), "{path}");
        }
    }
}
