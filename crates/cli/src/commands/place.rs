//! Where a process is that is called by its number here.

use ckpt::survey::Given;
use client::{socket_path, Local};
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};

/// See the module.
pub(crate) enum Place {
    /// On this machine, with what it has of shoal's.
    Here(Given),
    Node(NodeId),
}

/// Where process `pid` is. What is not known to be of the space is of this machine.
///
/// # Errors
/// `Refused` for one of the front end when the caller is on a node.
pub(crate) fn of(pid: Pid) -> Result<Place> {
    let Ok(mut daemon) = Local::connect(&socket_path()) else { return Ok(Place::Here(Given::default())) };
    // Who is on a node without being of the space knows its processes by other numbers.
    let Ok(ours) = node_of(&mut daemon, Pid::NONE) else { return Ok(Place::Here(Given::default())) };
    match node_of(&mut daemon, pid) {
        Ok(node) if node == ours && !node.is_front() => {
            // Every program on a node has shoal's filter as we have it, and can only have more.
            Ok(Place::Here(Given::as_of(Pid(std::process::id() as i32))))
        }
        Ok(node) if node == ours => Ok(Place::Here(Given::default())),
        Ok(node) if node.is_front() => {
            Err(Fault::refused(format!("process {pid} is on the front end, and must be asked for there")))
        }
        Ok(node) => Ok(Place::Node(node)),
        Err(_) => Ok(Place::Here(Given::default())),
    }
}

/// The node that the caller is a process of; `None`: the front end, or no node's.
pub(crate) fn own_node() -> Option<NodeId> {
    let mut daemon = Local::connect(&socket_path()).ok()?;
    node_of(&mut daemon, Pid::NONE).ok().filter(|node| !node.is_front())
}

fn node_of(daemon: &mut Local, pid: Pid) -> Result<NodeId> {
    match daemon.ask(&Ask::Where { pid })? {
        Answer::Where { node, .. } => Ok(node),
        other => Err(Fault::wire(format!("the daemon answered Where with {other:?}"))),
    }
}
