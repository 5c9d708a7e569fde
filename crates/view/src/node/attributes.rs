//! Attributes of files that nobody can change without a notice, so that this node answers for them.

use crate::fuse::{op, AttrOut};
use kern::fuse::raw::Header;
use std::collections::HashMap;
use zerocopy::{FromBytes, IntoBytes};

/// So many at most.
const MOST: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct Attributes(HashMap<u64, AttrOut>);

impl Attributes {
    /// The answer to GETATTR.
    pub(super) fn answer(&self, node: u64) -> Option<Vec<u8>> {
        self.0.get(&node).map(|known| known.as_bytes().to_vec())
    }

    /// Attributes as the front end has sent them (struct fuse_attr_out).
    pub(super) fn keep(&mut self, node: u64, attributes: &[u8]) {
        if let Ok((known, _)) = AttrOut::read_from_prefix(attributes) {
            if self.0.len() >= MOST {
                self.0.clear();
            }
            self.0.insert(node, known);
        }
    }

    pub(super) fn forget(&mut self, node: u64) {
        self.0.remove(&node);
    }

    /// A request of this node's kernel that may change attributes has been passed on, or its answer has come. Of its own changes a node is not told.
    pub(super) fn passed(&mut self, header: &Header) {
        match header.opcode {
            op::LOOKUP | op::GETATTR | op::READLINK | op::OPEN | op::STATFS | op::RELEASE | op::GETXATTR => {}
            op::LISTXATTR | op::FLUSH | op::OPENDIR | op::READDIR | op::RELEASEDIR | op::READDIRPLUS | op::GETLK => {}
            op::SETLK | op::SETLKW | op::INTERRUPT | op::LSEEK | op::FSYNC | op::FSYNCDIR | op::SYNCFS => {}
            op::FORGET | op::BATCH_FORGET => {}
            op::READ => {
                // The time of the last read changes with the first read after a change (mount(8), relatime).
                let known = self.0.get(&header.node).map(|known| known.attr);
                if known.is_some_and(|attr| attr.atime <= attr.mtime.max(attr.ctime)) {
                    self.forget(header.node);
                }
            }
            op::WRITE | op::SETATTR | op::FALLOCATE | op::SETXATTR | op::REMOVEXATTR => self.forget(header.node),
            // A new name: attributes of the directory change.
            op::CREATE | op::MKNOD | op::MKDIR | op::SYMLINK => self.forget(header.node),
            // Of files whose numbers the request does not say.
            _ => self.0.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::Attr;
    use zerocopy::FromZeros;

    fn known(atime: u64) -> AttrOut {
        AttrOut { valid: 1, attr: Attr { atime, mtime: 5, ctime: 5, ..Attr::default() }, ..AttrOut::default() }
    }

    #[test]
    fn what_this_node_changes_is_asked_again() {
        let all = |opcode, node| Header { opcode, node, ..Header::new_zeroed() };
        for (opcode, of, stay) in [
            (op::GETATTR, 7, true),
            (op::READ, 7, true),
            (op::WRITE, 7, false),
            (op::WRITE, 8, true),
            (op::SETATTR, 7, false),
            (op::CREATE, 9, true),
            (op::UNLINK, 9, false),
            (op::RENAME2, 9, false),
            (op::LINK, 9, false),
            (op::COPY_FILE_RANGE, 9, false),
        ] {
            let mut attributes = Attributes::default();
            attributes.keep(7, known(6).as_bytes());
            attributes.passed(&all(opcode, of));
            assert_eq!(attributes.answer(7).is_some(), stay, "{opcode}");
        }
        let mut unread = Attributes::default();
        unread.keep(7, known(5).as_bytes());
        unread.passed(&all(op::READ, 7));
        assert_eq!(unread.answer(7), None);
    }
}
