//! `shoal move`: running processes to another node.

use super::Daemon;
use clap::Args;
use std::process::ExitCode;
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};

/// Move running processes to another node; returns when they run there
#[derive(Args, Debug)]
pub(crate) struct Move {
    /// Processes of the space, then the number of the node
    #[arg(required = true, num_args = 2.., value_name = "PID... NODE")]
    numbers: Vec<i32>,
    #[command(flatten)]
    daemon: Daemon,
}

impl Move {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Some((node, pids)) = self.numbers.split_last() else { return Err(Fault::refused("no process is named")) };
        let to = NodeId(*node);
        let mut status = ExitCode::SUCCESS;
        let mut daemon = self.daemon.connect()?;
        for pid in pids {
            match daemon.ask(&Ask::Move { pid: Pid(*pid), to }) {
                Ok(Answer::Moved { .. }) => {}
                Ok(other) => return Err(Fault::wire(format!("the daemon answered Move with {other:?}"))),
                Err(fault) => {
                    kern::own::complain(fault);
                    status = ExitCode::FAILURE;
                }
            }
        }
        Ok(status)
    }
}
