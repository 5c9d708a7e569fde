//! /proc of the front end shows of a ghost what its body does: a directory of a FUSE tree for each, bound onto the ghost's own in /proc.
//!
//! A process of its own does it, a client of the daemon, which tells it of ghosts and passes its questions on to nodes. So the daemon waits for nobody who
//! looks into /proc, and nobody who looks into /proc waits for long: what a node does not say in time is shown as it was.
#![forbid(unsafe_code)]

mod ahead;
mod asking;
mod binder;
mod binds;
mod cluster;
mod contents;
mod counts;
mod crew;
mod directories;
mod doors;
mod ghosts;
mod guide;
mod here;
mod homecoming;
mod inodes;
pub mod keeper;
mod learning;
mod line;
mod machines;
mod names;
mod natives;
pub mod node_proc;
pub mod node_shell;
mod node_view;
mod passes;
mod pulse;
mod questions;
mod readings;
mod rounds;
mod server;
mod shown;
mod sums;
mod tables;
mod texts;
pub mod told;
pub mod view;
mod walker;
mod whole;

use ahead::Ahead;
use binder::{Binder, Where};
use crew::{Crew, THREADS};
use doors::Doors;
use ghosts::Ghosts;
use kern::fuse::tree::Tree;
use kern::lock::Lock;
use kern::mount;
use kern::poll::poll;
use machines::Machines;
use server::Server;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{info, warn};
use view::Views;
use vocab::{Fault, Result, Sig};
use walker::Walker;

/// The calling thread runs before ordinary ones, as daemons do (docs/decisions/daemons-run-first.md): on a busy machine who goes through all processes would
/// wait for his turn after each file.
fn run_first() {
    if let Err(fault) = kern::sched::set_fifo() {
        tracing::debug!(%fault, "programs that keep this machine busy delay who looks into /proc");
    }
}

/// How long what another one has mounted is waited for, in milliseconds: that one takes it away as soon as its daemon has ended. If it does not, it is made to.
const PATIENCE_MS: u32 = 1_000;
const KILLED_MS: u32 = 4_000;

/// What it keeps of memory that is free, in bytes: texts of many processes come and go with each look.
const KEPT: usize = 16 << 20;

/// What it is told as it starts.
#[derive(Debug)]
pub struct Config {
    /// The daemon's.
    pub run_dir: PathBuf,
    /// How long what a node has said is shown, in microseconds; 0: it is asked each time.
    pub fresh_us: u64,
    /// Only views show it ([`view`]), not the machine's own /proc.
    pub private: bool,
}

/// Shows what bodies do until the daemon ends, and takes all away then.
///
/// # Errors
/// What kept it from beginning.
pub fn run(config: &Config) -> Result<()> {
    // A signal to the daemon's group is not for it.
    kern::ns::new_session()?;
    kern::ns::set_name("shoal:procfs")?;
    kern::own::keep_freed(KEPT);
    let run_dir = mount::directory(&config.run_dir)?;
    let at = run_dir.join("proc");
    let _lock = only_one(&run_dir, &at)?;
    binds::sweep(&at);
    let at = mount::directory(&at)?;
    let binder = Arc::new(Binder::start(&at)?);
    let walker = (config.fresh_us >= ahead::LEAST_US).then(|| Walker::start(&at)).transpose()?;
    let hidden = binds::hidden_from_all_but();
    if let Some(gid) = hidden {
        info!(gid, "processes are hidden from others in /proc, and so are bodies");
    }
    let tree = Arc::new(Tree::mount(&at, &binds::source(&at))?);
    let crew = Arc::new(Crew::default());
    let ghosts = Arc::<Ghosts>::default();
    let machines = Arc::new(Machines::new(config.fresh_us, crew.clone(), ghosts.clone()));
    let (line, connection) = line::connect(&run_dir.join("shoal.sock"))?;
    machines.ask_over(line);
    let server = Arc::new(Server::new(tree, ghosts.clone(), machines, crew, hidden, None, Ahead::new(walker)));
    serve(&server)?;
    let doors = Arc::<Doors>::default();
    if !config.private {
        doors.add(binder.open(Where::Machine)?, true, &ghosts)?;
    }
    let end = connection.follow(&server, doors.clone())?;
    server.guide.clone().start()?;
    let ahead = server.ahead.clone();
    let known = server.clone();
    ahead.clone().start(ghosts.clone(), move |pid| known.node_of(pid))?;
    let serves = server.machines.clone();
    pulse::start(server, move || serves.serves())?;
    Views::new(&run_dir, binder.clone(), doors.clone(), ghosts)?.start()?;
    let _ended = end.recv();
    doors.end();
    ahead.end();
    binder.end();
    binds::sweep(&at);
    Ok(())
}

/// Starts the threads that serve the tree.
fn serve(server: &Arc<Server>) -> Result<()> {
    for number in 0..THREADS {
        let (server, thread) = (server.clone(), std::thread::Builder::new().name("tree".into()));
        thread.spawn(move || server.serve(number)).map_err(|e| Fault::io(&e, "start a thread"))?;
    }
    Ok(())
}

fn only_one(run_dir: &Path, at: &Path) -> Result<Lock> {
    let path = run_dir.join("procfs.lock");
    for waited_ms in 0..PATIENCE_MS + KILLED_MS {
        if let Some(lock) = Lock::take(&path)? {
            return Ok(lock);
        }
        if waited_ms == PATIENCE_MS {
            end_other(&path, at);
        }
        let _ = poll(&[], 1);
    }
    Err(Fault::refused("show ghosts in /proc: another process does"))
}

/// One that does not end by itself, as one that has stopped does not; and those who wait for it, of which it may be one.
fn end_other(lock: &Path, at: &Path) {
    if let Some(pid) = Lock::holder(lock) {
        warn!(%pid, "who has shown in /proc what processes do elsewhere is stuck");
        let _ = kern::signal::send(pid, Sig::KILL);
    }
    let _ = mount::abort(at);
}
