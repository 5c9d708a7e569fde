//! `shoal web`: a page that shows the cluster.

use super::Daemon;
use crate::print;
use clap::Args;
use monitor::web::{self, token, Settings};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use vocab::{Pid, Result, Sig};

/// Serve a page that shows nodes, load, processes and moves, and /metrics for Prometheus
///
/// Who has the token may send signals and move processes, as the user who runs this.
#[derive(Args, Debug)]
pub(crate) struct Web {
    /// Where browsers find it
    #[arg(long, value_name = "ADDRESS:PORT", default_value = web::DEFAULT)]
    listen: SocketAddr,
    /// A further name of this machine that browsers may use
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// The file of the token, which only its user can read [default: web-token beside the daemon's socket for root, or shoal/web-token in XDG_RUNTIME_DIR or ~/.config]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Signing in is allowed from other machines too, where whoever is on the way reads the token
    #[arg(long)]
    insecure: bool,
    /// Print the token, and serve nothing
    #[arg(long)]
    token: bool,
    /// End with this parent
    #[arg(long, hide = true, value_name = "PID")]
    parent: Option<i32>,
    #[command(flatten)]
    daemon: Daemon,
}

impl Web {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if let Some(parent) = self.parent {
            kern::own::die_with_parent(Sig::TERM, Pid(parent))?;
        }
        let socket = self.daemon.socket;
        let run_dir = socket.parent().unwrap_or(Path::new("/run/shoal"));
        let token = token::read(&self.token_file.unwrap_or_else(|| token::default_path(run_dir)), run_dir)?;
        if self.token {
            return print::out(&(token + "\n")).map(|()| ExitCode::SUCCESS);
        }
        let (insecure, monitors) = (self.insecure, crate::address::MON_PORT);
        let settings = Settings { socket, listen: self.listen, names: self.name, token, insecure, monitors };
        web::serve(settings, |at| kern::own::complain(format!("the page is at http://{at}/")))?;
        Ok(ExitCode::SUCCESS)
    }
}
