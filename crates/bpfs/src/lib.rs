//! The node files of BProc: a directory with a file for each node, whose owner, group, execute bits, times and extended attributes are the node's.
//!
//! A process of its own serves them ([`server`]), and has no rights in the daemon's eyes but those of root: what it shows anybody may ask, and what is to be changed a child asks
//! for that has become the user who changes it ([`changes`]). The daemon knows from the kernel whose that connection is, and decides.
#![forbid(unsafe_code)]

mod changes;
mod daemon;
mod names;
mod server;
mod watch;

use kern::fuse::files::Files;
use kern::init::SignalFd;
use kern::lock::Lock;
use kern::ns::{self, Child, Forked, Namespaces};
use kern::poll::{poll, Ready};
use kern::{mount, pidfd, wait};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use tracing::{info, warn};
use vocab::{Fault, Pid, Result, Sig};

/// How a mount is told from others in mountinfo (proc_pid_mountinfo(5)); the run directory of its daemon follows, which tells it from those of other daemons.
const SOURCE: &str = "shoal-bpfs:";
/// Whoever serves the node files of a daemon has locked this file in its run directory.
const LOCK: &str = "bpfs.lock";
/// How long the one of a daemon before is waited for, in milliseconds, and the pause before a server that has ended is started again.
const PATIENCE_MS: u32 = 5_000;
const PAUSE_MS: i32 = 1_000;

/// The settings of the process.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it is mounted.
    pub at: PathBuf,
    /// The daemon's.
    pub run_dir: PathBuf,
    /// On the front end; else on a node, whose number is in the run directory.
    pub front: bool,
    /// The daemon, which has started the calling process.
    pub daemon: Pid,
}

impl Config {
    fn socket(&self) -> PathBuf {
        self.run_dir.join("shoal.sock")
    }

    fn source(&self) -> String {
        format!("{SOURCE}{}", self.run_dir.display())
    }
}

/// The file in the run directory of a node's daemon that says which node it is.
pub const NUMBER: &str = "number";

/// Keeps the files mounted, and a process that serves them, until the daemon ends; takes them away then.
///
/// # Errors
/// What kept it from beginning.
pub fn run(config: &Config) -> Result<()> {
    // A signal to the daemon's group is not for it.
    let _its_own_already = ns::new_session();
    ns::set_name("shoal:bpfs")?;
    let signals = SignalFd::new(&[Sig::TERM, Sig::INT])?;
    kern::own::die_with_parent(Sig::TERM, config.daemon)?;
    kern::proc::look_apart()?;
    let _lock = only_one(&config.run_dir)?;
    sweep(config)?;
    let config = Config { at: mount::directory(&config.at)?, ..config.clone() };
    loop {
        let server = start(&config)?;
        let wanted = [(signals.as_fd(), Ready::READ), (server.pidfd.as_fd(), Ready::READ)];
        let told = poll(&wanted, -1).map_or(true, |ready| ready[0].readable);
        end(&server);
        sweep(&config)?;
        if told || poll(&[(signals.as_fd(), Ready::READ)], PAUSE_MS).is_ok_and(|ready| ready[0].readable) {
            return Ok(());
        }
        warn!("who serves the node files has ended");
    }
}

/// Mounts them, and forks who serves them.
fn start(config: &Config) -> Result<Child> {
    let files = Files::mount(&config.at, &config.source())?;
    match ns::fork(Namespaces::empty())? {
        Forked::Parent(child) => {
            info!(at = %config.at.display(), "node files");
            Ok(child)
        }
        Forked::Child => {
            let served = ns::die_with_parent().and_then(|()| server::serve(files, config));
            if let Err(fault) = &served {
                warn!(%fault, "node files");
            }
            ns::exit(i32::from(served.is_err()))
        }
    }
}

/// It may have ended.
fn end(server: &Child) {
    let _ = pidfd::kill(server.pidfd.as_fd(), Sig::KILL);
    let _ = wait::ended(server.pid);
}

fn only_one(run_dir: &Path) -> Result<Lock> {
    let path = run_dir.join(LOCK);
    for _ in 0..PATIENCE_MS {
        if let Some(lock) = Lock::take(&path)? {
            return Ok(lock);
        }
        let _ = poll(&[], 1);
    }
    Err(Fault::refused("serve the node files: another process does"))
}

/// Takes away what is mounted there of ours, or of daemons that have ended, of no use as it is; nothing of others.
///
/// # Errors
/// `Refused` where the node files of another daemon are.
fn sweep(config: &Config) -> Result<()> {
    let at = &config.at;
    while let Some(theirs) = source_at(at).and_then(|source| source.strip_prefix(SOURCE).map(PathBuf::from)) {
        if theirs != config.run_dir && Lock::holder(&theirs.join(LOCK)).is_some() {
            return Err(Fault::refused(format!(
                "mount node files at {}: those of the daemon of {} are there (each on a machine needs a bpfs of its own)",
                at.display(),
                theirs.display()
            )));
        }
        if let Err(fault) = mount::detach(at) {
            warn!("{fault}");
            return Ok(());
        }
    }
    Ok(())
}

/// The source of what is mounted last at this path. Looks into none of it.
fn source_at(at: &Path) -> Option<String> {
    let text = std::fs::read_to_string(format!("{}/self/mountinfo", kern::proc::PROC)).ok()?;
    source_in(&text, at.to_str()?)
}

fn source_in(mountinfo: &str, at: &str) -> Option<String> {
    let of_line = |line: &str| {
        let (head, tail) = line.split_once(" - ")?;
        (head.split(' ').nth(4)? == at).then(|| tail.split(' ').nth(1).map(str::to_owned))?
    };
    mountinfo.lines().rev().find_map(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_last_counts() {
        let text = "22 1 0:20 / / rw - ext4 /dev/sda1 rw\n30 22 0:41 / /bpfs rw shared:1 - fuse sshfs rw\n\
                    31 30 0:42 / /bpfs rw,nosuid - fuse shoal-bpfs:/run/x rw,allow_other\n";
        assert_eq!(source_in(text, "/bpfs").as_deref(), Some("shoal-bpfs:/run/x"));
        assert_eq!(source_in(text, "/").as_deref(), Some("/dev/sda1"));
        assert_eq!(source_in(text, "/bp"), None);
    }
}
