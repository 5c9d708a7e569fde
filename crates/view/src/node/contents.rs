//! Contents of small files that came with the answer to OPEN, until the kernel has read them; and what symbolic links say.

use crate::fuse::{take, ReadIn};
use std::collections::HashMap;

/// Bytes of all at most.
const MOST: usize = 32 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Contents {
    files: HashMap<u64, Vec<u8>>,
    bytes: usize,
}

impl Contents {
    pub(super) fn keep(&mut self, node: u64, content: Vec<u8>) {
        self.forget(node);
        if self.bytes + content.len() > MOST {
            // A read of one of them asks the front end.
            self.files.clear();
            self.bytes = 0;
        }
        self.bytes += content.len();
        self.files.insert(node, content);
    }

    /// The answer to READ. What was read to its end the kernel has.
    pub(super) fn answer(&mut self, node: u64, body: &[u8]) -> Option<Vec<u8>> {
        let content = self.files.get(&node)?;
        let (head, _): (ReadIn, _) = take(body).ok()?;
        let start = usize::try_from(head.offset).ok()?.min(content.len());
        let end = (start + head.size as usize).min(content.len());
        let data = content[start..end].to_vec();
        if end == content.len() {
            self.forget(node);
        }
        Some(data)
    }

    /// The target of a symbolic link.
    pub(super) fn whole(&self, node: u64) -> Option<Vec<u8>> {
        self.files.get(&node).cloned()
    }

    pub(super) fn forget(&mut self, node: u64) {
        if let Some(content) = self.files.remove(&node) {
            self.bytes -= content.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    #[test]
    fn a_content_is_read_once() {
        let mut contents = Contents::default();
        contents.keep(7, b"content".to_vec());
        let read = |offset, size| ReadIn { offset, size, ..ReadIn::default() };
        assert_eq!(contents.answer(8, read(0, 9).as_bytes()), None);
        assert_eq!(contents.answer(7, read(0, 3).as_bytes()).as_deref(), Some(&b"con"[..]));
        assert_eq!(contents.answer(7, read(3, 9).as_bytes()).as_deref(), Some(&b"tent"[..]));
        assert_eq!((contents.answer(7, read(0, 9).as_bytes()), contents.bytes), (None, 0));
        contents.keep(7, vec![0; MOST]);
        contents.keep(8, vec![0; 2]);
        assert_eq!((contents.files.len(), contents.bytes), (1, 2));
    }
}
