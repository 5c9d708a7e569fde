//! What is in a ghost's files, links and directories.

use crate::ghosts::Ghost;
use crate::machines::Machines;
use crate::texts;
use kern::fuse::tree::Named;
use kern::proc::PROC;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use vocab::errno::{EIO, ENOENT, ESRCH};
use wire::entry::{Content, Wanted, COMMON};

/// What was found.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) what: What,
    /// As st_mode; 0: as others of its name.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Until when it counts (monotonic microseconds).
    pub(crate) until_us: u64,
}

#[derive(Debug)]
pub(crate) enum What {
    /// A file's text, or where a link leads.
    Text(Vec<u8>),
    Names(Vec<Named>),
}

type Result<T> = std::result::Result<T, i32>;

fn errno(e: &std::io::Error) -> i32 {
    e.raw_os_error().unwrap_or(EIO)
}

fn own_path(ghost: &Ghost, path: &[u8]) -> PathBuf {
    PathBuf::from(format!("{PROC}/{}", ghost.pid)).join(std::ffi::OsStr::from_bytes(path))
}

/// The ghost's own file.
pub(crate) fn own(ghost: &Ghost, path: &[u8]) -> Result<Contents> {
    let at = own_path(ghost, path);
    let there = fs::symlink_metadata(&at).map_err(|e| errno(&e))?;
    let what = match there.file_type() {
        kind if kind.is_symlink() => What::Text(fs::read_link(&at).map_err(|e| errno(&e))?.into_os_string().into_vec()),
        kind if kind.is_dir() => {
            let names = fs::read_dir(&at).map_err(|e| errno(&e))?.flatten();
            let named = |one: fs::DirEntry| {
                let mode = one.file_type().map_or(0, |kind| if kind.is_dir() { 0o040_000 } else { 0o100_000 });
                Named { name: one.file_name().into_vec(), mode }
            };
            What::Names(names.map(named).collect())
        }
        _ => What::Text(fs::read(&at).map_err(|e| errno(&e))?),
    };
    Ok(Contents { what, mode: there.mode(), uid: there.uid(), gid: there.gid(), until_us: 0 })
}

/// Whose the ghost's directory is: its process's.
pub(crate) fn owner_here(ghost: &Ghost) -> Result<(u32, u32)> {
    let there = fs::metadata(own_path(ghost, b"")).map_err(|e| errno(&e))?;
    Ok((there.uid(), there.gid()))
}

/// Whose the files of its body are, and until when that counts.
pub(crate) fn owner(machines: &Machines, ghost: &Ghost) -> Result<(u32, u32, u64)> {
    let known = machines.common(ghost.node(), ghost.pid);
    match known.body {
        Some(body) => Ok((body.uid, body.gid, known.until_us)),
        None => fs::metadata(own_path(ghost, b"stat")).map(|m| (m.uid(), m.gid(), 0)).map_err(|e| errno(&e)),
    }
}

/// What is at this path in the ghost's directory.
pub(crate) fn contents(machines: &Machines, ghost: &Ghost, path: &[u8]) -> Result<Contents> {
    if COMMON.iter().any(|name| name.as_bytes() == path) {
        return common(machines, ghost, path);
    }
    // Of what the ghost alone is and has.
    if path == b"coredump_filter" || path.ends_with(b"/children") {
        return own(ghost, path);
    }
    entry(machines, ghost, path)
}

fn read_own(ghost: &Ghost, name: &str) -> Result<Vec<u8>> {
    fs::read(own_path(ghost, name.as_bytes())).map_err(|e| errno(&e))
}

fn common(machines: &Machines, ghost: &Ghost, name: &[u8]) -> Result<Contents> {
    let is_status = name == b"status";
    let here = read_own(ghost, if is_status { "status" } else { "stat" })?;
    let state = if is_status { texts::state_of(&here) } else { texts::state(&here) };
    if matches!(state, Some(b'Z' | b'X')) {
        return own(ghost, name);
    }
    let known = machines.common(ghost.node(), ghost.pid);
    let Some(body) = known.body else {
        let mut own = own(ghost, name)?;
        if is_status {
            own.what = What::Text(texts::status(&here, &here, ghost.node(), known.silent));
        }
        return Ok(own);
    };
    let Some(text) = body.text(name) else { return entry(machines, ghost, name) };
    let text = match name {
        b"stat" => texts::stat(text, &here).ok_or(EIO)?,
        b"status" => texts::status(text, &here, ghost.node(), known.silent),
        _ => text.to_vec(),
    };
    Ok(Contents { what: What::Text(text), mode: 0, uid: body.uid, gid: body.gid, until_us: known.until_us })
}

fn entry(machines: &Machines, ghost: &Ghost, path: &[u8]) -> Result<Contents> {
    let until_us = kern::clock::monotonic_us() + machines.fresh_us;
    let found = match machines.one(ghost.node(), Wanted::Entry { pid: ghost.pid, path: path.to_vec() }) {
        // It has yet to begin there, or has ended.
        Err(ESRCH) => return own(ghost, path),
        found => found?,
    };
    let (uid, gid) = (found.uid, found.gid);
    let entry = found.entries.into_iter().next().ok_or(ENOENT)?;
    let what = match entry.content {
        Content::Text(text) => What::Text(merged(ghost, path, text)?),
        Content::Link(to) => What::Text(to),
        Content::Directory(names) => {
            What::Names(names.into_iter().map(|one| Named { name: one.name, mode: one.mode }).collect())
        }
        Content::Failed(errno) => return Err(errno),
    };
    Ok(Contents { what, mode: entry.mode, uid, gid, until_us })
}

/// A thread's stat and status have kin too.
fn merged(ghost: &Ghost, path: &[u8], text: Vec<u8>) -> Result<Vec<u8>> {
    match path.rsplit(|byte| *byte == b'/').next() {
        Some(b"stat") => texts::stat(&text, &read_own(ghost, "stat")?).ok_or(EIO),
        Some(b"status") => Ok(texts::status(&text, &read_own(ghost, "status")?, ghost.node(), false)),
        _ => Ok(text),
    }
}
