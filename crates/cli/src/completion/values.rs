//! Values that an argument can have, by the name that its help gives the value.

use super::space::Space;
use crate::guide;
use clap_complete::engine::CompletionCandidate;
use monitor::people;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use vocab::NodeSet;

/// Candidates that begin with a text.
pub(super) type Find = fn(&Space, &str) -> Vec<CompletionCandidate>;

/// `None`: the shell's own names of files, or clap's values.
pub(super) fn of(command: &str, value: &str, positional: bool) -> Option<Find> {
    match (command, value) {
        ("bpcp", "FILE") => Some(sides),
        ("job" | "submit" | "front" | "jobs", _) => None,
        ("rsh" | "bpsh", "WORDS") => Some(list),
        (_, "NODES") if positional => Some(chosen),
        (_, "NODES") => Some(list),
        (_, "NODE") => Some(one),
        ("fault", "MACHINE") => Some(machine),
        (_, "PID") => Some(process),
        (_, "PID... NODE") => Some(process_or_node),
        (_, "USER" | "USERS") => Some(|_, typed| names("/etc/passwd", typed)),
        ("help", "TOPIC") => Some(topics),
        (_, "GROUP") => Some(|_, typed| names("/etc/group", typed)),
        _ => None,
    }
}

fn candidate(word: impl Into<OsString>, meaning: String) -> CompletionCandidate {
    CompletionCandidate::new(word).help(Some(meaning.into()))
}

/// Chapters of the guide, and commands.
fn topics(_: &Space, typed: &str) -> Vec<CompletionCandidate> {
    let chapters = guide::chapters().map(|chapter| (chapter.topic(), chapter.title.to_owned()));
    let commands = crate::definition();
    let commands = commands.get_subcommands().filter(|command| !command.is_hide_set());
    let commands =
        commands.map(|command| (command.get_name().to_owned(), command.get_about().map(ToString::to_string)));
    let all = chapters.chain(commands.map(|(name, about)| (name, about.unwrap_or_default())));
    all.filter(|(word, _)| word.starts_with(typed)).map(|(word, meaning)| candidate(word, meaning)).collect()
}

/// Nodes, each as its word and what it is; `bare`: written without the `n`.
fn nodes(space: &Space, typed: &str, bare: bool) -> Vec<(String, String)> {
    let word = |node: vocab::NodeId| if bare { node.0.to_string() } else { node.to_string() };
    let rows = space.nodes().into_iter().flat_map(|row| {
        let meaning = format!("{}, {}", row.state, row.address);
        // Names are for who has begun to write one: each node has its number.
        let name = (!typed.is_empty() && !row.name.is_empty()).then_some((row.name, meaning.clone()));
        name.into_iter().chain([(word(row.node), meaning)])
    });
    rows.filter(|(word, _)| word.starts_with(typed)).collect()
}

fn is_bare(typed: &str) -> bool {
    typed.starts_with(|c: char| c.is_ascii_digit())
}

fn one(space: &Space, typed: &str) -> Vec<CompletionCandidate> {
    nodes(space, typed, is_bare(typed)).into_iter().map(|(word, meaning)| candidate(word, meaning)).collect()
}

/// The last node of a list: `0-3,7`.
fn list(space: &Space, typed: &str) -> Vec<CompletionCandidate> {
    let start = typed.rfind([',', '-']).map_or(0, |at| at + 1);
    let (before, last) = typed.split_at(start);
    let named = before.strip_suffix(',').and_then(|list| NodeSet::parse(list).ok()).unwrap_or_default();
    let is_new =
        |word: &str| NodeSet::parse(word).map_or(true, |set| !set.nodes().iter().any(|n| named.nodes().contains(n)));
    let found = nodes(space, last, is_bare(typed)).into_iter().filter(|(word, _)| is_new(word));
    found.map(|(word, meaning)| candidate(format!("{before}{word}"), meaning)).collect()
}

/// A list that can have words for many nodes in it.
fn chosen(space: &Space, typed: &str) -> Vec<CompletionCandidate> {
    let words = [("all", "all nodes"), ("up", "the nodes that are up")];
    let words = words.into_iter().filter(|(word, _)| word.starts_with(typed));
    list(space, typed).into_iter().chain(words.map(|(word, meaning)| candidate(word, meaning.into()))).collect()
}

fn machine(space: &Space, typed: &str) -> Vec<CompletionCandidate> {
    let front = "front".starts_with(typed).then(|| candidate("front", "the front end".into()));
    one(space, typed).into_iter().chain(front).collect()
}

fn process(space: &Space, typed: &str) -> Vec<CompletionCandidate> {
    let rows = space.processes().into_iter().filter(|row| row.pid.to_string().starts_with(typed));
    rows.map(|row| candidate(row.pid.to_string(), format!("{} {}", row.node, row.command))).collect()
}

fn process_or_node(space: &Space, typed: &str) -> Vec<CompletionCandidate> {
    // A number is a process here: a node has its `n`.
    let nodes = if is_bare(typed) { Vec::new() } else { machine(space, typed) };
    process(space, typed).into_iter().chain(nodes).collect()
}

/// `n3:` where something is to be copied from or to; what has a slash or a colon is a path.
fn sides(space: &Space, typed: &str) -> Vec<CompletionCandidate> {
    if typed.is_empty() || typed.contains(['/', ':']) {
        return Vec::new();
    }
    nodes(space, typed, is_bare(typed)).into_iter().map(|(word, meaning)| candidate(word + ":", meaning)).collect()
}

fn names(file: &str, typed: &str) -> Vec<CompletionCandidate> {
    let names: BTreeSet<String> =
        people::names(&std::fs::read_to_string(file).unwrap_or_default()).into_values().collect();
    names.into_iter().filter(|name| name.starts_with(typed)).map(CompletionCandidate::new).collect()
}

/// Programs of PATH; a text with a slash is a path.
pub(super) fn programs(_: &Space, typed: &str) -> Vec<CompletionCandidate> {
    if typed.contains('/') {
        return Vec::new();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = BTreeSet::new();
    for directory in std::env::split_paths(&path).filter(|path| path.is_absolute()) {
        found.extend(executables(&directory, typed));
    }
    found.into_iter().map(CompletionCandidate::new).collect()
}

fn executables(directory: &Path, typed: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let runs = |name: &String| {
        let found = std::fs::metadata(directory.join(name));
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    names.filter(|name| name.starts_with(typed)).filter(runs).collect()
}
