//! Files that this process has let programs open by itself. Each open file has a number of its own, so that its end is known: the kernel says nothing when one of its descriptors is closed
//! (FOPEN_NOFLUSH), which would cost as much as opening it.
//!
//! What that is for else is to let go of locks of fcntl(2): those that were taken by such a file go with its last descriptor.

use crate::fuse::{op, take, FlushIn, LockIn, LK_FLOCK};
use kern::fuse::raw::Header;
use std::collections::HashMap;
use zerocopy::IntoBytes;

/// Numbers of the front end's are smaller; it calls all these 0.
const OWN: u64 = 1 << 63;
/// F_UNLCK.
const UNLOCKED: u32 = 2;
/// Operations whose bodies begin with the number of an open file.
const BY_HANDLE: [u32; 12] = [
    op::READ,
    op::WRITE,
    op::RELEASE,
    op::FLUSH,
    op::FSYNC,
    op::LSEEK,
    op::GETLK,
    op::SETLK,
    op::SETLKW,
    op::FALLOCATE,
    op::IOCTL,
    op::COPY_FILE_RANGE,
];

#[derive(Debug, Default)]
pub(super) struct Opens {
    last: u64,
    /// Owners of locks that were taken by an open file.
    locks: HashMap<u64, Vec<u64>>,
}

impl Opens {
    pub(super) fn open(&mut self) -> u64 {
        self.last += 1;
        OWN | self.last
    }

    /// Notes who takes a lock.
    pub(super) fn locks(&mut self, header: &Header, body: &[u8]) {
        if let (op::SETLK | op::SETLKW, Ok((head, _))) = (header.opcode, take::<LockIn>(body)) {
            if head.handle & OWN != 0 && head.flags & LK_FLOCK == 0 && head.lock.kind != UNLOCKED {
                let owners = self.locks.entry(head.handle).or_default();
                if !owners.contains(&head.owner) {
                    owners.push(head.owner);
                }
            }
        }
    }

    /// The file is closed: requests by which locks are let go that were taken by it.
    pub(super) fn close(&mut self, header: &Header, handle: u64) -> Vec<Vec<u8>> {
        let owners = self.locks.remove(&handle).unwrap_or_default();
        let flush = |owner| FlushIn { lock_owner: owner, ..FlushIn::default() };
        owners.into_iter().map(|owner| Header::about(header.node, op::FLUSH, flush(owner).as_bytes())).collect()
    }
}

/// The open file that a request is about, if this process has let it be opened.
pub(super) fn own(header: &Header, body: &[u8]) -> Option<u64> {
    let (handle, _) = take::<u64>(body).ok().filter(|_| BY_HANDLE.contains(&header.opcode))?;
    (handle & OWN != 0).then_some(handle)
}

/// The same request as the front end knows it.
pub(super) fn without_own(request: &[u8]) -> Vec<u8> {
    let mut request = request.to_vec();
    if let Some(handle) = request.get_mut(size_of::<Header>()..size_of::<Header>() + size_of::<u64>()) {
        handle.fill(0);
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::{FileLock, ReleaseIn};
    use zerocopy::FromZeros;

    fn header(opcode: u32) -> Header {
        Header { opcode, node: 7, ..Header::new_zeroed() }
    }

    #[test]
    fn locks_go_with_the_open_file_by_which_they_were_taken() {
        let mut opens = Opens::default();
        let (one, other) = (opens.open(), opens.open());
        let mut lock = |handle, owner, kind, flags| {
            let lock = FileLock { kind, ..FileLock::default() };
            opens.locks(&header(op::SETLK), LockIn { handle, owner, lock, flags, padding: 0 }.as_bytes());
        };
        for (handle, owner, kind, flags) in
            [(one, 5, 0, 0), (one, 5, 0, 0), (one, 6, 2, 0), (one, 8, 0, LK_FLOCK), (other, 9, 1, 0), (3, 9, 0, 0)]
        {
            lock(handle, owner, kind, flags);
        }
        let flush = FlushIn { lock_owner: 5, ..FlushIn::default() };
        assert_eq!(opens.close(&header(op::RELEASE), one), [Header::about(7, op::FLUSH, flush.as_bytes())]);
        assert!(opens.close(&header(op::RELEASE), one).is_empty() && opens.close(&header(op::RELEASE), 3).is_empty());
        assert_eq!(opens.locks.len(), 1);
    }

    #[test]
    fn the_front_end_knows_no_number_of_ours() {
        let handle = Opens::default().open();
        let release = ReleaseIn { handle, flags: 9, ..ReleaseIn::default() };
        let request = Header::about(7, op::RELEASE, release.as_bytes());
        assert_eq!(own(&header(op::RELEASE), release.as_bytes()), Some(handle));
        assert_eq!(own(&header(op::GETATTR), release.as_bytes()), None);
        assert_eq!(own(&header(op::RELEASE), ReleaseIn { handle: 8, ..release }.as_bytes()), None);
        let theirs = Header::about(7, op::RELEASE, ReleaseIn { handle: 0, ..release }.as_bytes());
        assert_eq!(without_own(&request), theirs);
    }
}
