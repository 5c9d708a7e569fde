//! `shoal view`: what nodes ask of the front end's files, and what they keep.

use super::Daemon;
use crate::print;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use vocab::{Fault, Result};
use wire::view::NodeStatus;

/// Show what the nodes with a view of the front end's files ask for and keep; as root, on the front end
#[derive(Args, Debug)]
pub(crate) struct View {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    /// Have the nodes let go of the file system that is mounted at DIR, which can be unmounted then unless programs there use it
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    let_go: Option<PathBuf>,
    #[command(flatten)]
    daemon: Daemon,
}

/// In JSON. Counts are since the node's session began, bytes are bytes.
#[derive(Serialize)]
struct Row {
    node: i32,
    connected: bool,
    open: u64,
    files: u64,
    contents: u64,
    answered_there: u64,
    requests: u64,
    read: u64,
    written: u64,
    ahead: u64,
    notices: u64,
    recalls: u64,
    /// Bytes on the node's disk, and what it has had from there and from other nodes.
    kept: u64,
    from_disk: u64,
    from_nodes: u64,
    by_kind: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Whole {
    files: u64,
    leases: u64,
    nodes: Vec<Row>,
}

impl View {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if let Some(at) = &self.let_go {
            let at = kern::mount::directory(at)?;
            return match ::view::server::let_go(&self.daemon.beside(""), &at)? {
                0 => Ok(ExitCode::SUCCESS),
                left => Err(Fault::refused(format!("{left} files of {} are in use on nodes", at.display()))),
            };
        }
        let status = ::view::server::status(&self.daemon.beside(""))?;
        let rows: Vec<Row> = status.nodes.iter().map(row).collect();
        if self.json {
            print::json(&Whole { files: status.files, leases: status.leases, nodes: rows })?;
            return Ok(ExitCode::SUCCESS);
        }
        let heading = [
            "NODE", "FILES", "CONTENTS", "OPEN", "REQUESTS", "OWN", "READ", "WRITTEN", "AHEAD", "NOTICES", "RECALLS",
            "KEPT", "DISK", "NODES",
        ];
        let right: [bool; 14] = std::array::from_fn(|at| at > 0);
        print::table(heading, right, &rows.iter().map(cells).collect::<Vec<_>>())?;
        Ok(ExitCode::SUCCESS)
    }
}

fn row(status: &NodeStatus) -> Row {
    let NodeStatus { node, connected, open, files, contents, own, read, written, ahead, notices, .. } = *status;
    let NodeStatus { recalls, kept, from_disk, from_nodes, .. } = *status;
    let mut by_kind = BTreeMap::new();
    for (kind, count) in &status.requests {
        *by_kind.entry(::view::operation(*kind)).or_default() += count;
    }
    let requests = by_kind.values().sum();
    let node = node.0;
    Row {
        node,
        connected,
        open,
        files,
        contents,
        answered_there: own,
        requests,
        read,
        written,
        ahead,
        notices,
        recalls,
        kept,
        from_disk,
        from_nodes,
        by_kind,
    }
}

fn cells(row: &Row) -> [String; 14] {
    let node = if row.connected { format!("n{}", row.node) } else { format!("n{} (lost)", row.node) };
    let Row { files, contents, open, requests, answered_there, ahead, notices, recalls, .. } = row;
    let numbers = [files, contents, open, requests, answered_there].map(u64::to_string);
    let [files, contents, open, requests, own] = numbers;
    let [ahead, notices, recalls] = [ahead, notices, recalls].map(u64::to_string);
    let [read, written, kept, disk, nodes] =
        [row.read, row.written, row.kept, row.from_disk, row.from_nodes].map(print::bytes);
    [node, files, contents, open, requests, own, read, written, ahead, notices, recalls, kept, disk, nodes]
}
