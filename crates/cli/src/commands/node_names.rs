//! Nodes as options name them: by number, or by what a node calls itself, which the daemon knows.

use client::Local;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use vocab::{names, Fault, NodeId, NodeSet, Result};
use wire::ask::{Answer, Ask, NodeRow};
use wire::nodes::NodeInfo;

/// All nodes that the daemon knows.
pub(super) fn rows(daemon: &mut Local) -> Result<Vec<NodeRow>> {
    match daemon.ask(&Ask::Nodes)? {
        Answer::Nodes(rows) => Ok(rows),
        other => Err(Fault::wire(format!("the daemon answered Nodes with {other:?}"))),
    }
}

/// For options that take a list of nodes. The daemon is asked for names only.
pub(super) fn nodes(text: &str) -> std::result::Result<NodeSet, String> {
    let numbers = |_: Fault| with_daemon(text).and_then(|rows| set(text, &called(&rows)));
    NodeSet::parse(text).or_else(numbers).map_err(|fault| fault.to_string())
}

/// Likewise, for those that take one node.
pub(super) fn node(text: &str) -> std::result::Result<NodeId, String> {
    let named = |_: Fault| with_daemon(text).and_then(|rows| one(text, &called(&rows)));
    text.parse().or_else(named).map_err(|fault| fault.to_string())
}

/// The node of this number or name.
///
/// # Errors
/// `Refused` for a name that no node has, or several.
pub(super) fn find(daemon: &mut Local, text: &str) -> Result<NodeId> {
    match text.parse() {
        Ok(node) => Ok(node),
        Err(_) if names::is_name(text) => one(text, &called(&rows(daemon)?)),
        Err(fault) => Err(fault),
    }
}

/// The nodes of a list in the node language of BProc, with numbers in place of names.
///
/// # Errors
/// As [`names::numbers`].
pub(super) fn numbers(spec: &str, rows: &[NodeRow]) -> Result<String> {
    let states: Vec<(NodeId, &str)> = rows.iter().map(|row| (row.node, row.state.as_str())).collect();
    names::numbers(spec, &called(rows), &states)
}

/// The nodes of a list in that language, for what changes nodes: each word in it has to mean something.
///
/// # Errors
/// `Refused` for a word that is neither a node's name nor a state that a node is in; as [`wire::nodes::choose`].
pub(super) fn chosen(spec: &str, infos: &[NodeInfo]) -> Result<Vec<NodeId>> {
    let means = |word: &str| {
        let word = word.strip_prefix("not").unwrap_or(word);
        !names::is_name(word) || infos.iter().any(|info| info.state == word || info.name == word)
    };
    match spec.split(',').map(str::trim).find(|word| !means(word) && !infos.iter().any(|info| info.name == *word)) {
        Some(word) => Err(Fault::refused(format!("no node is called {word}, nor in a state of that name"))),
        None => wire::nodes::choose(spec, infos),
    }
}

fn called(rows: &[NodeRow]) -> Vec<(NodeId, &str)> {
    rows.iter().map(|row| (row.node, row.name.as_str())).collect()
}

fn set(text: &str, called: &[(NodeId, &str)]) -> Result<NodeSet> {
    let text = names::numbers(text, called, &[])?;
    match text.split(',').map(str::trim).find(|part| names::is_name(part)) {
        Some(unknown) => Err(nobody(unknown)),
        None => NodeSet::parse(&text),
    }
}

fn one(text: &str, called: &[(NodeId, &str)]) -> Result<NodeId> {
    names::find(text, called)?.ok_or_else(|| nobody(text))
}

fn nobody(name: &str) -> Fault {
    Fault::refused(format!("no node is called {name}"))
}

/// The daemon's nodes, if there is a name in `text`.
fn with_daemon(text: &str) -> Result<Vec<NodeRow>> {
    match text.split(',').any(|part| names::is_name(part.trim())) {
        true => rows(&mut Local::connect(&socket(std::env::args_os()))?),
        false => Ok(Vec::new()),
    }
}

/// The daemon that the command asks: names are looked up while the options are read.
fn socket(mut words: impl Iterator<Item = OsString>) -> PathBuf {
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"--" => break,
            b"--socket" => return words.next().map_or_else(client::socket_path, PathBuf::from),
            other => {
                if let Some(path) = other.strip_prefix(b"--socket=") {
                    return PathBuf::from(std::ffi::OsStr::from_bytes(path));
                }
            }
        }
    }
    client::socket_path()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLED: &[(NodeId, &str)] =
        &[(NodeId(0), "lab-0"), (NodeId(3), "lab3"), (NodeId(4), "twin"), (NodeId(5), "twin"), (NodeId(6), "")];

    #[test]
    fn names_and_numbers_are_mixed() {
        assert_eq!(set("lab3,0-1, lab-0", CALLED).map(|set| set.to_string()).as_deref(), Ok("n3,n0-1"));
        assert_eq!(set("lab9", CALLED).expect_err("unknown").to_string(), "no node is called lab9");
        assert!(set("twin", CALLED).expect_err("two").to_string().contains("2 nodes are called twin"));
        assert_eq!(one("lab3", CALLED), Ok(NodeId(3)));
        assert!(one("", CALLED).is_err() && one("3-4", CALLED).is_err());
    }

    #[test]
    fn the_daemon_is_the_one_that_is_asked_later() {
        let of = |words: &[&str]| socket(words.iter().map(OsString::from));
        assert_eq!(of(&["shoal", "ps", "--socket", "/a", "-n", "x"]), PathBuf::from("/a"));
        assert_eq!(of(&["shoal", "ps", "--socket=/b"]), PathBuf::from("/b"));
        assert_eq!(of(&["shoal", "run", "--", "x", "--socket", "/c"]), client::socket_path());
    }

    #[test]
    fn a_word_that_means_nothing_changes_no_node() {
        let info = |node, state: &str, name: &str| NodeInfo {
            node: NodeId(node),
            state: state.into(),
            uid: 0,
            gid: 0,
            mode: 0,
            address: String::new(),
            atime: 0,
            mtime: 0,
            attributes: Vec::new(),
            name: name.into(),
        };
        let infos = [info(0, "up", "lab0"), info(1, "drained", "notebook"), info(2, "up", "")];
        for (spec, nodes) in [
            ("lab0", vec![0]),
            ("drained", vec![1]),
            ("notdrained", vec![0, 2]),
            ("notebook,2", vec![1, 2]),
            ("up,all", vec![0, 2, 1]),
            ("boot", vec![]),
        ] {
            assert_eq!(chosen(spec, &infos), Ok(nodes.into_iter().map(NodeId).collect()), "{spec}");
        }
        assert!(chosen("lab0,lab9", &infos).expect_err("unknown").to_string().contains("no node is called lab9"));
    }
}
