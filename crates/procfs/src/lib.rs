//! /proc of the front end shows of a ghost what its body does: a directory of a FUSE tree for each, bound onto the ghost's own in /proc.
//!
//! A process of its own does it, a client of the daemon, which tells it of ghosts and passes its questions on to nodes. So the daemon waits for nobody who
//! looks into /proc, and nobody who looks into /proc waits for long: what a node does not say in time is shown as it was.
#![forbid(unsafe_code)]

mod asking;
mod binds;
mod contents;
mod ghosts;
mod inodes;
mod line;
mod machines;
mod names;
mod server;
mod texts;

use ghosts::Ghosts;
use kern::lock::Lock;
use kern::mount;
use kern::poll::poll;
use machines::Machines;
use server::Server;
use std::path::PathBuf;
use std::sync::Arc;
use vocab::{Fault, Result};

/// Requests that are served at a time: each may wait for a node.
const THREADS: usize = 8;
/// The calling thread runs before ordinary ones, as daemons do (docs/decisions/daemons-run-first.md): on a busy machine who goes through all processes would
/// wait for his turn after each file.
fn run_first() {
    if let Err(fault) = kern::sched::set_fifo() {
        tracing::debug!(%fault, "programs that keep this machine busy delay who looks into /proc");
    }
}

/// How long what another one has mounted is waited for, in milliseconds: that one takes it away as soon as its daemon has ended.
const PATIENCE_MS: u32 = 5_000;

/// What it is told as it starts.
#[derive(Debug)]
pub struct Config {
    /// The daemon's.
    pub run_dir: PathBuf,
    /// How long what a node has said is shown, in microseconds; 0: it is asked each time.
    pub fresh_us: u64,
}

/// Shows what bodies do until the daemon ends, and takes all away then.
///
/// # Errors
/// What kept it from beginning.
pub fn run(config: &Config) -> Result<()> {
    // A signal to the daemon's group is not for it.
    kern::ns::new_session()?;
    kern::ns::set_name("shoal:procfs")?;
    let _lock = only_one(config)?;
    let at = config.run_dir.join("proc");
    binds::sweep(&at);
    let at = mount::directory(&at)?;
    let tree = Arc::new(kern::fuse::tree::Tree::mount(&at, binds::SOURCE)?);
    let ghosts = Arc::new(Ghosts::default());
    let machines = Arc::new(Machines::new(config.fresh_us));
    let (line, end) =
        line::open(&config.run_dir.join("shoal.sock"), ghosts.clone(), machines.clone(), tree.clone(), at.clone())?;
    machines.ask_over(line);
    for _ in 0..THREADS {
        let server = Server::new(tree.clone(), ghosts.clone(), machines.clone());
        let thread = std::thread::Builder::new().name("tree".into());
        thread.spawn(move || server.serve()).map_err(|e| Fault::io(&e, "start a thread"))?;
    }
    let _ended = end.recv();
    binds::sweep(&at);
    Ok(())
}

fn only_one(config: &Config) -> Result<Lock> {
    for _ in 0..PATIENCE_MS {
        if let Some(lock) = Lock::take(&config.run_dir.join("procfs.lock"))? {
            return Ok(lock);
        }
        let _ = poll(&[], 1);
    }
    Err(Fault::refused("show ghosts in /proc: another process does"))
}
