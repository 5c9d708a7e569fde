//! What a small init or a supervisor needs beside fork and wait: signals as bytes to read, sessions, terminals.

use crate::sys;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use vocab::{Fault, Pid, Result, Sig};

/// Signals that no longer act on this process but are read here (signalfd(2)).
#[derive(Debug)]
pub struct SignalFd {
    fd: OwnedFd,
}

impl SignalFd {
    /// Blocks `signals` in the calling thread and takes them from now on. Children inherit the mask, across exec too:
    /// they set their own ([`crate::signal::set_mask`]) first.
    pub fn new(signals: &[Sig]) -> Result<SignalFd> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset makes `set` a value, which sigaddset changes; the later calls only read it.
        let fd = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for sig in signals {
                libc::sigaddset(set.as_mut_ptr(), i32::from(sig.number()));
            }
            libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        Ok(SignalFd { fd: sys::own(fd.into(), || "make a signal descriptor".into())? })
    }

    /// The next signal that has come; `None` when there is none now.
    pub fn take(&self) -> Result<Option<Sig>> {
        Ok(self.take_from()?.map(|(sig, _)| sig))
    }

    /// The next signal that has come, and whether a process has sent it (and not the kernel, or the terminal).
    pub fn take_from(&self) -> Result<Option<(Sig, bool)>> {
        Ok(self.take_sent()?.map(|(sig, by)| (sig, by.is_some())))
    }

    /// The next signal that has come, and which process has sent it; none if it was the kernel, or the terminal.
    pub fn take_sent(&self) -> Result<Option<(Sig, Option<Pid>)>> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        let at = [
            std::mem::offset_of!(libc::signalfd_siginfo, ssi_code),
            std::mem::offset_of!(libc::signalfd_siginfo, ssi_pid),
        ];
        match sys::read(self.fd.as_fd(), &mut info) {
            // ssi_signo: 32 bits, little endian, at most 64. SI_USER and what else comes from processes is not above 0.
            Ok(_) => {
                let [code, pid] = at.map(|at| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]));
                Ok(Sig::new(info[0]).map(|sig| (sig, (code <= 0).then_some(Pid(pid)))))
            }
            Err(libc::EAGAIN) => Ok(None),
            Err(errno) => Err(Fault::sys(errno, "read a signal descriptor")),
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sends `sig` to the process group `pgid` (killpg(3)).
///
/// # Errors
/// ESRCH when the group has no process; `Refused` for 0 and 1, which mean other things to kill(2).
pub fn signal_group(pgid: Pid, sig: Sig) -> Result<()> {
    if pgid.0 <= 1 {
        return Err(Fault::refused(format!("send {sig} to group {pgid}")));
    }
    // SAFETY: takes two numbers.
    let ret = unsafe { libc::kill(-pgid.0, i32::from(sig.number())) };
    sys::checked(ret.into(), || format!("send {sig} to group {pgid}")).map(drop)
}

/// Makes the terminal `fd` the controlling terminal of this session (TIOCSCTTY); the caller's group is in its
/// foreground then.
///
/// # Errors
/// EPERM for a process that leads no session, or when the terminal controls another one.
pub fn take_terminal(fd: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: TIOCSCTTY takes a number: 0, do not steal it.
    sys::checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSCTTY, 0) }.into(), || "take the terminal".into())
        .map(drop)
}
