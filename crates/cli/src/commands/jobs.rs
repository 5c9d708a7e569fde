//! `shoal jobs` and `shoal job-keeper`: started by the front end's daemon, and by one another, not by users.

use ::jobs::{Config, Managed};
use clap::Args;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use vocab::{Fault, Pid, Result};

/// Serve the batch system
#[derive(Args, Debug)]
pub(crate) struct Jobs {
    /// The daemon's run directory
    #[arg(long, value_name = "PATH")]
    run_dir: PathBuf,
    /// The daemon's state directory
    #[arg(long, value_name = "PATH")]
    state_dir: PathBuf,
    /// The nodes that jobs get
    #[arg(long, value_name = "NODES", value_parser = managed)]
    nodes: Managed,
    /// Who may have jobs, with commas between; empty: root alone
    #[arg(long, value_name = "USERS")]
    allow: Option<String>,
    /// The daemon
    #[arg(long, value_name = "PID")]
    daemon: i32,
}

/// Keep one job
#[derive(Args, Debug)]
pub(crate) struct JobKeeper {
    /// The job's directory
    #[arg(long, value_name = "PATH")]
    directory: PathBuf,
}

impl Jobs {
    pub(crate) fn run(self) -> Result<ExitCode> {
        crate::log::to_stderr();
        let Jobs { run_dir, state_dir, nodes: managed, allow, daemon } = self;
        let list = |text: String| text.split(',').filter(|entry| !entry.is_empty()).map(String::from).collect();
        let allow = allow.map(list);
        ::jobs::run(&Config { run_dir, state_dir, managed, allow, daemon: Pid(daemon) }).map(|()| ExitCode::SUCCESS)
    }
}

impl JobKeeper {
    pub(crate) fn run(self) -> Result<ExitCode> {
        crate::log::to_stderr();
        ::jobs::keep(&self.directory).map(|()| ExitCode::SUCCESS)
    }
}

/// Nodes as `job_nodes` of the configuration has them.
pub(crate) fn managed(text: &str) -> std::result::Result<Managed, String> {
    text.parse().map_err(|fault: Fault| fault.to_string())
}

/// How long after its end the batch system is started again.
const PAUSE: Duration = Duration::from_millis(200);

/// Keeps a process that serves the batch system of the calling daemon, and ends with it.
///
/// # Errors
/// `Sys` where a directory cannot be used, or the thread that looks after the process cannot be had.
pub(crate) fn keep_serving(managed: Managed, allow: Option<&[String]>, run_dir: &Path, state_dir: &Path) -> Result<()> {
    let allow = allow.map(|list| list.join(","));
    let (run_dir, state_dir) = (kern::mount::directory(run_dir)?, kern::mount::directory(state_dir)?);
    let own = std::process::id().to_string();
    let nodes = match managed {
        Managed::All => "all".to_string(),
        Managed::These(nodes) => nodes.nodes().iter().map(|node| node.0.to_string()).collect::<Vec<_>>().join(","),
    };
    let keep = move || loop {
        let mut server = Command::new("/proc/self/exe");
        server.arg0("shoal").args(["jobs", "--daemon", &own, "--nodes", &nodes, "--run-dir"]).arg(&run_dir);
        server.args(allow.iter().flat_map(|list| ["--allow", list]));
        server.arg("--state-dir").arg(&state_dir).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        match server.status() {
            Ok(status) => tracing::warn!(%status, "the batch system has ended"),
            Err(error) => tracing::warn!(%error, "the batch system cannot be started"),
        }
        // Interrupted, it is tried earlier.
        let _ = kern::poll::poll_for(&[], Some(PAUSE));
    };
    let begun = std::thread::Builder::new().name("shoal:jobs".into()).spawn(keep);
    begun.map(drop).map_err(|e| Fault::io(&e, "start a thread for the batch system"))
}
