//! Moving a process to another node: the ask, and asking again.

use crate::again::again;
use crate::Local;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};
use wire::look::Progress;

/// Returns when the process runs on that node; `told`, if anybody wants to know, hears how far it is.
///
/// # Errors
/// The daemon's own; then it stays where it was. `Changed` only after some seconds of trying.
pub fn move_to(
    daemon: &mut Local,
    pid: Pid,
    to: NodeId,
    lazy: bool,
    mut told: Option<&mut dyn FnMut(Progress)>,
) -> Result<()> {
    let ask = Ask::Move { pid, to, progress: told.is_some(), lazy, executes: Vec::new() };
    again(|| {
        let hear = |progress| told.as_mut().map_or((), |told| told(progress));
        match daemon.ask_telling(&ask, hear)? {
            Answer::Moved { .. } => Ok(()),
            other => Err(Fault::wire(format!("the daemon answered Move with {other:?}"))),
        }
    })
}

/// The same of a process of the front end that will execute this file there, which may be on the front end only.
///
/// # Errors
/// As [`move_to`].
pub fn move_to_execute(daemon: &mut Local, pid: Pid, to: NodeId, file: &[u8]) -> Result<()> {
    let ask = Ask::Move { pid, to, progress: false, lazy: false, executes: file.to_vec() };
    again(|| match daemon.ask(&ask)? {
        Answer::Moved { .. } => Ok(()),
        other => Err(Fault::wire(format!("the daemon answered Move with {other:?}"))),
    })
}

/// Writes why something has failed into a new file at `path`, for who has asked for it and waits elsewhere.
///
/// # Errors
/// `Sys`, also if there is something.
pub fn tell(path: &Path, fault: &Fault) -> Result<()> {
    write(path, &encoded(fault)?)
}

/// What [`fault_of`] reads.
///
/// # Errors
/// `Bug` for one that cannot be written down.
pub fn encoded(fault: &Fault) -> Result<Vec<u8>> {
    minicbor::to_vec(fault).map_err(|e| Fault::bug(format!("encode a failure: {e}")))
}

/// The same for what has succeeded: no bytes.
///
/// # Errors
/// As [`tell`].
pub fn tell_success(path: &Path) -> Result<()> {
    write(path, &[])
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |e: std::io::Error| Fault::io(&e, format!("write {}", path.display()));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(bytes).map_err(failed)
}

/// What [`tell`] has written.
///
/// # Errors
/// `Wire` for something else.
pub fn fault_of(bytes: &[u8]) -> Result<Fault> {
    minicbor::decode(bytes).map_err(|e| Fault::wire(format!("why something has failed: {e}")))
}
