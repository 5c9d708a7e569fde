//! `shoal fault`: breaks a part of a sandbox, to see what the rest does about it.

use clap::builder::PossibleValue;
use clap::Args;
use std::process::ExitCode;
use vocab::Result;

/// In a sandbox: break a machine, its daemon or its link on purpose, or mend it
#[derive(Args, Debug)]
pub(crate) struct Fault {
    /// front, n0, n1, …
    machine: String,
    /// What to do
    #[arg(value_parser = actions())]
    action: String,
}

fn actions() -> Vec<PossibleValue> {
    ::sandbox::control::actions().map(|(word, meaning)| PossibleValue::new(word).help(meaning)).collect()
}

impl Fault {
    pub(crate) fn run(self) -> Result<ExitCode> {
        ::sandbox::control::request(&self.machine, &self.action).map(|()| ExitCode::SUCCESS)
    }
}
