//! What can be read and set of another process by its number: limits, scheduling, whether two descriptors are one open file.

use crate::sys;
use std::cmp::Ordering;
use vocab::Pid;

/// Callers of these decide by the errno.
type Errno<T> = std::result::Result<T, i32>;

/// Soft and hard limit of a resource; [`Pid::NONE`] for the caller's own (prlimit(2)).
pub fn limit(pid: Pid, resource: u32) -> Errno<(u64, u64)> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a null new limit changes nothing; the old one goes to a live variable.
    sys::check(unsafe { libc::prlimit64(pid.0, resource, std::ptr::null(), &mut limit) }.into())?;
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// Sets both. Raising the hard one needs CAP_SYS_RESOURCE over the process.
pub fn set_limit(pid: Pid, resource: u32, (soft, hard): (u64, u64)) -> Errno<()> {
    let limit = libc::rlimit64 { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the new limit is a live variable, and a null old one is not written.
    sys::check(unsafe { libc::prlimit64(pid.0, resource, &limit, std::ptr::null_mut()) }.into()).map(drop)
}

/// A process may have as much of a resource as there is, or where the caller cannot give it that, as its hard limit says: what its limits were.
pub fn lift_limit(pid: Pid, resource: u32) -> Errno<(u64, u64)> {
    let before = limit(pid, resource)?;
    let most = match resource {
        libc::RLIMIT_NOFILE => most_files().unwrap_or(before.1).max(before.1),
        _ => libc::RLIM64_INFINITY,
    };
    set_limit(pid, resource, (most, most)).or_else(|_| set_limit(pid, resource, (before.1, before.1)))?;
    Ok(before)
}

/// What this machine allows as RLIMIT_NOFILE (linux: `sysctl_nr_open`).
fn most_files() -> Option<u64> {
    std::fs::read_to_string(format!("{}/sys/fs/nr_open", crate::proc::PROC)).ok()?.trim().parse().ok()
}

/// Who traces a thread of this process, if anybody in this PID namespace does.
pub fn tracer(pid: Pid) -> Option<Pid> {
    let threads = std::fs::read_dir(format!("{}/{pid}/task", crate::proc::PROC)).ok()?;
    let status = threads.flatten().filter_map(|thread| std::fs::read(thread.path().join("status")).ok());
    status.filter_map(|text| tracer_in(&text)).next()
}

fn tracer_in(status: &[u8]) -> Option<Pid> {
    // The name before it may have any bytes, but a newline (linux: `proc_task_name`).
    let line = status.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"TracerPid:\t"))?;
    let number = std::str::from_utf8(line).ok()?.parse().ok()?;
    (number != 0).then_some(Pid(number))
}

/// How a thread is scheduled (sched(7)); `policy` with SCHED_RESET_ON_FORK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scheduling {
    pub policy: i32,
    pub priority: i32,
    pub nice: i32,
}

pub fn scheduling(tid: Pid) -> Errno<Scheduling> {
    // SAFETY: a number.
    let policy = sys::check(unsafe { libc::sched_getscheduler(tid.0) }.into())? as i32;
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter is a live variable.
    sys::check(unsafe { libc::sched_getparam(tid.0, &mut param) }.into())?;
    // SAFETY: numbers; the raw call gives 20 - nice, so that -1 is always a failure (getpriority(2)).
    let nice = sys::check(unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, tid.0) })?;
    Ok(Scheduling { policy, priority: param.sched_priority, nice: 20 - nice as i32 })
}

pub fn set_scheduling(tid: Pid, scheduling: Scheduling) -> Errno<()> {
    let param = libc::sched_param { sched_priority: scheduling.priority };
    // SAFETY: the parameter is a live variable.
    sys::check(unsafe { libc::sched_setscheduler(tid.0, scheduling.policy, &param) }.into())?;
    // SAFETY: numbers only.
    sys::check(unsafe { libc::setpriority(libc::PRIO_PROCESS, tid.0 as u32, scheduling.nice) }.into()).map(drop)
}

/// `IOPRIO_WHO_PROCESS`.
const OF_THREAD: i32 = 1;

/// A thread's priority for input and output (ioprio_get(2)); 0: none but what its niceness says.
pub fn io_priority(tid: Pid) -> Errno<u32> {
    /// Of the class, above the level; class 0 is none.
    const CLASS: u32 = 13;
    // SAFETY: numbers only.
    let priority = sys::check(unsafe { libc::syscall(libc::SYS_ioprio_get, OF_THREAD, tid.0) })? as u32;
    Ok(if priority >> CLASS == 0 { 0 } else { priority })
}

pub fn set_io_priority(tid: Pid, priority: u32) -> Errno<()> {
    // SAFETY: numbers only.
    sys::check(unsafe { libc::syscall(libc::SYS_ioprio_set, OF_THREAD, tid.0, priority) }).map(drop)
}

/// The processors on which a thread may run, one bit each (sched_getaffinity(2)).
pub fn processors(tid: Pid) -> Errno<Vec<u8>> {
    let mut set = vec![0u8; 1024];
    // SAFETY: the buffer is live and as long as it is said to be.
    let got = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid.0, set.len(), set.as_mut_ptr()) };
    set.truncate(sys::check(got)? as usize);
    Ok(set)
}

/// EINVAL when this machine has none of them.
pub fn set_processors(tid: Pid, set: &[u8]) -> Errno<()> {
    // SAFETY: the buffer is live and as long as it is said to be.
    sys::check(unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid.0, set.len(), set.as_ptr()) }).map(drop)
}

/// Compares the open files behind two descriptors of two processes: equal when they are one, otherwise some fixed order (kcmp(2)).
pub fn compare_files(one: (Pid, i32), other: (Pid, i32)) -> Errno<Ordering> {
    const KCMP_FILE: i32 = 0;
    // SAFETY: numbers only.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one.0 .0, other.0 .0, KCMP_FILE, one.1, other.1) };
    Ok(match sys::check(order)? {
        0 => Ordering::Equal,
        1 => Ordering::Less,
        _ => Ordering::Greater,
    })
}

/// Is the file at which an epoll instance of a process looks by this number, the `nth` of those (epoll(7), Q6), the one that has the number now (kcmp(2),
/// KCMP_EPOLL_TFD)? ENOENT when it looks at no such one.
pub fn epoll_looks_at_descriptor(pid: Pid, epoll: i32, number: i32, nth: u32) -> Errno<bool> {
    const KCMP_EPOLL_TFD: i32 = 7;
    let slot = [epoll as u32, number as u32, nth];
    // SAFETY: numbers, and a struct kcmp_epoll_slot that is live.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, pid.0, pid.0, KCMP_EPOLL_TFD, number, slot.as_ptr()) };
    sys::check(order).map(|order| order == 0)
}

/// Do two processes share their memory (kcmp(2), KCMP_VM)?
pub fn share_memory(one: Pid, other: Pid) -> Errno<bool> {
    const KCMP_VM: i32 = 1;
    // SAFETY: numbers only.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one.0, other.0, KCMP_VM, 0, 0) };
    sys::check(order).map(|order| order == 0)
}

/// What threads of a process share unless they have unshared it (unshare(2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shared {
    /// Descriptors.
    Files,
    /// Root directory, working directory and umask.
    Places,
}

/// Do two threads share this (kcmp(2), KCMP_FILES and KCMP_FS)?
pub fn share((one, other): (Pid, Pid), what: Shared) -> Errno<bool> {
    let kind = match what {
        Shared::Files => 2,
        Shared::Places => 3,
    };
    // SAFETY: numbers only.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one.0, other.0, kind, 0, 0) };
    sys::check(order).map(|order| order == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn who_traces_is_told_by_status() {
        assert_eq!(tracer_in(b"Name:\tTracerPid:\nTracerPid:\t31\nUid:\t0\n"), Some(Pid(31)));
        assert_eq!(tracer_in(b"Name:\ta\nTracerPid:\t0\n"), None);
        assert_eq!(tracer(Pid(std::process::id() as i32)), None);
    }

    #[test]
    fn limits_and_scheduling_are_read_and_set_of_a_child() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep(1)");
        let pid = Pid(child.id() as i32);
        let core = libc::RLIMIT_CORE;
        assert_eq!(limit(pid, core), limit(Pid::NONE, core));
        assert_eq!(share_memory(pid, Pid(std::process::id() as i32)), Ok(false));
        assert_eq!(share_memory(pid, pid), Ok(true));
        for what in [Shared::Files, Shared::Places] {
            assert_eq!(share((pid, Pid(std::process::id() as i32)), what), Ok(false));
            assert_eq!(share((pid, pid), what), Ok(true));
        }
        let before = scheduling(pid).expect("a child");
        let nicer = Scheduling { policy: libc::SCHED_BATCH, priority: 0, nice: before.nice + 3 };
        set_scheduling(pid, nicer).expect("a child");
        assert_eq!(scheduling(pid), Ok(nicer));
        let all = processors(pid).expect("a child");
        set_processors(pid, &all).expect("what it has");
        child.kill().expect("a child");
        child.wait().expect("a child");
    }

    #[test]
    fn duplicates_are_one_open_file() {
        let own = Pid(std::process::id() as i32);
        let file = std::fs::File::open("/dev/null").expect("there");
        let same = file.try_clone().expect("a duplicate");
        let other = std::fs::File::open("/dev/null").expect("there");
        let compare = |one: &std::fs::File, other: &std::fs::File| {
            compare_files((own, one.as_raw_fd()), (own, other.as_raw_fd())).expect("both are open")
        };
        assert_eq!(compare(&file, &same), Ordering::Equal);
        assert_ne!(compare(&file, &other), Ordering::Equal);
    }
}
