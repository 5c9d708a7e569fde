//! Descriptors of processes: a handle that never comes to mean another process (pidfd_open(2)).

use crate::sys;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use vocab::{Pid, Sig, SigInfo};

/// Callers of these decide by the errno.
type Errno<T> = std::result::Result<T, i32>;

const PIDFD_THREAD: u32 = libc::O_EXCL as u32;

/// A handle on process `pid`, close-on-exec. It polls as EPOLLIN when the process has ended (all its threads) and, where
/// [`tells_of_waits`], as EPOLLHUP when it has been waited for.
///
/// # Errors
/// ESRCH for no such process, EINVAL or ENOENT for the number of a thread that is not a process.
pub fn open(pid: Pid) -> Errno<OwnedFd> {
    open_with(pid, 0)
}

/// A handle on one thread (Linux 6.9 and later; EINVAL before).
pub fn open_thread(tid: Pid) -> Errno<OwnedFd> {
    open_with(tid, PIDFD_THREAD)
}

/// Do handles on processes tell that one has been waited for?
///
/// ODDITY(pidfd-hangup): before Linux 6.9 nothing is told of that to who is not its parent: `pidfd_poll` goes on saying that it has ended. That it says EPOLLHUP, and is
/// woken for it by `__change_pid`, came with the handles on single threads. prog: tests/prog/odd_pidfd_hangup.c
pub fn tells_of_waits() -> bool {
    // The caller's own first thread, in its own numbers.
    open_thread(Pid(std::process::id() as i32)).is_ok()
}

fn open_with(pid: Pid, flags: u32) -> Errno<OwnedFd> {
    // SAFETY: the call takes two numbers and returns a new descriptor.
    let fd = sys::check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, flags) })?;
    sys::own(fd, String::new).map_err(|fault| fault.errno)
}

/// The parent of `pid`, in the caller's numbers; cheaper than a look into /proc. `None` when it is gone, and before Linux 6.13.
pub fn parent(pid: Pid) -> Option<Pid> {
    /// struct pidfd_info of Linux 6.13 (linux/pidfd.h).
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        mask: u64,
        cgroup: u64,
        pid: u32,
        tgid: u32,
        ppid: u32,
        rest: [u32; 9],
    }
    const _: () = assert!(size_of::<Info>() == 64);
    /// `_IOWR(0xff, 11, struct pidfd_info)`.
    const GET_INFO: libc::Ioctl = (3 << 30) | (64 << 16) | (0xff << 8) | 11;
    const INFO_PID: u64 = 1;
    let fd = open(pid).ok()?;
    let mut info = Info { mask: INFO_PID, ..Info::default() };
    // SAFETY: the struct is live and of the size that the request says.
    let ret = unsafe { libc::ioctl(fd.as_raw_fd(), GET_INFO as libc::Ioctl, &raw mut info) };
    (ret == 0 && info.mask & INFO_PID != 0).then_some(Pid(info.ppid as i32))
}

/// A copy of descriptor `number` of the process behind `pidfd` (pidfd_getfd(2)); needs the right to trace it.
pub fn getfd(pidfd: BorrowedFd<'_>, number: i32) -> Errno<OwnedFd> {
    // SAFETY: the call takes three numbers and returns a new descriptor.
    let fd = sys::check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), number, 0) })?;
    sys::own(fd, String::new).map_err(|fault| fault.errno)
}

/// Sends `sig` as the caller's own kill(2) would; to the one thread where `pidfd` came from [`open_thread`].
pub fn kill(pidfd: BorrowedFd<'_>, sig: Sig) -> Errno<()> {
    send(pidfd, i32::from(sig.number()), std::ptr::null())
}

/// Ends process `pid`, if it is there: one that has ended already is as good.
pub fn end(pid: Pid) {
    let _gone_already = open(pid).and_then(|process| kill(process.as_fd(), Sig::KILL));
}

/// Is the process there, if only as a zombie?
///
/// # Errors
/// ESRCH when it has been reaped; EPERM when it is there and the caller may send it no signals.
pub fn is_there(pidfd: BorrowedFd<'_>) -> Errno<()> {
    send(pidfd, 0, std::ptr::null())
}

/// Sends a signal with the sender, code and value of `info`.
///
/// # Errors
/// EPERM for a code that only the kernel or kill may make (0 and above, SI_TKILL), for root too, unless the target is
/// the caller itself (linux: `do_pidfd_send_signal`).
pub fn queue(pidfd: BorrowedFd<'_>, info: &SigInfo) -> Errno<()> {
    let raw = raw_siginfo(info);
    send(pidfd, i32::from(info.sig.number()), raw.as_ptr().cast())
}

fn send(pidfd: BorrowedFd<'_>, sig: i32, info: *const libc::siginfo_t) -> Errno<()> {
    // SAFETY: `info` is null or points to the 128 bytes of a siginfo that outlives the call.
    sys::check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), sig, info, 0) }).map(drop)
}

/// The kernel's siginfo_t (128 bytes, as words) of a signal that has a sender.
pub fn raw_siginfo(info: &SigInfo) -> [u64; 16] {
    let mut raw = [0u64; 16];
    raw[0] = u64::from(info.sig.number()); // si_signo, si_errno
    raw[1] = u64::from(info.code as u32); // si_code, padding
    raw[2] = u64::from(info.pid.0 as u32) | u64::from(info.uid) << 32;
    raw[3] = info.value;
    raw
}

/// The siginfo in the kernel's words, `None` when it has no valid signal number.
pub fn read_siginfo(raw: &[u64; 16]) -> Option<SigInfo> {
    Some(SigInfo {
        sig: Sig::new(u8::try_from(raw[0] as u32).ok()?)?,
        code: raw[1] as u32 as i32,
        pid: Pid(raw[2] as u32 as i32),
        uid: (raw[2] >> 32) as u32,
        value: raw[3],
        count: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::process::Command;

    fn events(fd: BorrowedFd<'_>, timeout_ms: i32) -> i16 {
        let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, as the count says.
        assert!(unsafe { libc::poll(&mut poll, 1, timeout_ms) } >= 0);
        poll.revents
    }

    #[test]
    fn a_parent_is_told_as_proc_tells_it() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep(1)");
        let (me, pid) = (Pid(std::process::id() as i32), Pid(child.id() as i32));
        let proc = crate::proc::Proc::open("/proc").expect("mounted");
        // Before Linux 6.13 nobody tells.
        assert!(parent(pid).is_none_or(|told| Ok(told) == proc.stat(pid).map(|stat| stat.ppid) && told == me));
        let forked: Vec<Pid> =
            proc.tasks(me).expect("me").into_iter().flat_map(|tid| proc.children(tid).unwrap_or_default()).collect();
        assert!(forked.contains(&pid) || proc.children(me) == Err(libc::ENOENT), "{forked:?}");
        child.kill().and_then(|()| child.wait()).expect("my child");
        assert_eq!(parent(pid), None);
    }

    #[test]
    fn a_zombie_polls_in_and_a_reaped_process_hangs_up() {
        let mut child = Command::new("sleep").arg("100").spawn().expect("sleep is there");
        let fd = open(Pid(child.id() as i32)).expect("a live child");
        assert_eq!(events(fd.as_fd(), 0), 0);
        kill(fd.as_fd(), Sig::KILL).expect("my own child");
        assert_eq!(events(fd.as_fd(), 5000), libc::POLLIN);
        child.wait().expect("my child");
        let said = events(fd.as_fd(), 5000);
        assert_eq!(said & libc::POLLHUP != 0, tells_of_waits());
        assert_eq!(is_there(fd.as_fd()), Err(libc::ESRCH));
        assert_eq!(kill(fd.as_fd(), Sig::KILL), Err(libc::ESRCH));
    }

    #[test]
    fn only_queued_codes_may_be_forged() {
        let mut child = Command::new("sleep").arg("100").spawn().expect("sleep is there");
        let fd = open(Pid(child.id() as i32)).expect("a live child");
        let mut info = SigInfo::kill(Sig::TERM, Pid(4711), 7);
        assert_eq!(queue(fd.as_fd(), &info), Err(libc::EPERM));
        info.code = SigInfo::SI_QUEUE;
        assert_eq!(queue(fd.as_fd(), &info), Ok(()));
        child.wait().expect("ended by SIGTERM");
    }

    #[test]
    fn a_siginfo_survives_the_kernels_form() {
        let info = SigInfo { sig: Sig::USR1, code: -1, pid: Pid(99), uid: 0xffff_fffe, value: u64::MAX, count: None };
        assert_eq!(read_siginfo(&raw_siginfo(&info)), Some(info));
        assert_eq!(read_siginfo(&[0; 16]), None);
    }
}
