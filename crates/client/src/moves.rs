//! Moving a process to another node: the ask, and asking again.

use crate::Local;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use vocab::{Fault, Kind, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};
use wire::look::Progress;

/// A process that forks and waits all the time is tried to be moved for so long: most find it between two of its changes.
const AGAIN: Duration = Duration::from_secs(5);
/// It stands still for some of each try, and runs between two: milliseconds, twice as many each time, up to the second.
const PAUSES_MS: (i32, i32) = (10, 160);

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
    let ask = Ask::Move { pid, to, progress: told.is_some(), lazy };
    let (end, mut pause) = (Instant::now() + AGAIN, PAUSES_MS.0);
    loop {
        let hear = |progress| told.as_mut().map_or((), |told| told(progress));
        match daemon.ask_telling(&ask, hear) {
            Ok(Answer::Moved { .. }) => return Ok(()),
            Ok(other) => return Err(Fault::wire(format!("the daemon answered Move with {other:?}"))),
            Err(fault) if fault.kind == Kind::Changed && Instant::now() < end => {
                // Interrupted, it is tried earlier.
                let _ready = kern::poll::poll(&[], pause);
                pause = PAUSES_MS.1.min(2 * pause);
            }
            Err(fault) => return Err(fault),
        }
    }
}

/// Writes why something has failed into a new file at `path`, for who has asked for it and waits elsewhere.
///
/// # Errors
/// `Sys`, also if there is something.
pub fn tell(path: &Path, fault: &Fault) -> Result<()> {
    let failed = |e: std::io::Error| Fault::io(&e, format!("write {}", path.display()));
    let bytes = minicbor::to_vec(fault).map_err(|e| Fault::bug(format!("encode a failure: {e}")))?;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(&bytes).map_err(failed)
}

/// What [`tell`] has written.
///
/// # Errors
/// `Wire` for something else.
pub fn fault_of(bytes: &[u8]) -> Result<Fault> {
    minicbor::decode(bytes).map_err(|e| Fault::wire(format!("why something has failed: {e}")))
}
