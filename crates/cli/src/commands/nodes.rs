//! `shoal nodes`: the nodes and how they are.

pub(super) use super::node_names::rows as nodes;
use super::Daemon;
use crate::print;
use clap::Args;
use client::Local;
use monitor::people;
use serde::Serialize;
use std::process::ExitCode;
use vocab::{Fault, NodeId, NodeSet, Result};
use wire::ask::{Answer, Ask, NodeRow};

/// Show the nodes: state, address, processes, cores, memory, load, and who may use them
#[derive(Args, Debug)]
pub(crate) struct Nodes {
    /// Print a JSON array
    #[arg(long)]
    json: bool,
    /// As root: these, which are down, are no nodes any more (as 3 or 3-5,7); their numbers are free for other machines
    #[arg(long, value_name = "NODES", value_parser = super::node_names::nodes, conflicts_with = "json")]
    forget: Option<NodeSet>,
    #[command(flatten)]
    daemon: Daemon,
}

/// One node in JSON; memory in bytes.
#[derive(Serialize)]
struct Row {
    node: i32,
    state: String,
    address: String,
    processes: u32,
    cores: u32,
    memory: u64,
    memory_free: u64,
    load: f32,
    uid: u32,
    gid: u32,
    /// Octal, as in the table.
    mode: String,
    name: String,
}

impl Nodes {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut daemon = self.daemon.connect()?;
        if let Some(nodes) = &self.forget {
            return forget(&mut daemon, nodes).map(|()| ExitCode::SUCCESS);
        }
        let rows = nodes(&mut daemon)?;
        if self.json {
            print::json(&rows.into_iter().map(row).collect::<Vec<Row>>())?;
        } else {
            let heading = [
                "NODE",
                "STATE",
                "ADDRESS",
                "PROCESSES",
                "CORES",
                "MEMORY",
                "FREE",
                "LOAD",
                "USER",
                "GROUP",
                "MODE",
                "NAME",
            ];
            let right = [false, false, false, true, true, true, true, true, false, false, false, false];
            let groups = people::names(&std::fs::read_to_string("/etc/group").unwrap_or_default());
            let users = people::here();
            let cells = |row: &NodeRow| cells(row, people::name_of(&users, row.uid), people::name_of(&groups, row.gid));
            print::table(heading, right, &rows.iter().map(cells).collect::<Vec<_>>())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn forget(daemon: &mut Local, nodes: &NodeSet) -> Result<()> {
    match daemon.ask(&Ask::Forget(nodes.nodes().to_vec()))? {
        Answer::Nodes(_) => Ok(()),
        other => Err(Fault::wire(format!("the daemon answered Forget with {other:?}"))),
    }
}

/// # Errors
/// `Refused` with the first of `wanted` that there is not.
pub(super) fn all_known(daemon: &mut Local, mut wanted: impl Iterator<Item = NodeId>) -> Result<()> {
    let known: Vec<NodeId> = nodes(daemon)?.into_iter().map(|row| row.node).collect();
    match wanted.find(|node| !known.contains(node)) {
        Some(unknown) => Err(Fault::refused(format!("unknown node {unknown}"))),
        None => Ok(()),
    }
}

fn row(row: NodeRow) -> Row {
    let NodeRow { node, state, address, processes, cores, memory, memory_free, load, uid, gid, mode, name } = row;
    let mode = octal(mode);
    Row { node: node.0, state, address, processes, cores, memory, memory_free, load, uid, gid, mode, name }
}

fn octal(mode: u32) -> String {
    format!("{mode:04o}")
}

fn cells(row: &NodeRow, user: String, group: String) -> [String; 12] {
    [
        row.node.to_string(),
        row.state.clone(),
        row.address.clone(),
        row.processes.to_string(),
        row.cores.to_string(),
        print::bytes(row.memory),
        print::bytes(row.memory_free),
        format!("{:.2}", row.load),
        user,
        group,
        octal(row.mode),
        if row.name.is_empty() { "-".into() } else { row.name.clone() },
    ]
}
