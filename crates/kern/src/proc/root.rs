//! Where this process looks at the processes of its machine.
//!
//! On a front end /proc shows, for a process of the space, what it does on its node. Whoever works with what stands for it here, the daemon and the
//! movers above all, needs a procfs that shows this machine alone, and may not wait for those who serve the other one. It is mounted nowhere, or whoever
//! goes through all directories would go through it too.

use crate::{mount, ns};
use std::fmt;
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::OnceLock;
use vocab::Result;

static ROOT: OnceLock<(RawFd, String)> = OnceLock::new();

/// The path of that procfs, where it is put into a text: `{PROC}/{pid}/maps`.
pub static PROC: Root = Root(());

/// See [`PROC`].
pub struct Root(());

impl fmt::Display for Root {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(root())
    }
}

/// The path of that procfs: `/proc`, if there is no other.
pub fn root() -> &'static str {
    ROOT.get().map_or("/proc", |(_, path)| path)
}

/// The descriptor for [`take_over`], as its argument.
pub fn descriptor() -> Option<String> {
    ROOT.get().map(|(fd, _)| fd.to_string())
}

/// From now on this process has a procfs of its own, and so have programs that it executes and that know ([`descriptor`], [`take_over`]). For the beginning
/// of a program; what comes second does not count.
///
/// # Errors
/// `Sys` when there is none to be had.
pub fn look_apart() -> Result<()> {
    let fd = mount::detached("proc")?;
    ns::keep_across_exec(&fd)?;
    set(fd.into_raw_fd());
    Ok(())
}

/// From now on this process looks at what whoever started it does; programs that it executes do not. As [`look_apart`].
///
/// # Errors
/// As [`ns::inherited`].
pub fn take_over(number: RawFd) -> Result<()> {
    set(ns::inherited(number)?.into_raw_fd());
    Ok(())
}

fn set(fd: RawFd) {
    let _first = ROOT.set((fd, format!("/proc/self/fd/{fd}")));
}
