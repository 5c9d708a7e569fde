//! `shoal key`: makes a cluster key, and gives it to machines that join.

use super::invite::{Invite, Withdraw};
use crate::keyfile;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use vocab::Result;

/// Make a cluster key file, for the front end; machines that join get the key by a token (`shoal key invite`), or by a copy of the file
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Key {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Where to write it; an existing file is never overwritten
    #[arg(value_name = "FILE", default_value = "/etc/shoal/key")]
    file: PathBuf,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Invite(Invite),
    Withdraw(Withdraw),
}

impl Key {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.verb {
            Some(Verb::Invite(verb)) => verb.run(),
            Some(Verb::Withdraw(verb)) => verb.run(),
            None => keyfile::make(&self.file).map(|()| ExitCode::SUCCESS),
        }
    }
}
