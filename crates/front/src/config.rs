//! What the front-end daemon is told when it starts.

use crate::config_nodes::NodesConfig;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;
use vocab::Pid;

/// Whose /proc shows the space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proc {
    Nobodys,
    /// That of `shoal shell` alone.
    Private,
    /// The machine's, and that of `shoal shell`.
    Machine,
}

/// The settings of [`crate::run`]. Reading them from a file or from flags is the caller's work.
#[derive(Debug)]
pub struct FrontConfig {
    /// Where nodes dial in (TCP).
    pub listen: SocketAddr,
    /// Directory of the local socket (`shoal.sock`), the FUSE mount and whatever else the daemon keeps while it runs.
    pub run_dir: PathBuf,
    /// The cluster key, the pre-shared key of every handshake.
    pub key: [u8; 32],
    /// The agreed time: what is on a node of which nothing more is heard has ended within it, there and here.
    pub lost_after: Duration,
    /// PIDs below this are the front end's own (docs/mechanisms.md, "Numbers"): 262144 to 4194304 less `lease_size`.
    pub front_top: Pid,
    /// PIDs in one lease, 256 to 2097152; fewer where `max_nodes` nodes with two leases each would not fit.
    pub lease_size: i32,
    /// So many nodes are to have two leases each.
    pub max_nodes: u32,
    /// Where /proc shows of processes of the space what they do where they run.
    pub proc: Proc,
    /// For so many milliseconds it shows what it has shown; 0: it asks each time.
    pub proc_fresh_ms: u64,
    /// Who may start programs in the space ([`link::allow`]); `None`: everybody.
    pub allow: Option<Vec<String>>,
    /// Rights and start-up of nodes.
    pub nodes: NodesConfig,
    /// Gets one byte and is closed when the daemon listens.
    pub ready_fd: Option<OwnedFd>,
}

impl FrontConfig {
    /// Before anything is started for it: are these settings possible?
    ///
    /// # Errors
    /// `Refused`, with what is possible.
    pub fn check(&self) -> vocab::Result<()> {
        crate::leases::check(self.front_top, self.lease_size, self.max_nodes)
    }

    /// The settings that the documentation calls the defaults.
    pub fn new(listen: SocketAddr, key: [u8; 32]) -> FrontConfig {
        FrontConfig {
            listen,
            run_dir: PathBuf::from("/run/shoal"),
            key,
            lost_after: Duration::from_secs(5),
            front_top: Pid(1_048_576),
            lease_size: 16_384,
            max_nodes: 96,
            proc: Proc::Machine,
            proc_fresh_ms: 1000,
            allow: None,
            nodes: NodesConfig::default(),
            ready_fd: None,
        }
    }
}
