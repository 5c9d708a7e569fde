//! `shoal nodes`: the nodes and how they are.

use super::Daemon;
use crate::print;
use clap::Args;
use client::local::Local;
use serde::Serialize;
use std::process::ExitCode;
use vocab::{Fault, NodeId, Result};
use wire::ask::{Answer, Ask, NodeRow};

/// Show the nodes: state, address, processes, cores, memory, load
#[derive(Args, Debug)]
pub(crate) struct Nodes {
    /// Print a JSON array
    #[arg(long)]
    json: bool,
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
}

impl Nodes {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let rows = nodes(&mut self.daemon.connect()?)?;
        if self.json {
            print::json(&rows.into_iter().map(row).collect::<Vec<Row>>())?;
        } else {
            let heading = ["NODE", "STATE", "ADDRESS", "PROCESSES", "CORES", "MEMORY", "FREE", "LOAD"];
            let right = [false, false, false, true, true, true, true, true];
            print::table(heading, right, &rows.iter().map(cells).collect::<Vec<_>>())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// All nodes that the daemon knows.
pub(super) fn nodes(daemon: &mut Local) -> Result<Vec<NodeRow>> {
    match daemon.ask(&Ask::Nodes)? {
        Answer::Nodes(rows) => Ok(rows),
        other => Err(Fault::wire(format!("the daemon answered Nodes with {other:?}"))),
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
    let NodeRow { node, state, address, processes, cores, memory, memory_free, load } = row;
    Row { node: node.0, state, address, processes, cores, memory, memory_free, load }
}

fn cells(row: &NodeRow) -> [String; 8] {
    [
        row.node.to_string(),
        row.state.clone(),
        row.address.clone(),
        row.processes.to_string(),
        row.cores.to_string(),
        print::bytes(row.memory),
        print::bytes(row.memory_free),
        format!("{:.2}", row.load),
    ]
}
