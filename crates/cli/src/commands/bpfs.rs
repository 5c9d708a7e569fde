//! `shoal bpfs`: started by the daemons, not by users.

use ::bpfs::Config;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use tracing::warn;
use vocab::{Fault, Pid, Result, Sig};

/// Keep the node files mounted
#[derive(Args, Debug)]
pub(crate) struct Bpfs {
    /// Where
    #[arg(long, value_name = "PATH")]
    at: PathBuf,
    /// The daemon's run directory
    #[arg(long, value_name = "PATH")]
    run_dir: PathBuf,
    /// The daemon
    #[arg(long, value_name = "PID")]
    daemon: i32,
    /// It is the front end's
    #[arg(long)]
    front: bool,
}

impl Bpfs {
    pub(crate) fn run(self) -> Result<ExitCode> {
        crate::log::to_stderr();
        let Bpfs { at, run_dir, daemon, front } = self;
        ::bpfs::run(&Config { at, run_dir, front, daemon: Pid(daemon) }).map(|()| ExitCode::SUCCESS)
    }
}

/// The process that keeps the node files of a daemon mounted. It ends with the daemon, and takes them away.
pub(crate) struct NodeFiles(Option<Child>);

impl NodeFiles {
    /// Starts it for the daemon of `run_dir`, which is the calling process. The daemon serves without it too, should it not start.
    ///
    /// # Errors
    /// `Refused` for a place that is not named from the root.
    pub(crate) fn start(at: Option<&Path>, run_dir: &Path, front: bool) -> Result<NodeFiles> {
        let Some(at) = at else { return Ok(NodeFiles(None)) };
        if !at.is_absolute() {
            return Err(Fault::refused(format!("bpfs {}: it is to be named from the root", at.display())));
        }
        let run_dir = kern::mount::directory(run_dir)?;
        let mut command = Command::new("/proc/self/exe");
        std::os::unix::process::CommandExt::arg0(&mut command, "shoal");
        command.args(["bpfs", "--daemon", &std::process::id().to_string(), "--at"]).arg(at);
        command.arg("--run-dir").arg(run_dir).args(front.then_some("--front"));
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        let started = command.spawn().map_err(|e| Fault::io(&e, "start who serves the node files"));
        Ok(NodeFiles(started.map_err(|fault| warn!(%fault, "there are no node files")).ok()))
    }
}

impl Drop for NodeFiles {
    /// At the daemon's orderly end; at any other the kernel tells it.
    fn drop(&mut self) {
        if let Some(process) = &mut self.0 {
            // It may have ended.
            let _ = kern::signal::send(Pid(process.id() as i32), Sig::TERM);
            let _ = process.wait();
        }
    }
}
