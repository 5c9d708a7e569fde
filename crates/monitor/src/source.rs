//! Asking the daemon again and again, in a thread of its own: who shows what it says never waits for it.

use crate::picture::Sample;
use client::Local;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use vocab::{Fault, NodeId, Pid, Result};
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

/// Asks every `interval`, and at once when `wake` says so, until `tell` returns false or nobody is left at the other end of `wake`.
pub(crate) fn ask_for_ever(socket: &Path, interval: Duration, wake: &Receiver<()>, mut tell: impl FnMut(Told) -> bool) {
    let (start, mut daemon) = (Instant::now(), None);
    loop {
        let next = Instant::now() + interval;
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
        match wake.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            // However often it was said meanwhile, once is enough.
            Ok(()) => while wake.try_recv().is_ok() {},
        }
    }
}

/// Moves a process as `shoal move` does, over a connection of its own; what came of it, as a sentence.
pub(crate) fn move_to(socket: PathBuf, pid: Pid, to: NodeId) -> String {
    let moved =
        Local::connect(&socket).and_then(|mut daemon| client::moves::move_to(&mut daemon, pid, to, false, None));
    match moved {
        Ok(()) => format!("{pid} has moved to {to}"),
        Err(fault) => fault.to_string(),
    }
}

/// Sends a signal as kill(1) does; what came of it, as a sentence.
pub(crate) fn signal(pid: Pid, sig: vocab::Sig) -> String {
    match kern::signal::send(pid, sig) {
        Ok(()) => format!("{sig} was sent to {pid}"),
        Err(errno) => Fault::sys(errno, format!("send {sig} to {pid}")).to_string(),
    }
}
