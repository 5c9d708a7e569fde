//! What this process and the kernel agree on when the view is mounted.

use crate::fuse::{take, InitIn, InitOut};
use kern::fuse::raw::Connection;
use wire::view::MOST;
use zerocopy::IntoBytes;

/// What of the protocol is wanted (linux/fuse.h, `FUSE_…`): ASYNC_READ, POSIX_LOCKS, ATOMIC_O_TRUNC, BIG_WRITES, DONT_MASK, FLOCK_LOCKS, DO_READDIRPLUS, READDIRPLUS_AUTO,
/// ASYNC_DIO, PARALLEL_DIROPS, POSIX_ACL, ABORT_ERROR, MAX_PAGES, CACHE_SYMLINKS, EXPLICIT_INVAL_DATA, HANDLE_KILLPRIV_V2, SETXATTR_EXT, INIT_EXT.
const FLAGS: u32 = 1
    | 1 << 1
    | 1 << 3
    | 1 << 5
    | 1 << 6
    | 1 << 10
    | 1 << 13
    | 1 << 14
    | 1 << 15
    | 1 << 18
    | 1 << 20
    | 1 << 21
    | 1 << 22
    | 1 << 23
    | 1 << 25
    | 1 << 28
    | 1 << 29
    | 1 << 30;
/// DIRECT_IO_ALLOW_MMAP.
const MORE_FLAGS: u32 = 1 << 4;

/// Answers the kernel's first request.
pub(super) fn begin(fuse: &Connection, unique: u64, body: &[u8]) {
    let Ok((given, _)) = take::<InitIn>(body) else { return };
    let out = InitOut {
        major: 7,
        minor: given.minor.min(38),
        max_readahead: MOST,
        flags: FLAGS & given.flags,
        background: [128, 96],
        max_write: MOST,
        time_gran: 1,
        pages: [(MOST / 4096) as u16, 0],
        flags2: MORE_FLAGS & given.flags2,
        ..InitOut::default()
    };
    fuse.answer(unique, 0, out.as_bytes());
}
