//! Where a process is that is called by its number here.

use client::{socket_path, Local};
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};

/// See the module.
pub(crate) enum Place {
    /// On this machine. So many seccomp filters are not its own but shoal's, which it has as we have.
    Here {
        filters: u64,
    },
    Node(NodeId),
}

/// Where process `pid` is. What is not known to be of the space is of this machine.
///
/// # Errors
/// `Refused` for one of the front end when the caller is on a node.
pub(crate) fn of(pid: Pid) -> Result<Place> {
    let Ok(mut daemon) = Local::connect(&socket_path()) else { return Ok(Place::Here { filters: 0 }) };
    // Who is on a node without being of the space knows its processes by other numbers.
    let Ok(ours) = node_of(&mut daemon, Pid::NONE) else { return Ok(Place::Here { filters: 0 }) };
    match node_of(&mut daemon, pid) {
        Ok(node) if node == ours => Ok(Place::Here { filters: if ours == NodeId::FRONT { 0 } else { own_filters() } }),
        Ok(NodeId::FRONT) => {
            Err(Fault::refused(format!("process {pid} is on the front end, and must be asked for there")))
        }
        Ok(node) => Ok(Place::Node(node)),
        Err(_) => Ok(Place::Here { filters: 0 }),
    }
}

/// The node that the caller is a process of; `None`: the front end, or no node's.
pub(crate) fn own_node() -> Option<NodeId> {
    let mut daemon = Local::connect(&socket_path()).ok()?;
    node_of(&mut daemon, Pid::NONE).ok().filter(|node| *node != NodeId::FRONT)
}

fn node_of(daemon: &mut Local, pid: Pid) -> Result<NodeId> {
    match daemon.ask(&Ask::Where { pid })? {
        Answer::Where { node, .. } => Ok(node),
        other => Err(Fault::wire(format!("the daemon answered Where with {other:?}"))),
    }
}

/// Every program on a node has shoal's, and its descendants can only have more.
fn own_filters() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}
