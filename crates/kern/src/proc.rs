//! Our reader of /proc (proc(5)): fixed buffers, no allocation per line, errors as errno.

pub mod kept;
mod links;
mod owner;
mod root;
mod text;

pub use root::{handed_over, look_apart, look_at, root, take_over, PROC};

use crate::own::Limit;
use crate::sys;
use std::ffi::CStr;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use vocab::{Capabilities, Creds, Fault, Kind, Pid, Result, SigSet};

/// A mounted procfs: which PID namespace's numbers it shows was fixed when it was mounted.
#[derive(Debug)]
pub struct Proc {
    dir: OwnedFd,
}

/// `/proc/PID/stat`, as far as we use it. Costs half of what [`Status`] does.
///
/// ODDITY(stat-waits-for-exec): reading it waits while the process executes a program, from the change of its memory until its close-on-exec
/// descriptors are closed, and an ordinary user decides how long closing takes (FLUSH of a file system of theirs, or of ours). linux 6.18:
/// `do_task_stat`, `begin_new_exec`. So a daemon reads it of no process that may be doing that. prog: tests/prog/odd_stat_exec.c
///
/// ODDITY(released-task): of a process that is being waited for at this moment both files say that it has parent 0, group and session -1 (stat) or 0 (status). linux: `do_task_stat`
/// without `lock_task_sighand`, `task_state` after `__unhash_process`. It is gone, and that is what we say. prog: tests/prog/odd_released_task.c
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    pub pid: Pid,
    pub name: Name,
    /// `R`, `S`, `D`, `T`, `t`, `Z`, `X`, `I`.
    pub state: u8,
    pub ppid: Pid,
    pub pgid: Pid,
    pub sid: Pid,
    /// The kernel's flags of the task (PF_*, linux/sched.h).
    pub flags: u32,
    /// User and system time in clock ticks (100 a second).
    pub user_ticks: u64,
    pub system_ticks: u64,
    pub nice: i32,
    /// Threads that exist, ended ones included until they are released.
    pub threads: u32,
    /// Clock ticks after boot: with the PID it names one process for good.
    pub start: u64,
    /// Resident set in pages.
    pub rss_pages: u64,
    /// By which its parent is told of its end, and to which kind of children it belongs (clone(2)).
    pub exit_signal: i32,
    /// The wait status, once it has ended.
    pub exit_status: i32,
}

impl Stat {
    /// Is it past the point of no return of exit(2)? (PF_EXITING)
    pub fn exiting(&self) -> bool {
        self.flags & 4 != 0
    }

    /// Has the whole process ended? A leader that has exited before its threads is a zombie too, and has not.
    pub fn ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X') && self.threads <= 1
    }
}

/// A comm: at most 15 bytes, any but NUL.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Name {
    bytes: [u8; 16],
    length: u8,
}

impl Name {
    /// The first 15 bytes, up to a NUL.
    pub fn new(text: &[u8]) -> Name {
        let mut name = Name::default();
        for &byte in text.iter().take(15).take_while(|b| **b != 0) {
            name.bytes[usize::from(name.length)] = byte;
            name.length += 1;
        }
        name
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// `/proc/PID/status`, as far as we use it. It can always be read, other than [`Stat`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    pub name: Name,
    /// As [`Stat::state`].
    pub state: u8,
    pub pgid: Pid,
    pub sid: Pid,
    /// Resident set in KiB.
    pub rss_kb: u64,
    /// Has it memory? One that exits lets go of it before its files are closed (linux: `do_exit`); a kernel thread has none.
    pub memory: bool,
    /// The process of a thread.
    pub tgid: Pid,
    pub ppid: Pid,
    pub umask: u32,
    pub creds: Creds,
    pub capabilities: Capabilities,
    /// The capabilities that it may have in effect.
    pub permitted: u64,
    pub threads: u32,
    /// Pending for the thread and for the whole process.
    pub pending: SigSet,
    pub shared_pending: SigSet,
    pub blocked: SigSet,
    pub ignored: SigSet,
    pub caught: SigSet,
}

/// A part of [`Status`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Brief {
    pub name: Name,
    pub state: u8,
    pub ppid: Pid,
    /// The effective one.
    pub uid: u32,
    pub rss_kb: u64,
}

impl Status {
    /// As [`Stat::ended`].
    pub fn ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X') && self.threads <= 1
    }
}

/// All of a file of /proc. None of them says how long it is, and [`std::fs::read`] begins with 32 bytes then: this takes a third of the calls.
///
/// # Errors
/// As open(2) and read(2).
pub fn whole(path: &str) -> std::io::Result<Vec<u8>> {
    kept::with(path, read_whole).unwrap_or_else(|| read_whole(&std::fs::File::open(path)?))
}

fn read_whole(file: &std::fs::File) -> std::io::Result<Vec<u8>> {
    /// What most of them give at most at once (linux: `seq_read`).
    const PAGE: usize = 4096;
    let (mut all, mut length) = (vec![0; 2 * PAGE], 0);
    loop {
        match file.read_at(&mut all[length..], length as u64) {
            Ok(0) => break,
            Ok(got) => length += got,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if all.len() - length < PAGE {
            all.resize(2 * all.len(), 0);
        }
    }
    all.truncate(length);
    Ok(all)
}

/// Group and session of a process or thread, in the caller's numbers; `None` when it is gone. Never waits, and costs less than a look into /proc.
pub fn group_and_session(pid: Pid) -> Option<(Pid, Pid)> {
    // SAFETY: both take and return numbers.
    let (pgid, sid) = unsafe { (libc::getpgid(pid.0), libc::getsid(pid.0)) };
    (pgid >= 0 && sid >= 0).then_some((Pid(pgid), Pid(sid)))
}

/// Is the number a process's or thread's that has not been waited for?
pub fn exists(pid: Pid) -> bool {
    group_and_session(pid).is_some()
}

/// Is this thread about to end, or has it ended? The kernel lets go of what it shares with others before that shows otherwise.
pub fn is_ending(tid: Pid) -> bool {
    Proc::open(root()).ok().and_then(|proc| proc.stat(tid).ok()).is_none_or(|stat| stat.exiting())
}

/// Is this number a thread's of process `pid`?
pub fn thread_of(pid: Pid, tid: Pid) -> bool {
    crate::signal::is_thread(pid, tid)
}

/// `/proc/meminfo`, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    pub total: u64,
    pub available: u64,
}

impl Proc {
    /// The procfs mounted at `path`.
    ///
    /// # Errors
    /// `Sys` when it cannot be opened.
    pub fn open(path: &str) -> Result<Proc> {
        let name = sys::cstring(path)?;
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: the path is a live C string.
        let dir = sys::own(unsafe { libc::open(name.as_ptr(), flags) }.into(), || format!("open {path}"))?;
        Ok(Proc { dir })
    }

    /// The same, from a descriptor of the root of a procfs (of a detached mount, say).
    pub fn from_dir(dir: OwnedFd) -> Proc {
        Proc { dir }
    }

    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// May wait for the process (ODDITY stat-waits-for-exec): a daemon asks this of itself alone.
    ///
    /// # Errors
    /// ENOENT or ESRCH when there is no such process (any more).
    pub fn stat(&self, pid: Pid) -> std::result::Result<Stat, i32> {
        let mut buffer = [0u8; 1024];
        let text = self.read_record(pid, "stat", &mut buffer)?;
        let stat = text::stat(text).ok_or(libc::EIO)?;
        if stat.pgid.0 < 0 {
            return Err(libc::ESRCH); // ODDITY released-task
        }
        Ok(stat)
    }

    /// The same for whoever must wait for nobody (ODDITY stat-waits-for-exec): `None` while the process lives. Who has ended executes no program any more.
    ///
    /// # Errors
    /// As [`Proc::stat`].
    pub fn stat_of_ended(&self, pid: Pid) -> std::result::Result<Option<Stat>, i32> {
        match self.status(pid)?.ended() {
            true => self.stat(pid).map(Some),
            false => Ok(None),
        }
    }

    /// Never waits for anybody.
    ///
    /// # Errors
    /// As [`Proc::stat`].
    pub fn status(&self, pid: Pid) -> std::result::Result<Status, i32> {
        self.status_and_text(pid, &mut Vec::new())
    }

    /// The same, and the file as it is. Never waits for anybody.
    ///
    /// # Errors
    /// As [`Proc::stat`].
    pub fn status_and_text(&self, pid: Pid, buffer: &mut Vec<u8>) -> std::result::Result<Status, i32> {
        // Supplementary groups can be 65536 of up to 11 bytes each; everybody else fits 4 KiB.
        buffer.resize(buffer.capacity().max(4096), 0);
        loop {
            let length = self.read_record(pid, "status", buffer)?.len();
            if length < buffer.len() {
                buffer.truncate(length);
                let status = text::status(buffer).ok_or(libc::EIO)?;
                if status.state == b'X' && status.ppid == Pid::NONE {
                    return Err(libc::ESRCH); // ODDITY released-task
                }
                return Ok(status);
            }
            buffer.resize(buffer.len() * 4, 0);
        }
    }

    /// What a list of processes shows of [`Proc::status`], for less; `buffer` is for use by one call after the other.
    ///
    /// # Errors
    /// As [`Proc::stat`].
    pub fn brief(&self, pid: Pid, buffer: &mut Vec<u8>) -> std::result::Result<Brief, i32> {
        // What is wanted stands before what can be long, but for the groups.
        if buffer.len() < 4096 {
            buffer.resize(4096, 0);
        }
        loop {
            let length = self.read_record(pid, "status", buffer)?.len();
            match text::brief(&buffer[..length]) {
                Some(brief) if brief.state == b'X' && brief.ppid == Pid::NONE => return Err(libc::ESRCH), // ODDITY released-task
                Some(brief) => return Ok(brief),
                None if length < buffer.len() => return Err(libc::EIO),
                None => buffer.resize(buffer.len() * 4, 0),
            }
        }
    }

    /// The parent of a process. Never waits for anybody.
    ///
    /// # Errors
    /// As [`Proc::stat`].
    pub fn parent(&self, pid: Pid) -> std::result::Result<Pid, i32> {
        crate::pidfd::parent(pid).map_or_else(|| self.status(pid).map(|status| status.ppid), Ok)
    }

    /// The arguments, each ended by a NUL; empty for a zombie or a kernel thread. At most `most` bytes.
    ///
    /// # Errors
    /// As [`Proc::stat`].
    pub fn cmdline(&self, pid: Pid, most: usize) -> std::result::Result<Vec<u8>, i32> {
        let mut buffer = vec![0u8; most];
        let length = self.read_into(pid, "cmdline", &mut buffer)?.len();
        buffer.truncate(length);
        Ok(buffer)
    }

    /// All resource limits of a process.
    ///
    /// # Errors
    /// As [`Proc::stat`].
    pub fn limits(&self, pid: Pid) -> std::result::Result<Vec<Limit>, i32> {
        let mut buffer = [0u8; 4096];
        text::limits(self.read_into(pid, "limits", &mut buffer)?).ok_or(libc::EIO)
    }

    /// Any file of a process directory, from its beginning, as far as it fits.
    ///
    /// # Errors
    /// As [`Proc::stat`], or the file's own.
    pub fn read_into<'b>(&self, pid: Pid, file: &str, buffer: &'b mut [u8]) -> std::result::Result<&'b [u8], i32> {
        self.read_path(&path_of(pid, file)?, buffer)
    }

    /// A file that is one record, stat, statm or status, or out of a memory, cmdline or environ: one read has all of it that fits (linux: `single_open`,
    /// `seq_read_iter`; `get_mm_cmdline`, `environ_read`).
    ///
    /// # Errors
    /// As [`Proc::read_into`].
    pub fn read_record<'b>(&self, pid: Pid, file: &str, buffer: &'b mut [u8]) -> std::result::Result<&'b [u8], i32> {
        let fd = open_at(self.dir.as_raw_fd(), &path_of(pid, file)?)?;
        let used = read_on(fd.as_fd(), buffer)?;
        Ok(&buffer[..used])
    }

    /// The processes, in the order of their numbers.
    ///
    /// # Errors
    /// `Sys` when the directory cannot be read.
    pub fn pids(&self) -> Result<Vec<Pid>> {
        self.numbers(".").map_err(|errno| Fault::sys(errno, "list /proc"))
    }

    /// The threads of a process.
    ///
    /// # Errors
    /// As [`Proc::stat`].
    pub fn tasks(&self, pid: Pid) -> std::result::Result<Vec<Pid>, i32> {
        self.numbers(&format!("{pid}/task"))
    }

    /// The children of a thread: those that it has forked, and of the first thread also those that it has taken over from another one.
    ///
    /// # Errors
    /// As [`Proc::stat`]; ENOENT also from a kernel without CONFIG_PROC_CHILDREN.
    pub fn children(&self, tid: Pid) -> std::result::Result<Vec<Pid>, i32> {
        let path = format!("{PROC}/self/fd/{}/{tid}/task/{tid}/children", self.dir.as_raw_fd());
        let text = std::fs::read_to_string(path).map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
        Ok(text.split_whitespace().filter_map(|word| word.parse().ok().map(Pid)).collect())
    }

    fn numbers(&self, path: &str) -> std::result::Result<Vec<Pid>, i32> {
        let full = format!("{PROC}/self/fd/{}/{path}", self.dir.as_raw_fd());
        let entries = std::fs::read_dir(full).map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
        let number = |e: std::io::Result<std::fs::DirEntry>| e.ok()?.file_name().to_str()?.parse().ok().map(Pid);
        let mut numbers: Vec<Pid> = entries.filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The one-minute load average.
    ///
    /// # Errors
    /// `Sys` when it cannot be read.
    pub fn load_average(&self) -> Result<f32> {
        let mut buffer = [0u8; 128];
        let text = self.read_top("loadavg", &mut buffer)?;
        text.split(|b| *b == b' ')
            .next()
            .and_then(|word| std::str::from_utf8(word).ok()?.parse().ok())
            .ok_or_else(|| Fault::new(Kind::Unsupported, "/proc/loadavg is not as proc(5) says"))
    }

    /// # Errors
    /// `Sys` when it cannot be read.
    pub fn memory(&self) -> Result<Memory> {
        let mut buffer = [0u8; 1024];
        let text = self.read_top("meminfo", &mut buffer)?;
        let kib = |key: &[u8]| text::field(text, key).and_then(text::number::<u64>).map_or(0, |kib| kib * 1024);
        Ok(Memory { total: kib(b"MemTotal:"), available: kib(b"MemAvailable:") })
    }

    fn read_top<'b>(&self, file: &str, buffer: &'b mut [u8]) -> Result<&'b [u8]> {
        let path = sys::cstring(file)?;
        self.read_path(path.as_bytes_with_nul(), buffer)
            .map_err(|errno| Fault::sys(errno, format!("read /proc/{file}")))
    }

    fn read_path<'b>(&self, path: &[u8], buffer: &'b mut [u8]) -> std::result::Result<&'b [u8], i32> {
        let fd = open_at(self.dir.as_raw_fd(), path)?;
        let mut used = 0;
        while used < buffer.len() {
            match read_on(fd.as_fd(), &mut buffer[used..])? {
                0 => break,
                n => used += n,
            }
        }
        Ok(&buffer[..used])
    }
}

/// `PID/FILE`, ended by a NUL.
fn path_of(pid: Pid, file: &str) -> std::result::Result<[u8; 64], i32> {
    let mut path = [0u8; 64];
    let mut rest = &mut path[..63];
    write!(rest, "{pid}/{file}").map_err(|_| libc::ENAMETOOLONG)?;
    Ok(path)
}

pub(crate) fn open_at(dir: i32, path: &[u8]) -> std::result::Result<OwnedFd, i32> {
    let path = CStr::from_bytes_until_nul(path).map_err(|_| libc::EINVAL)?;
    // SAFETY: the path is a live C string.
    let fd = unsafe { libc::openat(dir, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    sys::own(fd.into(), String::new).map_err(|fault| fault.errno)
}

pub(crate) fn read_on(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> std::result::Result<usize, i32> {
    loop {
        match sys::read(fd, buffer) {
            Err(libc::EINTR) => {}
            done => return done,
        }
    }
}

/// Moves the PID cursor of the caller's own PID namespace: its next fork takes the first free number above `last`.
///
/// The move may be lost: the kernel sets the cursor without the lock of alloc_pid (linux: `pid_ns_ctl_handler`, `idr_set_cursor`), and a fork
/// that is under way on another processor puts it behind its own number afterwards (`idr_alloc_cyclic`; tests/prog/odd_last_pid.c). Only the numbers
/// given out later tell.
///
/// # Errors
/// `Sys` without CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE over the namespace.
pub fn set_last_pid(proc: &Proc, last: Pid) -> Result<()> {
    write_sysctl(proc, "sys/kernel/ns_last_pid", last.0)
}

/// The newest number that the caller's PID namespace gave out by itself (numbers chosen by set_tid do not count).
///
/// # Errors
/// `Sys` when it cannot be read.
pub fn last_pid(proc: &Proc) -> Result<Pid> {
    let mut buffer = [0u8; 32];
    let text = proc.read_top("sys/kernel/ns_last_pid", &mut buffer)?;
    text::number(text).map(Pid).ok_or_else(|| Fault::new(Kind::Unsupported, "ns_last_pid is no number"))
}

/// Raises the largest PID of the caller's PID namespace (all namespaces before Linux 6.14).
///
/// # Errors
/// `Sys` when the value is above the parent namespace's, or without CAP_SYS_ADMIN.
pub fn set_pid_max(proc: &Proc, most: i32) -> Result<()> {
    write_sysctl(proc, "sys/kernel/pid_max", most)
}

fn write_sysctl(proc: &Proc, file: &str, value: i32) -> Result<()> {
    let doing = || format!("write {value} to /proc/{file}");
    let path = sys::cstring(file)?;
    // SAFETY: the path is a live C string.
    let fd = unsafe { libc::openat(proc.dir.as_raw_fd(), path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    let fd = sys::own(fd.into(), doing)?;
    sys::write(fd.as_fd(), value.to_string().as_bytes()).map(drop).map_err(|errno| Fault::sys(errno, doing()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_namespace;

    #[test]
    fn my_own_entries() {
        let proc = Proc::open("/proc").expect("procfs");
        let me = Pid(std::process::id() as i32);
        let status = proc.status(me).expect("I live");
        assert_eq!(status.tgid, me);
        let stat = proc.stat(me).expect("I live");
        assert_eq!((stat.ppid, stat.pgid, stat.sid, stat.name), (status.ppid, status.pgid, status.sid, status.name));
        assert_eq!(group_and_session(me), Some((status.pgid, status.sid)));
        assert!(status.memory && !status.ended() && matches!(status.state, b'R' | b'S'));
        assert!(!proc.stat(me).expect("I live").ended() && !proc.stat(me).expect("I live").exiting());
        assert!(proc.pids().expect("a list").contains(&me));
        assert!(proc.tasks(me).expect("mine").contains(&me));
        assert!(!proc.cmdline(me, 64).expect("mine").is_empty());
        assert_eq!(proc.owner(me, "stat").expect("mine").0, status.creds.uid.effective);
        assert_eq!(proc.limits(me).expect("mine"), crate::own::limits().expect("mine"));
        assert!(proc.memory().expect("meminfo").total > 1 << 20);
        assert!(proc.load_average().expect("loadavg") >= 0.0);
        assert!(proc.stat(Pid(0x3f_fff0)).is_err());
    }

    #[test]
    fn the_cursor_of_a_namespace_moves_and_free_numbers_are_found_again() {
        in_namespace(|proc| {
            set_pid_max(proc, 4_194_304).expect("root of the namespace");
            set_last_pid(proc, Pid(2_000_000 - 1)).expect("root of the namespace");
            let spawn = || std::process::Command::new("sleep").arg("100").spawn().expect("sleep");
            let first: Vec<u32> = (0..3).map(|_| spawn().id()).collect();
            assert_eq!(first, [2_000_000, 2_000_001, 2_000_002]);
            assert_eq!(last_pid(proc).expect("readable"), Pid(2_000_002));
            set_last_pid(proc, Pid(2_000_000 - 1)).expect("root of the namespace");
            assert_eq!(spawn().id(), 2_000_003, "numbers in use are passed over");
        });
    }

    #[test]
    fn a_leader_that_left_its_threads_behind_has_not_ended() {
        in_namespace(|proc| {
            let script = "import threading,ctypes,time;threading.Thread(target=time.sleep,args=(100,)).start();\
                          ctypes.CDLL(None).syscall(60,0)";
            let Ok(child) = std::process::Command::new("python3").args(["-c", script]).spawn() else { return };
            let pid = Pid(child.id() as i32);
            let stat = loop {
                let stat = proc.stat(pid).expect("a child");
                if stat.state == b'Z' {
                    break stat;
                }
                std::thread::yield_now();
            };
            assert_eq!(stat.threads, 2);
            assert!(!stat.ended());
        });
    }
}
