//! The caller's side: makes the cgroup, the janitor and the cluster, passes signals and the terminal on, and ends as
//! the command ended.

use crate::cluster::{self, Birth};
use crate::layout::CGROUP_PREFIX;
use crate::talk::{Talk, Word};
use crate::terminal::{self, Terminal};
use crate::{janitor, watch, Plan, MOST_NODES};
use kern::cgroup::{self, Claim};
use kern::init::SignalFd;
use kern::ns::{self, Child, Forked, Namespaces};
use kern::poll::Ready;
use kern::{pidfd, wait};
use std::io::Read;
use std::os::fd::AsFd;
use vocab::{Exit, Fault, Result, Sig};

/// Signals that are meant for the command, as a shell's child would get them.
const PASSED: [Sig; 6] = [Sig::INT, Sig::TERM, Sig::HUP, Sig::QUIT, Sig::USR1, Sig::USR2];

/// Makes the sandbox, runs the command in it and takes it down again. The result is the command's end.
///
/// The calling process must have one thread; its standard streams are the command's, and it keeps only standard error.
///
/// # Errors
/// `Refused` for more nodes than [`MOST_NODES`] and without root; `Unsupported` without cgroup version 2; `Gone` when
/// part of the sandbox was killed or did not start.
pub fn run(plan: Plan) -> Result<Exit> {
    if plan.nodes > MOST_NODES {
        return Err(Fault::refused(format!("a sandbox of {} nodes: {MOST_NODES} is the most", plan.nodes)));
    }
    if ns::effective_uid() != 0 {
        return Err(Fault::refused("a sandbox makes namespaces and network devices: that needs root (try sudo)"));
    }
    let root = cgroup::find_v2()?;
    cgroup::sweep(&root, CGROUP_PREFIX)?;
    let claim = cgroup::claim(&root.join(format!("{CGROUP_PREFIX}{}.{}", std::process::id(), &hex(&random()?)[..8])))?;
    let outer_terminal = terminal::of_caller()?;
    let janitor = janitor::start(&claim, outer_terminal.as_ref())?;
    let ended = make_and_follow(plan, &claim, outer_terminal);
    let cleaned = janitor.finish(&claim);
    ended.and_then(|exit| cleaned.map(|()| exit))
}

fn make_and_follow(
    plan: Plan,
    claim: &Claim,
    outer_terminal: Option<(std::fs::File, kern::pty::Modes)>,
) -> Result<Exit> {
    let with_terminal = outer_terminal.is_some();
    let blocked = kern::signal::blocked()?;
    let signals = SignalFd::new(&watched(with_terminal))?;
    let (relay, slave) = match outer_terminal {
        Some((outer, modes)) => Terminal::make(outer, modes).map(|(relay, slave)| (Some(relay), Some(slave)))?,
        None => (None, None),
    };
    let (ours, theirs) = Talk::pair()?;
    let birth = Birth { plan, cgroup: claim.path().to_owned(), key: key()?, terminal: slave, blocked };
    let all = Namespaces::MOUNT | Namespaces::PID | Namespaces::NET | Namespaces::UTS | Namespaces::IPC;
    let child = match ns::fork(all)? {
        Forked::Parent(child) => child,
        Forked::Child => {
            drop(ours);
            // Not dropped: that would set the terminal's modes.
            std::mem::forget(relay);
            ns::exit(cluster::init(birth, theirs))
        }
    };
    drop((birth, theirs));
    let mut caller = Caller { talk: ours, child, signals, relay };
    if !with_terminal {
        caller.leave_streams()?;
    }
    let ended = caller.follow();
    caller.end(claim);
    ended
}

/// The signals to take as bytes. One that was ignored when the caller started stays so (nohup).
fn watched(with_terminal: bool) -> Vec<Sig> {
    let ignored = kern::signal::inherited_ignored();
    let mut signals: Vec<Sig> = PASSED.into_iter().filter(|sig| !ignored.has(*sig)).collect();
    if with_terminal {
        signals.extend([Sig::WINCH, Sig::CONT]);
    }
    signals
}

struct Caller {
    talk: Talk,
    child: Child,
    signals: SignalFd,
    relay: Option<Terminal>,
}

impl Caller {
    /// Until the command has ended.
    fn follow(&mut self) -> Result<Exit> {
        loop {
            let mut wanted = vec![
                (self.talk.as_fd(), Ready::READ),
                (self.signals.as_fd(), Ready::READ),
                (self.child.pidfd.as_fd(), Ready::READ),
            ];
            wanted.extend(self.relay.iter().flat_map(Terminal::wanted));
            let came = watch::events(&wanted, None)?;
            if let (Some(relay), [outer, master]) = (&mut self.relay, &came[3..]) {
                relay.relay(*outer, *master)?;
            }
            if came[1] != Ready::default() {
                self.take_signals()?;
            }
            if came[0] != Ready::default() {
                if let Some(exit) = self.hear()? {
                    return Ok(exit);
                }
            } else if came[2] != Ready::default() {
                return Err(Fault::gone("the sandbox's first process was killed, and everything in it with it"));
            }
        }
    }

    fn hear(&mut self) -> Result<Option<Exit>> {
        let Some(words) = self.talk.listen()? else {
            return Err(Fault::gone("the sandbox's first process was killed, and everything in it with it"));
        };
        for word in words {
            match word {
                Word::Ended(status) => return Ok(Exit::from_status(status)),
                Word::Failed(why) => return Err(Fault::gone(why).doing("sandbox")),
                _ => {}
            }
        }
        Ok(None)
    }

    fn take_signals(&mut self) -> Result<()> {
        while let Some(sig) = self.signals.take()? {
            match (&self.relay, sig) {
                (Some(relay), Sig::WINCH) => relay.resize()?,
                (Some(relay), Sig::CONT) => relay.enter().and_then(|()| relay.resize())?,
                // A shell ignores SIGTERM, but who sends it to the sandbox means the sandbox.
                (Some(_), sig) => return Err(Fault::gone(format!("the sandbox got {sig}"))),
                // A command that has just ended needs no signal.
                (None, sig) => self.talk.say(&Word::Signal(sig)).or(Ok::<(), Fault>(()))?,
            }
        }
        Ok(())
    }

    /// The streams are the command's alone: their other ends shall see when it closes them.
    fn leave_streams(&self) -> Result<()> {
        let file = std::fs::File::options().read(true).write(true).open("/dev/null");
        let null = file.map_err(|e| Fault::io(&e, "open /dev/null"))?.into();
        ns::become_stream(&null, 0).and_then(|()| ns::become_stream(&null, 1))
    }

    /// Ends what is left. The cluster's init is waited for, and the kernel lets it go only after all that is below it.
    fn end(mut self, claim: &Claim) {
        // It may have ended by itself, or not have come as far as its cgroup.
        let _ = janitor::end_processes(claim.path());
        let _ = pidfd::kill(self.child.pidfd.as_fd(), Sig::KILL);
        let _ = wait::ended(self.child.pid);
        if let Some(relay) = &mut self.relay {
            while relay.show().unwrap_or(false) {}
        }
    }
}

fn random() -> Result<[u8; 32]> {
    let mut bytes = [0u8; 32];
    let source = std::fs::File::open("/dev/urandom");
    source.and_then(|mut file| file.read_exact(&mut bytes)).map_err(|e| Fault::io(&e, "read random bytes"))?;
    Ok(bytes)
}

/// A cluster key file's text: 64 hexadecimal digits and a newline.
fn key() -> Result<String> {
    Ok(hex(&random()?) + "\n")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
