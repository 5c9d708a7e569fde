//! `shoal where`: the node on which a process runs.

use super::Daemon;
use crate::print;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;
use vocab::{Fault, Pid, Result};
use wire::ask::{Answer, Ask};

/// Show on which node a process runs
#[derive(Args, Debug)]
pub(crate) struct Where {
    /// As everywhere in the space: what ps shows on the front end, and getpid() in the program
    pid: i32,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// The answer in JSON; `node` is -1 for the front end.
#[derive(Serialize)]
struct Place {
    pid: i32,
    node: i32,
}

impl Where {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if self.pid <= 0 {
            return Err(Fault::refused(format!("process {}: numbers of processes are above 0", self.pid)));
        }
        match self.daemon.connect()?.ask(&Ask::Where { pid: Pid(self.pid) })? {
            Answer::Where { pid, node, .. } if self.json => print::json(&Place { pid: pid.0, node: node.0 })?,
            Answer::Where { node, .. } => print::out(&format!("{node}\n"))?,
            other => return Err(Fault::wire(format!("the daemon answered Where with {other:?}"))),
        }
        Ok(ExitCode::SUCCESS)
    }
}
