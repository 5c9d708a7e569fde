//! A small batch system: jobs wait in a queue until there are nodes for them, and have these nodes for themselves while they run.
//!
//! A process of its own serves it ([`run`]), a client of the daemon's socket like any other, as root: an allocation is nodes whose owner is the job's user
//! for a while. Each job has a process that keeps it ([`keep`]), and outlives the batch system and the daemon.
#![forbid(unsafe_code)]

mod clients;
mod keeper;
mod life;
mod news;
mod policy;
mod pool;
mod record;
mod server;
mod start;
mod store;
mod submit;

use kern::init::SignalFd;
use kern::lock::Lock;
use kern::ns;
use kern::poll::poll;
use std::path::{Path, PathBuf};
use vocab::{Fault, Pid, Result, Sig};

pub use keeper::keep;
pub use pool::Managed;

/// How long the batch system of a daemon before is waited for, in milliseconds.
const PATIENCE_MS: u32 = 5_000;

/// The settings of the process.
#[derive(Clone, Debug)]
pub struct Config {
    /// The daemon's.
    pub run_dir: PathBuf,
    /// Where jobs are kept, in a directory `jobs`.
    pub state_dir: PathBuf,
    pub managed: Managed,
    /// Who may have jobs ([`link::allow`]); `None`: everybody.
    pub allow: Option<Vec<String>>,
    /// The daemon, which has started the calling process.
    pub daemon: Pid,
}

/// Serves the batch system until the daemon ends. Jobs that run go on without it.
///
/// # Errors
/// What kept it from beginning, or from going on.
pub fn run(config: &Config) -> Result<()> {
    // A signal to the daemon's group is not for it.
    let _its_own_already = ns::new_session();
    ns::set_name("shoal:jobs")?;
    let signals = SignalFd::new(&[Sig::TERM, Sig::INT, Sig::CHLD])?;
    kern::own::die_with_parent(Sig::TERM, config.daemon)?;
    kern::own::raise_files()?;
    kern::proc::look_apart()?;
    let _lock = only_one(&config.run_dir)?;
    server::Server::open(config)?.serve(&signals)
}

fn only_one(run_dir: &Path) -> Result<Lock> {
    let path = run_dir.join("jobs.lock");
    for _ in 0..PATIENCE_MS {
        if let Some(lock) = Lock::take(&path)? {
            return Ok(lock);
        }
        // An end of the other process tells nobody.
        let _ = poll(&[], 1);
    }
    Err(Fault::refused("serve the batch system: another process does"))
}
