//! Mappings and what is in them.

use crate::elsewhere::is_deleted;
use crate::file_id;
use crate::objects::Found;
use crate::runs::without;
use crate::{keys, pool, proc};
use image::memory::{Area as Saved, Mapped, Memory};
use kern::areas::{Area, AreaFlags};
use kern::pagemap::{PageMap, Run};
use kern::pool::mmap_flags;
use kern::proc::PROC;
use puppet::Script;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use vocab::{Fault, Pid, Result};

/// The areas as they are saved. The kernel's own are told apart: the other kernel has its own. `plain`: where there are no guards, and nobody looks
/// for some.
pub(crate) fn describe(pid: Pid, areas: &[Area], found: &mut Found, plain: &[Run]) -> Result<Memory> {
    let kernels: Vec<&Area> = areas.iter().filter(|area| is_vdso(area)).collect();
    let vdso = match (kernels.first(), kernels.last()) {
        (Some(first), Some(last)) => (first.start, last.end - first.start),
        _ => (0, 0),
    };
    let map = PageMap::open(pid)?;
    let mut saved: Vec<Saved> = Vec::new();
    let mut before: Option<&Area> = None;
    for area in areas.iter().filter(|area| !area.is_kernels()) {
        let known = before.filter(|before| are_of_one_file(before, area)).and_then(|_| saved.last()?.file.clone());
        saved.push(save(pid, area, known, (&map, plain), found)?);
        before = Some(area);
    }
    Ok(Memory { areas: saved, vdso, keys: 0 })
}

/// Then what is told of the file of one holds for that of the other: private ones of one program or library, side by side.
fn are_of_one_file(one: &Area, other: &Area) -> bool {
    let file = |area: &Area| (area.device, area.inode, area.shared);
    other.inode != 0 && !other.shared && file(one) == file(other) && one.path == other.path
}

/// [vsyscall] is at the same address everywhere, and not a mapping.
pub(crate) fn is_vdso(area: &Area) -> bool {
    area.is_kernels() && area.path != b"[vsyscall]"
}

/// Memory of no file; what is shared always has one (linux: `shmem_zero_setup`).
fn is_anonymous(area: &Area) -> bool {
    !area.shared && (!area.path.starts_with(b"/") || area.path == b"/dev/zero" || pool::is_private(area))
}

/// Where /proc leads to the file of a mapping.
pub(crate) fn file_of(area: &Area) -> String {
    format!("map_files/{:x}-{:x}", area.start, area.end)
}

/// `known`: its file, but for the offset.
fn save(
    pid: Pid,
    area: &Area,
    known: Option<Mapped>,
    (map, plain): (&PageMap, &[Run]),
    found: &mut Found,
) -> Result<Saved> {
    let prefix = if area.shared { &b"[anon_shmem:"[..] } else { b"[anon:" };
    let name = area.path.strip_prefix(prefix).and_then(|name| name.strip_suffix(b"]")).unwrap_or_default();
    let file = match (is_anonymous(area), known) {
        (true, _) => None,
        (false, Some(known)) => Some(Mapped { offset: area.offset, ..known }),
        (false, None) => Some(mapped(pid, area, found)?),
    };
    let mut guards = Vec::new();
    for run in without(&[Run { start: area.start, end: area.end }], plain) {
        guards.extend(map.guards(run.start, run.end)?.iter().map(|run| (run.start, run.end)));
    }
    Ok(Saved {
        start: area.start,
        end: area.end,
        protection: area.protection,
        shared: area.shared,
        flags: area.flags.bits(),
        file,
        key: area.key,
        name: name.into(),
        guards,
        page: if pool::is_private(area) { area.page } else { 0 },
    })
}

fn mapped(pid: Pid, area: &Area, found: &mut Found) -> Result<Mapped> {
    let path = format!("{PROC}/{pid}/{}", file_of(area));
    let link = proc::link(pid, &file_of(area))?;
    let object = match is_deleted(&link) {
        true => found.number_of(&path, &link, !area.flags.contains(AreaFlags::NORESERVE))?,
        false => None,
    };
    let failed = |e: Errno| Fault::sys(e.raw_os_error(), format!("look at {path}"));
    // Pinned, so that all that is told of the file is of one.
    let pinned = match rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::PERM) => named_so(area, &link)?,
        pinned => pinned.map_err(failed)?,
    };
    let file = rustix::fs::fstat(&pinned).map_err(failed)?;
    let opened = std::fs::symlink_metadata(&path).map_err(|e| Fault::io(&e, format!("look at {path}")))?;
    Ok(Mapped {
        id: if object.is_none() { Some(file_id::of(&pinned)?) } else { None },
        path: link.into(),
        offset: area.offset,
        size: file.st_size as u64,
        modified: file.st_mtime as u64 * 1_000_000_000 + file.st_mtime_nsec,
        // The link of a file that is open for writing says so (linux: `proc_map_files_instantiate`).
        writable: opened.mode() & 0o200 != 0,
        object,
    })
}

/// The file of this name, for who may not follow the links of map_files (proc_pid_map_files(5)): it must be the one that is mapped.
fn named_so(area: &Area, link: &[u8]) -> Result<OwnedFd> {
    let name = String::from_utf8_lossy(link);
    let failed = |e: Errno| Fault::sys(e.raw_os_error(), format!("look at {name}"));
    let file = rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    let found = rustix::fs::fstat(&file).map_err(failed)?;
    let device = (rustix::fs::major(found.st_dev), rustix::fs::minor(found.st_dev));
    match (device, found.st_ino) == (area.device, area.inode) {
        true => Ok(file),
        false => Err(Fault::refused(format!("{name} is not the file that is mapped at {:#x}", area.start))),
    }
}

/// What of an area is mapped already by one of these, which are memory of no file.
pub(crate) fn stays(area: &Saved, there: &[Saved]) -> Vec<Run> {
    let alike = |one: &&Saved| {
        let plain = |area: &Saved| area.file.is_none() && !area.shared;
        plain(area) && plain(one) && one.flags == area.flags && one.name == area.name
    };
    let runs =
        there.iter().filter(alike).map(|one| Run { start: one.start.max(area.start), end: one.end.min(area.end) });
    runs.filter(|run| run.start < run.end).collect()
}

/// Maps the areas as they were, with descriptors that the process has: `files[i]` is that of area `i`. What is `there` already stays.
pub(crate) fn map(script: &mut Script, areas: &[Saved], files: &[Option<i32>], there: &[Saved]) {
    for (area, fd) in areas.iter().zip(files) {
        let flags = AreaFlags::from_bits_retain(area.flags);
        let kind = match area.shared {
            true => libc::MAP_SHARED,
            false if flags.contains(AreaFlags::DROPPABLE) => MAP_DROPPABLE,
            false => libc::MAP_PRIVATE,
        };
        let mut how = libc::MAP_FIXED_NOREPLACE | kind;
        let mut add = |when: bool, flag: i32| how |= if when { flag } else { 0 };
        add(area.file.is_none(), libc::MAP_ANONYMOUS);
        add(area.page != 0, mmap_flags(area.page));
        add(flags.contains(AreaFlags::GROWSDOWN), libc::MAP_GROWSDOWN);
        add(flags.contains(AreaFlags::NORESERVE), libc::MAP_NORESERVE);
        let offset = area.file.as_ref().map_or(0, |file| file.offset);
        let fd = fd.unwrap_or(-1) as u64;
        let length = area.end - area.start;
        let stays = stays(area, there);
        let protection = keys::at_first(area).into();
        for Run { start, end } in without(&[Run { start: area.start, end: area.end }], &stays) {
            let args = [start, end - start, protection, how as u64, fd, offset + start - area.start];
            script.call(format!("map {start:#x}-{end:#x}"), libc::SYS_mmap, &args);
        }
        for Run { start, end } in stays {
            let args = [start, end - start, protection];
            script.call(format!("protect {start:#x}-{end:#x}"), libc::SYS_mprotect, &args);
        }
        for (flag, advice) in ADVICE.iter().filter(|(flag, _)| flags.contains(*flag)) {
            let what = format!("advise on {:#x}: {flag:?}", area.start);
            script.call(what, libc::SYS_madvise, &[area.start, length, *advice as u64]);
        }
        if !area.name.is_empty() {
            let name = script.text(&area.name.0);
            let args = [PR_SET_VMA, 0, area.start, length, name];
            script.attempt(libc::SYS_prctl, &args);
        }
    }
}

/// In place of MAP_PRIVATE (Linux 6.11).
const MAP_DROPPABLE: i32 = 8;
const MADV_GUARD_INSTALL: u64 = 102;

/// PR_SET_VMA, with PR_SET_VMA_ANON_NAME = 0; a kernel without it loses the name.
const PR_SET_VMA: u64 = 0x5356_4d41;

const ADVICE: [(AreaFlags, i32); 8] = [
    (AreaFlags::DONTFORK, libc::MADV_DONTFORK),
    (AreaFlags::WIPEONFORK, libc::MADV_WIPEONFORK),
    (AreaFlags::DONTDUMP, libc::MADV_DONTDUMP),
    (AreaFlags::HUGEPAGE, libc::MADV_HUGEPAGE),
    (AreaFlags::NOHUGEPAGE, libc::MADV_NOHUGEPAGE),
    (AreaFlags::SEQUENTIAL, libc::MADV_SEQUENTIAL),
    (AreaFlags::RANDOM, libc::MADV_RANDOM),
    (AreaFlags::MERGEABLE, libc::MADV_MERGEABLE),
];

/// How many calls of either kind [`guard_and_lock`] makes.
pub(crate) fn to_guard_and_lock(areas: &[Saved]) -> (usize, usize) {
    let locked = |area: &&Saved| AreaFlags::from_bits_retain(area.flags).contains(AreaFlags::LOCKED);
    (areas.iter().map(|area| area.guards.len()).sum(), areas.iter().filter(locked).count())
}

/// Once the pages are there: locking them earlier would fill them with zeroes first. Guards before, since memory that is locked takes none;
/// locking stops at them, as it has for the process.
pub(crate) fn guard_and_lock(script: &mut Script, areas: &[Saved]) {
    for (start, end) in areas.iter().flat_map(|area| &area.guards) {
        script.call("install a guard", libc::SYS_madvise, &[*start, end - start, MADV_GUARD_INSTALL]);
    }
    for area in areas.iter().filter(|area| AreaFlags::from_bits_retain(area.flags).contains(AreaFlags::LOCKED)) {
        let flags = AreaFlags::from_bits_retain(area.flags);
        let how = if flags.contains(AreaFlags::LOCKED_ON_FAULT) { libc::MLOCK_ONFAULT } else { 0 };
        let args = [area.start, area.end - area.start, how.into()];
        match area.guards.is_empty() {
            true => script.call("lock memory", libc::SYS_mlock2, &args),
            false => script.attempt(libc::SYS_mlock2, &args),
        };
    }
}
