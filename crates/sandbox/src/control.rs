//! Breaking parts of a running sandbox on purpose, and mending them: requests come over a socket that the front end
//! sees, one line each (`n2 kill`); the answer comes when it has come about.

use crate::layout::{Host, SHARED_DIR};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vocab::{Fault, Kind, Result, Sig};

/// How far a machine has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Its init furnishes it.
    Making,
    /// It waits to be told to start its daemon.
    Made,
    /// Its daemon is starting.
    Starting,
    /// Its daemon has said that it is ready.
    Ready,
    /// Its daemon has ended.
    Down,
    /// Its init is gone, and with it everything on it.
    Gone,
}

/// What can be done to a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// SIGKILL to its init: power off.
    Kill,
    /// Make it anew after that, with its daemon.
    Boot,
    StartDaemon,
    SignalDaemon(Sig),
    /// The cluster's end of its network cable up or down: the machine sees that it has no carrier.
    Link(bool),
    /// The cable plugged into the bridge or not: nothing arrives, but the machine sees no difference.
    Cable(bool),
}

/// The words for them, with what they mean for the one who types them.
pub(crate) const ACTIONS: &[(&str, Action, &str)] = &[
    ("kill", Action::Kill, "kill the whole machine at once"),
    ("boot", Action::Boot, "make a killed machine anew"),
    ("kill-daemon", Action::SignalDaemon(Sig::KILL), "kill its shoal daemon"),
    ("stop-daemon", Action::SignalDaemon(Sig::STOP), "stop its shoal daemon, all of it (SIGSTOP)"),
    ("continue-daemon", Action::SignalDaemon(Sig::CONT), "let a stopped daemon go on"),
    ("start-daemon", Action::StartDaemon, "start its daemon again"),
    ("link-down", Action::Link(false), "set its network link down"),
    ("link-up", Action::Link(true), "set it up again"),
    ("silent", Action::Cable(false), "let all its packets vanish"),
    ("heard", Action::Cable(true), "let them through again"),
];

impl Action {
    /// In which stage is the machine when it has come about? `None`: at once.
    fn reaches(self) -> Option<Stage> {
        match self {
            Action::Kill => Some(Stage::Gone),
            Action::Boot | Action::StartDaemon => Some(Stage::Ready),
            Action::SignalDaemon(Sig::KILL) => Some(Stage::Down),
            _ => None,
        }
    }
}

/// One request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    pub(crate) host: Host,
    pub(crate) action: Action,
}

impl Order {
    fn parse(line: &str) -> Result<Order> {
        let bad = || Fault::refused(format!("{line:?}: a machine (front, n0, …) and what to do to it are needed"));
        let (host, word) = line.trim().split_once(' ').ok_or_else(bad)?;
        let action = ACTIONS.iter().find(|(name, ..)| *name == word).ok_or_else(bad)?.1;
        Ok(Order { host: Host::parse(host).ok_or_else(bad)?, action })
    }
}

/// How long the sender of a request may take for its line.
const PATIENCE: Duration = Duration::from_secs(1);

/// The cluster's side.
#[derive(Debug)]
pub(crate) struct Control {
    listener: UnixListener,
    waiting: Vec<(UnixStream, Host, Stage)>,
}

fn path() -> PathBuf {
    Path::new(SHARED_DIR).join("control")
}

impl Control {
    pub(crate) fn listen() -> Result<Control> {
        let doing = || format!("listen at {}", path().display());
        let listener = UnixListener::bind(path()).map_err(|e| Fault::io(&e, doing()))?;
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path(), mode).map_err(|e| Fault::io(&e, doing()))?;
        Ok(Control { listener, waiting: Vec::new() })
    }

    /// The next request. A bad one has got its answer already.
    pub(crate) fn take(&mut self) -> Option<(UnixStream, Order)> {
        let (mut stream, _) = self.listener.accept().ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut line = String::new();
        BufReader::new((&stream).take(100)).read_line(&mut line).ok()?;
        match Order::parse(&line) {
            Ok(order) => Some((stream, order)),
            Err(fault) => {
                reply(&mut stream, &Err(fault));
                None
            }
        }
    }

    /// The request was carried out as far as the cluster can; it is answered when the machine is where it shall be.
    pub(crate) fn started(&mut self, mut stream: UnixStream, order: Order, done: Result<()>) {
        match (done, order.action.reaches()) {
            (Ok(()), Some(stage)) => self.waiting.push((stream, order.host, stage)),
            (done, _) => reply(&mut stream, &done),
        }
    }

    /// Answers what has come about, and what cannot come about any more, for which `why` has the words.
    pub(crate) fn answer(&mut self, stage: impl Fn(Host) -> Stage, why: impl Fn(Host) -> Fault) {
        self.waiting.retain_mut(|(stream, host, wanted)| {
            let stage = stage(*host);
            let never = stage == Stage::Gone || stage == Stage::Down && *wanted == Stage::Ready;
            if stage == *wanted {
                reply(stream, &Ok(()));
            } else if never {
                reply(stream, &Err(why(*host)));
            }
            stage != *wanted && !never
        });
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Whoever has gone away meanwhile needs no answer.
fn reply(stream: &mut UnixStream, done: &Result<()>) {
    let text = match done {
        Ok(()) => "ok\n".to_string(),
        Err(fault) => format!("{fault}\n"),
    };
    let _ = stream.write_all(text.as_bytes());
    // A machine that was forked meanwhile has a copy, so closing it here would not end it.
    let _ = stream.shutdown(Shutdown::Both);
}

/// Asks the sandbox in which this process is (on its front end, as root) to break or mend a part of itself.
///
/// # Errors
/// `Gone` outside a sandbox; the sandbox's own words when it cannot be done.
pub fn request(machine: &str, action: &str) -> Result<()> {
    let mut stream = UnixStream::connect(path()).map_err(|e| {
        Fault::io(&e, format!("connect to {}: this works on a sandbox's front end, as root", path().display()))
    })?;
    let mut answer = String::new();
    stream
        .write_all(format!("{machine} {action}\n").as_bytes())
        .and_then(|()| stream.read_to_string(&mut answer))
        .map_err(|e| Fault::io(&e, "ask the sandbox"))?;
    match answer.trim() {
        "ok" => Ok(()),
        "" => Err(Fault::gone("the sandbox closed the connection before it answered")),
        why => Err(Fault::new(Kind::Refused, why)),
    }
}

/// The words that [`request`] takes for what to do, each with its meaning.
pub fn actions() -> impl Iterator<Item = (&'static str, &'static str)> {
    ACTIONS.iter().map(|(word, _, meaning)| (*word, *meaning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_name_a_machine_and_an_action() {
        let order = Order { host: Host::Node(12), action: Action::Cable(false) };
        assert_eq!(Order::parse("n12 silent\n"), Ok(order));
        for bad in ["", "n1", "n1 explode", "x kill", "nx kill"] {
            assert!(Order::parse(bad).is_err(), "{bad}");
        }
    }

    /// What `take` reads of anybody: at most 100 bytes of text.
    #[test]
    fn no_line_makes_the_parser_panic_and_what_it_takes_is_an_order() {
        let words: Vec<&str> =
            ACTIONS.iter().map(|(word, ..)| *word).chain(["front", "n", "n0", " ", "-1", "é", "\t"]).collect();
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % below
        };
        for _ in 0..200_000 {
            let line: String = (0..random(6)).map(|_| words[random(words.len())]).collect();
            if let Ok(order) = Order::parse(&line) {
                let (host, word) = line.trim().split_once(' ').expect("two words");
                assert_eq!(order.host.name(), host, "{line:?}");
                assert!(ACTIONS.iter().any(|(name, action, _)| *name == word && *action == order.action), "{line:?}");
            }
        }
    }
}
