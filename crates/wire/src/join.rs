//! A machine joins a cluster by a token: what it asks of the front end's process that waits for it, and the answers. The connection is encrypted with a key that
//! is made of the token, so that neither message can be read or written without the token.

use minicbor::{Decode, Encode};
use vocab::{Fault, NodeId};

/// The most bytes of a host name (HOST_NAME_MAX).
pub const HOST: usize = 64;

/// From the machine that joins.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum JoinAsk {
    /// The first message.
    #[n(0)]
    Key {
        /// [`crate::node::VERSION`] of the program there: a node of another version is given no key, since it could not join.
        #[n(0)]
        version: u32,
        /// The machine's host name, for the log.
        #[n(1)]
        host: String,
    },
    /// Key and configuration are on the disk.
    #[n(1)]
    Kept,
}

/// To the machine that joins.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum JoinAnswer {
    /// No key is given; the token is as good as before.
    #[n(0)]
    Failed(#[n(0)] Fault),
    /// The token is used up from now on.
    #[n(1)]
    Key {
        /// The cluster key, 32 bytes.
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        key: Vec<u8>,
        /// The number that the node is to ask for; `None`: the front end finds one.
        #[n(1)]
        number: Option<NodeId>,
        /// The node's name; `None`: as its host.
        #[n(2)]
        name: Option<String>,
    },
}
