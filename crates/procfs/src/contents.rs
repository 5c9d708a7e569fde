//! What is in a ghost's files, links and directories.

use crate::ghosts::Ghost;
use crate::here::Here;
use crate::machines::{Known, Machines};
use crate::names::{is_harmless, of_many};
use crate::passes::Pass;
use crate::tables::COMMONLY;
use crate::texts;
use kern::clock::monotonic_us;
use kern::fuse::tree::{Asked, Named};
use kern::proc::PROC;
use kern::rights::effective;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use vocab::errno::{E2BIG, EAGAIN, EHOSTDOWN, EIO, ENOENT, ESRCH};
use vocab::Pid;
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

/// For whom something is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looker {
    pub(crate) uid: u32,
    pub(crate) pass: Pass,
}

type Result<T> = std::result::Result<T, i32>;

fn errno(e: &std::io::Error) -> i32 {
    e.raw_os_error().unwrap_or(EIO)
}

fn own_path(ghost: &Ghost, path: &[u8]) -> PathBuf {
    PathBuf::from(format!("{PROC}/{}", ghost.pid)).join(std::ffi::OsStr::from_bytes(path))
}

/// What the ghost is here, or its body where nothing is.
fn here(machines: &Machines, ghost: &Ghost, looker: Looker) -> Result<Here> {
    if !ghost.apart {
        return ghost.here();
    }
    let known = machines.look(ghost.node(), ghost.pid, COMMONLY, looker.pass);
    match known.body.as_ref().and_then(|body| body.content(b"stat")) {
        Some(Content::Text(stat)) => Here::of_stat(stat).ok_or(EIO),
        _ => Err(ESRCH),
    }
}

/// Whose process it is.
///
/// # Errors
/// ESRCH when it is gone.
pub(crate) fn owner_of_process(machines: &Machines, ghost: &Ghost, looker: Looker) -> Result<(u32, u32)> {
    if !ghost.apart {
        return ghost.owner_here();
    }
    let known = machines.look(ghost.node(), ghost.pid, COMMONLY, looker.pass);
    match known.body.as_ref().and_then(|body| body.content(b"status")) {
        Some(Content::Text(status)) => texts::owner(status).ok_or(EIO),
        _ => Err(ESRCH),
    }
}

/// The ghost's own file.
pub(crate) fn own(ghost: &Ghost, path: &[u8]) -> Result<Contents> {
    if ghost.apart {
        return Err(ESRCH);
    }
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
    let found = Contents { what, mode: there.mode(), uid: there.uid(), gid: there.gid(), until_us: 0 };
    // It may be another process's by now.
    if ghost.is_dead() {
        Err(ESRCH)
    } else {
        Ok(found)
    }
}

/// Whose the files of its body are, and until when that counts. Of a body that nothing is known of they are whose the ghost's own are: root's, unless it is about to die
/// and leave a core.
pub(crate) fn owner(machines: &Machines, ghost: &Ghost, looker: Looker) -> (u32, u32, u64) {
    let known = machines.look(ghost.node(), ghost.pid, COMMONLY, looker.pass);
    let Some(body) = known.body else {
        let (uid, gid) = if ghost.apart { (0, 0) } else { ghost.files_here().unwrap_or_default() };
        return (uid, gid, 0);
    };
    ghost.is_of(body.uid, body.gid);
    (body.uid, body.gid, known.until_us)
}

/// What is at this path in the ghost's directory.
pub(crate) fn contents(machines: &Machines, ghost: &Ghost, path: &[u8], looker: Looker) -> Result<Contents> {
    if COMMON.iter().any(|name| name.as_bytes() == path) {
        return common(machines, ghost, path, looker);
    }
    // Of what the ghost alone is and has.
    if path == b"coredump_filter" && !ghost.apart {
        return own(ghost, path);
    }
    let children = path.strip_prefix(b"task/").and_then(|path| path.strip_suffix(b"/children"));
    if let Some(thread) = children.filter(|_| !ghost.apart) {
        // What the others have forked is the first one's here.
        return match thread == ghost.pid.to_string().as_bytes() {
            true => own(ghost, path),
            false => Ok(Contents { what: What::Text(Vec::new()), mode: 0, uid: 0, gid: 0, until_us: 0 }),
        };
    }
    if let Some(found) = of_all(machines, ghost, path, looker) {
        return found;
    }
    entry(machines, ghost, path, looker)
}

fn common(machines: &Machines, ghost: &Ghost, name: &[u8], looker: Looker) -> Result<Contents> {
    let known = machines.look(ghost.node(), ghost.pid, COMMONLY, looker.pass);
    let Some(body) = &known.body else { return without_body(ghost, name, known.silent) };
    ghost.is_of(body.uid, body.gid);
    let text = match body.content(name) {
        Some(Content::Text(text)) => text,
        Some(Content::Failed(EAGAIN)) => return without_body(ghost, name, true),
        Some(Content::Failed(E2BIG)) | None => return entry(machines, ghost, name, looker),
        Some(Content::Failed(errno)) => return Err(*errno),
        Some(_) => return Err(EIO),
    };
    let text = match name {
        b"stat" => {
            let here = here(machines, ghost, looker)?;
            texts::lives_yet(texts::stat(text, &here, here.tail.start).ok_or(EIO)?)
        }
        b"status" => {
            let old = known.silent || body.old;
            texts::lives_yet(texts::status(text, ghost.pid, &here(machines, ghost, looker)?, ghost.node(), old))
        }
        _ => text.clone(),
    };
    Ok(Contents { what: What::Text(text), mode: 0, uid: body.uid, gid: body.gid, until_us: known.until_us })
}

/// What is commonly read of a ghost that has no body of which anything is known: it has yet to begin, or has ended, or its node says nothing.
fn without_body(ghost: &Ghost, name: &[u8], silent: bool) -> Result<Contents> {
    if name == b"cmdline" {
        // In the memory of anything else its user may keep whoever reads it.
        return match ghost.is_a_shoal_run() {
            true => own(ghost, name),
            false => Ok(Contents { what: What::Text(Vec::new()), mode: 0, uid: 0, gid: 0, until_us: 0 }),
        };
    }
    let mut found = own(ghost, name)?;
    if let What::Text(text) = &mut found.what {
        match name {
            b"stat" => {
                let here = ghost.here()?;
                *text = texts::stat(text, &here, here.tail.start).ok_or(EIO)?;
            }
            b"status" => *text = texts::status(text, ghost.pid, &ghost.here()?, ghost.node(), silent),
            _ => {}
        }
    }
    Ok(found)
}

/// What many are asked for at once. `None`: this is not one of those, or is asked for by itself.
fn of_all(machines: &Machines, ghost: &Ghost, path: &[u8], looker: Looker) -> Option<Result<Contents>> {
    let key = of_many(path).filter(|key| machines.is_of_many(key, ghost.pid))?;
    let Known { body, silent, until_us } = machines.look(ghost.node(), ghost.pid, key, looker.pass);
    let Some(body) = body else {
        let nothing = || if is_harmless(path) { own(ghost, path) } else { Err(EHOSTDOWN) };
        return silent.then(nothing);
    };
    ghost.is_of(body.uid, body.gid);
    let content = match body.content(path)? {
        Content::Failed(E2BIG) => return None,
        Content::Failed(EAGAIN) => return Some(Err(EHOSTDOWN)),
        content => content.clone(),
    };
    Some(made(content).map(|what| Contents { what, mode: 0, uid: body.uid, gid: body.gid, until_us }))
}

fn entry(machines: &Machines, ghost: &Ghost, path: &[u8], looker: Looker) -> Result<Contents> {
    let until_us = monotonic_us() + machines.fresh_us;
    let wanted = Wanted::Entry { pid: ghost.pid, path: path.to_vec() };
    let found = match machines.one(ghost.node(), ghost.pid, wanted, Some(looker.uid)) {
        // It has yet to begin there, or has ended.
        Err(ESRCH) if is_harmless(path) => return own(ghost, path),
        found => found?,
    };
    let (uid, gid) = (found.uid, found.gid);
    ghost.is_of(uid, gid);
    let entry = found.entries.into_iter().next().filter(|entry| entry.path == path).ok_or(ENOENT)?;
    let what = match (made(entry.content)?, path.rsplit(|byte| *byte == b'/').next()) {
        (What::Text(text), Some(b"stat")) => {
            let here = here(machines, ghost, looker)?;
            let start = start_of_thread(machines, ghost, &text, &here, looker);
            What::Text(texts::stat(&text, &here, start).ok_or(EIO)?)
        }
        (What::Text(text), Some(b"status")) => {
            What::Text(texts::status(&text, ghost.pid, &here(machines, ghost, looker)?, ghost.node(), false))
        }
        (what, _) => what,
    };
    Ok(Contents { what, mode: entry.mode, uid, gid, until_us })
}

/// Has its node write this into a file of its body.
///
/// # Errors
/// As the node's write(2); EHOSTDOWN when it does not answer, ESRCH when the body is gone.
pub(crate) fn write(machines: &Machines, ghost: &Ghost, path: &[u8], text: &[u8], who: &Asked) -> Result<()> {
    // What others have may count in a user namespace of their own only; of one in another PID namespace it is not known.
    let capabilities = if who.uid == 0 && who.pid != Pid::NONE { effective(who.pid)? } else { 0 };
    let wanted = Wanted::Write { pid: ghost.pid, path: path.to_vec(), text: text.to_vec(), uid: who.uid, capabilities };
    let found = machines.one(ghost.node(), ghost.pid, wanted, Some(who.uid))?;
    let content = found.entries.into_iter().next().map(|entry| entry.content);
    machines.stirs(ghost.node(), ghost.pid);
    made(content.ok_or(EIO)?).map(drop)
}

fn made(content: Content) -> Result<What> {
    match content {
        Content::Text(text) | Content::Link(text) => Ok(What::Text(text)),
        Content::Directory(names) => {
            Ok(What::Names(names.into_iter().map(|one| Named { name: one.name, mode: one.mode }).collect()))
        }
        // Nobody looks there now.
        Content::Failed(EAGAIN) => Err(EHOSTDOWN),
        Content::Failed(errno) => Err(errno),
    }
}

/// As long after the ghost's as the thread's is after its process's.
fn start_of_thread(machines: &Machines, ghost: &Ghost, thread: &[u8], here: &Here, looker: Looker) -> u64 {
    let known = machines.look(ghost.node(), ghost.pid, COMMONLY, looker.pass);
    let process = match known.body.as_ref().and_then(|body| body.content(b"stat")) {
        Some(Content::Text(stat)) => texts::start(stat),
        _ => None,
    };
    let after = texts::start(thread).zip(process).map(|(thread, process)| thread.saturating_sub(process));
    here.tail.start + after.unwrap_or_default()
}
