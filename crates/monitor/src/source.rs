//! Asking the daemon again and again, in a thread of its own: who shows what it says never waits for it.

use crate::picture::{Sample, Who};
use client::Local;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use vocab::errno::ESRCH;
use vocab::{Fault, NodeId, Pid, Result, Sig};
use wire::ask::{Answer, Ask};

/// A daemon that says nothing for so long does not answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

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
    // What nodes say is of this moment, however long another one keeps the answer waiting.
    let at_ms = start.elapsed().as_millis() as u64;
    let (rows, missing) = match daemon.ask(&Ask::Ps)? {
        Answer::Ps { rows, missing } => (rows, missing),
        other => return Err(Fault::wire(format!("the daemon answered Ps with {other:?}"))),
    };
    Ok(Sample { at_ms, nodes, rows, missing })
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
            None => Local::connect_within(socket, PATIENCE),
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
/// As `shoal move`; `Gone` where its number is another one's by now.
pub(crate) fn move_to(socket: &Path, who: Who, to: NodeId) -> Result<String> {
    let mut daemon = Local::connect(socket)?;
    is_still(&mut daemon, who)?;
    client::moves::move_to(&mut daemon, who.pid, to, false, None).map(|()| format!("{} has moved to {to}", who.pid))
}

/// Sends a signal as kill(1) does; what came of it, as a sentence.
///
/// # Errors
/// As kill(2); `Gone` where its number is another one's by now; `Refused` where the numbers of the space are not those of this machine's processes.
pub(crate) fn signal(socket: &Path, who: Who, sig: Sig) -> Result<String> {
    let Who { pid, .. } = who;
    let mut daemon = Local::connect_within(socket, PATIENCE)?;
    // First a handle, then the question: what has the number while it is asked for is what the handle is of.
    let handle = kern::pidfd::open(pid);
    is_still(&mut daemon, who)?;
    // The daemon of a node serves callers outside of the space as well: their processes have other numbers.
    let own = daemon.ask(&Ask::Where { pid: Pid::NONE });
    if !matches!(own, Ok(Answer::Where { pid: own, .. }) if own.0 as u32 == std::process::id()) {
        return Err(Fault::refused(
            "signals from here would reach other processes: run this on the front end or in the space",
        ));
    }
    let sent = match &handle {
        Ok(handle) => kern::pidfd::kill(handle.as_fd(), sig),
        // On a node there is not always something that stands for it; kill(2) is passed on.
        Err(ESRCH) => kern::signal::send(pid, sig),
        Err(errno) => Err(*errno),
    };
    sent.map(|()| format!("{sig} was sent to {pid}")).map_err(|errno| Fault::sys(errno, format!("send {sig} to {pid}")))
}

/// Has nobody else its number by now?
fn is_still(daemon: &mut Local, who: Who) -> Result<()> {
    match daemon.ask(&Ask::Where { pid: who.pid })? {
        Answer::Where { birth, .. } if birth == who.birth => Ok(()),
        Answer::Where { pid, .. } => Err(Fault::gone(format!("{pid} has ended, and is another process by now"))),
        other => Err(Fault::wire(format!("the daemon answered Where with {other:?}"))),
    }
}
