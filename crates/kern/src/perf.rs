//! Perf task records: every fork, exit and exec of a cgroup or machine, in the numbers of the opener's PID namespace
//! (perf_event_open(2), PERF_RECORD_FORK and its like).

use crate::proc::Name;
use crate::sys;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use vocab::{Fault, Pid, Result};

pub mod stops;
pub use stops::Stops;

/// One record. `time_ns` is of CLOCK_MONOTONIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    pub time_ns: u64,
    pub what: What,
}

/// What happened to a task. Tasks of other PID namespaces are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// `parent` is the process that forked, which CLONE_PARENT makes another one than the new parent. A thread has its
    /// process as `pid`.
    Fork { pid: Pid, tid: Pid, parent: Pid },
    /// A thread ended. A process has ended when all of its threads have; `tid == pid` alone proves nothing, since an exec
    /// by another thread ends the leader too.
    Exit { pid: Pid, tid: Pid },
    /// The name changed, by exec or by prctl.
    Comm { pid: Pid, tid: Pid, name: Name, exec: bool },
    /// The ring was full: this many records are missing.
    Lost { count: u64 },
}

/// The rings of all processors, and the bells that say at once that there is something in them.
///
/// A record that wakes raises an interrupt on its own processor (linux: `perf_output_wakeup`, irq_work), which costs its task 8 us on a virtual
/// machine even when nobody polls (docs/decisions/records-without-wakes.md). So a ring wakes only when much is unread, and a
/// second event on each processor, the bell, wakes for every record and can be switched off.
#[derive(Debug)]
pub struct Records {
    rings: Vec<Ring>,
    bells: Vec<Bell>,
}

/// Pages per ring that lost nothing in 40,000 forks with a stalled reader (docs/mechanisms.md, "Events").
pub const PAGES: usize = 256;

const PAGE: usize = 4096;

/// Unread bytes of a ring that wake the reader without a bell: about forty tasks that were made and have ended.
const ALARM: u32 = 4096;

/// A fork's record with its time (PERF_RECORD_FORK, sample_id).
const FORK_BYTES: usize = 40;

const RECORD_LOST: u32 = 2;
const RECORD_COMM: u32 = 3;
const RECORD_EXIT: u32 = 4;
const RECORD_FORK: u32 = 7;
const MISC_COMM_EXEC: u16 = 1 << 13;

/// struct perf_event_attr up to `sample_max_stack`; the kernel accepts any older size (perf_copy_attr).
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const TYPE_SOFTWARE: u32 = 1;
const SW_DUMMY: u64 = 9;
const SAMPLE_TIME: u64 = 1 << 2;
const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const FLAG_COMM: u64 = 1 << 9;
const FLAG_TASK: u64 = 1 << 13;
const FLAG_WATERMARK: u64 = 1 << 14;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_COMM_EXEC: u64 = 1 << 24;
const FLAG_USE_CLOCKID: u64 = 1 << 25;

impl Records {
    /// Opens a ring of `pages` (a power of two) on every processor. With `cgroup` (a directory of the cgroup v2 tree) only
    /// its tasks are recorded, and only they wake the reader.
    ///
    /// # Errors
    /// `Sys`: EACCES or EPERM without CAP_PERFMON, EINVAL for a directory that is not of the v2 tree.
    pub fn open(cgroup: Option<BorrowedFd<'_>>, pages: usize) -> Result<Records> {
        let processors = online()?;
        let rings = processors.iter().map(|cpu| Ring::open(cgroup, *cpu, pages)).collect::<Result<_>>()?;
        let bells = processors.iter().map(|cpu| Bell::open(cgroup, *cpu)).collect::<Result<_>>()?;
        Ok(Records { rings, bells })
    }

    /// The descriptors to poll: readable when there are records, unless the bell is off and they are few.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().map(|ring| ring.fd.as_fd()).chain(self.bells.iter().map(|bell| bell.fd.as_fd()))
    }

    /// So many forks may be in the rings, with the bell off, before any of them wakes the reader.
    pub fn untold(&self) -> usize {
        self.rings.len() * ALARM as usize / FORK_BYTES
    }

    /// Switches the bell on or off. With it off a record costs its task a tenth of a microsecond instead of eight, and the reader has to look
    /// by itself; after switching it on, too, for what came before.
    ///
    /// # Errors
    /// `Sys` from ioctl(2), which perf_event_open(2) does not foresee here.
    pub fn bell(&self, on: bool) -> Result<()> {
        const ENABLE: libc::Ioctl = 0x2400;
        const DISABLE: libc::Ioctl = 0x2401;
        for bell in &self.bells {
            // SAFETY: takes numbers only.
            let ret = unsafe { libc::ioctl(bell.fd.as_raw_fd(), if on { ENABLE } else { DISABLE }, 0) };
            sys::checked(ret.into(), || "switch the bell of task records".into())?;
        }
        Ok(())
    }

    /// For other threads: is there a record that [`Records::release`] has not let go?
    pub fn unread(&self) -> Unread {
        Unread { maps: self.rings.iter().map(|ring| ring.map.clone()).collect() }
    }

    /// Appends all records that were not drained yet, in the order of their time, and returns how many. They count as unread until
    /// [`Records::release`], and their room in the ring is not the kernel's before that.
    ///
    /// It reads until a round over all rings brings nothing new. So whatever happened before a record that is returned is
    /// returned too: a fork's record is complete before the child runs (linux: `copy_process`), hence before any other
    /// record the child can cause.
    pub fn drain(&mut self, into: &mut Vec<Record>) -> usize {
        let start = into.len();
        loop {
            let before = into.len();
            for ring in &mut self.rings {
                ring.read(into);
            }
            if into.len() == before {
                break;
            }
        }
        into[start..].sort_by_key(|record| record.time_ns);
        into.len() - start
    }

    /// What was drained is unread no more.
    pub fn release(&self) {
        self.rings.iter().for_each(Ring::release);
    }
}

/// Tells whether records wait; costs two loads for each processor.
#[derive(Clone, Debug)]
pub struct Unread {
    maps: Vec<Arc<Map>>,
}

impl Unread {
    /// Of nothing: for who has no records.
    pub fn none() -> Unread {
        Unread { maps: Vec::new() }
    }

    /// A fork's record counts from before fork has returned, an exit's from before the parent can wait (linux: `copy_process`, `do_exit`).
    pub fn any(&self) -> bool {
        // The tail first: the head can only have grown since, so what was there is not overlooked.
        self.maps.iter().any(|map| {
            let tail = map.counter(TAIL).load(Ordering::Acquire);
            tail < map.counter(HEAD).load(Ordering::Acquire)
        })
    }
}

/// data_head and data_tail of struct perf_event_mmap_page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

#[derive(Debug)]
struct Ring {
    fd: OwnedFd,
    map: Arc<Map>,
    /// Bytes of the data area, a power of two.
    size: usize,
    /// Where the next record to drain begins, counted as the kernel counts its head.
    drained: u64,
}

/// Its records are written nowhere but over each other: only its waking counts.
#[derive(Debug)]
struct Bell {
    fd: OwnedFd,
    _map: Map,
}

impl Bell {
    fn open(cgroup: Option<BorrowedFd<'_>>, cpu: i32) -> Result<Bell> {
        let fd = event(cgroup, cpu, 1)?;
        // Read-only: the kernel writes on when it is full, and wakes.
        let map = Map::new(&fd, 2, libc::PROT_READ)?;
        Ok(Bell { fd, _map: map })
    }
}

/// The software event that records tasks, waking whoever polls it when `alarm` bytes have come.
fn event(cgroup: Option<BorrowedFd<'_>>, cpu: i32, alarm: u32) -> Result<OwnedFd> {
    let attr = Attr {
        kind: TYPE_SOFTWARE,
        size: size_of::<Attr>() as u32,
        config: SW_DUMMY,
        sample_type: SAMPLE_TIME,
        // Woken by bytes, not by events: wakeup_events = 1 never wakes for records that are no samples.
        flags: FLAG_EXCLUDE_KERNEL
            | FLAG_COMM
            | FLAG_TASK
            | FLAG_WATERMARK
            | FLAG_SAMPLE_ID_ALL
            | FLAG_COMM_EXEC
            | FLAG_USE_CLOCKID,
        wakeup_watermark: alarm,
        clockid: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    };
    open_event(&attr, cgroup, cpu)
}

fn open_event(attr: &Attr, cgroup: Option<BorrowedFd<'_>>, cpu: i32) -> Result<OwnedFd> {
    const PID_CGROUP: u64 = 4;
    const CLOEXEC: u64 = 8;
    let (pid, flags) = cgroup.map_or((-1, CLOEXEC), |dir| (dir.as_raw_fd(), CLOEXEC | PID_CGROUP));
    // SAFETY: `attr` is a perf_event_attr of the size it says; the rest are numbers.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attr, pid, cpu, -1, flags) };
    match sys::check(fd) {
        // linux: css_tryget_online_from_dir. Groups get the controller when the first one is enabled at the root, as systemd does.
        Err(libc::ENOENT) if cgroup.is_some() => {
            let cure = "open a perf event: the cgroup tree has no perf_event yet (echo +pids > cgroup.subtree_control at its root)";
            Err(Fault::sys(libc::ENOENT, cure))
        }
        _ => sys::own(fd, || format!("open a perf event of CPU {cpu}")),
    }
}

/// The memory that an event writes to: a page of counters, then data.
#[derive(Debug)]
struct Map {
    base: std::ptr::NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone; threads share its counters by atomics, and a ring reads its data through `&mut self` only.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    fn new(fd: &OwnedFd, pages: usize, protection: i32) -> Result<Map> {
        let length = pages * PAGE;
        // SAFETY: a new mapping of our own descriptor, at an address the kernel chooses.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        sys::checked(base as i64, || format!("map {pages} pages of task records"))?;
        let base = std::ptr::NonNull::new(base.cast()).ok_or_else(|| Fault::bug("mmap returned null"))?;
        Ok(Map { base, length })
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: within the first page of the live mapping, aligned to 8, shared with the kernel by atomics only.
        unsafe { self.base.add(offset).cast::<AtomicU64>().as_ref() }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made, with the same length; nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

impl Ring {
    fn open(cgroup: Option<BorrowedFd<'_>>, cpu: i32, pages: usize) -> Result<Ring> {
        Ring::on(event(cgroup, cpu, ALARM.min((pages * PAGE) as u32 / 2))?, pages)
    }

    fn on(fd: OwnedFd, pages: usize) -> Result<Ring> {
        let map = Arc::new(Map::new(&fd, pages + 1, libc::PROT_READ | libc::PROT_WRITE)?);
        Ok(Ring { fd, map, size: pages * PAGE, drained: 0 })
    }

    fn release(&self) {
        self.map.counter(TAIL).store(self.drained, Ordering::Release);
    }

    fn read(&mut self, into: &mut Vec<Record>) {
        self.each(|kind, misc, bytes| into.extend(parse(kind, misc, bytes)));
    }

    /// Drains all records there are: kind, flags and at most 96 bytes, with the header.
    fn each(&mut self, mut take: impl FnMut(u32, u16, &[u8])) {
        let head = self.map.counter(HEAD).load(Ordering::Acquire);
        while self.drained < head {
            let header = u64::from_ne_bytes(self.copy::<8>(self.drained, 8));
            let (kind, misc, size) = (header as u32, (header >> 32) as u16, (header >> 48) as usize);
            if size < 8 {
                self.drained = head; // never made by a kernel; a ring that makes no sense is skipped whole
                break;
            }
            take(kind, misc, &self.copy::<96>(self.drained, size)[..size.min(96)]);
            self.drained += size as u64;
        }
    }

    /// The first `size` bytes (at most `N`) at `position`, which may wrap.
    fn copy<const N: usize>(&self, position: u64, size: usize) -> [u8; N] {
        let mut bytes = [0; N];
        for (i, byte) in bytes.iter_mut().take(size).enumerate() {
            let at = (position as usize + i) & (self.size - 1);
            // SAFETY: below `size`, so inside the data area; the kernel does not write between tail and head.
            *byte = unsafe { self.map.base.add(PAGE + at).read() };
        }
        bytes
    }
}

fn parse(kind: u32, misc: u16, bytes: &[u8]) -> Option<Record> {
    let word = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
    let long = |at: usize| Some(u64::from(word(at)?) | u64::from(word(at + 4)?) << 32);
    // 0 is a task of a namespace that the opener does not see, -1 one that is already unhashed.
    let pid = |at: usize| word(at).map(|n| n as i32).filter(|n| *n > 0).map(Pid);
    let time_ns = long(bytes.len().checked_sub(8)?)?;
    let what = match kind {
        RECORD_FORK => What::Fork { pid: pid(8)?, tid: pid(16)?, parent: Pid(word(12)? as i32) },
        RECORD_EXIT => What::Exit { pid: pid(8)?, tid: pid(16)? },
        RECORD_COMM => What::Comm {
            pid: pid(8)?,
            tid: pid(12)?,
            name: Name::new(bytes.get(16..bytes.len() - 8)?),
            exec: misc & MISC_COMM_EXEC != 0,
        },
        RECORD_LOST => What::Lost { count: long(16)? },
        _ => return None,
    };
    Some(Record { time_ns, what })
}

/// The processors that are online: `0-1,4`.
fn online() -> Result<Vec<i32>> {
    let path = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(path).map_err(|e| Fault::io(&e, format!("read {path}")))?;
    let bad = || Fault::bug(format!("{path} says {text:?}"));
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (i32, i32) = (first.parse().map_err(|_| bad())?, last.parse().map_err(|_| bad())?);
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_namespace;
    use std::process::Command;

    fn wait_for(records: &mut Records, mut done: impl FnMut(&[Record]) -> bool) -> Vec<Record> {
        let mut all = Vec::new();
        loop {
            records.drain(&mut all);
            records.release();
            if done(&all) {
                return all;
            }
            let mut polls: Vec<libc::pollfd> =
                records.fds().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
            // SAFETY: as many pollfds as the count says.
            let ready = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as u64, 5000) };
            assert!(ready > 0, "no record came in 5 s; so far {all:?}");
        }
    }

    #[test]
    fn fork_exec_and_exit_in_the_numbers_of_the_namespace() {
        in_namespace(|proc| {
            crate::proc::set_last_pid(proc, Pid(4999)).expect("root");
            let mut records = Records::open(None, 16).expect("root may");
            let mut child = Command::new("true").spawn().expect("true is there");
            let pid = Pid(child.id() as i32);
            assert_eq!(pid, Pid(5000));
            child.wait().expect("my child");
            let exit = What::Exit { pid, tid: pid };
            let all = wait_for(&mut records, |all| all.iter().any(|r| r.what == exit));
            let mine: Vec<What> = all.iter().map(|r| r.what).collect();
            let exec = What::Comm { pid, tid: pid, name: Name::new(b"true"), exec: true };
            assert_eq!(mine, [What::Fork { pid, tid: pid, parent: Pid(1) }, exec, exit]);
        });
    }

    #[test]
    fn a_storm_on_all_processors_keeps_forks_before_exits_and_loses_nothing() {
        in_namespace(|_| {
            let mut records = Records::open(None, PAGES).expect("root may");
            let storm = "for i in $(seq 150); do (:) & (:) ; done; wait";
            let mut shells: Vec<_> =
                (0..4).map(|_| Command::new("sh").args(["-c", storm]).spawn().expect("sh")).collect();
            let mut alive = std::collections::HashSet::new();
            let (mut forks, mut all) = (0, Vec::new());
            let mut left = shells.len();
            while left > 0 {
                left = shells
                    .iter_mut()
                    .filter_map(|shell| shell.try_wait().expect("mine").is_none().then_some(()))
                    .count();
                all.clear();
                records.drain(&mut all);
                records.release();
                for record in &all {
                    match record.what {
                        What::Fork { tid, .. } => {
                            forks += 1;
                            alive.insert(tid);
                        }
                        What::Exit { tid, .. } => assert!(alive.remove(&tid), "exit of {tid} before its fork"),
                        What::Lost { count } => panic!("lost {count}"),
                        What::Comm { .. } => {}
                    }
                }
            }
            assert!(forks >= 4 * 301, "{forks}");
        });
    }

    #[test]
    fn a_thread_is_told_from_a_process_and_small_rings_say_what_they_lost() {
        in_namespace(|_| {
            let mut records = Records::open(None, 1).expect("root may");
            let tid = std::thread::spawn(|| {
                // SAFETY: takes nothing, returns a number.
                Pid(unsafe { libc::gettid() })
            });
            let tid = tid.join().expect("it returns");
            let all = wait_for(&mut records, |all| {
                all.iter().any(|r| matches!(r.what, What::Exit { tid: t, .. } if t == tid))
            });
            // The rings tell of the whole machine, so other processes may come before.
            let made = What::Fork { pid: Pid(1), tid, parent: Pid(1) };
            assert!(all.iter().any(|record| record.what == made));
            for _ in 0..400 {
                Command::new("true").status().expect("true");
            }
            let all = wait_for(&mut records, |all| all.len() > 10);
            Command::new("true").status().expect("true");
            let more = wait_for(&mut records, |all| all.len() > 2);
            assert!(all.iter().chain(&more).any(|r| matches!(r.what, What::Lost { .. })));
        });
    }

    #[test]
    fn records_are_unread_until_they_are_let_go() {
        in_namespace(|_| {
            let mut records = Records::open(None, 1).expect("root may");
            let (unread, mut all) = (records.unread(), Vec::new());
            // The rings tell of the whole machine: a fork of somebody else disturbs one try, a fault all of them.
            let mut undisturbed = || {
                records.drain(&mut all);
                records.release();
                let none_before = !unread.any();
                Command::new("true").status().expect("true");
                assert!(unread.any() && records.drain(&mut all) >= 3 && unread.any());
                let all_drained = records.drain(&mut all) == 0;
                records.release();
                none_before && all_drained && !unread.any()
            };
            assert!((0..200).any(|_| undisturbed()));
        });
    }

    #[test]
    fn short_and_unknown_records_are_passed_over() {
        assert_eq!(parse(RECORD_FORK, 0, &[0; 20]), None);
        assert_eq!(parse(99, 0, &[0; 40]), None);
        assert_eq!(parse(RECORD_COMM, 0, &[1; 8]), None);
    }
}
