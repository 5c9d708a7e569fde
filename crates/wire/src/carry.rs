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

/// The same, read where it came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Lent<'b> {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub bytes: &'b [u8],
}

/// What stands before the bytes of a piece of `length` bytes, at most [`MOST`], in its frame.
pub fn head(length: usize) -> Vec<u8> {
    // An array of one byte string (RFC 8949, 3), whose length takes four bytes.
    let mut inner = vec![0x81, 0x5a];
    inner.extend_from_slice(&(length as u32).to_be_bytes());
    let mut head = ((inner.len() + length) as u32).to_be_bytes().to_vec();
    head.append(&mut inner);
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;

    #[test]
    fn a_piece_behind_its_head_is_a_frame() {
        for length in [0, 1, 23, 24, 255, 65_536, MOST] {
            let bytes = vec![7; length];
            let frame = [head(length), bytes.clone()].concat();
            let (body, used) = frame::split(&frame).expect("a good length").expect("whole");
            assert_eq!(used, frame.len());
            assert_eq!(frame::decode::<Lent<'_>>(body).expect("a piece").bytes, bytes);
            assert_eq!(frame::decode::<Piece>(body).expect("a piece").bytes, bytes);
        }
    }
}
