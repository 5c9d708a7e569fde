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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use wire::frame;

    /// A daemon at `path` that answers with these, each after its pause.
    fn daemon(path: &Path, answers: Vec<(Duration, Answer)>) {
        let listener = UnixListener::bind(path).expect("a socket");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            for (pause, answer) in answers {
                let mut head = [0; frame::HEAD];
                stream.read_exact(&mut head).expect("the head of a question");
                let mut body = vec![0; u32::from_be_bytes(head) as usize];
                stream.read_exact(&mut body).expect("a question");
                std::thread::sleep(pause);
                let mut bytes = Vec::new();
                frame::encode(&answer, &mut bytes).expect("short");
                stream.write_all(&bytes).expect("it is read");
            }
        });
    }

    fn with_daemon<T>(what: &str, answers: Vec<(Duration, Answer)>, then: impl FnOnce(&Path) -> T) -> T {
        let path = std::env::temp_dir().join(format!("shoal-source.{}.{what}", std::process::id()));
        daemon(&path, answers);
        let done = then(&path);
        let _ = std::fs::remove_file(&path);
        done
    }

    #[test]
    fn a_sample_is_of_the_time_at_which_nodes_are_asked() {
        let pause = Duration::from_millis(400);
        let answers = vec![
            (Duration::ZERO, Answer::Nodes(Vec::new())),
            // A node that hangs keeps the answer waiting, and the others have told theirs long before.
            (pause, Answer::Ps { rows: Vec::new(), missing: vec![NodeId(1)] }),
        ];
        let sample = with_daemon("time", answers, |path| {
            let mut daemon = Local::connect_within(path, PATIENCE).expect("it listens");
            sample(&mut daemon, Instant::now()).expect("a sample")
        });
        assert!(u128::from(sample.at_ms) < pause.as_millis(), "{}", sample.at_ms);
    }

    #[test]
    fn no_signal_is_sent_to_another_one_or_from_where_numbers_mean_others() {
        let mut victim = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        let pid = Pid(victim.id() as i32);
        let own = Pid(std::process::id() as i32);
        let place = |pid: Pid, birth: u64| (Duration::ZERO, Answer::Where { pid, node: NodeId(0), birth });
        let sent = |what: &str, answers: Vec<(Duration, Answer)>| {
            with_daemon(what, answers, |path| signal(path, Who { pid, birth: 7 }, Sig::KILL))
                .map_err(|fault| fault.kind)
        };
        assert_eq!(sent("birth", vec![place(pid, 8), place(own, 0)]), Err(vocab::Kind::Gone));
        assert_eq!(sent("number", vec![place(pid, 7), place(Pid(own.0 + 1), 0)]), Err(vocab::Kind::Refused));
        let outside = (Duration::ZERO, Answer::Failed(Fault::gone("0 is no process of the space")));
        assert_eq!(sent("outside", vec![place(pid, 7), outside]), Err(vocab::Kind::Refused));
        assert!(victim.try_wait().expect("a child").is_none(), "it goes on");
        assert!(sent("right", vec![place(pid, 7), place(own, 0)]).is_ok());
        victim.wait().expect("a child");
    }
}
