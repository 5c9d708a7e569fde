//! `shoal view-server`: started by the front end's daemon, not by users.

use ::view::server::{Config, Squash};
use clap::Args;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use vocab::{Fault, NodeSet, Pid, Result};

/// Serve this machine's files to the nodes; the cluster key is read from standard input
#[derive(Args, Debug)]
pub(crate) struct ViewServer {
    /// The daemon's run directory
    #[arg(long, value_name = "PATH")]
    run_dir: PathBuf,
    /// The daemon
    #[arg(long, value_name = "PID")]
    daemon: i32,
    /// How long a node may be unreachable, in milliseconds
    #[arg(long, value_name = "MS")]
    patience: u64,
    /// From which nodes root is nobody
    #[arg(long, value_name = "NODES")]
    squash: Option<String>,
}

impl ViewServer {
    pub(crate) fn run(self) -> Result<ExitCode> {
        crate::log::to_stderr();
        let mut key = [0; 32];
        std::io::stdin().read_exact(&mut key).map_err(|e| Fault::io(&e, "read the cluster key"))?;
        let ViewServer { run_dir, daemon, patience, squash } = self;
        let squash = squash.as_deref().map(parse).transpose()?.unwrap_or_default();
        let config = Config { run_dir, key, squash, patience: Duration::from_millis(patience), daemon: Pid(daemon) };
        ::view::server::run(&config).map(|()| ExitCode::SUCCESS)
    }
}

/// `squash` of [front]: all, none, or nodes.
fn parse(text: &str) -> Result<Squash> {
    match text {
        "all" => Ok(Squash::All),
        "none" => Ok(Squash::None),
        nodes => NodeSet::parse(nodes).map(Squash::Of).map_err(|fault| fault.doing("squash of [front]")),
    }
}

/// Starts the process that serves files to nodes, for the daemon of `run_dir`, which is the calling process; if that of the daemon before lives, what
/// nodes have open goes on.
///
/// # Errors
/// `Sys` where a process cannot be had.
pub(crate) fn start(run_dir: &Path, key: &[u8; 32], (patience, squash): (Duration, Option<&str>)) -> Result<()> {
    squash.map(parse).transpose()?;
    let run_dir = kern::mount::directory(run_dir)?;
    if ::view::server::take_over(&run_dir) {
        return Ok(());
    }
    let mut command = Command::new("/proc/self/exe");
    std::os::unix::process::CommandExt::arg0(&mut command, "shoal");
    command.args(["view-server", "--daemon", &std::process::id().to_string()]);
    command.args(["--patience", &patience.as_millis().to_string(), "--run-dir"]).arg(run_dir);
    command.args(squash.iter().flat_map(|nodes| ["--squash", nodes]));
    command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null());
    let doing = |e: std::io::Error| Fault::io(&e, "start who serves files to nodes");
    let mut child = command.spawn().map_err(doing)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(key).map_err(doing)?;
    }
    Ok(())
}
