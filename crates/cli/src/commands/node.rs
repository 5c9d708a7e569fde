//! `shoal node`: the node daemon.

use super::bpfs::NodeFiles;
use super::invite::name;
use super::join::Join;
use super::mon::Monitor;
use crate::{address, config, keyfile, log};
use agent::{NodeConfig, Powers, UsersConfig, ViewConfig};
use clap::{Args, Subcommand};
use kern::sock::Ports;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use view::node::Disk;
use vocab::{Fault, NodeId, Result};

/// Run the node daemon: this machine hosts processes of a front end
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Node {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Configuration file (TOML; dist/shoal.toml has every setting); flags win over it [default: /etc/shoal/shoal.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The front end; port 7706 by default
    #[arg(long, value_name = "HOST[:PORT]", value_parser = address::front)]
    front: Option<String>,
    /// The number to ask for [default: the one that it had, or the next free one]
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
    /// The ports of this machine at which channels of other machines are taken, as 7100-7199 [default: any free ones]
    #[arg(long, value_name = "PORTS")]
    channel_ports: Option<Ports>,
    /// Write one byte to this inherited descriptor when the front end has welcomed this node
    #[arg(long, value_name = "N")]
    ready_fd: Option<i32>,
    /// In a session of its own
    #[arg(long, hide = true)]
    apart: bool,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Join(Join),
}

impl Node {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if let Some(Verb::Join(verb)) = self.verb {
            return verb.run();
        }
        // First, before anything else may take that number.
        let ready_fd = self.ready_fd.map(kern::ns::inherited).transpose()?;
        if self.apart {
            kern::ns::new_session()?;
        }
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
        settings.name = file.node.name.as_deref().map(name).transpose().map_err(Fault::refused)?;
        settings.users = UsersConfig {
            allow: config::allow(file.node.allow.clone(), "[node]")?,
            refuse_unknown: file.node.unknown_users == Some(config::UnknownUsers::Refuse),
        };
        log::keep_in(&settings.run_dir);
        settings.powers = powers(&file.node);
        settings.view = view(&file.node, &settings.run_dir)?;
        settings.cgroup = self.cgroup.or(file.node.cgroup);
        settings.cpu_weight = weight(file.node.cpu_weight)?;
        config::set(
            &mut settings.lost_grace,
            self.lost_grace.or(config::duration(file.node.lost_grace)
                .map_err(|f| f.doing("lost_grace of [node] in the configuration file"))?),
        );
        settings.shows_space = self.proc || file.node.proc.unwrap_or(false);
        settings.bpfs = file.bpfs;
        settings.ready_fd = ready_fd;
        config::channel_ports(self.channel_ports, file.channel_ports.as_deref())?;
        let _monitor = Monitor::start(&settings.run_dir, file.mon_listen.as_deref(), true)?;
        let _files = NodeFiles::start(settings.bpfs.as_deref(), &settings.run_dir, false)?;
        agent::run(settings).map(|()| ExitCode::SUCCESS)
    }
}

/// Directories that a machine keeps to itself when it shows the front end's files.
const LOCAL: [&str; 5] = ["/proc", "/sys", "/dev", "/run", "/tmp"];

/// Contents of files that are kept, unless the file says otherwise.
const STORE_MIB: u64 = 4096;

/// # Errors
/// `Refused` for directories that are not named from the root, or without /proc and the daemon's own.
fn view(said: &config::Node, run_dir: &Path) -> Result<Option<ViewConfig>> {
    let mut local = said.local.clone().unwrap_or_else(|| LOCAL.map(PathBuf::from).to_vec());
    let wrong = |path: &&PathBuf| !path.is_absolute() || path.parent().is_none();
    let direct = said.direct.clone().unwrap_or_default();
    for (name, paths) in [("local", &local), ("direct", &direct)] {
        if let Some(path) = paths.iter().find(wrong) {
            let path = path.display();
            return Err(Fault::refused(format!("{name} of [node]: {path} is no directory named from the root")));
        }
    }
    if !["/proc", "/dev"].into_iter().all(|one| local.iter().any(|path| path.as_os_str() == one)) {
        return Err(Fault::refused("local of [node]: /proc and /dev are always the node's own"));
    }
    local.extend(direct);
    let usual = said.view == Some(config::View::Front);
    Ok((said.view != Some(config::View::Never)).then_some(ViewConfig { usual, local, store: store(said, run_dir)? }))
}

/// In a directory of the run directory's name, unless the file says otherwise.
fn store(said: &config::Node, run_dir: &Path) -> Result<Option<Disk>> {
    let usual = || Path::new("/var/cache").join(run_dir.file_name().unwrap_or("shoal".as_ref()));
    let directory = said.store.clone().unwrap_or_else(usual);
    if !directory.is_absolute() {
        let why = format!("store of [node]: {} is no directory named from the root", directory.display());
        return Err(Fault::refused(why));
    }
    let most = said.store_mib.unwrap_or(STORE_MIB).saturating_mul(1 << 20);
    Ok((most > 0).then_some(Disk { directory, most }))
}

/// The commands of machines with systemd(1), unless the file says otherwise.
fn powers(said: &config::Node) -> Powers {
    let or = |said: &Option<String>, usual: &str| Some(said.clone().unwrap_or_else(|| usual.into()));
    Powers {
        reboot: or(&said.reboot, "systemctl reboot"),
        halt: or(&said.halt, "systemctl halt"),
        power_off: or(&said.power_off, "systemctl poweroff"),
    }
}

/// What cpu.weight takes (cgroup-v2.rst), and 0.
fn weight(weight: Option<u32>) -> Result<Option<u32>> {
    match weight {
        Some(w) if w > 10_000 => Err(Fault::refused(format!(
            "cpu_weight of [node] in the configuration file is {w}: 0 to 10000 are possible"
        ))),
        other => Ok(other),
    }
}

fn number(number: Option<i32>) -> Result<Option<NodeId>> {
    match number {
        Some(n) if n < 0 => Err(Fault::refused(format!("node number {n}: nodes are numbered from 0"))),
        other => Ok(other.map(NodeId)),
    }
}
