//! A thread that acts as somebody else, so that the kernel decides what that one may do.
//!
//! Identity is a thread's own in the kernel; the C library makes it the whole process's. So these are the kernel's calls.

use crate::{capability, sys};
use std::os::fd::{BorrowedFd, OwnedFd};
use vocab::Result;

/// Whom the calling thread acts as. The thread is one of root's, alone with its umask and directory.
#[derive(Debug, Default)]
pub struct Acting {
    now: Option<Identity>,
}

/// File owner and groups of who acts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

const STAY: u32 = u32::MAX;

impl Acting {
    /// For the calling thread, which gets a working directory and umask of its own (unshare(2), CLONE_FS).
    ///
    /// # Errors
    /// `Sys` as unshare(2).
    pub fn begin() -> Result<Acting> {
        // SAFETY: takes a number.
        let ret = unsafe { libc::unshare(libc::CLONE_FS) };
        sys::checked(ret.into(), || "give a thread a umask of its own".into())?;
        // SAFETY: takes a number, cannot fail.
        unsafe { libc::umask(0) };
        // A thread begins as who has made it, and that one may have acted as somebody.
        let mut acting = Acting { now: Some(Identity::default()) };
        acting.become_root();
        Ok(acting)
    }

    /// From now on the calling thread's calls are this one's. Of another user than root it has no capabilities (capabilities(7)).
    ///
    /// # Errors
    /// `Sys`: as setgroups(2), setresgid(2), setresuid(2); the thread is root's then.
    pub fn become_one(&mut self, who: &Identity) -> Result<()> {
        if self.now.as_ref() == Some(who) {
            return Ok(());
        }
        self.become_root();
        if *who == Identity::default() {
            return Ok(());
        }
        let doing = || format!("act as user {}", who.uid);
        // SAFETY: a live array with its length, and numbers; the calls touch the calling thread only.
        let done = unsafe {
            sys::checked(libc::syscall(libc::SYS_setgroups, who.groups.len(), who.groups.as_ptr()), doing)
                .and_then(|_| sys::checked(libc::syscall(libc::SYS_setresgid, STAY, who.gid, STAY), doing))
                .and_then(|_| sys::checked(libc::syscall(libc::SYS_setresuid, STAY, who.uid, STAY), doing))
        };
        match done {
            Ok(_) => {
                self.now = Some(who.clone());
                Ok(())
            }
            Err(fault) => {
                self.now = Some(Identity { uid: 1, ..Identity::default() });
                self.become_root();
                Err(fault)
            }
        }
    }

    /// As [`Acting::become_one`] for root.
    pub fn become_root(&mut self) {
        if self.now.is_none() {
            return;
        }
        self.now = None;
        // SAFETY: numbers, and no array. Root's real id is what allows it.
        unsafe {
            libc::syscall(libc::SYS_setresuid, STAY, 0, STAY);
            libc::syscall(libc::SYS_setresgid, STAY, 0, STAY);
            libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>());
        }
    }

    /// Files and directories that are made have none of these bits.
    pub fn umask(&self, mask: u32) {
        // SAFETY: takes a number, cannot fail.
        unsafe { libc::umask(mask & 0o777) };
    }
}

/// Opens a file by its handle (O_PATH), whoever the calling thread acts as.
///
/// # Errors
/// As [`crate::file_handle::open`].
pub fn open_by_handle(on: BorrowedFd<'_>, kind: i32, handle: &[u8]) -> std::result::Result<OwnedFd, i32> {
    let before = capability::sets();
    let mut raised = before;
    raised[0][0] |= before[0][1] & 1 << capability::DAC_READ_SEARCH;
    let _may = capability::set(&raised);
    let opened = crate::file_handle::open(on, kind, handle);
    let _as_before = capability::set(&before);
    opened
}

/// A thread that may have to be called away from a call that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiter(i32);

/// A signal that nobody else sends, without a meaning of its own.
fn signal() -> i32 {
    libc::SIGRTMIN() + 7
}

extern "C" fn nothing(_: libc::c_int) {}

impl Waiter {
    /// From now on [`Waiter::call_away`] ends a call that waits with EINTR, in any thread of this process. Once, before there are threads.
    ///
    /// # Errors
    /// `Sys` as sigaction(2).
    pub fn prepare() -> Result<()> {
        // SAFETY: the structure is all zero, which is valid, and then has a handler that does nothing; no SA_RESTART.
        let ret = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(signal(), &action, std::ptr::null_mut())
        };
        sys::checked(ret.into(), || "make a signal that calls a thread away".into()).map(drop)
    }

    /// The calling thread.
    pub fn here() -> Waiter {
        // SAFETY: takes nothing.
        Waiter(unsafe { libc::syscall(libc::SYS_gettid) } as i32)
    }

    /// Ends the call in which that thread waits. One that does not wait yet is not called: again, until it has answered.
    pub fn call_away(self) {
        // SAFETY: numbers; a thread that has ended has no number, or is another of this process.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.0, signal()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effective() -> u32 {
        crate::ns::effective_uid()
    }

    #[test]
    fn a_thread_that_is_made_by_one_that_acts_is_roots() {
        if effective() != 0 {
            return;
        }
        let made = std::thread::spawn(|| {
            let mut acting = Acting::begin().expect("root");
            acting.become_one(&Identity { uid: 61001, gid: 61002, groups: vec![61003] }).expect("root");
            assert_eq!(effective(), 61001);
            let other = std::thread::spawn(|| {
                let mut acting = Acting::begin().expect("root");
                let own = effective();
                acting.become_one(&Identity { uid: 61004, ..Identity::default() }).expect("root");
                (own, effective())
            });
            assert_eq!(other.join().expect("it ends"), (0, 61004));
            acting.become_root();
            assert_eq!(effective(), 0);
        });
        made.join().expect("it ends");
        assert_eq!(effective(), 0);
    }
}
