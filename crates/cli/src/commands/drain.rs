//! `shoal cordon`, `shoal drain` and `shoal uncordon`: a machine is to be worked on.

use super::moves::{empty, go, processes};
use super::node_names::chosen;
use super::node_set::{change, infos};
use super::Daemon;
use clap::Args;
use client::Local;
use kern::clock::monotonic_us;
use std::process::ExitCode;
use std::time::Duration;
use vocab::{Fault, NodeId, Result};
use wire::nodes::NodeChange;

/// States of nodes that take no new programs but root's.
const CORDONED: &str = "cordoned";
const DRAINING: &str = "draining";
const DRAINED: &str = "drained";
/// Between two looks whether the last processes have ended.
const PAUSE: Duration = Duration::from_millis(500);
/// Between two attempts to move what has stayed, in microseconds.
const AGAIN_US: u64 = 10_000_000;

/// Have nodes take no new programs but root's; what runs there goes on
///
/// The same as `shoal node-state NODES cordoned`, which is kept over restarts. It is for root.
#[derive(Args, Debug)]
pub(crate) struct Cordon {
    /// Which nodes: 3, 0-7, 5-, a name, all, a state (up), what is not in a state (!up); several with commas between
    #[arg(value_name = "NODES")]
    nodes: String,
    #[command(flatten)]
    daemon: Daemon,
}

/// Have nodes take programs again
#[derive(Args, Debug)]
pub(crate) struct Uncordon {
    /// Which nodes, as for cordon
    #[arg(value_name = "NODES")]
    nodes: String,
    #[command(flatten)]
    daemon: Daemon,
}

/// Move everything away from nodes, which take no new programs but root's from then on
///
/// What cannot be moved is named, with the reason, and goes on; the exit status is 1 then, unless --wait has seen its end. A node that is empty is in the
/// state `drained`: it may be switched off. It is for root.
#[derive(Args, Debug)]
pub(crate) struct Drain {
    /// Which nodes, as for cordon
    #[arg(value_name = "NODES")]
    nodes: String,
    /// Where to; otherwise each process goes to the node that has the fewest
    #[arg(long, value_name = "NODE", value_parser = super::node_names::node)]
    to: Option<NodeId>,
    /// Wait until what has stayed has ended or could be moved after all; so many seconds at most
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "inf")]
    wait: Option<f64>,
    #[command(flatten)]
    daemon: Daemon,
}

impl Cordon {
    pub(crate) fn run(self) -> Result<ExitCode> {
        change(&mut self.daemon.connect()?, &self.nodes, vec![NodeChange::State(CORDONED.into())])
    }
}

impl Uncordon {
    pub(crate) fn run(self) -> Result<ExitCode> {
        change(&mut self.daemon.connect()?, &self.nodes, vec![NodeChange::State("up".into())])
    }
}

impl Drain {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut daemon = self.daemon.connect()?;
        let nodes = chosen(&self.nodes, &infos(&mut daemon)?)?;
        let until_us = match self.wait {
            Some(seconds) if seconds.is_nan() || seconds < 0.0 => {
                return Err(Fault::refused(format!("--wait={seconds}: wanted are seconds")))
            }
            Some(seconds) => monotonic_us().saturating_add((seconds * 1e6) as u64),
            None => 0,
        };
        // All of them first: nothing is moved to one that is to be emptied too.
        change(&mut daemon, &self.nodes, vec![NodeChange::State(DRAINING.into())])?;
        let mut all = true;
        for node in nodes.into_iter().filter(|node| !node.is_front()) {
            let is_empty = drain(&mut daemon, node, self.to, until_us)?;
            if is_empty {
                change(&mut daemon, &node.to_string(), vec![NodeChange::State(DRAINED.into())])?;
                println!("{node} is empty: it may be switched off");
            }
            all &= is_empty;
        }
        Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Is it empty in the end?
fn drain(daemon: &mut Local, node: NodeId, to: Option<NodeId>, until_us: u64) -> Result<bool> {
    loop {
        empty(daemon, node, to, |daemon, pid, to| go(daemon, pid, to, false))?;
        let again_us = monotonic_us().saturating_add(AGAIN_US).min(until_us);
        loop {
            let left = processes(daemon, node)?;
            let now_us = monotonic_us();
            match left.len() {
                0 => return Ok(true),
                left if now_us >= until_us => {
                    kern::own::complain(format!("{left} processes stay on {node}"));
                    return Ok(false);
                }
                _ if now_us >= again_us => break,
                _ => {}
            }
            let _ = kern::poll::poll_for(&[], Some(PAUSE));
        }
    }
}
