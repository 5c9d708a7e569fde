//! Which pages a process has written, told by write protection that the kernel itself takes away (userfaultfd(2), UFFD_FEATURE_WP_ASYNC,
//! Linux 6.7).

use crate::{pidfd, sys};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use vocab::{Fault, Pid, Result};

/// With these a process makes the descriptor (SYS_userfaultfd); it needs no privilege then.
pub const FLAGS: u64 = (libc::O_CLOEXEC | libc::O_NONBLOCK) as u64 | USER_MODE_ONLY;
const USER_MODE_ONLY: u64 = 1;

const API: u64 = 0xaa;
const WP_UNPOPULATED: u64 = 1 << 13;
const WP_ASYNC: u64 = 1 << 15;
/// `struct uffdio_api`.
type Api = [u64; 3];
/// `struct uffdio_register`.
type Register = [u64; 4];
const MODE_WP: u64 = 1 << 1;
const UFFDIO_API: libc::Ioctl = (3 << 30) | ((size_of::<Api>() as libc::Ioctl) << 16) | (0xaa << 8) | 0x3f;
const UFFDIO_REGISTER: libc::Ioctl = (3 << 30) | ((size_of::<Register>() as libc::Ioctl) << 16) | (0xaa << 8);

/// Mappings of a process in which [`crate::pagemap::PageMap::written_since`] tells pages that were written. Dropped, they are as before
/// (linux: `userfaultfd_release`).
#[derive(Debug)]
pub struct Tracking {
    fd: OwnedFd,
    pid: Pid,
}

impl Tracking {
    /// Takes a copy of the process's descriptor `number`, which it has just made and may close.
    ///
    /// # Errors
    /// EINVAL before Linux 6.7.
    pub fn take(pid: Pid, number: i32) -> Result<Tracking> {
        let failed = |errno| Fault::sys(errno, format!("begin to follow what process {pid} writes"));
        let handle = pidfd::open(pid).map_err(failed)?;
        let fd = pidfd::getfd(handle.as_fd(), number).map_err(failed)?;
        let mut api: Api = [API, WP_ASYNC | WP_UNPOPULATED, 0];
        // SAFETY: the argument is live and of the size that the request says.
        let done = unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_API, api.as_mut_ptr()) };
        sys::check(done.into()).map_err(failed)?;
        Ok(Tracking { fd, pid })
    }

    /// Follows the mappings in `start..end`.
    ///
    /// # Errors
    /// EBUSY where the process has a userfaultfd of its own; ENOMEM, EINVAL where nothing is mapped that can be followed.
    pub fn add(&self, start: u64, end: u64) -> Result<()> {
        let mut register: Register = [start, end - start, MODE_WP, 0];
        // SAFETY: the argument is live and of the size that the request says; the addresses in it are the other process's.
        let done = unsafe { libc::ioctl(self.fd.as_raw_fd(), UFFDIO_REGISTER, register.as_mut_ptr()) };
        sys::checked(done.into(), || format!("follow what process {} writes at {start:#x}", self.pid)).map(drop)
    }
}
