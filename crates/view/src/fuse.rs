//! The structures of linux/fuse.h (protocol 7.38) that the server reads and writes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Operations (`enum fuse_opcode`).
pub(crate) mod op {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const SETXATTR: u32 = 21;
    pub(crate) const GETXATTR: u32 = 22;
    pub(crate) const LISTXATTR: u32 = 23;
    pub(crate) const REMOVEXATTR: u32 = 24;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const GETLK: u32 = 31;
    pub(crate) const SETLK: u32 = 32;
    pub(crate) const SETLKW: u32 = 33;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const IOCTL: u32 = 39;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const READDIRPLUS: u32 = 44;
    pub(crate) const RENAME2: u32 = 45;
    pub(crate) const LSEEK: u32 = 46;
    pub(crate) const COPY_FILE_RANGE: u32 = 47;
    pub(crate) const SYNCFS: u32 = 50;
    pub(crate) const TMPFILE: u32 = 51;
}

/// The name of an operation.
pub fn operation(opcode: u32) -> &'static str {
    const NAMES: [(u32, &str); 43] = [
        (op::LOOKUP, "lookup"),
        (op::FORGET, "forget"),
        (op::GETATTR, "getattr"),
        (op::SETATTR, "setattr"),
        (op::READLINK, "readlink"),
        (op::SYMLINK, "symlink"),
        (op::MKNOD, "mknod"),
        (op::MKDIR, "mkdir"),
        (op::UNLINK, "unlink"),
        (op::RMDIR, "rmdir"),
        (op::RENAME, "rename"),
        (op::LINK, "link"),
        (op::OPEN, "open"),
        (op::READ, "read"),
        (op::WRITE, "write"),
        (op::STATFS, "statfs"),
        (op::RELEASE, "release"),
        (op::FSYNC, "fsync"),
        (op::SETXATTR, "setxattr"),
        (op::GETXATTR, "getxattr"),
        (op::LISTXATTR, "listxattr"),
        (op::REMOVEXATTR, "removexattr"),
        (op::FLUSH, "flush"),
        (op::INIT, "init"),
        (op::OPENDIR, "opendir"),
        (op::READDIR, "readdir"),
        (op::RELEASEDIR, "releasedir"),
        (op::FSYNCDIR, "fsyncdir"),
        (op::GETLK, "getlk"),
        (op::SETLK, "setlk"),
        (op::SETLKW, "setlkw"),
        (op::CREATE, "create"),
        (op::INTERRUPT, "interrupt"),
        (op::DESTROY, "destroy"),
        (op::IOCTL, "ioctl"),
        (op::BATCH_FORGET, "batch_forget"),
        (op::FALLOCATE, "fallocate"),
        (op::READDIRPLUS, "readdirplus"),
        (op::RENAME2, "rename2"),
        (op::LSEEK, "lseek"),
        (op::COPY_FILE_RANGE, "copy_file_range"),
        (op::SYNCFS, "syncfs"),
        (op::TMPFILE, "tmpfile"),
    ];
    NAMES.iter().find(|(number, _)| *number == opcode).map_or("other", |(_, name)| name)
}

/// What the server may tell of its own accord (`enum fuse_notify_code`).
pub(crate) mod notice {
    pub(crate) const INVAL_INODE: i32 = 2;
    pub(crate) const INVAL_ENTRY: i32 = 3;
}

/// Flags of an answer to OPEN (`FOPEN_…`).
pub(crate) mod opened {
    pub(crate) const DIRECT_IO: u32 = 1;
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
    pub(crate) const CACHE_DIR: u32 = 1 << 3;
    pub(crate) const NOFLUSH: u32 = 1 << 5;
    pub(crate) const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Of fuse_setattr_in, `valid` (`FATTR_…`).
pub(crate) mod set {
    pub(crate) const MODE: u32 = 1;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const HANDLE: u32 = 1 << 6;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
}

/// Of fuse_open_in and fuse_create_in, `open_flags`: the file loses set-user-ID, set-group-ID and capabilities.
pub(crate) const OPEN_KILL_SUIDGID: u32 = 1;
/// Of fuse_lk_in, `lk_flags`: flock(2).
pub(crate) const LK_FLOCK: u32 = 1;
/// The node of the view's root.
pub(crate) const ROOT: u64 = 1;

macro_rules! wire {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
        pub(crate) struct $name { $(pub(crate) $field: $kind),* }
    };
}

wire!(Attr {
    ino: u64,
    size: u64,
    blocks: u64,
    atime: u64,
    mtime: u64,
    ctime: u64,
    nsec: [u32; 3],
    mode: u32,
    nlink: u32,
    uid: u32,
    gid: u32,
    rdev: u32,
    blksize: u32,
    flags: u32,
});
wire!(
    /// `valid`: seconds, and nanoseconds in the arrays, of the name and of the attributes.
    EntryOut { node: u64, generation: u64, entry_valid: u64, attr_valid: u64, nsec: [u32; 2], attr: Attr }
);
wire!(AttrOut { valid: u64, nsec: u32, padding: u32, attr: Attr });
wire!(OpenOut { handle: u64, flags: u32, padding: u32 });
wire!(ForgetIn { lookups: u64 });
wire!(ForgetOne { node: u64, lookups: u64 });
wire!(BatchForgetIn { count: u32, padding: u32 });
wire!(MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32 });
wire!(MkdirIn { mode: u32, umask: u32 });
wire!(RenameIn { directory: u64 });
wire!(Rename2In { directory: u64, flags: u32, padding: u32 });
wire!(LinkIn { node: u64 });
wire!(SetattrIn {
    valid: u32,
    padding: u32,
    handle: u64,
    size: u64,
    lock_owner: u64,
    atime: u64,
    mtime: u64,
    ctime: u64,
    nsec: [u32; 3],
    mode: u32,
    unused: u32,
    uid: u32,
    gid: u32,
    unused_too: u32,
});
wire!(OpenIn { flags: u32, open_flags: u32 });
wire!(CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 });
wire!(ReleaseIn { handle: u64, flags: u32, release_flags: u32, lock_owner: u64 });
wire!(FlushIn { handle: u64, unused: u32, padding: u32, lock_owner: u64 });
wire!(ReadIn { handle: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32 });
wire!(WriteIn { handle: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32 });
wire!(WriteOut { size: u32, padding: u32 });
wire!(
    /// statfs(2): blocks, free, available, files and free ones; sizes.
    StatfsOut { counts: [u64; 5], bsize: u32, namelen: u32, frsize: u32, padding: u32, spare: [u32; 6] }
);
wire!(FsyncIn { handle: u64, flags: u32, padding: u32 });
wire!(SetxattrIn { size: u32, flags: u32, more_flags: u32, padding: u32 });
wire!(GetxattrIn { size: u32, padding: u32 });
wire!(FileLock { start: u64, end: u64, kind: u32, pid: u32 });
wire!(LockIn { handle: u64, owner: u64, lock: FileLock, flags: u32, padding: u32 });
wire!(InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32, flags2: u32, unused: [u32; 11] });
wire!(InitOut {
    major: u32,
    minor: u32,
    max_readahead: u32,
    flags: u32,
    background: [u16; 2],
    max_write: u32,
    time_gran: u32,
    pages: [u16; 2],
    flags2: u32,
    unused: [u32; 7],
});
wire!(FallocateIn { handle: u64, offset: u64, length: u64, mode: u32, padding: u32 });
wire!(LseekIn { handle: u64, offset: u64, whence: u32, padding: u32 });
wire!(CopyIn { handle: u64, offset: u64, to_node: u64, to_handle: u64, to_offset: u64, length: u64, flags: u64 });
wire!(DirentHead { ino: u64, offset: u64, length: u32, kind: u32 });
wire!(InvalInode { node: u64, offset: i64, length: i64 });
wire!(InvalEntry { parent: u64, length: u32, flags: u32 });

/// The structure at the beginning of `body`, and what follows it.
///
/// # Errors
/// EIO: it is shorter.
pub(crate) fn take<T: FromBytes>(body: &[u8]) -> Result<(T, &[u8]), i32> {
    T::read_from_prefix(body).map_err(|_| vocab::errno::EIO)
}

/// The name at the beginning of `body`, up to its NUL, and what follows.
///
/// # Errors
/// EIO: there is no NUL; EINVAL for what is no name of something in a directory.
pub(crate) fn name(body: &[u8]) -> Result<(&[u8], &[u8]), i32> {
    let (name, rest) = text(body)?;
    match name {
        b"" | b"." | b".." => Err(vocab::errno::EINVAL),
        name if name.contains(&b'/') => Err(vocab::errno::EINVAL),
        name => Ok((name, rest)),
    }
}

/// Bytes up to a NUL, and what follows.
///
/// # Errors
/// EIO: there is no NUL.
pub(crate) fn text(body: &[u8]) -> Result<(&[u8], &[u8]), i32> {
    let end = body.iter().position(|byte| *byte == 0).ok_or(vocab::errno::EIO)?;
    Ok((&body[..end], &body[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_long_as_the_kernels() {
        let sizes = [size_of::<Attr>(), size_of::<EntryOut>(), size_of::<SetattrIn>(), size_of::<InitOut>()];
        assert_eq!(sizes, [88, 128, 88, 64]);
        assert_eq!([size_of::<LockIn>(), size_of::<StatfsOut>(), size_of::<WriteIn>()], [48, 80, 40]);
    }

    #[test]
    fn a_name_is_of_one_directory() {
        assert_eq!(name(b"some\0rest"), Ok((&b"some"[..], &b"rest"[..])));
        for bad in [&b"..\0"[..], b".\0", b"\0", b"a/b\0", b"/\0", b"no end"] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
    }
}
