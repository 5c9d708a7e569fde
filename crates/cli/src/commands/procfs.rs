//! `shoal procfs` and `shoal node-proc`: started by the daemons, not by users.

use clap::Args;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use vocab::{Fault, Result};

/// Show in /proc what the processes that run elsewhere do
#[derive(Args, Debug)]
pub(crate) struct Procfs {
    /// The daemon's run directory
    #[arg(long, value_name = "PATH")]
    run_dir: PathBuf,
    /// The procfs of this machine alone
    #[arg(long, value_name = "PLACE")]
    proc: Option<String>,
    /// How long what a node has said is shown
    #[arg(long, value_name = "MILLISECONDS")]
    fresh_ms: u64,
    /// Only in views
    #[arg(long)]
    private: bool,
}

impl Procfs {
    pub(crate) fn run(self) -> Result<ExitCode> {
        crate::log::to_stderr();
        self.proc.as_deref().map(kern::proc::take_over).transpose()?;
        let Procfs { run_dir, fresh_ms, private, .. } = self;
        let config = ::procfs::Config { run_dir, fresh_us: fresh_ms.saturating_mul(1000), private };
        ::procfs::run(&config).map(|()| ExitCode::SUCCESS)
    }
}

/// Show in the /proc of a node's programs what other nodes' do
#[derive(Args, Debug)]
pub(crate) struct NodeProc {
    /// The daemon's run directory
    #[arg(long, value_name = "PATH")]
    run_dir: PathBuf,
    /// The procfs of this machine alone
    #[arg(long, value_name = "PLACE")]
    proc: Option<String>,
}

impl NodeProc {
    pub(crate) fn run(self) -> Result<ExitCode> {
        crate::log::to_stderr();
        self.proc.as_deref().map(kern::proc::take_over).transpose()?;
        let line = std::io::stdin().as_fd().try_clone_to_owned();
        let line = line.map_err(|e| Fault::io(&e, "duplicate the line to the agent"))?;
        ::procfs::node_proc::run(&self.run_dir, &line).map(|()| ExitCode::SUCCESS)
    }
}
