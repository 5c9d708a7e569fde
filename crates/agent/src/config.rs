//! What the node daemon is told when it starts.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;
use vocab::NodeId;

/// Commands to reboot, halt or power off the machine; without a command the request is refused.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Powers {
    pub reboot: Option<String>,
    pub halt: Option<String>,
    pub power_off: Option<String>,
}

/// The users whose programs the node takes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UsersConfig {
    /// Users and `@groups` ([`link::allow`]); `None`: everybody's.
    pub allow: Option<Vec<String>>,
    /// True: none of a user whom the machine does not know, or knows by another name. False: those too, with a warning.
    pub refuse_unknown: bool,
}

/// How programs of a node may see the files of the front end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewConfig {
    /// True: programs see the front end's files unless they ask for the node's own. False: only programs that ask for them.
    pub usual: bool,
    /// Directories that are the node's own all the same.
    pub local: Vec<PathBuf>,
    /// Where contents of those files are kept.
    pub store: Option<view::node::Disk>,
}

/// The settings of [`crate::run`].  Reading them from a file or from flags is the caller's work.
#[derive(Debug)]
pub struct NodeConfig {
    /// The front end as `HOST:PORT`; looked up anew for each attempt to connect.
    pub front: String,
    /// The number that this node wants; without one the front end gives it the next free one.
    pub number: Option<NodeId>,
    /// What it is called beside its number; without it as its host.
    pub name: Option<String>,
    /// The users whose programs it takes.
    pub users: UsersConfig,
    /// The cluster key, the pre-shared key of every handshake.
    pub key: [u8; 32],
    /// Directory of the local socket (`shoal.sock`), the FUSE mount and whatever else the daemon keeps while it runs.
    pub run_dir: PathBuf,
    /// A directory of the cgroup v2 tree that is this node's alone: the daemon is in it and its processes stay in it.
    /// Without one the daemon makes its own.
    pub cgroup: Option<PathBuf>,
    /// The space's part of the processors beside that of others ([`crate::run`]'s group in cpu.weight); 0: none of its own. Without one that of every group, if the
    /// daemon makes the cgroup.
    pub cpu_weight: Option<u32>,
    /// The longest time for which bodies outlive the link; the front end may ask for a shorter one (`Welcome`).
    pub lost_grace: Duration,
    /// /proc of the programs here shows the whole space ([`procfs::node_proc`]).
    pub shows_space: bool,
    /// Commands that root may have run from the front end.
    pub powers: Powers,
    /// Where the node files are mounted.
    pub bpfs: Option<PathBuf>,
    /// How programs here may see the files of the front end; none: never.
    pub view: Option<ViewConfig>,
    /// Gets one byte and is closed when the front end has welcomed this node for the first time.
    pub ready_fd: Option<OwnedFd>,
}

impl NodeConfig {
    /// The settings that the documentation calls the defaults.
    pub fn new(front: impl Into<String>, key: [u8; 32]) -> NodeConfig {
        NodeConfig {
            front: front.into(),
            number: None,
            name: None,
            users: UsersConfig::default(),
            key,
            run_dir: PathBuf::from("/run/shoal"),
            cgroup: None,
            cpu_weight: None,
            lost_grace: Duration::from_secs(5),
            shows_space: false,
            powers: Powers::default(),
            bpfs: None,
            view: None,
            ready_fd: None,
        }
    }

    /// The file with the number of this node, as text.
    pub(crate) fn number_file(&self) -> PathBuf {
        self.run_dir.join("number")
    }

    /// The local socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.run_dir.join("shoal.sock")
    }
}
