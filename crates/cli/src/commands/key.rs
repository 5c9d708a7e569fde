//! `shoal key`: makes a cluster key.

use crate::keyfile;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use vocab::Result;

/// Make a cluster key file; copy it to every machine of the cluster
#[derive(Args, Debug)]
pub(crate) struct Key {
    /// Where to write it; an existing file is never overwritten
    #[arg(value_name = "FILE", default_value = "/etc/shoal/key")]
    file: PathBuf,
}

impl Key {
    pub(crate) fn run(self) -> Result<ExitCode> {
        keyfile::make(&self.file).map(|()| ExitCode::SUCCESS)
    }
}
