//! `shoal sandbox`: a front end and nodes on this machine.

use crate::config;
use ::sandbox::{Clocks, Plan, MOST_NODES};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use vocab::{Exit, Fault, Result};

/// Make a front end and nodes on this machine, and run a command on the front end
///
/// Without a command an interactive shell runs. The exit status is the command's. When it ends, everything is gone.
#[derive(Args, Debug)]
pub(crate) struct Sandbox {
    /// How many nodes, 0 to 100
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_NODES)))]
    nodes: u32,
    /// A node that was silent for so long is lost [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = config::seconds)]
    lost_after: Option<Duration>,
    /// Move a process that is picked at random to another node or the front end, again and again, so often, as 50ms; what comes of it is in chaos.log beside the daemons' logs
    #[arg(long, value_name = "TIME", value_parser = config::span)]
    chaos: Option<Duration>,
    /// Keep the daemons' logs (front.log, n0.log, …) in this directory, which is made if need be
    #[arg(long, value_name = "PATH")]
    logs: Option<PathBuf>,
    /// What the clocks of the nodes show that count from the start of a machine (CLOCK_MONOTONIC, CLOCK_BOOTTIME)
    #[arg(long, value_name = "WHICH", default_value = "own")]
    clocks: Which,
    /// Nodes that have nothing but a kernel and this program: what runs there sees the front end's files
    #[arg(long)]
    bare: bool,
    /// A line for [node] of the nodes' configuration; with the number of a node and a colon before it for that one alone, as 1:view = "never"; front: before it for [front]
    #[arg(long, value_name = "LINE")]
    node_setting: Vec<String>,
    /// The program to run on the front end, with its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    /// What they show on this machine
    Same,
    /// Something else on each
    Own,
    /// That too, and by how much they differ must be found out as between real machines
    Foreign,
}

impl Sandbox {
    pub(crate) fn run(self) -> Result<ExitCode> {
        // The kernel gives a process one listener to its calls at most (linux: `has_duplicate_listener`), and there is ours.
        if let Some(node) = super::place::own_node() {
            return Err(Fault::refused("open a sandbox in a program that shoal itself has started here").on(node));
        }
        let Sandbox { nodes, lost_after, chaos, logs, clocks, bare, node_setting, command } = self;
        let settings = node_setting.join("\n");
        let clocks = match clocks {
            Which::Same => Clocks::Same,
            Which::Own => Clocks::Own,
            Which::Foreign => Clocks::Foreign,
        };
        match ::sandbox::run(Plan { nodes, command, lost_after, chaos, logs, clocks, bare, settings })? {
            Exit::Code(code) => Ok(ExitCode::from(code)),
            other => end_like(other),
        }
    }
}

/// Ends as the command did: by the same signal, so that the caller sees no difference.
fn end_like(exit: Exit) -> Result<ExitCode> {
    if let Exit::Killed { sig, .. } = exit {
        kern::signal::suffer(sig)?;
    }
    // Only where the signal could not end this process (an init that has no handler for it).
    Ok(ExitCode::from(exit.shell_number() as u8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command};

    #[test]
    fn options_end_at_the_command() {
        let parse = |words: &[&str]| {
            let command = Sandbox::augment_args(Command::new("sandbox").no_binary_name(true));
            let matches = command.try_get_matches_from(words).ok()?;
            Some(matches.get_many::<OsString>("command").unwrap_or_default().cloned().collect::<Vec<OsString>>())
        };
        assert_eq!(parse(&["-n", "2", "--bogus"]), None);
        for words in [&["-n", "2", "--", "ls", "-n"][..], &["ls", "-n"]] {
            assert_eq!(parse(words), Some(vec!["ls".into(), "-n".into()]));
        }
        assert_eq!(parse(&["--", "--bogus"]), Some(vec!["--bogus".into()]));
    }
}
