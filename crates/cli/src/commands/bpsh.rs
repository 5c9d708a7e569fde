//! `bpsh [OPTIONS] NODES COMMAND…`: run a command on nodes, with the options of BProc's bpsh.

use super::becoming::{execute, failed, here, no_input};
use super::node_names::numbers;
use super::{nodes, Daemon};
use client::run::{run, Ends, Hold, Run, Show};
use std::ffi::{OsStr, OsString};
use vocab::{Fault, NodeId, Result};
use wire::ask::NodeRow;
use wire::run::Target;

/// Run a command on nodes: bpsh [OPTIONS] NODES COMMAND..., bpsh -a COMMAND...
///
/// NODES is a list as 3, n3, .3, 0-7, 5-, all, up, !up, notup, or another state. Output comes by lines as soon as they are whole. Exit status: the
/// command's, of several the highest.
#[derive(clap::Args, Debug)]
#[command(override_usage = "bpsh [OPTIONS] NODES COMMAND...\n       bpsh [OPTIONS] -a|-A|-U NODES COMMAND...")]
pub(crate) struct Bpsh {
    /// On all nodes that are up
    #[arg(short = 'a', conflicts_with_all = ["not_down", "up_of"])]
    all_up: bool,
    /// On all nodes that are not down
    #[arg(short = 'A', conflicts_with = "up_of")]
    not_down: bool,
    /// On those of NODES that are up
    #[arg(short = 'U', value_name = "NODES")]
    up_of: Option<String>,
    /// No input
    #[arg(short = 'n')]
    no_input: bool,
    /// Neither input nor output
    #[arg(short = 'N')]
    no_streams: bool,
    /// The output of each node after a line with its number, node by node
    #[arg(short = 'd')]
    dividers: bool,
    /// The output of one node after the other
    #[arg(short = 's')]
    turns: bool,
    /// Each line with the number of its node
    #[arg(short = 'p')]
    prefix: bool,
    /// Output by whole lines, which it is anyway
    #[arg(short = 'L')]
    lines: bool,
    /// Say how all have ended, by nodes; of several, those that fail are named anyway
    #[arg(short = 'S')]
    ends: bool,
    /// Input from this file of the node
    #[arg(short = 'I', long = "stdin", value_name = "FILE")]
    input: Option<OsString>,
    /// Output into this file of the node
    #[arg(short = 'O', long = "stdout", value_name = "FILE")]
    output: Option<OsString>,
    /// Errors into this file of the node
    #[arg(short = 'E', long = "stderr", value_name = "FILE")]
    errors: Option<OsString>,
    /// Taken, and without effect
    #[arg(short = 'i')]
    immediate: bool,
    /// Taken, and without effect
    #[arg(short = 'o', value_name = "N")]
    number: Option<String>,
    #[command(flatten)]
    daemon: Daemon,
    /// The nodes, without -a, -A and -U; the command and its arguments
    #[arg(value_name = "WORDS", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl Bpsh {
    /// Becomes the command, or the parent of several; returns an exit status only when that did not come about.
    pub(crate) fn execute(self, hold: Hold) -> u8 {
        failed(self.start(hold))
    }

    fn start(self, hold: Hold) -> Result<Fault> {
        let mut daemon = self.daemon.connect()?;
        let here = here(&mut daemon)?;
        let rows = nodes::nodes(&mut daemon)?;
        drop(daemon);
        let (nodes, command) = self.chosen(&rows)?;
        let argv = self.wrapped(command)?;
        if self.no_input || self.no_streams {
            no_input()?;
        }
        if nodes == [here] {
            return execute(&argv, &argv[0].to_string_lossy());
        }
        if nodes.contains(&NodeId::FRONT) {
            return Err(Fault::refused("run a command on the front end among other nodes, or from a node"));
        }
        let ends = if self.ends { Ends::All } else { Ends::Failed };
        let show = Show { numbers: true, turns: self.turns || self.dividers, dividers: self.dividers, ends };
        let target = Target::Nodes(nodes);
        let asked = Run {
            target,
            terminal: false,
            prefix: self.prefix,
            show,
            argv,
            file: None,
            numbers: Vec::new(),
            sees: Default::default(),
            surroundings: Default::default(),
        };
        Ok(run(&asked, self.daemon.socket(), hold))
    }

    /// The nodes and the command.
    ///
    /// # Errors
    /// `Refused` if there is no command, or no node is chosen; as [`vocab::select`].
    fn chosen(&self, rows: &[NodeRow]) -> Result<(Vec<NodeId>, &[OsString])> {
        let all: Vec<(NodeId, &str)> = rows.iter().map(|row| (row.node, row.state.as_str())).collect();
        let up: Vec<(NodeId, &str)> = all.iter().filter(|(_, state)| *state == "up").copied().collect();
        let (spec, (nodes, command)) = if self.all_up {
            ("up".into(), (vocab::select("up", &all)?, &self.words[..]))
        } else if self.not_down {
            ("!down".into(), (vocab::select("!down", &all)?, &self.words[..]))
        } else if let Some(spec) = &self.up_of {
            let chosen = vocab::select(&numbers(spec, rows)?, &all)?;
            let is_up = |node: &NodeId| node.is_front() || up.iter().any(|(other, _)| other == node);
            (spec.clone(), (chosen.into_iter().filter(is_up).collect(), &self.words[..]))
        } else {
            let Some((spec, command)) = self.words.split_first() else {
                return Err(Fault::refused("no node is named"));
            };
            let spec = spec.to_str().ok_or_else(|| Fault::refused(format!("node list {spec:?} is no text")))?;
            (spec.to_string(), (vocab::select(&numbers(spec, rows)?, &all)?, command))
        };
        if command.is_empty() {
            return Err(Fault::refused("no command is given"));
        }
        if nodes.is_empty() {
            return Err(Fault::gone(format!("node list {spec:?}: no node is of these")));
        }
        Ok((nodes, command))
    }

    /// The command, with its streams from and to files of the node where these are asked for.
    fn wrapped(&self, command: &[OsString]) -> Result<Vec<OsString>> {
        let null = self.no_streams.then(|| OsString::from("/dev/null"));
        let files = [("<", &self.input, &None), (">", &self.output, &null), ("2>", &self.errors, &null)];
        let files: Vec<(&str, &OsStr)> = files
            .into_iter()
            .filter_map(|(sign, file, other)| Some((sign, file.as_deref().or(other.as_deref())?)))
            .collect();
        if files.is_empty() {
            return Ok(command.to_vec());
        }
        // A redirection of exec that fails ends the shell with a message that names the file.
        let opens: String = (1..).zip(&files).map(|(n, (sign, _))| format!("exec {sign}\"${n}\"; ")).collect();
        let script = format!("{opens}shift {}; exec \"$@\"", files.len());
        let words = ["/bin/sh".into(), "-c".into(), script.into(), "bpsh".into()].into_iter();
        Ok(words.chain(files.iter().map(|(_, file)| file.to_os_string())).chain(command.iter().cloned()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command, FromArgMatches};

    fn parse(words: &[&str]) -> Bpsh {
        let command = Bpsh::augment_args(Command::new("bpsh").no_binary_name(true));
        let matches = command.try_get_matches_from(words).expect("good");
        Bpsh::from_arg_matches(&matches).expect("good")
    }

    fn rows(states: &[&str]) -> Vec<NodeRow> {
        let row = |(n, state): (i32, &&str)| NodeRow {
            node: NodeId(n),
            state: state.to_string(),
            address: String::new(),
            processes: 0,
            cores: 1,
            memory: 0,
            memory_free: 0,
            load: 0.0,
            uid: 0,
            gid: 0,
            mode: 0o111,
            name: String::new(),
        };
        (0..).zip(states).map(row).collect()
    }

    #[test]
    fn nodes_come_from_an_option_or_from_the_first_word() {
        let rows = rows(&["up", "down", "silent", "up"]);
        let cases: &[(&[&str], &[i32], &[&str])] = &[
            (&["0-1", "ls", "-l"], &[0, 1], &["ls", "-l"]),
            (&["-p", "n3,.0", "ls"], &[3, 0], &["ls"]),
            (&["-a", "ls", "-a"], &[0, 3], &["ls", "-a"]),
            (&["-A", "ls"], &[0, 2, 3], &["ls"]),
            (&["-U", "0-2", "ls"], &[0], &["ls"]),
            (&["-1", "ls"], &[-1], &["ls"]),
            (&["!up", "ls"], &[1, 2], &["ls"]),
        ];
        for (words, nodes, command) in cases {
            let asked = parse(words);
            let (chosen, rest) = asked.chosen(&rows).expect("good");
            assert_eq!(chosen, nodes.iter().copied().map(NodeId).collect::<Vec<_>>(), "{words:?}");
            assert_eq!(rest, *command, "{words:?}");
        }
        for bad in [&["0"][..], &["9", "ls"], &["boot", "ls"], &["0,,1", "ls"]] {
            assert!(parse(bad).chosen(&rows).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn files_of_the_node_are_opened_by_a_shell_there() {
        let command = ["cat".into()];
        let words = parse(&["-I", "a b", "-E", "e", "0", "cat"]).wrapped(&command).expect("good");
        let script = "exec <\"$1\"; exec 2>\"$2\"; shift 2; exec \"$@\"";
        assert_eq!(words, ["/bin/sh", "-c", script, "bpsh", "a b", "e", "cat"]);
        let words = parse(&["-N", "-O", "o", "0", "cat"]).wrapped(&command).expect("good");
        assert_eq!(words[4..], ["o", "/dev/null", "cat"]);
        assert_eq!(parse(&["0", "cat"]).wrapped(&command).expect("good"), ["cat"]);
    }
}
