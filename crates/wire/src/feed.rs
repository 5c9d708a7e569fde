//! What happens in the space, told to whoever has asked for it ([`crate::ask::Ask::Feed`]).

use minicbor::{Decode, Encode};
use vocab::{NodeId, Pid};

/// One thing that has happened.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Happening {
    /// The first answer: from now on all is told. A `Begun` for each move that is under way and a `Node` for each node follow.
    #[n(0)]
    Listening,
    /// A process is being moved.
    #[n(1)]
    Begun {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        from: NodeId,
        #[n(2)]
        to: NodeId,
    },
    /// It runs where it was to go, and nothing of it is left to bring.
    #[n(2)]
    Moved {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        from: NodeId,
        #[n(2)]
        to: NodeId,
    },
    /// It has not moved.
    #[n(3)]
    Stayed {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        from: NodeId,
        #[n(2)]
        to: NodeId,
        /// The whole chain, as a sentence.
        #[n(3)]
        why: String,
    },
    /// A node's state, as in [`crate::ask::NodeRow`].
    #[n(4)]
    Node {
        #[n(0)]
        node: NodeId,
        #[n(1)]
        state: String,
    },
    /// A node's owner, group, mode or attributes are others than before.
    #[n(5)]
    Changed {
        #[n(0)]
        node: NodeId,
    },
}
