//! `bpctl`: BProc's name for what [`super::node_set`] does, and for the power of nodes' machines.

use super::node_set::{change, Changes};
use super::Daemon;
use clap::Args;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use vocab::{Fault, Result};
use wire::nodes::{NodeChange, Power};

/// Set state, owner, group and mode of nodes, and restart or stop their machines
#[derive(Args, Debug)]
pub(crate) struct Bpctl {
    /// Which nodes: 3, 0-7, 5-, all, a state (up, allup), what is not in a state (!up, notup); several with commas between
    #[arg(
        short = 'S',
        long = "slave",
        value_name = "NODES",
        required_unless_present = "master",
        conflicts_with = "master"
    )]
    nodes: Option<String>,
    /// The front end
    #[arg(short = 'M', long)]
    master: bool,
    #[command(flatten)]
    changes: Changes,
    /// Reboot their machines
    #[arg(short = 'R', long)]
    reboot: bool,
    /// Halt their machines
    #[arg(short = 'H', long, conflicts_with = "reboot")]
    halt: bool,
    /// Power their machines off
    #[arg(short = 'P', long = "poweroff", visible_alias = "pwroff", conflicts_with_all = ["reboot", "halt"])]
    power_off: bool,
    /// The root directory of programs that start there from now on; /: the node's own
    #[arg(short = 'r', long = "chroot", value_name = "DIRECTORY")]
    chroot: Option<OsString>,
    /// Accepted, and of no effect
    #[arg(short = 'f', long, hide = true)]
    fast: bool,
    #[command(flatten)]
    daemon: Daemon,
}

impl Bpctl {
    fn power(&mut self) -> Option<Power> {
        let flag = match (self.reboot, self.halt, self.power_off) {
            (true, ..) => Some(Power::Reboot),
            (_, true, _) => Some(Power::Halt),
            (_, _, true) => Some(Power::PowerOff),
            _ => None,
        };
        // Older scripts name it as a state.
        let state = self.changes.state.as_deref().and_then(|state| match state {
            "reboot" => Some(Power::Reboot),
            "halt" => Some(Power::Halt),
            "poweroff" | "pwroff" => Some(Power::PowerOff),
            _ => None,
        });
        if state.is_some() {
            self.changes.state = None;
        }
        flag.or(state)
    }

    pub(crate) fn run(mut self) -> Result<ExitCode> {
        let power = self.power().map(NodeChange::Power);
        let nodes = self.nodes.unwrap_or_else(|| "master".into());
        let mut changes = self.changes.list();
        changes.extend(self.chroot.map(|path| NodeChange::Chroot(path.into_vec())));
        changes.extend(power);
        if changes.is_empty() {
            return Err(Fault::refused("nothing is to be done (--help says what can be)"));
        }
        change(&mut self.daemon.connect()?, &nodes, changes)
    }
}
