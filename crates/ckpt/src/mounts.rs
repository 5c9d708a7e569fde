//! The mount namespace of a process that is to become another one.

use crate::bring::{bring, Wanted};
use crate::vessel::Vessel;
use std::os::fd::{AsFd, OwnedFd};
use vocab::{Fault, Result};

/// Above what a program has that does nothing.
const BASE: i32 = 8;

impl Vessel {
    /// Takes the vessel into that mount namespace: root and working directory are its root.
    ///
    /// # Errors
    /// `Sys` as setns(2); `Gone`.
    pub fn enter_mounts(&self, namespace: &OwnedFd) -> Result<()> {
        let (mut loan, arena) = self.lend()?;
        let come = bring(&mut loan, arena, self.pid(), &[Wanted::Ours(namespace.as_fd())], BASE)?;
        let [number] = come[..] else { return Err(Fault::bug("other descriptors than were brought")) };
        loan.must("enter a mount namespace", libc::SYS_setns, &[number as u64, libc::CLONE_NEWNS as u64])?;
        loan.must("close a descriptor", libc::SYS_close, &[number as u64]).map(drop)
    }
}
