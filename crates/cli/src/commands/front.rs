//! `shoal front`: the front-end daemon.

use super::mon::Monitor;
use crate::{address, config, keyfile, log};
use ::front::FrontConfig;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use vocab::{Pid, Result};

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
        config::set(&mut settings.proc, file.front.proc);
        config::set(&mut settings.proc_fresh_ms, file.front.proc_fresh_ms.map(u64::from));
        settings.ready_fd = ready_fd;
        let _monitor = Monitor::start(&settings.run_dir, file.mon_listen.as_deref(), false)?;
        ::front::run(settings).map(|()| ExitCode::SUCCESS)
    }
}
