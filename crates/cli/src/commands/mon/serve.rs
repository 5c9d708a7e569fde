//! `shoal mon serve`: the monitor of this machine.

use clap::Args;
use kern::clock::monotonic_us;
use kern::sock;
use sample::machine::Machine;
use sample::serve::Server;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tracing::warn;
use vocab::errno::EADDRINUSE;
use vocab::{Fault, Result};

/// Microseconds between two tries to listen where another process listens.
const AGAIN_US: u64 = 200_000;

/// Serve samples of this machine; each daemon starts one by itself
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Listen at this TCP address; port 7708 by default. Whoever can connect may read
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = crate::address::monitor)]
    listen: Vec<SocketAddr>,
    /// Listen at this Unix socket, where every user may connect
    #[arg(long, value_name = "PATH", required_unless_present = "listen")]
    socket: Option<PathBuf>,
    /// The name in the samples [default: the host name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// End with this parent
    #[arg(long, value_name = "PID", hide = true)]
    daemon: Option<u32>,
    /// Count what is in that parent's cgroup
    #[arg(long, hide = true, requires = "daemon")]
    count: bool,
}

/// Where one is to listen.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Serve {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if let Some(daemon) = self.daemon {
            kern::ns::die_with_parent()?;
            if std::os::unix::process::parent_id() != daemon {
                return Ok(ExitCode::SUCCESS);
            }
            // What is for the daemon's group is for the daemon, but for what the group's machine does to all of it.
            kern::ns::set_name("shoal:mon")?;
        }
        crate::log::to_stderr();
        // It reads what every user may read.
        kern::capability::give_up()?;
        let name = self.name.unwrap_or_else(host_name);
        let mut machine = Machine::new(name)?;
        if let Some(daemon) = self.daemon.filter(|_| self.count) {
            machine.count_space(daemon);
        }
        let mut server = Server::new(machine)?;
        let mut places: Vec<Place> = self.listen.into_iter().map(Place::Tcp).collect();
        places.extend(self.socket.map(Place::Unix));
        if self.daemon.is_none() {
            for place in std::mem::take(&mut places) {
                server.listen(place.listen()?)?;
            }
        }
        serve(&mut server, places)
    }
}

/// Serves for ever. At `places` it listens as soon as that is possible: the monitor of a daemon before may be about to end.
pub(super) fn serve<A: sample::serve::Answers>(server: &mut Server<A>, mut places: Vec<Place>) -> Result<ExitCode> {
    let (mut ready, mut told, mut next_us) = (Vec::new(), false, 0);
    loop {
        let now = monotonic_us();
        if !places.is_empty() && now >= next_us {
            next_us = now + AGAIN_US;
            for place in std::mem::take(&mut places) {
                match place.listen() {
                    Ok(listener) => server.listen(listener)?,
                    Err(fault) => {
                        if !told {
                            warn!(%fault, "nobody can ask the monitor there");
                        }
                        told = true;
                        if fault.root_errno() == EADDRINUSE {
                            places.push(place);
                        }
                    }
                }
            }
        }
        server.turn((!places.is_empty()).then_some(next_us), &mut ready)?;
    }
}

impl Place {
    /// # Errors
    /// As [`sock::tcp_listen`] and [`sock::unix_listen`].
    pub(super) fn listen(&self) -> Result<OwnedFd> {
        match self {
            Place::Tcp(address) => sock::tcp_listen(*address),
            Place::Unix(path) => sock::unix_listen(path, 0o666),
        }
    }
}

/// This machine's.
pub(super) fn host_name() -> String {
    let read = std::fs::read_to_string(Path::new("/proc/sys/kernel/hostname"));
    let name = read.map_err(|e| Fault::io(&e, "read the host name")).unwrap_or_default();
    match name.trim() {
        "" => "localhost".into(),
        name => name.into(),
    }
}
