//! The one that stays when the rest was killed: it removes the sandbox's cgroups, which would stay for ever, and gives
//! the terminal its modes back.

use crate::machine;
use kern::cgroup::{self, Claim};
use kern::mount;
use kern::ns::{self, Child, Forked, Namespaces};
use kern::pty::Modes;
use kern::sys;
use kern::wait::{self, Change};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use vocab::{Exit, Pid, Result, Sig};

/// How long killed processes may take to end. What is left then goes with the next sandbox's sweep.
const PATIENCE: Duration = Duration::from_secs(20);
/// After so long without an end the processes are looked at again: some were forked or mounted something meanwhile.
const ROUND: Duration = Duration::from_millis(200);

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
    machine::leave_streams()?;
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
    end_processes(path)?;
    cgroup::remove(path)?;
    match cgroup::pids_own() {
        Ok(tasks) => cgroup::sweep(&tasks, cgroup::FENCE),
        // Without a pids controller there is nothing of ours in it.
        Err(_) => Ok(()),
    }
}

/// Kills all processes in the cgroups and waits for their end.
///
/// A process that waits for a FUSE server is not killed before the server has answered or is gone, and a server that
/// holds a file of its own waits for itself for ever (linux: fuse_flush in exit_files, before the device is closed).
/// So the sandbox's connections are cut too.
pub(crate) fn end_processes(path: &Path) -> Result<()> {
    let outside = mount::fuse_connections(Pid(std::process::id() as i32));
    let patience = Instant::now() + PATIENCE;
    while path.exists() {
        // Before the kill: a process that ends soon has no mounts to show.
        let inside = fuse_connections(path).into_iter().filter(|connection| !outside.contains(connection));
        let inside: BTreeSet<u32> = inside.collect();
        cgroup::kill(path)?;
        // One that is gone by now has nobody waiting.
        inside.into_iter().for_each(|connection| drop(mount::abort_fuse(connection)));
        if cgroup::wait_empty(path, Instant::now() + ROUND)? || Instant::now() > patience {
            break;
        }
    }
    Ok(())
}

/// Those that the processes in the cgroups see. Of the many in one mount namespace one is asked.
fn fuse_connections(path: &Path) -> BTreeSet<u32> {
    let mut namespaces = BTreeSet::new();
    let mut found = BTreeSet::new();
    for pid in cgroup::processes(path) {
        let namespace = std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        if namespace.is_none_or(|namespace| namespaces.insert(namespace)) {
            found.extend(mount::fuse_connections(pid));
        }
    }
    found
}
