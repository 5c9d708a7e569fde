//! What of a process would go with it if it were copied, how, and what it needs where it goes: a look, by which nothing of it is touched.

use crate::elsewhere::{is_deleted, Identity};
use crate::memory::file_of;
use crate::pages::has_own;
use crate::pool;
use crate::precopy::{self, Way};
use crate::proc::{self, Fields};
use crate::runs::bytes;
use crate::survey::Survey;
use crate::walk::walk;
use kern::areas::{Area, AreaFlags};
use kern::pagemap::PageMap;
use kern::proc::PROC;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use vocab::{Fault, Pid, Result};

/// Bytes of its memory, and how they would be copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outlook {
    pub way: Way,
    /// In pages that no file has.
    pub own: u64,
    /// Those of them in mappings that can be copied while it runs.
    pub large: u64,
    /// In files without a name.
    pub nameless: u64,
    /// VmRSS of /proc/PID/status.
    pub resident: u64,
    /// In pages of zeroes.
    pub zero: u64,
    /// In pages of files.
    pub files: u64,
}

/// A file that must be there for a process to be made again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Needed {
    pub path: Vec<u8>,
    /// Its size in bytes and its time in nanoseconds since 1970, where it must be the same file.
    pub same: Option<(u64, u64)>,
}

/// # Errors
/// `Gone`; what the caller may not read.
pub fn outlook(pid: Pid, seen: &Survey) -> Result<Outlook> {
    let map = PageMap::open(pid)?;
    let (way, large) = precopy::way(pid, seen, &map)?;
    let (mut own, mut zero, mut files) = (0, 0, 0);
    for area in seen.areas.iter().filter(|area| !area.is_kernels()) {
        if has_own(area) {
            own += bytes(&map.own_pages(area.start, area.end, false)?);
        }
        zero += bytes(&map.zero_pages(area.start, area.end)?);
        if area.path.starts_with(b"/") && !is_deleted(&area.path) {
            files += bytes(&map.file_pages(area.start, area.end)?);
        }
    }
    let status = Fields::read(format!("{PROC}/{pid}/status"))?;
    let kib = status.text("VmRSS").ok().and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    let resident = kib.unwrap_or(0) * 1024;
    Ok(Outlook { way, own, large, nameless: nameless(pid, seen)?, resident, zero, files })
}

/// Files without a name have so many bytes together.
fn nameless(pid: Pid, seen: &Survey) -> Result<u64> {
    let mut all: BTreeMap<Identity, u64> = BTreeMap::new();
    let mut add = |path: String, link: &[u8]| {
        // What has gone meanwhile is not there.
        if let Some(file) = std::fs::metadata(path).ok().filter(|file| is_deleted(link) && file.is_file()) {
            all.insert((file.dev(), file.ino()), file.blocks() * 512);
        }
    };
    for area in seen.areas.iter().filter(|area| area.inode != 0) {
        add(format!("{PROC}/{pid}/{}", file_of(area)), &proc::link(pid, &file_of(area)).unwrap_or_default());
    }
    for number in proc::numbers_in(pid, "fd")? {
        add(format!("{PROC}/{pid}/fd/{number}"), &proc::link(pid, &format!("fd/{number}")).unwrap_or_default());
    }
    Ok(all.into_values().sum())
}

/// The files by whose names it would be made again.
///
/// # Errors
/// `Gone`.
pub fn needed(pid: Pid, seen: &Survey) -> Result<Vec<Needed>> {
    let named = |path: &[u8]| path.starts_with(b"/") && !is_deleted(path);
    let mut all = BTreeSet::new();
    for link in ["exe", "cwd", "root"] {
        all.insert(Needed { path: proc::name(pid, link)?, same: None });
    }
    for number in proc::numbers_in(pid, "fd")? {
        let path = proc::link(pid, &format!("fd/{number}")).unwrap_or_default();
        // Where a name leads elsewhere already, or is none, that is in the way here, and not there.
        if is_name_of(pid, number, &path) {
            all.insert(Needed { path, same: None });
        }
    }
    let mapped = |area: &&Area| area.inode != 0 && named(&area.path) && !area.flags.contains(AreaFlags::HUGETLB);
    for area in seen.areas.iter().filter(mapped) {
        let file = std::fs::metadata(format!("{PROC}/{pid}/{}", file_of(area)));
        let same = file.ok().filter(|_| !area.shared).map(|file| version(&file));
        all.insert(Needed { path: proc::link(pid, &file_of(area)).unwrap_or_default(), same });
    }
    Ok(all.into_iter().filter(|file| named(&file.path)).collect())
}

/// Does the path lead to the file that descriptor `number` is?
fn is_name_of(pid: Pid, number: i32, path: &[u8]) -> bool {
    let which = |path: &OsStr| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let opened = which(OsStr::new(&format!("{PROC}/{pid}/fd/{number}")));
    opened.is_some() && opened == which(OsStr::from_bytes(&proc::seen_from_here(pid, path)))
}

/// How many huge pages from their pool it needs where it is made again: those that are set aside for it (without MAP_NORESERVE for all of a mapping), and those that it uses.
///
/// # Errors
/// `Gone`; what the caller may not read.
pub fn huge_pages(pid: Pid, seen: &Survey) -> Result<pool::Pages> {
    let mut all = pool::Pages::new();
    for (page, pages) in shared_pages(pid, seen)? {
        *all.entry(page).or_default() += pages;
    }
    let mut areas = seen.areas.iter().filter(|area| pool::is_private(area)).peekable();
    if areas.peek().is_none() {
        return Ok(all);
    }
    let map = PageMap::open(pid)?;
    for area in areas {
        let bytes = match area.flags.contains(AreaFlags::NORESERVE) {
            true => bytes(&map.own_pages(area.start, area.end, false)?),
            false => area.length(),
        };
        *all.entry(area.page).or_default() += bytes / area.page.max(1);
    }
    Ok(all)
}

/// Those of shared memory: of each file once what is set aside for a mapping of it, if that is more than it has.
fn shared_pages(pid: Pid, seen: &Survey) -> Result<pool::Pages> {
    let mut files = BTreeMap::new();
    for area in seen.areas.iter().filter(|area| pool::is_object(area)) {
        let path = format!("{PROC}/{pid}/{}", file_of(area));
        let file = std::fs::metadata(&path).map_err(|e| Fault::io(&e, format!("look at {path}")))?;
        let reserved = if area.flags.contains(AreaFlags::NORESERVE) { 0 } else { area.length() };
        let bytes: &mut u64 = files.entry((area.page.max(1), file.dev(), file.ino())).or_default();
        *bytes = (*bytes).max(reserved).max(file.blocks() * 512);
    }
    let mut all = pool::Pages::new();
    for ((page, ..), bytes) in files {
        *all.entry(page).or_default() += bytes / page;
    }
    Ok(all)
}

/// Which of these are not here, in words.
pub fn missing<'a>(needed: impl IntoIterator<Item = (&'a [u8], Option<(u64, u64)>)>) -> Vec<String> {
    let look = |(path, same): (&[u8], Option<(u64, u64)>)| {
        let name = String::from_utf8_lossy(path);
        // A link of somebody's is not followed: who asks is to learn nothing of what is behind it.
        match walk(path).and_then(rustix::fs::fstat) {
            Err(e) => Some(format!("{name} cannot be opened there: {}", std::io::Error::from(e))),
            Ok(file) if same.is_some_and(|same| same != (file.st_size as u64, modified(&file))) => {
                Some(format!("{name} is not the file there that is mapped: its size or time is another"))
            }
            Ok(_) => None,
        }
    };
    needed.into_iter().filter_map(look).collect()
}

/// When a file was written last, in nanoseconds.
fn modified(file: &rustix::fs::Stat) -> u64 {
    file.st_mtime as u64 * 1_000_000_000 + file.st_mtime_nsec
}

fn version(file: &Metadata) -> (u64, u64) {
    (file.size(), file.mtime() as u64 * 1_000_000_000 + file.mtime_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::survey;
    use std::io::{Read, Write};
    use std::process::Stdio;

    #[test]
    fn what_is_needed_of_a_process_is_here_where_it_runs() {
        let mut command = std::process::Command::new("cat");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat");
        // It is up when it answers.
        let (line, answer) = (child.stdin.as_mut().expect("a pipe"), child.stdout.as_mut().expect("a pipe"));
        line.write_all(b"x").and_then(|()| answer.read_exact(&mut [0])).expect("cat");
        let pid = Pid(child.id() as i32);
        let seen = survey(pid, Default::default()).expect("a child");
        let (needs, looks) = (needed(pid, &seen), outlook(pid, &seen));
        child.kill().and_then(|()| child.wait()).expect("a child");
        let (needs, looks) = (needs.expect("a child"), looks.expect("a child"));
        assert!(needs.iter().any(|file| file.same.is_some()), "{needs:?}");
        assert_eq!(missing(needs.iter().map(|file| (&file.path[..], file.same))), [""; 0]);
        let other = needs.iter().map(|file| (&file.path[..], Some((1, 1)))).next();
        assert_eq!(missing(other).len(), 1);
        assert_eq!(missing([(&b"/nowhere/at/all"[..], None)]).len(), 1);
        assert!(
            looks.way == Way::Little && looks.own > 0 && looks.files > 0 && looks.resident >= looks.own,
            "{looks:?}"
        );
    }
}
