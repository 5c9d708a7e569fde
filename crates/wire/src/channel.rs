//! Where the standard streams of a program lead.

use minicbor::{Decode, Encode};

/// How the node that runs a program reaches the relay of the one who started it.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct ChannelTo {
    /// `address:port`; empty: the front end's own address, as the control link has it.
    #[n(0)]
    pub address: String,
    /// Names the channel in the clear: 16 random bytes.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub token: Vec<u8>,
    /// The key of its Noise handshake: 32 random bytes.
    #[n(2)]
    #[cbor(with = "minicbor::bytes")]
    pub key: Vec<u8>,
    /// It is for the program itself, not for one that has the program's streams from it.
    #[n(3)]
    pub program: bool,
    /// The streams of the program are a terminal, which goes along when it moves.
    #[n(4)]
    #[cbor(default)]
    pub terminal: bool,
    /// Who relays is yet to take it from the front end's daemon: if it breaks before its handshake is done, the streams wait to be
    /// [redialled](crate::node::ToNode::Redial).
    #[n(5)]
    #[cbor(default, skip_if = "crate::way::is_not")]
    pub waits: bool,
}
