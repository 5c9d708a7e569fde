//! What identifies a content: the checksums of its pieces.

use blake3::Hasher;
use std::fmt;
use vocab::Result;

/// Bytes of a piece; the last one has less.
pub const PIECE: u64 = 256 * 1024;
/// Bytes of a checksum.
pub(crate) const SUM: u64 = 32;
const BYTES: usize = SUM as usize;

/// The name of a content: a BLAKE3 checksum of its length and of the checksums of its pieces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub [u8; BYTES]);

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

impl Name {
    /// As [`fmt::Display`] writes it.
    pub(crate) fn parse(text: &str) -> Option<Name> {
        let digits = text.as_bytes();
        let mut bytes = [0; BYTES];
        if digits.len() != 2 * BYTES || !digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Name(bytes))
    }
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    size: u64,
    sums: Vec<[u8; BYTES]>,
}

impl Content {
    /// Of so many bytes, which `read` puts where it is told, from the given one on.
    ///
    /// # Errors
    /// What `read` says.
    pub fn of(size: u64, mut read: impl FnMut(u64, &mut [u8]) -> Result<()>) -> Result<Content> {
        let mut room = vec![0; size.min(PIECE) as usize];
        let mut sums = Vec::new();
        for from in (0..size).step_by(PIECE as usize) {
            let piece = &mut room[..(size - from).min(PIECE) as usize];
            read(from, piece)?;
            sums.push(*blake3::hash(piece).as_bytes());
        }
        Ok(Content { size, sums })
    }

    /// From what [`Content::sums`] gives, unless that is of another size.
    pub fn from_sums(size: u64, sums: &[u8]) -> Option<Content> {
        let (sums, rest) = sums.as_chunks::<BYTES>();
        let fits = rest.is_empty() && sums.len() as u64 == size.div_ceil(PIECE);
        fits.then(|| Content { size, sums: sums.to_vec() })
    }

    /// The checksums, one behind the other.
    pub fn sums(&self) -> Vec<u8> {
        self.sums.concat()
    }

    /// In bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn name(&self) -> Name {
        let mut all = Hasher::new();
        all.update(&self.size.to_le_bytes());
        for sum in &self.sums {
            all.update(sum);
        }
        Name(*all.finalize().as_bytes())
    }

    /// Is this the piece that begins at byte `from`, whole?
    pub(crate) fn has(&self, from: u64, piece: &[u8]) -> bool {
        let sum = self.sums.get((from / PIECE) as usize);
        from.is_multiple_of(PIECE)
            && piece.len() as u64 == PIECE.min(self.size.saturating_sub(from))
            && sum.is_some_and(|sum| blake3::hash(piece) == *sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Content {
        let read = |from: u64, into: &mut [u8]| {
            into.copy_from_slice(&bytes[from as usize..][..into.len()]);
            Ok(())
        };
        Content::of(bytes.len() as u64, read).expect("it can be read")
    }

    #[test]
    fn a_piece_is_known_by_its_place() {
        let bytes: Vec<u8> = (0..PIECE as usize * 2 + 5).map(|at| (at / 3) as u8).collect();
        let content = of(&bytes);
        let piece = PIECE as usize;
        assert!(content.has(0, &bytes[..piece]) && content.has(2 * PIECE, &bytes[2 * piece..]));
        assert!(!content.has(PIECE, &bytes[..piece]) && !content.has(0, &bytes[..piece - 1]));
        assert!(!content.has(1, &bytes[1..=piece]) && !content.has(9 * PIECE, b""));
        assert_eq!(Content::from_sums(content.size(), &content.sums()), Some(content.clone()));
        assert_eq!(Content::from_sums(content.size() + PIECE, &content.sums()), None);
        assert_eq!(Content::from_sums(content.size(), &content.sums()[1..]), None);
    }

    #[test]
    fn another_content_has_another_name() {
        let names = [of(b""), of(b"a"), of(b"b"), of(&[0; PIECE as usize]), of(&[0; PIECE as usize + 1])];
        let mut names = names.map(|content| content.name()).to_vec();
        assert_eq!(Name::parse(&names[0].to_string()), Some(names[0]));
        assert_eq!(Name::parse("00"), None);
        assert_eq!(Name::parse(&"+f".repeat(32)), None);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 5);
    }
}
