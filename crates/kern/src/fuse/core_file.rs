//! The file into which a stand-in dumps core: it takes everything, keeps nothing, and has no name.
//!
//! The kernel sets the core bit of a status only for a process that has written a core (linux: `vfs_coredump`), into a regular file of its
//! own user's, of mode 0600, with one name. Each user has one such file here, whose number says whose it is, so nothing is remembered.

use super::{reply, Attr, AttrOut, EntryOut, InHeader, OpenOut};
use super::{BATCH_FORGET, FLUSH, FOPEN_DIRECT_IO, FORGET, GETATTR, INTERRUPT, KEEP, RELEASE, SETATTR, WRITE};
use std::os::fd::BorrowedFd;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// In the number of such a file, above its owner's.
const MARK: u64 = 1 << 32;

#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Default)]
pub(super) struct Created {
    entry: EntryOut,
    open: OpenOut,
}

#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
struct WriteIn {
    fh: u64,
    offset: u64,
    size: u32,
    flags: u32,
}

/// Whose core file has this number, if one has.
pub(super) fn owner(node: u64) -> Option<u32> {
    (node & !u64::from(u32::MAX) == MARK).then_some(node as u32)
}

/// The answer to CREATE. The name holds for no longer than it takes to open it.
pub(super) fn created(uid: u32) -> Created {
    let entry = EntryOut { nodeid: MARK | u64::from(uid), attr_valid: KEEP, attr: attr(uid), ..EntryOut::default() };
    Created { entry, open: OpenOut { flags: FOPEN_DIRECT_IO, ..OpenOut::default() } }
}

fn attr(uid: u32) -> Attr {
    Attr { ino: MARK | u64::from(uid), mode: libc::S_IFREG | 0o600, nlink: 1, uid, blksize: 4096, ..Attr::default() }
}

/// Answers what is asked of the file of user `uid`.
pub(super) fn serve(fd: BorrowedFd<'_>, header: &InHeader, uid: u32, body: &[u8]) {
    let unique = header.unique;
    match header.opcode {
        GETATTR | SETATTR => {
            let out = AttrOut { valid: KEEP, attr: attr(uid), ..AttrOut::default() };
            reply(fd, unique, 0, out.as_bytes());
        }
        WRITE => match WriteIn::read_from_prefix(body) {
            // struct fuse_write_out: how much was taken, and padding.
            Ok((write, _)) => reply(fd, unique, 0, u64::from(write.size).as_bytes()),
            Err(_) => reply(fd, unique, -libc::EINVAL, &[]),
        },
        FLUSH | RELEASE => reply(fd, unique, 0, &[]),
        FORGET | BATCH_FORGET | INTERRUPT => {}
        // Not ENOSYS: by that the kernel forgets a request for all files (fuse_conn, `no_flush` and its like).
        _ => reply(fd, unique, -libc::EPERM, &[]),
    }
}
