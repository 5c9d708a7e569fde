//! `shoal node-state` and `shoal node-set`: what root, and who owns a node, say of it.

use super::node_names::chosen;
use super::Daemon;
use clap::Args;
use client::Local;
use std::process::ExitCode;
use vocab::{Fault, NodeId, Result};
use wire::ask::{Answer, Ask};
use wire::nodes::{NodeChange, NodeInfo};

/// Set the state of nodes: up, or any other word, in which they take no new programs but root's
///
/// `shoal move --from NODE --all` moves what still runs there to other nodes. It is for root.
#[derive(Args, Debug)]
pub(crate) struct NodeState {
    /// Which nodes: 3, 0-7, 5-, a name, all, a state (up), what is not in a state (!up); several with commas between
    #[arg(value_name = "NODES")]
    nodes: String,
    /// The state: a letter, then letters, digits and _, at most 15
    #[arg(value_name = "STATE")]
    state: String,
    #[command(flatten)]
    daemon: Daemon,
}

/// Set state, owner, group, mode and attributes of nodes
///
/// The execute bits of a node's mode tell who may start programs there, or move them there: the owner, the group, or all others. Group, mode and attributes
/// are the owner's to set, all else is root's.
#[derive(Args, Debug)]
pub(crate) struct NodeSet {
    /// Which nodes, as for node-state; front: the front end
    #[arg(value_name = "NODES")]
    nodes: String,
    #[command(flatten)]
    changes: Changes,
    /// An attribute: NAME=VALUE sets it, NAME= makes it empty, NAME takes it away
    #[arg(short = 'a', long = "attribute", value_name = "NAME[=VALUE]", value_parser = attribute)]
    attributes: Vec<NodeChange>,
    #[command(flatten)]
    daemon: Daemon,
}

/// Settings that bpctl has, too.
#[derive(Args, Debug, Default)]
pub(crate) struct Changes {
    /// The state
    #[arg(short = 's', long, value_name = "STATE")]
    pub(crate) state: Option<String>,
    /// The owner, as name or number
    #[arg(short = 'u', long, value_name = "USER", value_parser = user)]
    user: Option<u32>,
    /// The group, as name or number
    #[arg(short = 'g', long, value_name = "GROUP", value_parser = group)]
    group: Option<u32>,
    /// The mode, octal; only its execute bits (0111) mean anything
    #[arg(short = 'm', long, value_name = "MODE", value_parser = mode)]
    mode: Option<u32>,
}

impl Changes {
    /// In the order in which they are made: first what an owner may do who is none any more after that.
    pub(crate) fn list(self) -> Vec<NodeChange> {
        let Changes { state, user, group, mode } = self;
        let (mode, group) = (mode.map(NodeChange::Mode), group.map(NodeChange::Group));
        let (user, state) = (user.map(NodeChange::Owner), state.map(NodeChange::State));
        [mode, group, user, state].into_iter().flatten().collect()
    }
}

impl NodeState {
    pub(crate) fn run(self) -> Result<ExitCode> {
        change(&mut self.daemon.connect()?, &self.nodes, vec![NodeChange::State(self.state)])
    }
}

impl NodeSet {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut changes = self.attributes;
        changes.extend(self.changes.list());
        if changes.is_empty() {
            return Err(Fault::refused("nothing is to be set (--help says what can be)"));
        }
        change(&mut self.daemon.connect()?, &self.nodes, changes)
    }
}

/// Makes these changes of the nodes that `spec` names, one after the other.
pub(crate) fn change(daemon: &mut Local, spec: &str, changes: Vec<NodeChange>) -> Result<ExitCode> {
    let nodes = chosen(spec, &infos(daemon)?)?;
    if nodes.is_empty() {
        return Err(Fault::refused(format!("no node is in {spec:?}")));
    }
    changes.into_iter().try_for_each(|change| make(daemon, &nodes, change))?;
    Ok(ExitCode::SUCCESS)
}

fn make(daemon: &mut Local, nodes: &[NodeId], change: NodeChange) -> Result<()> {
    match daemon.ask(&Ask::ChangeNodes { nodes: nodes.to_vec(), change })? {
        Answer::NodesChanged => Ok(()),
        other => Err(Fault::wire(format!("the daemon answered ChangeNodes with {other:?}"))),
    }
}

/// All nodes that the daemon knows, and the front end.
pub(crate) fn infos(daemon: &mut Local) -> Result<Vec<NodeInfo>> {
    match daemon.ask(&Ask::NodeInfos)? {
        Answer::NodeInfos(infos) => Ok(infos),
        other => Err(Fault::wire(format!("the daemon answered NodeInfos with {other:?}"))),
    }
}

fn user(text: &str) -> std::result::Result<u32, String> {
    number(text, "user", kern::users::uid)
}

fn group(text: &str) -> std::result::Result<u32, String> {
    number(text, "group", kern::users::gid)
}

/// As chown(1): a name goes before a number.
fn number(text: &str, what: &str, known: fn(&str) -> Option<u32>) -> std::result::Result<u32, String> {
    known(text).or_else(|| text.parse().ok()).ok_or_else(|| format!("there is no {what} {text}"))
}

fn mode(text: &str) -> std::result::Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777 && !text.starts_with('+'));
    mode.ok_or_else(|| format!("{text:?} is no octal mode, as 0110"))
}

fn attribute(text: &str) -> std::result::Result<NodeChange, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.as_bytes().to_vec().into())),
        None => (text, None),
    };
    Ok(NodeChange::Attribute { name: name.into(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal() {
        assert_eq!((mode("0110"), mode("755"), mode("0")), (Ok(0o110), Ok(0o755), Ok(0)));
        for bad in ["", "8", "+1", "-1", "10000", "u+x"] {
            assert!(mode(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn users_and_groups_are_names_or_numbers() {
        assert_eq!((user("root"), user("4000001"), group("root")), (Ok(0), Ok(4_000_001), Ok(0)));
        assert_eq!(user("nobody-such"), Err("there is no user nobody-such".into()));
        assert!(group("-1").is_err());
    }
}
