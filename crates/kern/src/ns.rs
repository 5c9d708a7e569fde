//! Namespaces (namespaces(7)): forking a process into new ones, and what is set inside them.

use crate::sys;
use bitflags::bitflags;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use vocab::{Fault, Pid, Result};

bitflags! {
    /// The kinds of namespaces that a child can be given new.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Namespaces: u64 {
        const MOUNT = libc::CLONE_NEWNS as u64;
        const PID = libc::CLONE_NEWPID as u64;
        const NET = libc::CLONE_NEWNET as u64;
        const UTS = libc::CLONE_NEWUTS as u64;
        const IPC = libc::CLONE_NEWIPC as u64;
    }
}

/// A child of this process, by its number here and by a handle that stays its own.
#[derive(Debug)]
pub struct Child {
    pub pid: Pid,
    /// Close-on-exec; polls readable when the child has ended.
    pub pidfd: OwnedFd,
}

/// `struct clone_args` of clone3(2), its first version (64 bytes).
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

/// In which of the two processes [`fork`] has returned.
#[derive(Debug)]
pub enum Forked {
    /// The new one. It leaves by [`exit`].
    Child,
    Parent(Child),
}

/// Forks a child into new namespaces of the given kinds (none: an ordinary fork). With a new PID namespace the child
/// is its init. Both processes own a copy of every descriptor and drop those that are the other's.
///
/// # Errors
/// `Bug` when this process has more than one thread: the child would have the locks of the others and never see them
/// released. `Sys` as clone3(2).
pub fn fork(new: Namespaces) -> Result<Forked> {
    single_threaded()?;
    let mut pidfd: RawFd = -1;
    let args = CloneArgs {
        flags: new.bits() | libc::CLONE_PIDFD as u64,
        pidfd: &raw mut pidfd as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    // SAFETY: without CLONE_VM this is a fork: the child goes on with a copy of this memory and of the only thread, on
    // a copy of its stack. `args` has the size that is passed, and `pidfd` outlives the call.
    let ret = unsafe { libc::syscall(libc::SYS_clone3, &args, size_of::<CloneArgs>()) };
    if ret == 0 {
        return Ok(Forked::Child);
    }
    let pid = sys::checked(ret, || format!("fork into new namespaces {new:?}"))?;
    // SAFETY: CLONE_PIDFD stored a new descriptor there, which is nobody's yet.
    Ok(Forked::Parent(Child { pid: Pid(pid as i32), pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } }))
}

/// Ends a forked child at once, without the exit handlers, which are its parent's.
pub fn exit(code: i32) -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(code) }
}

fn single_threaded() -> Result<()> {
    let tasks = std::fs::read_dir("/proc/self/task").map_err(|e| Fault::io(&e, "count this process's threads"))?;
    match tasks.count() {
        1 => Ok(()),
        n => Err(Fault::bug(format!("fork with {n} threads"))),
    }
}

/// Sets the host name of this UTS namespace.
pub fn set_hostname(name: &str) -> Result<()> {
    // SAFETY: the pointer and the length are those of a live string.
    let ret = unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) };
    sys::checked(ret.into(), || format!("set the host name {name}")).map(drop)
}

/// Makes the kernel kill this process with SIGKILL when the thread that made it ends (PR_SET_PDEATHSIG, prctl(2)).
/// It does not say whether that has happened already.
// The kernel passes it with force, so that it also ends an init whose parent is in an ancestor namespace
// (linux: reparent_leader's caller forget_original_parent, send_signal_locked).
pub fn die_with_parent() -> Result<()> {
    // SAFETY: the option takes a number and touches no memory.
    let ret = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) };
    sys::checked(ret.into(), || "ask for SIGKILL at the parent's death".into()).map(drop)
}

/// The name that ps shows for this process: at most 15 bytes, the rest is cut off (PR_SET_NAME, of the calling thread).
pub fn set_name(name: impl AsRef<[u8]>) -> Result<()> {
    let text = sys::cstring(name.as_ref())?;
    // SAFETY: the option reads a string that ends with a NUL.
    let ret = unsafe { libc::prctl(libc::PR_SET_NAME, text.as_ptr(), 0, 0, 0) };
    sys::checked(ret.into(), || format!("take the name {}", text.to_string_lossy())).map(drop)
}

/// Makes this process the leader of a new session without a terminal (setsid(2)).
///
/// # Errors
/// EPERM for the leader of a process group.
pub fn new_session() -> Result<Pid> {
    // SAFETY: takes nothing and touches no memory.
    sys::checked(unsafe { libc::setsid() }.into(), || "make a session".into()).map(|sid| Pid(sid as i32))
}

/// The effective user id of this process.
pub fn effective_uid() -> u32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::geteuid() }
}

/// Takes over descriptor `number`, which whoever started this program said to be for it (as `--ready-fd`). It is
/// close-on-exec from now on. To be called once for a number, before this process opens anything.
///
/// # Errors
/// `Refused` for a standard stream; EBADF for a number that is not open.
pub fn inherited(number: RawFd) -> Result<OwnedFd> {
    if number <= 2 {
        return Err(Fault::refused(format!("descriptor {number} is a standard stream")));
    }
    // SAFETY: F_SETFD takes a number.
    let ret = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    sys::checked(ret.into(), || format!("take over descriptor {number}"))?;
    // SAFETY: it is open, it came through exec, and by this function's contract nothing else here owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Lets `fd` through exec under its number, which is returned.
pub fn keep_across_exec(fd: &OwnedFd) -> Result<RawFd> {
    // SAFETY: F_SETFD takes a number.
    let ret = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0) };
    sys::checked(ret.into(), || "keep a descriptor across exec".into())?;
    Ok(fd.as_raw_fd())
}

/// Makes `fd` descriptor `number` of this process, without close-on-exec (dup2(2)); what was there is closed.
///
/// # Errors
/// `Refused` for a number other than those of the standard streams, which no owner in this process closes.
pub fn become_stream(fd: &OwnedFd, number: RawFd) -> Result<()> {
    if !(0..=2).contains(&number) {
        return Err(Fault::refused(format!("descriptor {number} is no standard stream")));
    }
    // SAFETY: both are numbers of descriptors; the standard streams belong to the process as a whole.
    let ret = unsafe { libc::dup2(fd.as_raw_fd(), number) };
    sys::checked(ret.into(), || format!("make a descriptor standard stream {number}")).map(drop)
}
