//! What goes over the connection on which a process moves: its image in pieces, from the old node to the new one.

use crate::frame;
use minicbor::{Decode, Encode};
use vocab::{Fault, Result};

/// The most bytes in one [`Piece`].
pub const MOST: usize = 256 * 1024;

/// The next bytes of the image.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Piece {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub bytes: Vec<u8>,
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

/// Bytes of what stands before those of a piece that tell how many more there are of that.
pub const FIRST: usize = frame::HEAD + 2;
/// The most bytes that stand there.
pub const HEAD: usize = FIRST + 4;

/// How many bytes come behind these before those of the piece.
///
/// # Errors
/// `Wire` for what is no piece.
pub fn rest_of_head(first: &[u8; FIRST]) -> Result<usize> {
    // The length of a byte string is in its first byte, or in the 1, 2, 4 behind it.
    match first[frame::HEAD..] {
        [0x81, 0x40..=0x57] => Ok(0),
        [0x81, 0x58] => Ok(1),
        [0x81, 0x59] => Ok(2),
        [0x81, 0x5a] => Ok(4),
        _ => Err(Fault::wire("a frame that is no piece of an image")),
    }
}

/// How many bytes the piece behind all of this has.
///
/// # Errors
/// `Wire` where the frame does not end with it, or is too long.
pub fn length(head: &[u8]) -> Result<usize> {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
    let Some((frame, inner)) = head.split_at_checked(frame::HEAD) else {
        return Err(Fault::wire("a piece of an image without a head"));
    };
    let length = match inner {
        [_, first] => usize::from(first & 0x1f),
        [_, _, length @ ..] => number(length),
        _ => return Err(Fault::wire("a piece of an image without a length")),
    };
    match number(frame) {
        whole if whole == inner.len() + length && whole <= frame::MOST => Ok(length),
        whole => Err(Fault::wire(format!("a piece of {length} bytes in a frame of {whole}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_behind_its_head_is_a_frame() {
        for length in [0, 1, 23, 24, 255, 65_536, MOST] {
            let bytes = vec![7; length];
            let frame = [head(length), bytes.clone()].concat();
            let (body, used) = frame::split(&frame).expect("a good length").expect("whole");
            assert_eq!(used, frame.len());
            assert_eq!(frame::decode::<Piece>(body).expect("a piece").bytes, bytes);
        }
    }

    /// However it was encoded.
    #[test]
    fn a_head_tells_how_long_its_piece_is() {
        for length in [0, 1, 23, 24, 255, 256, 65_535, 65_536, MOST] {
            let mut encoded = Vec::new();
            frame::encode(&Piece { bytes: vec![0x5a; length] }, &mut encoded).expect("short");
            for frame in [head(length), encoded] {
                let rest = rest_of_head(frame.first_chunk().expect("longer")).expect("a piece");
                assert_eq!(super::length(&frame[..FIRST + rest]).map_err(|fault| fault.kind), Ok(length));
            }
        }
        assert!(rest_of_head(&[0, 0, 0, 9, 0x82, 0x40]).is_err());
        assert!(rest_of_head(&[0, 0, 0, 9, 0x81, 0x5b]).is_err());
        for bad in [&[0, 0, 0, 9, 0x81, 0x46][..], &[0xff, 0, 0, 0, 0x81, 0x5a, 0xfe, 0xff, 0xff, 0xfa], &[1], &[0; 5]]
        {
            assert!(super::length(bad).is_err(), "{bad:?}");
        }
    }
}
