//! What /proc shows of processes here, for those who look at it elsewhere ([`wire::entry`]).

use super::line::{Said, PIECE};
use kern::proc::Proc;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use vocab::errno::{E2BIG, EIO, ENOENT};
use vocab::Pid;
use wire::entry::{Content, Entry, Found, Name, COMMON};
use wire::frame;

/// The most that is read of a file, in bytes: alone, or with all others.
const MOST: u64 = 1024 * 1024;
const MOST_COMMON: usize = 64 * 1024;
/// So many bytes are worth a packet.
const WORTH: usize = 16 * 1024;

/// Says what it finds, in pieces.
pub(super) struct Pieces<'a, S> {
    pub(super) say: &'a S,
    pub(super) piece: Vec<u8>,
    pub(super) path: &'a Path,
    pub(super) proc: &'a Proc,
}

impl<S: Fn(Said) -> Option<()>> Pieces<'_, S> {
    /// Looks at each, those of users that are passed over left out. `None`: nobody listens any more.
    pub(super) fn look(mut self, pids: &[Pid], at: Option<&[u8]>, passed_over: &[u32]) -> Option<()> {
        let mut user = None;
        for pid in pids {
            // Never waits, as all that follows may.
            let Ok(status) = self.proc.status(*pid) else { continue };
            let uid = status.creds.uid.real;
            if passed_over.contains(&uid) {
                continue;
            }
            if user.replace(uid) != Some(uid) {
                self.flush()?;
                (self.say)(Said::At { uid })?;
            }
            if let Some(found) = self.found(*pid, at) {
                self.add(&found)?;
            }
        }
        self.flush()
    }

    fn found(&self, pid: Pid, at: Option<&[u8]>) -> Option<Found> {
        let directory = self.path.join(pid.to_string());
        let owner = fs::metadata(&directory).ok()?;
        let mut found = Found { pid, uid: owner.uid(), gid: owner.gid(), entries: Vec::new() };
        if let Some(at) = at {
            found.entries.push(entry(&directory, at));
            return Some(found);
        }
        let mut buffer = vec![0; MOST_COMMON];
        for file in COMMON {
            let content = match self.proc.read_into(pid, file, &mut buffer) {
                Ok(text) if text.len() < MOST_COMMON => Content::Text(text.to_vec()),
                Ok(_) => Content::Failed(E2BIG),
                Err(errno) => Content::Failed(errno),
            };
            found.entries.push(Entry { path: file.into(), mode: 0, content });
        }
        Some(found)
    }

    fn add(&mut self, found: &Found) -> Option<()> {
        // What was found of one is below what a frame may have, and, if it is not all that was asked for, below what a packet may have: a question that is
        // asked again, since some of it was not answered, breaks no frame.
        let mut one = Vec::new();
        let _ = frame::encode(found, &mut one);
        if self.piece.len() + one.len() > PIECE {
            self.flush()?;
        }
        self.piece.extend(one);
        match self.piece.len() >= WORTH {
            true => self.flush(),
            false => Some(()),
        }
    }

    fn flush(&mut self) -> Option<()> {
        let all = std::mem::take(&mut self.piece);
        all.chunks(PIECE).try_for_each(|piece| (self.say)(Said::Entries(piece.to_vec())))
    }
}

/// What is at this path below the directory of a process.
fn entry(directory: &Path, at: &[u8]) -> Entry {
    let mut entry = Entry { path: at.to_vec(), mode: 0, content: Content::Failed(ENOENT) };
    let names = at.split(|byte| *byte == b'/');
    if names.clone().any(|name| name.is_empty() || name.starts_with(b".")) {
        return entry;
    }
    let path: PathBuf = directory.join(std::ffi::OsStr::from_bytes(at));
    let failed = |e: std::io::Error| Content::Failed(e.raw_os_error().unwrap_or(EIO));
    match fs::symlink_metadata(&path) {
        Err(e) => entry.content = failed(e),
        Ok(there) => {
            entry.mode = there.mode();
            entry.content = match there.file_type() {
                kind if kind.is_symlink() => {
                    fs::read_link(&path).map_or_else(failed, |to| Content::Link(to.into_os_string().into_vec()))
                }
                kind if kind.is_dir() => names_in(&path).map_or_else(failed, Content::Directory),
                _ => text(&path),
            };
        }
    }
    entry
}

fn text(path: &Path) -> Content {
    let mut text = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut text));
    read.map_or_else(|e| Content::Failed(e.raw_os_error().unwrap_or(EIO)), |_| Content::Text(text))
}

fn names_in(path: &Path) -> std::io::Result<Vec<Name>> {
    let mut names = Vec::new();
    for one in fs::read_dir(path)? {
        let one = one?;
        let mode = match one.file_type()? {
            kind if kind.is_dir() => 0o040_000,
            kind if kind.is_symlink() => 0o120_000,
            kind if kind.is_socket() => 0o140_000,
            _ => 0o100_000,
        };
        names.push(Name { name: one.file_name().into_vec(), mode });
    }
    Ok(names)
}
