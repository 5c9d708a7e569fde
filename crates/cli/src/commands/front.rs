//! `shoal front`: the front-end daemon.

use super::bpfs::NodeFiles;
use super::jobs;
use super::mon::Monitor;
use super::view_server;
use crate::{address, config, keyfile, log};
use ::front::{FrontConfig, NodesConfig};
use clap::Args;
use kern::sock::Ports;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use vocab::{Fault, Pid, Result};

/// Run the front-end daemon, on which the whole process space is visible
#[derive(Args, Debug)]
pub(crate) struct Front {
    /// Configuration file (TOML; dist/shoal.toml has every setting); flags win over it [default: /etc/shoal/shoal.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where nodes dial in [default: 0.0.0.0:7706]
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = address::listen)]
    listen: Option<SocketAddr>,
    /// Cluster key file, made by `shoal key` [default: /etc/shoal/key]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Directory of the local socket and the stand-ins' files [default: /run/shoal]
    #[arg(long, value_name = "PATH")]
    run_dir: Option<PathBuf>,
    /// The processes of a node of which nothing more is heard end within this time [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = config::seconds)]
    lost_after: Option<Duration>,
    /// The ports of this machine at which channels of other machines are taken, as 7100-7199 [default: any free ones]
    #[arg(long, value_name = "PORTS")]
    channel_ports: Option<Ports>,
    /// Write one byte to this inherited descriptor when nodes can dial in
    #[arg(long, value_name = "N")]
    ready_fd: Option<i32>,
}

impl Front {
    pub(crate) fn run(self) -> Result<ExitCode> {
        // First, before anything else may take that number.
        let ready_fd = self.ready_fd.map(kern::ns::inherited).transpose()?;
        log::to_stderr();
        let file = config::read(self.config.as_deref())?;
        let key = keyfile::read(&self.key.or(file.key).unwrap_or_else(keyfile::default_path))?;
        let listen = config::setting(file.front.listen.as_deref(), "listen of [front]", address::listen)?;
        let listen = self.listen.or(listen).unwrap_or_else(address::default_listen);
        let mut settings = FrontConfig::new(listen, key);
        config::set(&mut settings.run_dir, self.run_dir.or(file.run_dir));
        config::set(
            &mut settings.lost_after,
            self.lost_after.or(config::duration(file.front.lost_after)
                .map_err(|f| f.doing("lost_after of [front] in the configuration file"))?),
        );
        config::set(&mut settings.front_top, file.front.front_top.map(Pid));
        config::set(&mut settings.lease_size, file.front.lease_size);
        config::set(&mut settings.max_nodes, file.front.max_nodes);
        config::set(&mut settings.proc, file.front.proc.map(|proc| proc.0));
        config::set(&mut settings.proc_fresh_ms, file.front.proc_fresh_ms.map(u64::from));
        log::keep_in(&settings.run_dir);
        settings.allow = config::allow(file.front.allow, "[front]")?;
        settings.nodes = NodesConfig { state_dir: file.front.state_dir, node_up: file.front.node_up, bpfs: file.bpfs };
        settings.ready_fd = ready_fd;
        config::channel_ports(self.channel_ports, file.channel_ports.as_deref())?;
        settings.check()?;
        let _monitor = Monitor::start(&settings.run_dir, file.mon_listen.as_deref(), false)?;
        let _files = NodeFiles::start(settings.nodes.bpfs.as_deref(), &settings.run_dir, true)?;
        view_server::start(&settings.run_dir, &key, (settings.lost_after, file.front.squash.as_deref()))?;
        if let Some(managed) = config::setting(file.front.job_nodes.as_deref(), "job_nodes of [front]", jobs::managed)?
        {
            jobs::keep_serving(
                managed,
                settings.allow.as_deref(),
                &settings.run_dir,
                &settings.nodes.state_dir(&settings.run_dir),
            )?;
        }
        let web = file.front.web_listen.as_deref();
        if let Some(at) = config::setting(web, "web_listen of [front]", |at| {
            at.parse().map_err(|_| format!("{at:?} is no ADDRESS:PORT"))
        })? {
            serve_page(at, &settings.run_dir)?;
        }
        ::front::run(settings).map(|()| ExitCode::SUCCESS)
    }
}

/// How long after its end the page's server is started again.
const PAUSE: Duration = Duration::from_secs(5);

/// Keeps a process that serves the page, which ends with this one.
///
/// # Errors
/// `Sys` where the thread that looks after it cannot be had.
fn serve_page(at: SocketAddr, run_dir: &Path) -> Result<()> {
    let (socket, own) = (run_dir.join("shoal.sock"), std::process::id().to_string());
    let keep = move || loop {
        let mut server = Command::new("/proc/self/exe");
        server.args(["web", "--parent", &own, "--listen", &at.to_string(), "--socket"]).arg(&socket);
        match server.stdin(Stdio::null()).status() {
            Ok(status) => tracing::warn!(%status, "the page's server has ended"),
            Err(error) => tracing::warn!(%error, "the page's server cannot be started"),
        }
        // Interrupted, it is tried earlier.
        let _ = kern::poll::poll_for(&[], Some(PAUSE));
    };
    let begun = std::thread::Builder::new().name("shoal:web".into()).spawn(keep);
    begun.map(drop).map_err(|e| Fault::io(&e, "start a thread for the page's server"))
}
