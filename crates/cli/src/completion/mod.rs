//! Offers of a shell at TAB: commands and options by clap's definitions, nodes and PIDs as the daemon knows them now.

mod space;
mod values;

use crate::called;
use clap::{Arg, ArgMatches, Command, ValueHint};
use clap_complete::engine::{complete, ArgValueCompleter, CompletionCandidate};
use space::Space;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// A word that can be put in, and what it means: one line, or nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) word: String,
    pub(crate) meaning: String,
}

/// Offers for word `at` of a command line that begins with the program. Without an offer the shell completes names of files.
pub(crate) fn offers(definition: Command, words: Vec<OsString>, at: usize) -> Vec<Offer> {
    let typed = words.len();
    let mut words = called::words(words);
    let at = at + words.len() - typed;
    words.resize(at + 1, OsString::new());
    let line = Line::read(&definition, &words[..at]);
    let current = words[at].clone();
    if line.is_in_program() {
        return Vec::new();
    }
    let found = complete(&mut with_values(definition, &line), words, at, None).unwrap_or_default();
    let option = current.as_encoded_bytes().starts_with(b"-");
    let wanted = |one: &CompletionCandidate| {
        !one.is_hide_set() && (option || !one.get_value().as_encoded_bytes().starts_with(b"-"))
    };
    found.into_iter().filter(wanted).filter_map(offer).collect()
}

fn offer(candidate: CompletionCandidate) -> Option<Offer> {
    let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
    let meaning = kern::own::plain(help.lines().next().unwrap_or_default());
    candidate.get_value().to_str().map(|word| Offer { word: word.to_owned(), meaning })
}

/// The words before the one to complete, as far as they can be understood.
#[derive(Clone)]
struct Line {
    /// The innermost command.
    command: String,
    /// How many words of its last argument there are, which takes all that follow: a program and its arguments.
    trailing: Option<usize>,
    /// Is an option given that says the nodes, so that `bpsh` takes none as a word?
    says_nodes: bool,
    socket: PathBuf,
}

impl Line {
    fn read(definition: &Command, words: &[OsString]) -> Line {
        let mut definition = definition.clone().ignore_errors(true);
        definition.build();
        let matches = definition.try_get_matches_from_mut(words).unwrap_or_default();
        let run_dir = matches.try_get_one::<PathBuf>("run_dir").ok().flatten().cloned();
        let (mut command, mut inner) = (&definition, &matches);
        while let Some((name, next)) = inner.subcommand() {
            let Some(found) = command.find_subcommand(name) else { break };
            (command, inner) = (found, next);
        }
        let trailing = command.get_positionals().find(|arg| arg.is_trailing_var_arg_set());
        let says = |id: &str| inner.try_get_one::<bool>(id).ok().flatten() == Some(&true);
        let own = inner.try_get_one::<PathBuf>("socket").ok().flatten().cloned();
        let socket = run_dir.map(|path| path.join("shoal.sock")).or(own).unwrap_or_else(client::socket_path);
        Line {
            command: command.get_name().to_owned(),
            trailing: trailing.map(|arg| given(inner, arg)),
            says_nodes: says("all_up") || says("not_down") || inner.try_contains_id("up_of").unwrap_or(false),
            socket,
        }
    }

    /// `rsh` and `bpsh` take the nodes as the first of these words.
    fn before_program(&self) -> usize {
        usize::from(self.command == "rsh" || self.command == "bpsh" && !self.says_nodes)
    }

    /// Is the next word an argument of the program, whose options are not ours?
    fn is_in_program(&self) -> bool {
        self.trailing.is_some_and(|given| given > self.before_program())
    }

    fn wants_program(&self) -> bool {
        self.trailing == Some(self.before_program())
    }
}

fn given(matches: &ArgMatches, arg: &Arg) -> usize {
    matches.try_get_raw(arg.get_id().as_str()).ok().flatten().map_or(0, Iterator::count)
}

/// The definition with what can be offered for the values of each argument.
fn with_values(definition: Command, line: &Line) -> Command {
    let name = definition.get_name().to_owned();
    let definition = definition.mut_args(|arg| with_value(arg, &name, line));
    definition.mut_subcommands(|inner| with_values(inner, line))
}

fn with_value(arg: Arg, command: &str, line: &Line) -> Arg {
    let value = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string).unwrap_or_default();
    let program = arg.is_trailing_var_arg_set() && line.wants_program();
    let find =
        if program { Some(values::programs as values::Find) } else { values::of(command, &value, arg.is_positional()) };
    let Some(find) = find else {
        return arg.value_hint(ValueHint::Other);
    };
    let socket = line.socket.clone();
    arg.add(ArgValueCompleter::new(move |current: &OsStr| {
        let current = current.to_str().unwrap_or_default();
        find(&Space::new(&socket), current)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let at = words.len() - 1;
        let offers = offers(crate::definition(), words, at);
        offers.into_iter().map(|offer| offer.word).collect()
    }

    #[test]
    fn commands_and_options_are_offered_and_hidden_ones_are_not() {
        let all = words("shoal ");
        assert!(all.iter().any(|word| word == "run") && all.iter().any(|word| word == "checkpoint"), "{all:?}");
        assert!(!all.iter().any(|word| word == "complete" || word == "holder" || word.starts_with('-')), "{all:?}");
        assert_eq!(words("shoal che"), ["check", "checkpoint"]);
        assert_eq!(words("shoal job "), ["submit", "list", "cancel"]);
        let options = words("shoal run --");
        assert!(options.iter().any(|word| word == "--terminal"), "{options:?}");
        assert!(!options.iter().any(|word| word == "--threads"), "{options:?}");
        assert_eq!(words("bpcp --so"), ["--socket"]);
    }

    #[test]
    fn values_that_clap_knows_are_offered() {
        assert_eq!(words("shoal run --view "), ["node", "front", "either"]);
        assert_eq!(words("shoal ps --sort=m"), ["--sort=memory"]);
    }

    #[test]
    fn a_program_is_offered_once_and_its_arguments_are_files() {
        assert!(words("shoal run -t env").iter().any(|word| word == "env"));
        assert!(words("shoal run -t env").iter().all(|word| word.starts_with("env")));
        assert!(words("shoal run -n 0-1 env").iter().any(|word| word == "env"));
        assert!(words("bpsh 0 env").iter().any(|word| word == "env"));
        assert!(words("bpsh -a env").iter().any(|word| word == "env"));
        for line in ["shoal run env ", "shoal run env -", "bpsh 0 env ", "shoal run ./en", "shoal job submit env "] {
            assert!(words(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn without_a_daemon_nothing_is_offered_for_what_it_knows() {
        for line in ["shoal --run-dir /nonexistent run -n ", "shoal where --socket /nonexistent/s ", "shoal image "] {
            assert!(words(line).is_empty(), "{line}");
        }
    }
}
