//! Frames on a byte stream: a length (4 bytes, big endian) and a message in CBOR.

use minicbor::{Decode, Encode};
use vocab::{Fault, Result};

/// The largest frame, in bytes: above what exec takes for arguments and environment (6 MiB at 8 MiB of stack, execve(2)).
pub const MOST: usize = 8 * 1024 * 1024;

/// What can be told in several messages is told in messages of about so many bytes, so that others are not kept waiting; any single thing that is told
/// is smaller than the rest of a frame.
pub const PIECE: usize = 256 * 1024;

/// Bytes of the length before each message.
pub const HEAD: usize = 4;

/// Appends `message` as one frame.
///
/// # Errors
/// `Wire` when it would be longer than [`MOST`]; nothing is appended then.
pub fn encode<T: Encode<()>>(message: &T, into: &mut Vec<u8>) -> Result<()> {
    let start = into.len();
    into.extend_from_slice(&[0; HEAD]);
    minicbor::encode(message, &mut *into).map_err(|e| Fault::bug(format!("encode a message: {e}")))?;
    let length = into.len() - start - HEAD;
    if length > MOST {
        into.truncate(start);
        return Err(Fault::wire(format!("a message of {length} bytes is longer than the {MOST} a frame may have")));
    }
    into[start..start + HEAD].copy_from_slice(&(length as u32).to_be_bytes());
    Ok(())
}

/// The first frame of `bytes`: the message's bytes and the length of the whole frame; `None` while it is incomplete.
///
/// # Errors
/// `Wire` for a length above [`MOST`], before anything is allocated for it.
pub fn split(bytes: &[u8]) -> Result<Option<(&[u8], usize)>> {
    let Some(head) = bytes.first_chunk::<HEAD>() else { return Ok(None) };
    let length = u32::from_be_bytes(*head) as usize;
    if length > MOST {
        return Err(Fault::wire(format!("a frame says it has {length} bytes, {MOST} is the most")));
    }
    Ok(bytes.get(HEAD..HEAD + length).map(|body| (body, HEAD + length)))
}

/// One message from the bytes of one frame.
///
/// # Errors
/// `Wire` for what is no message, an unknown message, or bytes left over.
pub fn decode<'b, T: Decode<'b, ()>>(body: &'b [u8]) -> Result<T> {
    let mut decoder = minicbor::Decoder::new(body);
    let message = decoder.decode().map_err(|e| Fault::wire(format!("a {} cannot be read: {e}", name::<T>())))?;
    match body.len() - decoder.position() {
        0 => Ok(message),
        n => Err(Fault::wire(format!("{n} bytes left over behind a {}", name::<T>()))),
    }
}

fn name<T>() -> &'static str {
    let full = std::any::type_name::<T>();
    full.rsplit("::").next().unwrap_or(full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{Chunk, Stream};

    #[test]
    fn a_frame_comes_back_and_says_its_length() {
        let chunk = Chunk::Credit { stream: Stream::Out, bytes: 7 };
        let mut bytes = Vec::new();
        encode(&chunk, &mut bytes).expect("short");
        encode(&Chunk::Ended, &mut bytes).expect("short");
        let (body, used) = split(&bytes).expect("a good length").expect("whole");
        assert_eq!(decode::<Chunk>(body).expect("own encoding"), chunk);
        let (body, _) = split(&bytes[used..]).expect("a good length").expect("whole");
        assert_eq!(decode::<Chunk>(body).expect("own encoding"), Chunk::Ended);
    }

    #[test]
    fn a_gigabyte_is_refused_at_its_length_and_half_a_frame_waits() {
        assert!(split(&[0x40, 0, 0, 0, 1]).is_err());
        assert_eq!(split(&[0, 0, 0, 9, 1]).expect("a good length"), None);
        assert_eq!(split(&[0, 0]).expect("too short to say"), None);
    }

    #[test]
    fn an_unknown_message_is_named() {
        let error = decode::<Chunk>(&[0x82, 0x18, 0x63, 0x80]).expect_err("variant 99");
        assert!(error.to_string().contains("Chunk"), "{error}");
    }
}
