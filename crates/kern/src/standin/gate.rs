//! How a program's gate comes to the agent: the program's process installs the filter before its first own instruction, and sends the
//! listener.

use super::raw;
use crate::seccomp::{Listener, INSTALL_FLAGS};
use crate::sock::{peek, receive_with, socketpair, Kind};
use crate::sys::set_nonblocking;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use vocab::{Fault, Pid, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What a process needs to go behind its gate.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Entrance {
    /// Address of its struct sock_fprog; 0: the process is behind a gate already.
    pub filter: u64,
    /// The number of [`Door::number`] in the agent, to which the listener is sent.
    pub door: u64,
    /// Whose gate it is: sent with it.
    pub pid: u64,
}

/// Where the agent takes the listeners of new gates.
#[derive(Debug)]
pub struct Door {
    ours: OwnedFd,
    /// What the programs' processes take out of the agent to send to.
    theirs: OwnedFd,
}

impl Door {
    /// # Errors
    /// `Sys` as socketpair(2).
    pub fn open() -> Result<Door> {
        let (ours, theirs) = socketpair(Kind::SeqPacket)?;
        set_nonblocking(ours.as_fd(), true)?;
        Ok(Door { ours, theirs })
    }

    /// To poll: readable when a gate has come.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.ours.as_fd()
    }

    /// A descriptor that is kept free until it is dropped.
    ///
    /// # Errors
    /// `Sys` as dup(2): EMFILE when there is none.
    pub fn reserve(&self) -> Result<OwnedFd> {
        self.fd().try_clone_to_owned().map_err(|e| Fault::io(&e, "reserve a descriptor"))
    }

    /// For [`Entrance::door`].
    pub fn number(&self) -> u64 {
        self.theirs.as_raw_fd() as u64
    }

    /// Whose gate has come next; `None` when there is none.
    ///
    /// # Errors
    /// `Sys` as recv(2).
    pub fn next(&self) -> Result<Option<Pid>> {
        let mut pid = [0; size_of::<u64>()];
        let come = peek(self.fd(), &mut pid)?;
        Ok((come == Some(pid.len())).then_some(Pid(u64::from_ne_bytes(pid) as i32)))
    }

    /// Takes that one, for which a descriptor must be free.
    ///
    /// # Errors
    /// As [`receive_with`]: `Refused` when there was none. The gate is lost then, and the calls at it fail.
    pub fn take(&self) -> Result<Option<Listener>> {
        let mut pid = [0; size_of::<u64>()];
        let Some(mut come) = receive_with(self.fd(), &mut pid)? else { return Ok(None) };
        let listener = come.descriptors.pop().ok_or_else(|| Fault::bug("a gate has come without its listener"))?;
        Ok(Some(Listener::from_fd(listener)))
    }
}

/// A message's control data with one descriptor (cmsg(3)).
#[repr(C)]
struct Control {
    head: libc::cmsghdr,
    descriptor: i32,
}

/// Puts the calling process behind this gate; `owner` is a handle on the agent. On failure what the kernel says, negative.
// SAFETY: (of a call) the filter is live.
pub(super) unsafe fn enter(gate: &Entrance, owner: u64) -> std::result::Result<(), i64> {
    let must = |ret: i64| if ret < 0 { Err(ret) } else { Ok(ret as u64) };
    // SAFETY: the filter is live by the caller's promise, the message and all it points to as long as the call; the rest are numbers.
    unsafe {
        let door = must(raw::call(libc::SYS_pidfd_getfd, [owner, gate.door, 0, 0, 0, 0]))?;
        let install = [libc::SECCOMP_SET_MODE_FILTER.into(), INSTALL_FLAGS, gate.filter, 0, 0, 0];
        let listener = must(raw::call(libc::SYS_seccomp, install))?;
        let head = libc::cmsghdr {
            cmsg_len: size_of::<libc::cmsghdr>() + size_of::<i32>(),
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_RIGHTS,
        };
        let mut control = Control { head, descriptor: listener as i32 };
        let mut part = libc::iovec { iov_base: (&raw const gate.pid).cast_mut().cast(), iov_len: size_of::<u64>() };
        let message = libc::msghdr {
            msg_name: std::ptr::null_mut(),
            msg_namelen: 0,
            msg_iov: &raw mut part,
            msg_iovlen: 1,
            msg_control: (&raw mut control).cast(),
            msg_controllen: size_of::<Control>(),
            msg_flags: 0,
        };
        let send = [door, (&raw const message) as u64, libc::MSG_NOSIGNAL as u64, 0, 0, 0];
        must(raw::call(libc::SYS_sendmsg, send)).map(drop)
    }
}
