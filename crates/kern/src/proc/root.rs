//! Where this process looks at the processes of its machine.
//!
//! On a front end /proc shows, for a process of the space, what it does on its node; on a node all of it may be a tree that shows the space. Whoever works with
//! what is on this machine, the daemons and the movers above all, needs a procfs that shows this machine alone, and may not wait for those who serve the other
//! one. On a front end it is mounted nowhere, or whoever goes through all directories would go through it too.

use crate::{mount, ns};
use std::fmt;
use std::os::fd::{IntoRawFd, RawFd};
use std::path::Path;
use std::sync::OnceLock;
use vocab::{Fault, Result};

static ROOT: OnceLock<Place> = OnceLock::new();

/// A procfs that is not at /proc.
#[derive(Debug)]
struct Place {
    path: String,
    /// What programs that this one executes are told ([`take_over`]).
    told: String,
}

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
    ROOT.get().map_or("/proc", |place| &place.path)
}

/// For [`take_over`], as its argument; none, if it is /proc.
pub fn handed_over() -> Option<&'static str> {
    ROOT.get().map(|place| &*place.told)
}

/// From now on this process has a procfs of its own, and so have programs that it executes and that know ([`handed_over`], [`take_over`]). For the beginning
/// of a program; what comes second does not count, here and below.
///
/// # Errors
/// `Sys` when there is none to be had.
pub fn look_apart() -> Result<()> {
    let fd = mount::detached("proc")?;
    ns::keep_across_exec(&fd)?;
    set(fd.into_raw_fd());
    Ok(())
}

/// From now on this process looks at the procfs that is mounted at `path`, an absolute one.
pub fn look_at(path: &Path) {
    let path = path.to_string_lossy().into_owned();
    let _first = ROOT.set(Place { told: path.clone(), path });
}

/// From now on this process looks at what whoever started it does, by what that has [`handed_over`]: the path of a procfs, or the number of a descriptor, of
/// which programs that this one executes are not told.
///
/// # Errors
/// As [`ns::inherited`]; `Refused` for what is neither.
pub fn take_over(told: &str) -> Result<()> {
    if told.starts_with('/') {
        look_at(Path::new(told));
        return Ok(());
    }
    let number = told.parse().map_err(|_| Fault::refused(format!("look at the procfs {told:?}")))?;
    set(ns::inherited(number)?.into_raw_fd());
    Ok(())
}

fn set(fd: RawFd) {
    let _first = ROOT.set(Place { path: format!("/proc/self/fd/{fd}"), told: fd.to_string() });
}
