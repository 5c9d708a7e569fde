//! Where an image goes that cannot be taken back: as long as it is little, it may be another one yet.

use std::io::{Result, Write};

/// Bytes that are kept.
const MOST: usize = 1 << 20;

/// Keeps the beginning of what is written until there is more of it, or it is flushed.
pub(crate) struct Withheld<W: Write> {
    to: W,
    kept: Vec<u8>,
    goes: bool,
}

impl<W: Write> Withheld<W> {
    pub(crate) fn new(to: W) -> Withheld<W> {
        Withheld { to, kept: Vec::new(), goes: false }
    }

    /// Begins anew; `false`: some has gone already.
    pub(crate) fn forget(&mut self) -> bool {
        self.kept.clear();
        !self.goes
    }

    fn go(&mut self) -> Result<()> {
        self.goes = true;
        self.to.write_all(&std::mem::take(&mut self.kept))
    }
}

impl<W: Write> Write for Withheld<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if !self.goes && self.kept.len() + bytes.len() <= MOST {
            self.kept.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        self.go()?;
        self.to.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.go()?;
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_little_can_be_taken_back_until_it_is_flushed() {
        let mut out = Withheld::new(Vec::new());
        assert!(out.write_all(b"one").is_ok() && out.forget() && out.write_all(b"other").is_ok());
        assert!(out.to.is_empty() && out.flush().is_ok());
        assert!(!out.forget());
        assert_eq!(out.to, b"other");
        let mut out = Withheld::new(Vec::new());
        let much = vec![1; MOST];
        assert!(out.write_all(b"x").is_ok() && out.write_all(&much).is_ok() && !out.forget());
        assert_eq!(out.to.len(), MOST + 1);
    }
}
