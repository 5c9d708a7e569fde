//! A whole image into a process: one that is made for it, or one that was started for it.

use crate::cgroups;
use crate::child::Child;
use crate::claims::Owner;
use crate::many_files::ManyFiles;
use crate::pages;
use crate::restore::Coming;
use crate::vessel::{Begun, Vessel};
use image::Reader;
use std::io::Read;
use vocab::{Fault, Pid, Result};

/// Makes the process of an image, as a child of the caller and with the PID that it had. It runs when this returns. `any_processor`: also on one that
/// [`crate::cpu::check`] would refuse.
///
/// # Errors
/// `Wire` for a broken image; `Refused` when its PID is in use; what the caller may not do. Nothing of the child is left then.
/// `owner`: of the file that the image is in, whose word it is.
/// Besides its PID the control groups of the image in which it is not, each with the reason.
pub fn restore(image: impl Read + Send, any_processor: bool, owner: Option<Owner>) -> Result<(Pid, Vec<String>)> {
    let _while_it_is_made = ManyFiles::allowed();
    let coming = coming(image, any_processor, owner)?;
    let child = Child::born(coming.pid())?;
    let pid = child.pid;
    let elsewhere = cgroups::enter(pid, coming.cgroups());
    coming.rebuild(Vessel::take(pid)?).map_err(|broken| broken.fault)?.0.go()?;
    child.lives();
    Ok((pid, elsewhere))
}

/// Makes process `pid`, which has one thread, no children and all capabilities, and must have the PID of the image, that process. Nothing behind the end of the image is
/// read, if `image` reads no more than it is asked to.
///
/// # Errors
/// As [`restore`]; before the process is touched, or it is killed.
pub fn restore_into(pid: Pid, image: impl Read + Send, any_processor: bool, owner: Option<Owner>) -> Result<()> {
    let _while_it_is_made = ManyFiles::allowed();
    let coming = coming(image, any_processor, owner)?;
    if coming.pid() != pid {
        return Err(Fault::refused(format!("the image is of process {}, not of {pid}", coming.pid())));
    }
    coming.rebuild(Vessel::take(pid)?).map_err(|broken| broken.fault)?.0.go().map(drop)
}

/// Makes process `pid`, as of [`restore_into`], a copy of the process of an image: of one thread, and with the number that `pid` has. `before`: when all is made, and the copy has not
/// run yet.
///
/// # Errors
/// As [`restore_into`], and of `before`; `Unsupported` for an image of several threads. What has failed has not run.
pub fn copy_into(
    pid: Pid,
    image: impl Read + Send,
    owner: Option<Owner>,
    before: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let _while_it_is_made = ManyFiles::allowed();
    let mut coming = coming(image, false, owner)?;
    coming.goes_by(pid)?;
    let mut copy = coming.rebuild(Vessel::take(pid)?).map_err(|broken| broken.fault)?.0;
    before()?;
    copy.go().map(drop)
}

fn coming<R: Read + Send>(image: R, any_processor: bool, owner: Option<Owner>) -> Result<Coming<R>> {
    let mut reader = Reader::new(image)?;
    let first = pages::following(&mut reader)?;
    let coming = Coming::plan(Begun::whole(reader, first), any_processor, (owner, None), None)?;
    match coming.is_whole() {
        true => Ok(coming),
        false => Err(Fault::wire("an image of which some has stayed where it was")),
    }
}
