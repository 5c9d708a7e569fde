//! Where a node's user is not who it says: root of a node that is squashed asks as nobody. And what the front end's own mounts forbid.

use kern::fuse::raw::Header;
use std::os::fd::BorrowedFd;
use vocab::{NodeId, NodeSet};

/// The user and group that stand for root (nobody, as NFS has it).
const NOBODY: u32 = 65534;

/// From which nodes root is nobody.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Squash {
    #[default]
    None,
    All,
    Of(NodeSet),
}

impl Squash {
    /// The asker of a request from this node.
    pub(super) fn applied(&self, node: NodeId, mut header: Header, mut groups: Vec<u32>) -> (Header, Vec<u32>) {
        let squashes = match self {
            Squash::None => false,
            Squash::All => true,
            Squash::Of(nodes) => nodes.nodes().contains(&node),
        };
        if squashes {
            let ids = [&mut header.uid, &mut header.gid].into_iter().chain(&mut groups);
            ids.filter(|id| **id == 0).for_each(|id| *id = NOBODY);
        }
        (header, groups)
    }
}

/// Is this file on a file system that is mounted so that nothing is executed from it?
pub(super) fn is_noexec(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatvfs(fd).is_ok_and(|found| found.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn root_of_a_squashed_node_is_nobody_and_others_are_who_they_are() {
        let asks = |squash: &Squash, node, uid, gid, groups: &[u32]| {
            let header = Header { uid, gid, ..Header::new_zeroed() };
            let (header, groups) = squash.applied(NodeId(node), header, groups.to_vec());
            (header.uid, header.gid, groups)
        };
        let some = NodeSet::parse("1-2").map(Squash::Of).unwrap_or_default();
        for squash in [Squash::All, some.clone()] {
            assert_eq!(asks(&squash, 2, 0, 0, &[0, 7]), (NOBODY, NOBODY, vec![NOBODY, 7]));
            assert_eq!(asks(&squash, 2, 5, 0, &[0]), (5, NOBODY, vec![NOBODY]));
            assert_eq!(asks(&squash, 2, 0, 6, &[]), (NOBODY, 6, vec![]));
            assert_eq!(asks(&squash, 2, 5, 6, &[7]), (5, 6, vec![7]));
        }
        for squash in [Squash::None, some] {
            assert_eq!(asks(&squash, 3, 0, 0, &[0]), (0, 0, vec![0]));
        }
    }
}
