//! Numbers of nodes and processes.

use minicbor::{Decode, Encode};
use std::fmt;

/// A node's number: 0 and up, or [`NodeId::FRONT`] for the front end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct NodeId(#[n(0)] pub i32);

impl NodeId {
    /// The machine on which the whole space is visible.
    pub const FRONT: NodeId = NodeId(-1);

    pub fn is_front(self) -> bool {
        self == NodeId::FRONT
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_front() {
            f.write_str("front")
        } else {
            write!(f, "n{}", self.0)
        }
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A PID, TID, process-group or session number of the space: the same on the front end and on every node.
///
/// Inside a node's namespace the kernel's own number is this number (docs/mechanisms.md, "Numbers"), so there is no second kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Pid(#[n(0)] pub i32);

impl Pid {
    /// The process to which orphans go on every machine.
    pub const INIT: Pid = Pid(1);
    /// "No process": the kernel's own number for a sender that is not in the namespace.
    pub const NONE: Pid = Pid(0);
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
