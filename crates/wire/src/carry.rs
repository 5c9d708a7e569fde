//! What goes over the connection on which a process moves: its image in pieces, from the old node to the new one.

use minicbor::{Decode, Encode};

/// The most bytes in one [`Piece`].
pub const MOST: usize = 256 * 1024;

/// The next bytes of the image.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Piece {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub bytes: Vec<u8>,
}
