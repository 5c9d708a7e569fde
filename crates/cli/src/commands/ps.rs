//! `shoal ps`: the processes on the nodes.

use super::choice::Choice;
use super::nodes::{all_known, nodes};
use super::Daemon;
use crate::print;
use clap::Args;
use client::Local;
use kern::proc::Proc;
use monitor::{people, tree::branch, units::plain};
use serde::Serialize;
use std::collections::HashMap;
use std::process::ExitCode;
use vocab::{Fault, NodeId, NodeSet, Pid, Result};
use wire::ask::{Answer, Ask, ProcRow};

/// Show the processes that run on nodes: where, whose, state, CPU time, memory
///
/// Of a node that does not answer it shows what that said last, marked with a question mark; the exit status is 1 then.
#[derive(Args, Debug)]
pub(crate) struct Ps {
    /// Print a JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    daemon: Daemon,
}

/// One process in JSON; `node` is -1 for the front end, CPU time in milliseconds, resident memory in KiB.
#[derive(Serialize)]
struct Row {
    pid: i32,
    ppid: i32,
    node: i32,
    uid: u32,
    state: char,
    cpu_ms: u64,
    rss_kb: u64,
    command: String,
    /// Its node does not answer: this is what it said last.
    last_known: bool,
}

impl Ps {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut daemon = self.daemon.connect()?;
        if let Some(nodes) = self.choice.nodes() {
            all_known(&mut daemon, nodes.iter().copied())?;
        }
        let (rows, missing) = match daemon.ask(&Ask::Ps)? {
            Answer::Ps { rows, missing } => (rows, missing),
            other => return Err(Fault::wire(format!("the daemon answered Ps with {other:?}"))),
        };
        let users = people::here();
        let proc = natives(&mut daemon, self.choice.is_of_a_job());
        let rows = self.choice.of(rows, &users, |pid| proc.as_ref()?.parent(pid).ok())?;
        if self.json {
            print::json(&rows.into_iter().map(|(_, one)| row(one, &missing)).collect::<Vec<Row>>())?;
        } else {
            let heading = ["PID", "NODE", "USER", "S", "TIME", "RSS", "COMMAND"];
            let right = [true, false, false, false, true, true, false];
            print::table(
                heading,
                right,
                &rows.iter().map(|(depth, row)| cells(*depth, row, &users, &missing)).collect::<Vec<_>>(),
            )?;
        }
        if !missing.is_empty() {
            let known = nodes(&mut daemon)?.iter().filter(|row| row.state != "down").count();
            kern::own::complain(silent(&missing, known));
        }
        Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// One line, of however many nodes there is no answer; there are `known` that are not down.
fn silent(missing: &[NodeId], known: usize) -> String {
    let shown = "of what runs there only the last that is known is shown";
    match missing {
        [node] => format!("{node} does not answer: {shown}"),
        // One may have been lost since.
        _ => format!(
            "{} of {} nodes do not answer in time: {}; {shown}",
            missing.len(),
            known.max(missing.len()),
            NodeSet::from(missing.to_vec())
        ),
    }
}

/// Where this machine's processes are found, if their numbers are those of the space: the daemon of a node answers callers outside of it too.
fn natives(daemon: &mut Local, wanted: bool) -> Option<Proc> {
    match wanted.then(|| daemon.ask(&Ask::Where { pid: Pid::NONE }))? {
        Ok(Answer::Where { pid, .. }) if pid.0 as u32 == std::process::id() => Proc::open("/proc").ok(),
        _ => None,
    }
}

fn row(row: ProcRow, missing: &[NodeId]) -> Row {
    let last_known = missing.contains(&row.node);
    let ProcRow { pid, node, uid, state, cpu_ms, rss_kb, command, ppid, birth: _ } = row;
    Row { pid: pid.0, ppid: ppid.0, node: node.0, uid, state, cpu_ms, rss_kb, command, last_known }
}

fn cells(depth: usize, row: &ProcRow, users: &HashMap<u32, String>, missing: &[NodeId]) -> [String; 7] {
    [
        row.pid.to_string(),
        row.node.to_string() + if missing.contains(&row.node) { "?" } else { "" },
        people::name_of(users, row.uid),
        row.state.to_string(),
        print::cpu_time(row.cpu_ms),
        print::bytes(row.rss_kb * 1024),
        branch(depth) + &plain(&row.command),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_nodes_do_not_answer_that_is_one_line() {
        let nodes = |numbers: &[i32]| numbers.iter().map(|n| NodeId(*n)).collect::<Vec<_>>();
        let shown = "of what runs there only the last that is known is shown";
        assert_eq!(silent(&nodes(&[1]), 4), format!("n1 does not answer: {shown}"));
        let some = silent(&nodes(&[0, 1, 2, 4]), 100);
        assert_eq!(some, format!("4 of 100 nodes do not answer in time: n0-2,n4; {shown}"));
        assert!(silent(&nodes(&[0, 2]), 1).starts_with("2 of 2 nodes"));
    }
}
