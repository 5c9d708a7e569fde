//! `shoal holder`: started by the front-end daemon, not by users.

use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use vocab::Result;

/// Keep the stand-ins while the front-end daemon is away
#[derive(Args, Debug)]
pub(crate) struct Holder {
    /// The daemon's run directory
    #[arg(long, value_name = "PATH")]
    run_dir: PathBuf,
    /// How long to wait for the next daemon
    #[arg(long, value_name = "MILLISECONDS")]
    patience_ms: u64,
    /// The procfs of this machine alone
    #[arg(long, value_name = "PLACE")]
    proc: Option<String>,
}

impl Holder {
    pub(crate) fn run(self) -> Result<ExitCode> {
        self.proc.as_deref().map(kern::proc::take_over).transpose()?;
        ::front::holder::hold(&self.run_dir, Duration::from_millis(self.patience_ms)).map(|()| ExitCode::SUCCESS)
    }
}
