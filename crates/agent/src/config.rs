//! What the node daemon is told when it starts.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;
use vocab::NodeId;

/// The settings of [`crate::run`]. Reading them from a file or from flags is the caller's work.
#[derive(Debug)]
pub struct NodeConfig {
    /// The front end as `HOST:PORT`; looked up anew for each attempt to connect.
    pub front: String,
    /// The number that this node wants; without one the front end gives it the next free one.
    pub number: Option<NodeId>,
    /// The cluster key, the pre-shared key of every handshake.
    pub key: [u8; 32],
    /// Directory of the local socket (`shoal.sock`), the FUSE mount and whatever else the daemon keeps while it runs.
    pub run_dir: PathBuf,
    /// A directory of the cgroup v2 tree that is this node's alone: the daemon is in it and its processes stay in it.
    /// Without one the daemon makes its own.
    pub cgroup: Option<PathBuf>,
    /// The longest time for which bodies outlive the link; the front end may ask for a shorter one (`Welcome`).
    pub lost_grace: Duration,
    /// /proc of the programs here shows the whole space ([`procfs::node_proc`]).
    pub shows_space: bool,
    /// Gets one byte and is closed when the front end has welcomed this node for the first time.
    pub ready_fd: Option<OwnedFd>,
}

impl NodeConfig {
    /// The settings that the documentation calls the defaults.
    pub fn new(front: impl Into<String>, key: [u8; 32]) -> NodeConfig {
        NodeConfig {
            front: front.into(),
            number: None,
            key,
            run_dir: PathBuf::from("/run/shoal"),
            cgroup: None,
            lost_grace: Duration::from_secs(5),
            shows_space: false,
            ready_fd: None,
        }
    }

    /// The local socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.run_dir.join("shoal.sock")
    }
}
