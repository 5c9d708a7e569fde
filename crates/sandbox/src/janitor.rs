//! The one that stays when the rest was killed: it removes the sandbox's cgroups, which would stay for ever, and gives
//! the terminal its modes back.

use kern::cgroup::{self, Claim};
use kern::ns::{self, Child, Forked, Namespaces};
use kern::pty::Modes;
use kern::sys;
use kern::wait::{self, Change};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use vocab::{Exit, Result, Sig};

/// How long killed processes may take to end. What is left then goes with the next sandbox's sweep.
const PATIENCE: Duration = Duration::from_secs(20);

/// The caller's side of it.
#[derive(Debug)]
pub(crate) struct Janitor {
    child: Child,
    /// Ends when the caller and the cluster, which both have it, have ended.
    alive: OwnedFd,
}

/// Starts it; `terminal` is what to restore after a violent end.
pub(crate) fn start(claim: &Claim, terminal: Option<&(File, Modes)>) -> Result<Janitor> {
    let (ended, alive) = sys::pipe()?;
    match ns::fork(Namespaces::empty())? {
        Forked::Parent(child) => Ok(Janitor { child, alive }),
        Forked::Child => {
            drop(alive);
            ns::exit(i32::from(watch(ended, claim, terminal).is_err()))
        }
    }
}

impl Janitor {
    /// The orderly end: nothing runs any more. If the janitor was killed, the caller does its work.
    pub(crate) fn finish(self, claim: &Claim) -> Result<()> {
        // Fails only when it is dead, and then its status says so.
        let _ = sys::write(self.alive.as_fd(), b"x");
        drop(self.alive);
        match wait::ended(self.child.pid) {
            Ok(waited) if waited.change == Change::Ended(Exit::Code(0)) => Ok(()),
            _ => clean(claim.path()),
        }
    }
}

fn watch(ended: OwnedFd, claim: &Claim, terminal: Option<&(File, Modes)>) -> Result<()> {
    ns::set_name("shoal:janitor")?;
    // Neither Ctrl-C nor the end of the caller's session is meant for it.
    ns::new_session()?;
    let _signals = kern::init::SignalFd::new(&[Sig::INT, Sig::QUIT, Sig::TERM, Sig::HUP])?;
    let mut byte = [0u8; 1];
    // One byte means an orderly end: the caller has restored the terminal.
    let told = File::from(ended).read(&mut byte).unwrap_or(0);
    if let (0, Some((tty, modes))) = (told, terminal) {
        let _ = modes.set(tty.as_fd());
    }
    clean(claim.path())
}

/// Kills what is still in the sandbox's cgroups and removes them.
pub(crate) fn clean(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    cgroup::kill(path)?;
    cgroup::wait_empty(path, Instant::now() + PATIENCE)?;
    cgroup::remove(path)
}
