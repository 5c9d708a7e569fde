//! The nouns of the space's events and effects. They mirror `wire`, which stands beside this crate.

use vocab::{Creds, NodeId, Pid};

/// A process as its kernel sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Person {
    pub pid: Pid,
    pub ppid: Pid,
    pub pgid: Pid,
    pub sid: Pid,
    pub creds: Creds,
    /// The kernel's comm: at most 15 bytes.
    pub name: Vec<u8>,
}

/// A process that must stand on a node, and where its body is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kin {
    pub person: Person,
    pub node: NodeId,
}

/// Which processes a kill means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KillTarget {
    Process(Pid),
    Thread { pid: Pid, tid: Pid },
    Group(Pid),
    All,
}

/// What an ended process has used (getrusage(2)): microseconds, and KiB for the resident set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    pub user_us: u64,
    pub system_us: u64,
    pub max_rss_kb: u64,
}
