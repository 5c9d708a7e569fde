//! Asking the daemon again and again, in a thread of its own: who shows what it says never waits for it.

use crate::picture::Sample;
use client::Local;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use vocab::{Fault, NodeId, Pid, Result, Sig};
use wire::ask::{Answer, Ask};

/// What is told of the daemon.
#[derive(Debug)]
pub(crate) enum Told {
    Sample(Sample),
    /// It cannot be asked; that is tried again.
    Away(Fault),
}

/// One sample; `start` is when the clock of samples began.
///
/// # Errors
/// The daemon's, or `Gone` where there is none.
pub(crate) fn sample(daemon: &mut Local, start: Instant) -> Result<Sample> {
    let nodes = match daemon.ask(&Ask::Nodes)? {
        Answer::Nodes(rows) => rows,
        other => return Err(Fault::wire(format!("the daemon answered Nodes with {other:?}"))),
    };
    let (rows, missing) = match daemon.ask(&Ask::Ps)? {
        Answer::Ps { rows, missing } => (rows, missing),
        other => return Err(Fault::wire(format!("the daemon answered Ps with {other:?}"))),
    };
    Ok(Sample { at_ms: start.elapsed().as_millis() as u64, nodes, rows, missing })
}

/// Asks every `interval`, which may be another one each time, and at once when `wake` says so, until `tell` returns false or nobody is left at the other end of `wake`.
pub(crate) fn ask_for_ever(
    socket: &Path,
    interval: impl Fn() -> Duration,
    wake: &Receiver<()>,
    mut tell: impl FnMut(Told) -> bool,
) {
    let (start, mut daemon) = (Instant::now(), None);
    loop {
        let begun = Instant::now();
        let asked = match daemon.take() {
            Some(daemon) => Ok(daemon),
            None => Local::connect(socket),
        };
        let told = match asked.and_then(|mut asked| sample(&mut asked, start).map(|sample| (asked, sample))) {
            Ok((asked, sample)) => {
                daemon = Some(asked);
                Told::Sample(sample)
            }
            Err(fault) => Told::Away(fault),
        };
        if !tell(told) {
            return;
        }
        match wake.recv_timeout(interval().saturating_sub(begun.elapsed())) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            // However often it was said meanwhile, once is enough.
            Ok(()) => while wake.try_recv().is_ok() {},
        }
    }
}

/// Moves a process as `shoal move` does, over a connection of its own; what came of it, as a sentence.
///
/// # Errors
/// As `shoal move`.
pub(crate) fn move_to(socket: PathBuf, pid: Pid, to: NodeId) -> Result<String> {
    let mut daemon = Local::connect(&socket)?;
    client::moves::move_to(&mut daemon, pid, to, false, None).map(|()| format!("{pid} has moved to {to}"))
}

/// Sends a signal as kill(1) does; what came of it, as a sentence.
///
/// # Errors
/// As kill(2).
pub(crate) fn signal(pid: Pid, sig: Sig) -> Result<String> {
    let sent = kern::signal::send(pid, sig).map(|()| format!("{sig} was sent to {pid}"));
    sent.map_err(|errno| Fault::sys(errno, format!("send {sig} to {pid}")))
}
