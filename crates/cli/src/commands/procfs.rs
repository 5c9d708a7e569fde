//! `shoal procfs`: started by the front-end daemon, not by users.

use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use vocab::Result;

/// Show in /proc what the processes that run elsewhere do
#[derive(Args, Debug)]
pub(crate) struct Procfs {
    /// The daemon's run directory
    #[arg(long, value_name = "PATH")]
    run_dir: PathBuf,
    /// The procfs of this machine alone
    #[arg(long, value_name = "N")]
    proc_fd: Option<i32>,
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
        self.proc_fd.map(kern::proc::take_over).transpose()?;
        let Procfs { run_dir, fresh_ms, private, .. } = self;
        let config = ::procfs::Config { run_dir, fresh_us: fresh_ms.saturating_mul(1000), private };
        ::procfs::run(&config).map(|()| ExitCode::SUCCESS)
    }
}
