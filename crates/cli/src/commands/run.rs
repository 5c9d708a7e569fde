//! `shoal run [-n NODES | -a | -N COUNT] [-t] [-p] [--] PROGRAM ARG…`

use super::files::Files;
use super::surroundings::Around;
use client::run::{run, Hold, Run, Show, FAILED};
use client::socket_path;
use std::ffi::OsString;
use vocab::{NodeSet, Pid};
use wire::run::Target;

/// Start a program on nodes and be it: same PID, same streams, same end.
///
/// Without -n, -a or -N it runs on the least loaded node. Exit status: the program's; 127 when it was not found, 126 when it could not be started, 125 when
/// shoal failed.
///
/// The program's environment says where it was started: SHOAL_NODE is the number of the node and SHOAL_NODENAME its name, SHOAL_COPY the number of this
/// copy, from 0 on in the order of the nodes, and SHOAL_COPIES how many there are.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// On these nodes, a copy on each: 0, or 0-3,7, or names as `shoal nodes` shows them
    #[arg(short = 'n', long = "nodes", value_name = "NODES", value_parser = super::node_names::nodes)]
    nodes: Option<NodeSet>,
    /// On all nodes that are up
    #[arg(short = 'a', long = "all", conflicts_with = "nodes")]
    all: bool,
    /// So many copies, on the least loaded nodes; several on one where there are fewer nodes
    #[arg(short = 'N', long = "count", value_name = "COUNT", conflicts_with_all = ["nodes", "all"],
          value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Give the program a terminal
    #[arg(short = 't', long = "terminal")]
    terminal: bool,
    /// Put the node's name before each line of output
    #[arg(short = 'p', long = "prefix")]
    prefix: bool,
    /// Threads that it will have, whose numbers are kept free for them
    #[arg(long, hide = true, value_name = "TIDS", value_delimiter = ',')]
    threads: Vec<i32>,
    /// What is executed, with the first word of the program as its name only
    #[arg(long, hide = true, value_name = "FILE")]
    file: Option<OsString>,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    around: Around,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

impl RunArgs {
    fn target(&self) -> Target {
        match (&self.nodes, self.all, self.count) {
            (Some(nodes), _, _) => Target::Nodes(nodes.nodes().to_vec()),
            (None, true, _) => Target::All,
            (None, false, Some(count)) => Target::Count(count),
            (None, false, None) => Target::Any,
        }
    }

    /// Becomes the program; returns an exit status only when that did not come about.
    ///
    /// `hold` is what the main thread does as the program's stand-in: `kern::standin::hold_here`.
    pub(crate) fn execute(self, hold: Hold) -> u8 {
        let (target, numbers) = (self.target(), self.threads.iter().copied().map(Pid).collect());
        let RunArgs { terminal, prefix, program: argv, file, files, around, .. } = self;
        let done = files.sees().and_then(|sees| Ok((sees, around.surroundings()?))).map(|(sees, surroundings)| {
            let show = Show::default();
            let asked = Run { target, terminal, prefix, show, argv, file, numbers, sees, surroundings };
            run(&asked, &socket_path(), hold)
        });
        kern::own::complain(done.unwrap_or_else(|fault| fault));
        FAILED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command, FromArgMatches};
    use vocab::NodeId;

    fn parse(words: &[&str]) -> Result<RunArgs, clap::Error> {
        let command = RunArgs::augment_args(Command::new("run").no_binary_name(true));
        RunArgs::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    #[test]
    fn options_end_at_the_program() {
        let run = parse(&["-n", "0-2,7", "-p", "ls", "-a", "-n", "--", "x"]).expect("good");
        assert_eq!(run.target(), Target::Nodes([0, 1, 2, 7].map(NodeId).to_vec()));
        assert!(run.prefix && !run.all && !run.terminal);
        assert_eq!(run.program, ["ls", "-a", "-n", "--", "x"]);
        assert_eq!(parse(&["-t", "--", "-x"]).expect("good").program, ["-x"]);
    }

    #[test]
    fn contradictions_and_nothing_to_run_are_refused() {
        for bad in [&["-a", "-n", "0", "x"][..], &["-N", "0", "x"], &["-n", "3-1", "x"], &["-z", "x"], &["-p"]] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
