//! `shoal node`: the node daemon.

use super::mon::Monitor;
use crate::{address, config, keyfile, log};
use agent::NodeConfig;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use vocab::{Fault, NodeId, Result};

/// Run the node daemon: this machine hosts processes of a front end
#[derive(Args, Debug)]
pub(crate) struct Node {
    /// Configuration file (TOML; dist/shoal.toml has every setting); flags win over it [default: /etc/shoal/shoal.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The front end; port 7706 by default
    #[arg(long, value_name = "HOST[:PORT]", value_parser = address::front)]
    front: Option<String>,
    /// The number to ask for [default: the next free one]
    #[arg(long, value_name = "N")]
    number: Option<i32>,
    /// Cluster key file, made by `shoal key` [default: /etc/shoal/key]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Directory of the local socket and the stand-ins' files [default: /run/shoal]
    #[arg(long, value_name = "PATH")]
    run_dir: Option<PathBuf>,
    /// Directory of the cgroup v2 tree that is this node's alone [default: made by the daemon]
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// The longest time for which processes outlive the link to the front end [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = config::seconds)]
    lost_grace: Option<Duration>,
    /// Show the programs here every process of the space in /proc
    #[arg(long)]
    proc: bool,
    /// Write one byte to this inherited descriptor when the front end has welcomed this node
    #[arg(long, value_name = "N")]
    ready_fd: Option<i32>,
}

impl Node {
    pub(crate) fn run(self) -> Result<ExitCode> {
        // First, before anything else may take that number.
        let ready_fd = self.ready_fd.map(kern::ns::inherited).transpose()?;
        log::to_stderr();
        let file = config::read(self.config.as_deref())?;
        let key = keyfile::read(&self.key.or(file.key).unwrap_or_else(keyfile::default_path))?;
        let front = config::setting(file.node.front.as_deref(), "front of [node]", address::front)?;
        let front = self.front.or(front);
        let front = front.ok_or_else(|| {
            Fault::refused("which front end? Say --front HOST, or [node] front in the configuration file")
        })?;
        let mut settings = NodeConfig::new(front, key);
        settings.number = number(self.number.or(file.node.number))?;
        config::set(&mut settings.run_dir, self.run_dir.or(file.run_dir));
        settings.cgroup = self.cgroup.or(file.node.cgroup);
        config::set(
            &mut settings.lost_grace,
            self.lost_grace.or(config::duration(file.node.lost_grace)
                .map_err(|f| f.doing("lost_grace of [node] in the configuration file"))?),
        );
        settings.shows_space = self.proc || file.node.proc.unwrap_or(false);
        settings.ready_fd = ready_fd;
        let _monitor = Monitor::start(&settings.run_dir, file.mon_listen.as_deref(), true)?;
        agent::run(settings).map(|()| ExitCode::SUCCESS)
    }
}

fn number(number: Option<i32>) -> Result<Option<NodeId>> {
    match number {
        Some(n) if n < 0 => Err(Fault::refused(format!("node number {n}: nodes are numbered from 0"))),
        other => Ok(other.map(NodeId)),
    }
}
