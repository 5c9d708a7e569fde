//! What a Hello says of processes that move.

use minicbor::{Decode, Encode};
use vocab::{Pid, SigInfo};

/// How far a node is with a process that it moves, as its Hello tells it.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Way {
    /// Its image goes, and it runs. It waits for `ToNode::Leave` or `ToNode::Stay`, or gives up.
    #[n(0)]
    Departs(#[n(0)] Pid),
    /// It was told to leave, and `ToFront::Left` or `ToFront::NotLeft` follows.
    #[n(1)]
    Leaves(#[n(0)] Pid),
    /// As `ToFront::Left`, and `ToNode::Forget` has not come.
    #[n(2)]
    Left {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        signals: Vec<SigInfo>,
        /// It stands there.
        #[n(2)]
        #[cbor(default, skip_if = "is_not")]
        stands: bool,
    },
    /// It is what its image says, and waits for `ToNode::Go` or `ToNode::Abandon`.
    #[n(3)]
    Arrived(#[n(0)] Pid),
    /// The old node has let it run, and `ToNode::Go` has not come. It may have ended.
    #[n(4)]
    Runs(#[n(0)] Pid),
}

pub(crate) fn is_not(so: &bool) -> bool {
    !so
}

/// At most so many bytes has a message for one of these without signals, and for a signal.
const FIXED: usize = 16;
const SIGNAL: usize = 40;

impl Way {
    /// How many bytes it has in a message, at most.
    pub fn bytes(&self) -> usize {
        match self {
            Way::Left { signals, .. } => FIXED + SIGNAL * signals.len(),
            _ => FIXED,
        }
    }

    pub fn pid(&self) -> Pid {
        match *self {
            Way::Departs(pid) | Way::Leaves(pid) | Way::Left { pid, .. } | Way::Arrived(pid) | Way::Runs(pid) => pid,
        }
    }
}
