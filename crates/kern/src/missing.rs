//! Memory of another process whose pages are brought when they are needed (userfaultfd(2), UFFDIO_REGISTER_MODE_MISSING), and what the process does to
//! that memory meanwhile.
//!
//! A system call that needs a missing page waits for it as an instruction does. Who forks, moves, unmaps or empties such memory waits until that has been
//! read here, and until then no page can be brought (EAGAIN), so that nothing is put where it does not belong any more.
//! ODDITY(uffd-events): a memory that moves is told of twice, the second time as unmapped where it was. linux: `mremap_userfaultfd_complete`. prog: tests/prog/odd_uffd_events.c

use crate::{pidfd, sys};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use vocab::{Fault, Pid, Result};

/// With these a process makes the descriptor (SYS_userfaultfd). The faults of the kernel itself are to wait too, for which it needs CAP_SYS_PTRACE.
pub const FLAGS: u64 = (libc::O_CLOEXEC | libc::O_NONBLOCK) as u64;

const API: u64 = 0xaa;
/// UFFD_FEATURE_EVENT_FORK, _REMAP, _REMOVE and _UNMAP.
const EVENTS: u64 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 6;
const MODE_MISSING: u64 = 1;
const PAGE: u64 = 4096;

const fn request(direction: libc::Ioctl, words: usize, number: libc::Ioctl) -> libc::Ioctl {
    (direction << 30) | (((words * 8) as libc::Ioctl) << 16) | (0xaa << 8) | number
}
const UFFDIO_API: libc::Ioctl = request(3, 3, 0x3f);
const UFFDIO_REGISTER: libc::Ioctl = request(3, 4, 0x00);
const UFFDIO_UNREGISTER: libc::Ioctl = request(2, 2, 0x01);
const UFFDIO_WAKE: libc::Ioctl = request(2, 2, 0x02);
const UFFDIO_COPY: libc::Ioctl = request(3, 5, 0x03);
const UFFDIO_ZEROPAGE: libc::Ioctl = request(3, 4, 0x04);

/// What has become of a page that was brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Brought {
    /// It is there, or was already.
    There,
    /// Nothing is missing at this address, or nothing is there at all.
    NotWanted,
    /// Something is told first ([`Missing::told`]).
    Later,
    /// The process has ended, or executes another program.
    Gone,
}

/// What the process does.
#[derive(Debug)]
pub enum Event {
    /// It needs the page at this address.
    Fault(u64),
    /// It has forked: this is the child's memory, as its own was.
    Fork(Missing),
    Remap {
        from: u64,
        to: u64,
        length: u64,
    },
    /// From and to which address all is zeroes.
    Remove(u64, u64),
    Unmap(u64, u64),
}

/// When the last copy of the descriptor is closed, what is missing is zeroes.
#[derive(Debug)]
pub struct Missing {
    fd: OwnedFd,
}

impl Missing {
    /// Takes a copy of the process's descriptor `number`, which it has just made and may close.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_PTRACE.
    pub fn take(pid: Pid, number: i32) -> Result<Missing> {
        let failed = |errno| Fault::sys(errno, format!("bring pages of process {pid} when they are needed"));
        let handle = pidfd::open(pid).map_err(failed)?;
        let fd = pidfd::getfd(handle.as_fd(), number).map_err(failed)?;
        let missing = Missing { fd };
        missing.ask(UFFDIO_API, &mut [API, EVENTS, 0]).map_err(failed)?;
        Ok(missing)
    }

    fn ask<const N: usize>(&self, request: libc::Ioctl, argument: &mut [u64; N]) -> std::result::Result<(), i32> {
        // SAFETY: the argument is live and of the size that the request says (`request`); the addresses in it are the other process's, but for the
        // source of a copy, which is a live slice of the caller's.
        let done = unsafe { libc::ioctl(self.fd.as_raw_fd(), request, argument.as_mut_ptr()) };
        sys::check(done.into()).map(drop)
    }

    /// From now on pages in `start..end` that are not there are waited for.
    ///
    /// # Errors
    /// As ioctl_userfaultfd(2).
    pub fn add(&self, start: u64, end: u64) -> Result<()> {
        let done = self.ask(UFFDIO_REGISTER, &mut [start, end - start, MODE_MISSING, 0]);
        done.map_err(|errno| Fault::sys(errno, format!("bring pages from {start:#x} on when they are needed")))
    }

    /// What is missing in `start..end` is zeroes from now on, and of what is done to that memory nothing is told.
    ///
    /// # Errors
    /// As ioctl_userfaultfd(2).
    pub fn remove(&self, start: u64, end: u64) -> Result<()> {
        let done = self.ask(UFFDIO_UNREGISTER, &mut [start, end - start]);
        done.map_err(|errno| Fault::sys(errno, format!("leave pages from {start:#x} on alone")))
    }

    /// Brings pages, from `at` on, and lets go on who waits for them. For all of them the same: the last thing that is not [`Brought::There`].
    ///
    /// # Errors
    /// As ioctl_userfaultfd(2), for what no outcome says.
    pub fn copy(&self, at: u64, bytes: &[u8]) -> Result<Brought> {
        let (mut done, mut outcome) = (0, Brought::There);
        while done < bytes.len() {
            let (to, rest) = (at + done as u64, &bytes[done..]);
            match self.copy_some(to, rest) {
                Ok(copied) => {
                    done += copied;
                    continue;
                }
                Err(errno) => match self.sorted(Err(errno), to)? {
                    Brought::There => {}
                    ended @ (Brought::Later | Brought::Gone) => return Ok(ended),
                    not_wanted => outcome = not_wanted,
                },
            }
            done += PAGE as usize;
        }
        Ok(outcome)
    }

    /// As many bytes of these as go at once, or why not even the first page.
    fn copy_some(&self, to: u64, bytes: &[u8]) -> std::result::Result<usize, i32> {
        let once = |length: usize| {
            let mut argument = [to, bytes.as_ptr() as u64, length as u64, 0, 0];
            let answer = self.ask(UFFDIO_COPY, &mut argument);
            let copied = argument[4] as i64;
            if copied > 0 {
                Ok(copied as usize)
            } else {
                answer.map(|()| length)
            }
        };
        match once(bytes.len()) {
            // Of what lies in two mappings nothing is copied (linux: `validate_dst_vma`).
            Err(libc::ENOENT) => unless_changing(|| once(bytes.len().min(PAGE as usize))),
            other => other,
        }
    }

    /// Brings a page of zeroes.
    ///
    /// # Errors
    /// As [`Missing::copy`].
    pub fn zero(&self, at: u64) -> Result<Brought> {
        let done = unless_changing(|| self.ask(UFFDIO_ZEROPAGE, &mut [at, PAGE, 0, 0]));
        self.sorted(done, at)
    }

    fn sorted(&self, done: std::result::Result<(), i32>, at: u64) -> Result<Brought> {
        match done {
            Ok(()) => Ok(Brought::There),
            Err(libc::EEXIST) => {
                // Who waits for it came too late to find it.
                let _nobody = self.ask(UFFDIO_WAKE, &mut [at, PAGE]);
                Ok(Brought::There)
            }
            Err(libc::ENOENT) => {
                let _nobody = self.ask(UFFDIO_WAKE, &mut [at, PAGE]);
                Ok(Brought::NotWanted)
            }
            Err(libc::EAGAIN) => Ok(Brought::Later),
            Err(libc::ESRCH) => Ok(Brought::Gone),
            Err(errno) => Err(Fault::sys(errno, format!("bring the page at {at:#x}"))),
        }
    }

    /// What the process does, if anything: faults before all else, which may be of what has not been told yet.
    ///
    /// # Errors
    /// As read(2).
    pub fn told(&self) -> Result<Option<Event>> {
        let mut message = [0u64; 4];
        // SAFETY: the room is live, and `struct uffd_msg` has 32 bytes.
        let got = unsafe { libc::read(self.fd.as_raw_fd(), message.as_mut_ptr().cast(), size_of_val(&message)) };
        match sys::check(got as i64) {
            Err(libc::EAGAIN | libc::EINTR) => return Ok(None),
            Err(errno) => return Err(Fault::sys(errno, "read what a process does to its memory")),
            Ok(_) => {}
        }
        let [event, first, second, third] = message;
        Ok(Some(match event & 0xff {
            0x12 => Event::Fault(second & !(PAGE - 1)),
            // SAFETY: the kernel has just made this descriptor for the caller (linux: `resolve_userfault_fork`), and nobody else has it.
            0x13 => Event::Fork(Missing { fd: unsafe { OwnedFd::from_raw_fd(first as u32 as i32) } }),
            0x14 => Event::Remap { from: first, to: second, length: third },
            0x15 => Event::Remove(first, second),
            0x16 => Event::Unmap(first, second),
            other => return Err(Fault::bug(format!("a userfaultfd tells of event {other:#x}"))),
        }))
    }
}

/// ODDITY(uffd-moved): of memory that moves, or is unmapped, after the call has begun the kernel says ENOENT, as of what is not waited for, though it is about to
/// tell of that; until it has been told every further call fails with EAGAIN. So what is not there for two calls that follow each other is not there.
/// linux: `mfill_atomic` looks for the mapping before it looks at `mmap_changing`. prog: tests/prog/odd_uffd_moved.c
fn unless_changing<T>(call: impl Fn() -> std::result::Result<T, i32>) -> std::result::Result<T, i32> {
    match call() {
        Err(libc::ENOENT) => call(),
        other => other,
    }
}

impl AsFd for Missing {
    /// Readable when there is something to be told.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
