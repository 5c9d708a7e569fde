//! What /proc shows of processes here, for those who look at it elsewhere ([`wire::entry`]).

use super::line::{Of, Said, PIECE};
use kern::proc::{Proc, Status};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use vocab::errno::{E2BIG, EAGAIN, EFBIG, EIO, ENOENT};
use vocab::{Ids, Pid};
use wire::entry::{Content, Entry, Found, Name, COMMON, SHORT};
use wire::frame;

/// The most that is read of a file, in bytes, where one alone is wanted: below what a frame may have.
const MOST: u64 = 6 * 1024 * 1024;
/// So many bytes are worth a packet.
const WORTH: usize = 64 * 1024;
/// Those that never wait for the process's user.
const AT_HAND: [&str; 3] = ["status", "comm", "statm"];

/// Whose its files are that are not for everybody.
pub(super) fn owner(proc: &Proc, pid: Pid, status: &Status) -> Option<(u32, u32)> {
    proc.owner(pid, "stat").ok().map(|of_stat| owner_by(status, of_stat))
}

/// The same, by the owner of stat: those of a process that has rights which its user has not are root's.
fn owner_by(status: &Status, (uid, gid): (u32, u32)) -> (u32, u32) {
    let one = |ids: Ids| ids.real == ids.effective && ids.real == ids.saved;
    match one(status.creds.uid) && one(status.creds.gid) && (uid == 0 || status.permitted == 0) {
        true => (uid, gid),
        false => (0, 0),
    }
}

/// Says what it finds, in pieces.
pub(super) struct Pieces<'a, S> {
    pub(super) say: &'a S,
    pub(super) piece: Vec<u8>,
    pub(super) path: &'a Path,
    pub(super) proc: &'a Proc,
}

impl<S: Fn(Said) -> Option<()>> Pieces<'_, S> {
    /// Looks at each; of users that are passed over at what nobody need wait for. Whoever asks takes it to be at the first one of `user`. `None`: nobody listens any
    /// more.
    pub(super) fn look(mut self, pids: &[Pid], of: &Of, passed_over: &[u32], mut user: Option<u32>) -> Option<()> {
        let mut text = Vec::new();
        for pid in pids {
            // Never waits, as all that follows may.
            let Ok(status) = self.proc.status_and_text(*pid, &mut text) else { continue };
            let uid = status.creds.uid.real;
            let waits = !passed_over.contains(&uid);
            if waits && user.replace(uid) != Some(uid) {
                self.flush()?;
                (self.say)(Said::At { uid })?;
            }
            if let Some(found) = self.found(*pid, of, (&status, &text), waits) {
                self.add(&found)?;
            }
        }
        self.end()
    }

    fn found(&self, pid: Pid, of: &Of, (status, text): (&Status, &[u8]), waits: bool) -> Option<Found> {
        let stat = (of.common && waits).then(|| self.stat(pid));
        let owner = match &stat {
            Some(stat) => owner_by(status, stat.as_ref().ok()?.0),
            None => owner(self.proc, pid, status)?,
        };
        let mut stat = stat.and_then(Result::ok);
        let mut entries = Vec::with_capacity(COMMON.len() + of.paths.len());
        for file in COMMON.iter().filter(|_| of.common) {
            let content = match *file {
                "status" if text.len() <= SHORT => Content::Text(text.to_vec()),
                "stat" if stat.is_some() => stat.take().map_or(Content::Failed(EIO), |(_, content)| content),
                "comm" => comm(&entries).unwrap_or_else(|| self.short(pid, file)),
                _ if waits || AT_HAND.contains(file) => self.short(pid, file),
                _ => Content::Failed(EAGAIN),
            };
            entries.push(Entry { path: (*file).into(), mode: 0, content });
        }
        let directory = || self.path.join(pid.to_string());
        for path in &of.paths {
            let waits = waits || AT_HAND.iter().any(|file| file.as_bytes() == path);
            entries.push(match (waits, of.whole) {
                (false, _) => Entry { path: path.clone(), mode: 0, content: Content::Failed(EAGAIN) },
                (true, true) => entry(&directory(), path),
                (true, false) => Entry { path: path.clone(), mode: 0, content: self.one_of_many(pid, path) },
            });
        }
        let mut found = Found { pid, uid: owner.0, gid: owner.1, entries };
        // What it executes meanwhile may be another user's, and nobody can tell of which what was read is.
        let after = || match of.whole {
            true => self.proc.status(pid).ok().and_then(|status| self::owner(self.proc, pid, &status)),
            // Who gets rights by a program is not dumpable (linux: `commit_creds`).
            false => self.proc.owner(pid, "stat").ok(),
        };
        if !of.paths.is_empty() && after() != Some(owner) {
            (found.uid, found.gid) = (0, 0);
        }
        Some(found)
    }

    fn short(&self, pid: Pid, file: &str) -> Content {
        let mut buffer = [0; SHORT + 1];
        let read = match file {
            "stat" | "statm" | "cmdline" | "environ" => self.proc.read_record(pid, file, &mut buffer),
            _ => self.proc.read_into(pid, file, &mut buffer),
        };
        read.map_or_else(Content::Failed, text_or_too_long)
    }

    /// Whose it is, and what is in it.
    fn stat(&self, pid: Pid) -> Result<((u32, u32), Content), i32> {
        let mut buffer = [0; SHORT + 1];
        let (owner, text) = self.proc.read_owned(pid, "stat", &mut buffer)?;
        Ok((owner, text_or_too_long(text)))
    }

    fn one_of_many(&self, pid: Pid, path: &[u8]) -> Content {
        let whole = match path {
            b"exe" | b"cwd" | b"root" | b"fd" | b"fdinfo" | b"task" => {
                entry(&self.path.join(pid.to_string()), path).content
            }
            _ => return std::str::from_utf8(path).map_or(Content::Failed(ENOENT), |file| self.short(pid, file)),
        };
        match &whole {
            Content::Directory(names) if names.iter().map(|one| one.name.len() + 8).sum::<usize>() > SHORT => {
                Content::Failed(E2BIG)
            }
            _ => whole,
        }
    }

    fn add(&mut self, found: &Found) -> Option<()> {
        // What was found of one is below what a frame may have, and, if it is not one file alone, below what a packet may have: a question that is
        // asked again, since some of it was not answered, breaks no frame.
        let before = self.piece.len();
        let _ = frame::encode(found, &mut self.piece);
        if before > 0 && self.piece.len() > PIECE {
            let one = self.piece.split_off(before);
            self.flush()?;
            self.piece = one;
        }
        match self.piece.len() >= WORTH {
            true => self.flush(),
            false => Some(()),
        }
    }

    /// What is left, and that it is the last, in one packet: each wakes whoever asks.
    fn end(&mut self) -> Option<()> {
        while self.piece.len() > PIECE {
            let rest = self.piece.split_off(PIECE);
            (self.say)(Said::Entries(std::mem::replace(&mut self.piece, rest)))?;
        }
        (self.say)(Said::Last(std::mem::take(&mut self.piece)))
    }

    fn flush(&mut self) -> Option<()> {
        let room = Vec::with_capacity(self.piece.capacity());
        let all = std::mem::replace(&mut self.piece, room);
        if all.len() <= PIECE {
            return (self.say)(Said::Entries(all));
        }
        all.chunks(PIECE).try_for_each(|piece| (self.say)(Said::Entries(piece.to_vec())))
    }
}

fn text_or_too_long(text: &[u8]) -> Content {
    if text.len() <= SHORT {
        Content::Text(text.to_vec())
    } else {
        Content::Failed(E2BIG)
    }
}

/// The name, which stat has as comm has it, between the first parenthesis and the last (linux: `proc_task_name`).
fn comm(entries: &[Entry]) -> Option<Content> {
    let Content::Text(stat) = &entries.iter().find(|entry| entry.path == b"stat")?.content else { return None };
    let (open, close) = (stat.iter().position(|byte| *byte == b'(')?, stat.iter().rposition(|byte| *byte == b')')?);
    Some(Content::Text([stat.get(open + 1..close)?, b"\n"].concat()))
}

/// May what is at this path be looked at? Not what a link leads to.
fn is_in_proc(at: &[u8]) -> bool {
    let number = |name: &[u8]| !name.is_empty() && name.iter().all(u8::is_ascii_digit);
    let name = |name: &[u8]| !name.is_empty() && name.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'_');
    let names: Vec<&[u8]> = at.split(|byte| *byte == b'/').collect();
    let names = match &names[..] {
        [b"task", thread, rest @ ..] if number(thread) => rest,
        all => all,
    };
    match names {
        [] => true,
        [one] => name(one),
        [b"fd" | b"fdinfo", one] => number(one),
        _ => false,
    }
}

/// What is at this path below the directory of a process.
fn entry(directory: &Path, at: &[u8]) -> Entry {
    let mut entry = Entry { path: at.to_vec(), mode: 0, content: Content::Failed(ENOENT) };
    if !is_in_proc(at) {
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
                kind if kind.is_dir() => names_in(&path).unwrap_or_else(failed),
                _ => text(&path).unwrap_or_else(failed),
            };
        }
    }
    entry
}

fn text(path: &Path) -> std::io::Result<Content> {
    let mut text = Vec::new();
    fs::File::open(path)?.take(MOST + 1).read_to_end(&mut text)?;
    Ok(if text.len() as u64 > MOST { Content::Failed(EFBIG) } else { Content::Text(text) })
}

fn names_in(path: &Path) -> std::io::Result<Content> {
    let (mut names, mut bytes) = (Vec::new(), 0);
    for one in fs::read_dir(path)? {
        let one = one?;
        let mode = match one.file_type()? {
            kind if kind.is_dir() => 0o040_000,
            kind if kind.is_symlink() => 0o120_000,
            kind if kind.is_socket() => 0o140_000,
            _ => 0o100_000,
        };
        names.push(Name { name: one.file_name().into_vec(), mode });
        // Around each name there are at most so many.
        bytes += one.file_name().len() as u64 + 12;
        if bytes > MOST {
            return Ok(Content::Failed(E2BIG));
        }
    }
    Ok(Content::Directory(names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn found(of: &Of, passed_over: &[u32]) -> Vec<Found> {
        found_of(Pid(std::process::id() as i32), of, passed_over)
    }

    fn found_of(pid: Pid, of: &Of, passed_over: &[u32]) -> Vec<Found> {
        let all = RefCell::new(Vec::new());
        let say = |said: Said| {
            if let Said::Entries(found) | Said::Last(found) = said {
                all.borrow_mut().extend(found);
            }
            Some(())
        };
        let proc = Proc::open("/proc").expect("procfs");
        let pieces = Pieces { say: &say, piece: Vec::new(), path: Path::new("/proc"), proc: &proc };
        pieces.look(&[pid], of, passed_over, None).expect("somebody listens");
        let (all, mut found) = (all.into_inner(), Vec::new());
        let mut rest = &all[..];
        while let Some((body, used)) = frame::split(rest).expect("frames") {
            found.push(frame::decode(body).expect("ours"));
            rest = &rest[used..];
        }
        found
    }

    #[test]
    fn what_links_lead_to_is_not_looked_at() {
        for good in ["stat", "fd", "fd/7", "fdinfo/0", "task", "task/12", "task/12/fd/3", "task/1/oom_score_adj"] {
            assert!(is_in_proc(good.as_bytes()), "{good}");
        }
        for bad in
            ["", "cwd/etc", "root/etc/shadow", "fd/3/x", "exe/", "../1/stat", "task/../1", "task/1/root/x", "/etc"]
        {
            assert!(!is_in_proc(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn of_many_only_what_is_short_is_told() {
        let long = "#".repeat(2 * SHORT);
        let mut child = std::process::Command::new("sleep").args(["100"]).env("LONG", &long).spawn().expect("sleep");
        let of = |whole| Of { common: false, whole, paths: vec![b"environ".to_vec()] };
        let environ = |whole| found_of(Pid(child.id() as i32), &of(whole), &[])[0].entries[0].content.clone();
        // It may not have executed yet.
        while environ(false) != Content::Failed(E2BIG) {
            std::thread::yield_now();
        }
        assert!(matches!(environ(true), Content::Text(text) if text.len() > long.len()));
        child.kill().and_then(|()| child.wait()).expect("it was there");
    }

    #[test]
    fn of_who_is_passed_over_only_that_is_read_which_waits_for_nobody() {
        let me = Proc::open("/proc").expect("procfs").status(Pid(std::process::id() as i32)).expect("I live");
        let of = Of { common: true, whole: false, paths: ["environ", "exe", "statm"].map(Into::into).into() };
        for passed_over in [&[][..], &[me.creds.uid.real]] {
            let all = found(&of, passed_over);
            let [one] = &all[..] else { panic!("{all:?}") };
            let there: Vec<_> = one.entries.iter().filter(|one| one.content != Content::Failed(EAGAIN)).collect();
            let there: Vec<_> = there.iter().map(|one| String::from_utf8_lossy(&one.path)).collect();
            match passed_over {
                [] => {
                    assert_eq!(there.len(), COMMON.len() + 3);
                    let comm = std::fs::read("/proc/self/comm").expect("mine");
                    assert!(one
                        .entries
                        .iter()
                        .any(|one| one.path == b"comm" && one.content == Content::Text(comm.clone())));
                }
                _ => assert_eq!(there, AT_HAND),
            }
        }
    }
}
