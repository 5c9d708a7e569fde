//! `shoal top`: nodes and processes in a terminal.

use super::Daemon;
use crate::{config, print};
use clap::{Args, ValueEnum};
use monitor::top::{self, End, Settings, Sort};
use std::process::ExitCode;
use std::time::Duration;
use vocab::Result;

/// Show nodes and processes in the terminal, as they change; keys sort, filter, send signals and move processes (h tells them)
#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Seconds between two looks
    #[arg(short = 'd', long, value_name = "SECONDS", value_parser = config::seconds, default_value = "1")]
    interval: Duration,
    /// The order of processes; of CPU, memory and time the most first
    #[arg(long, value_name = "KEY", value_enum, default_value_t = Key::Cpu)]
    sort: Key,
    /// Children below their parents
    #[arg(long)]
    tree: bool,
    /// Print lines, for scripts
    #[arg(long)]
    batch: bool,
    /// Looks with --batch; of the first no percent of a processor can be told
    #[arg(short = 'n', long, value_name = "LOOKS", default_value_t = 1, requires = "batch",
          value_parser = clap::value_parser!(u32).range(1..))]
    number: u32,
    #[command(flatten)]
    daemon: Daemon,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Key {
    Cpu,
    Memory,
    Time,
    Pid,
    Node,
    User,
}

impl Top {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let sort = match self.sort {
            Key::Cpu => Sort::Cpu,
            Key::Memory => Sort::Memory,
            Key::Time => Sort::Time,
            Key::Pid => Sort::Pid,
            Key::Node => Sort::Node,
            Key::User => Sort::User,
        };
        let settings = Settings { socket: self.daemon.socket, interval: self.interval, sort, tree: self.tree };
        if self.batch {
            return print::unless_unread(top::batch(&settings, self.number)).map(|()| ExitCode::SUCCESS);
        }
        match top::run(&settings)? {
            End::Signal(sig) => Ok(ExitCode::from(128 + sig.number())),
            End::Quit => Ok(ExitCode::SUCCESS),
        }
    }
}
