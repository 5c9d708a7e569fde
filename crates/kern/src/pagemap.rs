//! Which pages of a process have something of their own in them (PAGEMAP_SCAN, Linux 6.7; before that /proc/PID/pagemap).

use crate::areas::areas;
use crate::proc::PROC;
use crate::sys;
use std::cell::OnceCell;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use vocab::{Fault, Kind, Pid, Result};

/// Bytes.
pub const PAGE: u64 = 4096;

/// A run of pages: `start..end`, addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub start: u64,
    pub end: u64,
}

pub struct PageMap {
    pid: Pid,
    file: File,
    /// IS_GUARD where the kernel knows it, or nothing.
    guard: u64,
    /// Private mappings that held nothing when it was first of interest: see [`PageMap::read_entries`].
    empty: OnceCell<Vec<Run>>,
}

/// Bytes of addresses for which entries are read one by one in about a millisecond.
const MANY: u64 = 1 << 30;

/// `struct pm_scan_arg` (linux/fs.h).
#[repr(C)]
#[derive(Default)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::Ioctl = (3 << 30) | ((size_of::<ScanArg>() as libc::Ioctl) << 16) | (0x66 << 8) | 16;
const WP_MATCHING: u64 = 1 << 0;
const CHECK_WPASYNC: u64 = 1 << 1;
const IS_WPALLOWED: u64 = 1 << 0;
const IS_WRITTEN: u64 = 1 << 1;
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_PFNZERO: u64 = 1 << 5;
/// MADV_GUARD_INSTALL; Linux 6.15 tells of it here.
const IS_GUARD: u64 = 1 << 8;

/// Bits of an entry of /proc/PID/pagemap.
const PM_FILE: u64 = 1 << 61;
const PM_SWAP: u64 = 1 << 62;
const PM_PRESENT: u64 = 1 << 63;

/// Which pages are looked for: of all of `is`, of none of `not`, of one of `any` if that is not empty.
struct Look {
    flags: u64,
    is: u64,
    not: u64,
    any: u64,
}

impl PageMap {
    /// # Errors
    /// `Sys` for who may not trace the process.
    pub fn open(pid: Pid) -> Result<PageMap> {
        let path = format!("{PROC}/{pid}/pagemap");
        let file = File::open(&path).map_err(|e| Fault::io(&e, format!("open {path}")))?;
        let mut map = PageMap { pid, file, guard: 0, empty: OnceCell::new() };
        if map.look(0, PAGE, Look { flags: 0, is: IS_GUARD, not: 0, any: 0 }).is_ok() {
            map.guard = IS_GUARD;
        }
        Ok(map)
    }

    /// The pages in `start..end` that are in memory or swapped out and hold what no file holds: anonymous ones. With `shared`
    /// those of a shared mapping too, which count as a file's. The zero page and guards are left out.
    pub fn own_pages(&self, start: u64, end: u64, shared: bool) -> Result<Vec<Run>> {
        // A guard counts as swapped out (linux: `pagemap_page_category`).
        let without = IS_PFNZERO | self.guard | if shared { 0 } else { IS_FILE };
        match self.look(start, end, Look { flags: 0, is: 0, not: without, any: IS_PRESENT | IS_SWAPPED }) {
            Err(fault) if fault.errno == libc::ENOTTY => self.read_entries(start, end, shared),
            done => done,
        }
    }

    /// The pages in `start..end` that are the zero page; none where the kernel does not tell.
    pub fn zero_pages(&self, start: u64, end: u64) -> Result<Vec<Run>> {
        self.told(start, end, Look { flags: 0, is: IS_PFNZERO, not: 0, any: 0 })
    }

    /// The pages in `start..end` that are in memory and a file's; none where the kernel does not tell.
    pub fn file_pages(&self, start: u64, end: u64) -> Result<Vec<Run>> {
        self.told(start, end, Look { flags: 0, is: IS_FILE | IS_PRESENT, not: 0, any: 0 })
    }

    fn told(&self, start: u64, end: u64, look: Look) -> Result<Vec<Run>> {
        match self.look(start, end, look) {
            Err(fault) if fault.errno == libc::ENOTTY => Ok(Vec::new()),
            looked => looked,
        }
    }

    /// The pages in `start..end` that are guards (madvise(2), MADV_GUARD_INSTALL); none where the kernel does not tell.
    pub fn guards(&self, start: u64, end: u64) -> Result<Vec<Run>> {
        match self.guard {
            0 => Ok(Vec::new()),
            guard => self.look(start, end, Look { flags: 0, is: guard, not: 0, any: 0 }),
        }
    }

    /// The pages in `start..end` that were written since this was asked last, and hold something; those of mappings that are not followed
    /// ([`crate::uffd::Tracking`]) are left out: to fail at one of these would lose what was told of others, which are protected anew by then.
    pub fn written_since(&self, start: u64, end: u64) -> Result<Vec<Run>> {
        self.look(
            start,
            end,
            Look {
                flags: WP_MATCHING,
                is: IS_WPALLOWED | IS_WRITTEN,
                not: IS_PFNZERO | self.guard,
                any: IS_PRESENT | IS_SWAPPED,
            },
        )
    }

    /// The pages that [`PageMap::written_since`] would tell, and some that hold nothing, many times faster (linux: the fast path of
    /// `pagemap_scan_pmd_entry`); `None` if not all of `start..end` is followed. Where the process has emptied a whole table of pages
    /// (2 MiB) nothing is told of them: [`PageMap::holds`] does.
    pub fn perhaps_written(&self, start: u64, end: u64) -> Result<Option<Vec<Run>>> {
        match self.look(start, end, Look { flags: CHECK_WPASYNC, is: IS_WRITTEN, not: 0, any: 0 }) {
            Err(fault) if fault.errno == libc::EPERM => Ok(None),
            looked => looked.map(Some),
        }
    }

    /// Is the page at this address in memory or swapped out?
    pub fn holds(&self, address: u64) -> Result<bool> {
        let mut entry = [0; 8];
        let got = self.file.read_exact_at(&mut entry, address / PAGE * 8);
        got.map_err(|e| Fault::io(&e, format!("read the page map of process {}", self.pid)))?;
        Ok(u64::from_ne_bytes(entry) & (PM_PRESENT | PM_SWAP) != 0)
    }

    fn look(&self, start: u64, end: u64, look: Look) -> Result<Vec<Run>> {
        let mut runs: Vec<Run> = Vec::new();
        let mut regions = [Region::default(); 512];
        let mut from = start;
        while from < end {
            let mut arg = ScanArg {
                size: size_of::<ScanArg>() as u64,
                flags: look.flags,
                start: from,
                end,
                vec: regions.as_mut_ptr() as u64,
                vec_len: regions.len() as u64,
                category_inverted: look.not,
                category_mask: look.is | look.not,
                category_anyof_mask: look.any,
                return_mask: if look.is & IS_WRITTEN == 0 { IS_PRESENT } else { IS_WRITTEN },
                ..ScanArg::default()
            };
            // SAFETY: the argument is live and of the size it says; it names an array of as many regions as it says.
            let got = unsafe { libc::ioctl(self.file.as_fd().as_raw_fd(), PAGEMAP_SCAN, &raw mut arg) };
            let got = sys::checked(got.into(), || format!("look at the pages of process {}", self.pid));
            let got = got.map_err(|fault| self.may_have_gone(fault))?;
            regions[..got as usize].iter().for_each(|region| push(&mut runs, region.start, region.end));
            from = arg.walk_end;
        }
        Ok(runs)
    }

    /// A page map is that of the memory that the process had when it was opened (linux: `proc_mem_open`).
    fn may_have_gone(&self, fault: Fault) -> Fault {
        match fault.errno {
            libc::ESRCH => {
                Fault { kind: Kind::Changed, ..fault.doing("it has ended, or executed another program, meanwhile") }
            }
            _ => fault,
        }
    }

    /// What [`PageMap::look`] does, on a kernel before 6.7. The zero page cannot be told here; it is harmless, but travels.
    ///
    /// There is an entry to read for each page that could be, 200 MB of them for 100 GB: large mappings that hold nothing are left out.
    fn read_entries(&self, start: u64, end: u64, shared: bool) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        let mut entries = vec![0u8; 64 * 1024];
        let mut from = start;
        while from < end {
            if let (true, false) = (end - from > MANY, shared) {
                if let Some(empty) = self.empty()?.iter().find(|empty| (empty.start..empty.end).contains(&from)) {
                    from = empty.end.min(end);
                    continue;
                }
            }
            let most = entries.len().min(((end - from) / PAGE * 8) as usize);
            let got = self.file.read_at(&mut entries[..most], from / PAGE * 8);
            let got = got.map_err(|e| Fault::io(&e, format!("read the page map of process {}", self.pid)))?;
            if got < 8 {
                break;
            }
            for entry in entries[..got].as_chunks::<8>().0 {
                let entry = u64::from_ne_bytes(*entry);
                let there = entry & (PM_PRESENT | PM_SWAP) != 0;
                if there && (shared || entry & PM_FILE == 0) {
                    push(&mut runs, from, from + PAGE);
                }
                from += PAGE;
            }
        }
        Ok(runs)
    }

    fn empty(&self) -> Result<&[Run]> {
        if let Some(empty) = self.empty.get() {
            return Ok(empty);
        }
        let empty = areas(self.pid, true)?.into_iter().filter(|area| area.held == 0 && !area.shared);
        Ok(self.empty.get_or_init(|| empty.map(|area| Run { start: area.start, end: area.end }).collect()))
    }
}

fn push(runs: &mut Vec<Run>, start: u64, end: u64) {
    match runs.last_mut() {
        Some(last) if last.end == start => last.end = end,
        _ => runs.push(Run { start, end }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn the_memory_of_who_has_executed_another_program_is_gone() {
        let mut child = Command::new("sh");
        let child = child.args(["-c", "read line; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("sh");
        let pid = Pid(child.id() as i32);
        let before = PageMap::open(pid).expect("its pages");
        if before.guard != 0 {
            let area = areas(pid, false).expect("its mappings").remove(0);
            let mut said = child.stdin.take().expect("a pipe");
            said.write_all(b"\nagain\n").expect("to read");
            let mut line = String::new();
            BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("cat");
            let fault = before.own_pages(area.start, area.end, false).expect_err("gone");
            assert_eq!((fault.kind, line.as_str()), (Kind::Changed, "again\n"));
        }
        child.kill().and_then(|()| child.wait()).expect("its end");
    }

    /// A mapping of ten pages of which two are written, one is only read and the rest never touched.
    #[test]
    fn finds_what_was_written_by_both_ways() {
        let length = 10 * PAGE as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, of which three pages are touched.
        let at = unsafe {
            let at = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            libc::madvise(at, length, libc::MADV_NOHUGEPAGE);
            at.cast::<u8>().add(2 * PAGE as usize).write_volatile(1);
            at.cast::<u8>().add(3 * PAGE as usize).write_volatile(1);
            at.cast::<u8>().add(7 * PAGE as usize).read_volatile();
            at as u64
        };
        let map = PageMap::open(Pid(std::process::id() as i32)).expect("own");
        let end = at + length as u64;
        let written = Run { start: at + 2 * PAGE, end: at + 4 * PAGE };
        assert_eq!(map.own_pages(at, end, false).expect("own"), [written]);
        let entries = map.read_entries(at, end, false).expect("own");
        assert_eq!(entries[0], written);
        const GUARD_INSTALL: i32 = 102;
        // SAFETY: of the mapping above, and nobody uses that page.
        let guarded = unsafe { libc::madvise((at + 3 * PAGE) as *mut _, PAGE as usize, GUARD_INSTALL) };
        if guarded == 0 && map.guard != 0 {
            assert_eq!(map.guards(at, end).expect("own"), [Run { start: at + 3 * PAGE, end: at + 4 * PAGE }]);
            assert_eq!(map.own_pages(at, end, false).expect("own"), [Run { start: at + 2 * PAGE, end: at + 3 * PAGE }]);
        }
        assert!(entries.iter().all(|run| *run == written || run.start == at + 7 * PAGE));
    }

    /// By which who has followed a mapping looks for guards only there.
    #[test]
    fn guards_count_as_perhaps_written() {
        const GUARD_INSTALL: i32 = 102;
        let (length, page) = (600 * PAGE as usize, PAGE as usize);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping; the call takes a number.
        let (at, uffd) = unsafe {
            let at = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            at.cast::<u8>().write_bytes(1, length);
            (at.cast::<u8>(), libc::syscall(libc::SYS_userfaultfd, crate::uffd::FLAGS))
        };
        let own = Pid(std::process::id() as i32);
        let map = PageMap::open(own).expect("own");
        if uffd < 0 || map.guard == 0 {
            return;
        }
        let tracking = crate::uffd::Tracking::take(own, uffd as i32).expect("own");
        let (start, end) = (at as u64, at as u64 + length as u64);
        // SAFETY: of the mapping above, and nobody uses these pages.
        let guard = |number| unsafe { libc::madvise(at.add(number * page).cast(), page, GUARD_INSTALL) };
        assert_eq!(guard(7), 0);
        tracking.add(start, end).expect("memory of its own");
        map.written_since(start, end).expect("followed");
        assert_eq!((guard(9), guard(599)), (0, 0));
        let perhaps = map.perhaps_written(start, end).expect("followed").expect("all of it is");
        for run in map.guards(start, end).expect("own") {
            assert!(perhaps.iter().any(|one| one.start <= run.start && run.end <= one.end), "{run:?} of {perhaps:?}");
        }
        // SAFETY: of the mapping above, and nobody uses it.
        unsafe { libc::munmap(at.cast(), length) };
    }

    #[test]
    fn what_is_only_reserved_is_not_walked_through() {
        const LENGTH: usize = 8 << 40;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: two new mappings, of which a page is written.
        let at = unsafe {
            let at = libc::mmap(std::ptr::null_mut(), LENGTH, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            let page = at.cast::<u8>().add(LENGTH / 2);
            assert_eq!(libc::mprotect(page.cast(), PAGE as usize, libc::PROT_READ | libc::PROT_WRITE), 0);
            page.write_volatile(1);
            at as u64
        };
        let map = PageMap::open(Pid(std::process::id() as i32)).expect("own");
        let begun = std::time::Instant::now();
        let half = LENGTH as u64 / 2;
        let written = Run { start: at + half, end: at + half + PAGE };
        assert_eq!(map.read_entries(at, at + half, false).expect("own"), []);
        assert_eq!(map.read_entries(at + half, at + half + PAGE, false).expect("own"), [written]);
        assert_eq!(map.read_entries(at, at + LENGTH as u64, false).expect("own"), [written]);
        // One by one they take half a minute.
        assert!(begun.elapsed().as_secs() < 5);
        // SAFETY: of the mapping above, and nobody uses it.
        unsafe { libc::munmap(at as *mut _, LENGTH) };
    }
}
