//! What a program sees in another place than others do: mounts in a namespace of its own, made before it has its user's ids.
//!
//! Each path is looked up with the ids of the user, without capabilities, and without links of /proc that lead to what others have open; only the mounts
//! themselves are made with the stand-in's capabilities.

use super::Setup;
use crate::standin::{caps, raw};
use std::mem::{size_of, MaybeUninit};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Kinds of [`Places::kinds`].
pub const BIND: u64 = 0;
pub const READ_ONLY: u64 = 1;
pub const EMPTY: u64 = 2;

/// The changes, in order. Addresses of lists with `count` entries.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Places {
    pub count: u64,
    pub kinds: u64,
    /// Paths of what is bound; 0 for other kinds.
    pub from: u64,
    pub at: u64,
    /// Addresses of the numbers of the user and the group, as texts.
    pub uid: u64,
    pub gid: u64,
    /// Result: the change that failed.
    pub failed: u64,
}

impl Places {
    /// No changes.
    pub const NONE: Places = Places { count: 0, kinds: 0, from: 0, at: 0, uid: 0, gid: 0, failed: 0 };
}

/// struct open_how of openat2(2).
#[repr(C)]
struct How {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// struct mount_attr of mount_setattr(2).
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

const HERE: u64 = libc::AT_FDCWD as u64;
const EMPTY_PATH: u64 = libc::AT_EMPTY_PATH as u64;
const RECURSIVE: u64 = 0x8000; // AT_RECURSIVE
const ONLY_READ: u64 = 1; // MOUNT_ATTR_RDONLY
const NO_DEVICES: u64 = 2 | 4; // MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV
const SET_STRING: u64 = 1; // FSCONFIG_SET_STRING
const CREATE: u64 = 6; // FSCONFIG_CMD_CREATE
const NO_MAGIC_LINKS: u64 = 2; // RESOLVE_NO_MAGICLINKS
const BOTH_EMPTY: u64 = 4 | 0x40; // MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_T_EMPTY_PATH
const MOUNT_ID: u64 = 0x1000; // STATX_MNT_ID

/// A namespace of the calling process's own, of which nothing shows in others. 0, or `-errno`.
pub(super) fn apart() -> i64 {
    // SAFETY: takes numbers and live strings.
    unsafe {
        let made = raw::call(libc::SYS_unshare, [libc::CLONE_NEWNS as u64, 0, 0, 0, 0, 0]);
        if made < 0 {
            return made;
        }
        let (none, root, flags) = (c"none".as_ptr() as u64, c"/".as_ptr() as u64, libc::MS_REC | libc::MS_SLAVE);
        raw::call(libc::SYS_mount, [none, root, 0, flags, 0, 0])
    }
}

/// Makes all changes. 0, or `-errno` with [`Places::failed`] set.
///
/// # Safety
/// `setup` and all it points to are live; the calling process is in a namespace of its own.
pub(super) unsafe fn make(setup: *mut Setup) -> i64 {
    // SAFETY: by the caller's promise.
    unsafe {
        for i in 0..(*setup).places.count {
            let done = one(&*setup, i as usize);
            if done < 0 {
                (&raw mut (*setup).places.failed).write_volatile(i);
                return done;
            }
        }
        0
    }
}

// SAFETY: (of a call) all addresses in `s` are live.
unsafe fn one(s: &Setup, i: usize) -> i64 {
    // SAFETY: by the promise above.
    unsafe {
        let entry = |list: u64| *(list as *const u64).add(i);
        let (kind, from, at) = (entry(s.places.kinds), entry(s.places.from), entry(s.places.at));
        let target = as_user(s, || look(at));
        let is_root = if target < 0 { target } else { is_the_root(target as u64) };
        if is_root < 0 {
            return is_root;
        }
        // A process that has it as root directory would not see what is mounted upon it.
        if is_root > 0 && kind != READ_ONLY {
            return -i64::from(libc::EINVAL);
        }
        if is_root > 0 {
            return read_only(HERE, c"/".as_ptr() as u64, 0);
        }
        let mounts = match kind {
            BIND => match as_user(s, || look(from)) {
                source if source < 0 => source,
                source => copy(source as u64),
            },
            READ_ONLY => match copy(target as u64) {
                tree if tree < 0 => tree,
                tree => match read_only(tree as u64, c"".as_ptr() as u64, EMPTY_PATH) {
                    0 => tree,
                    failed => failed,
                },
            },
            _ => empty(s),
        };
        if mounts < 0 {
            return mounts;
        }
        let none = c"".as_ptr() as u64;
        raw::call(libc::SYS_move_mount, [mounts as u64, none, target as u64, none, BOTH_EMPTY, 0])
    }
}

/// What `done` returns, which has the ids of the program's user and no capability; root has those that the program will have.
// SAFETY: (of a call) `s` is live.
pub(super) unsafe fn as_user(s: &Setup, done: impl Fn() -> i64) -> i64 {
    // SAFETY: takes numbers. Each returns what there was before.
    unsafe {
        let gid = raw::call(libc::SYS_setfsgid, [s.ids[4], 0, 0, 0, 0, 0]);
        let uid = raw::call(libc::SYS_setfsuid, [s.ids[1], 0, 0, 0, 0, 0]);
        let most = match (s.ids[1], s.bounded) {
            (0, 0) => !0,
            (0, _) => s.bounding,
            _ => 0,
        };
        let is = |call: i64, id: u64| raw::call(call, [u64::MAX, 0, 0, 0, 0, 0]) == id as i64;
        let are = is(libc::SYS_setfsuid, s.ids[1]) && is(libc::SYS_setfsgid, s.ids[4]);
        let ret = match are && caps::only(most) == 0 {
            true => done(),
            false => -i64::from(libc::EPERM),
        };
        caps::raise();
        raw::call(libc::SYS_setfsuid, [uid as u64, 0, 0, 0, 0, 0]);
        raw::call(libc::SYS_setfsgid, [gid as u64, 0, 0, 0, 0, 0]);
        caps::raise();
        ret
    }
}

/// A descriptor of what the path leads to, or `-errno`.
// SAFETY: (of a call) the path is a live string.
unsafe fn look(path: u64) -> i64 {
    let how = How { flags: (libc::O_PATH | libc::O_CLOEXEC) as u64, mode: 0, resolve: NO_MAGIC_LINKS };
    // SAFETY: a live string, and a live struct with its size.
    unsafe { raw::call(libc::SYS_openat2, [HERE, path, (&raw const how) as u64, size_of::<How>() as u64, 0, 0]) }
}

/// 1: the descriptor is the root directory of the calling process, as it is mounted there; 0: it is not. Or `-errno`.
fn is_the_root(fd: u64) -> i64 {
    let which = |fd: u64, path: u64| {
        let mut found = MaybeUninit::<libc::statx>::zeroed();
        let (flags, wanted) = (EMPTY_PATH | libc::AT_STATX_DONT_SYNC as u64, u64::from(libc::STATX_INO) | MOUNT_ID);
        // SAFETY: a live string, and room for the answer, which any bytes are.
        unsafe {
            let ret = raw::call(libc::SYS_statx, [fd, path, flags, wanted, found.as_mut_ptr() as u64, 0]);
            let found = found.assume_init();
            if ret < 0 {
                Err(ret)
            } else {
                Ok((found.stx_ino, found.stx_mnt_id))
            }
        }
    };
    let (one, root) = (which(fd, c"".as_ptr() as u64), which(HERE, c"/".as_ptr() as u64));
    match (one, root) {
        (Ok(one), Ok(root)) => i64::from(one == root),
        (Err(errno), _) | (_, Err(errno)) => errno,
    }
}

/// What is mounted at the descriptor, and all below: a tree of mounts that is nowhere yet.
// SAFETY: (of a call) takes a number.
unsafe fn copy(fd: u64) -> i64 {
    let flags = 1 | libc::O_CLOEXEC as u64 | EMPTY_PATH | RECURSIVE; // OPEN_TREE_CLONE
                                                                     // SAFETY: a live string and numbers.
    unsafe { raw::call(libc::SYS_open_tree, [fd, c"".as_ptr() as u64, flags, 0, 0, 0]) }
}

// SAFETY: (of a call) the path is a live string.
unsafe fn read_only(fd: u64, path: u64, flags: u64) -> i64 {
    let change = Attributes { set: ONLY_READ, clear: 0, propagation: 0, user_namespace: 0 };
    let size = size_of::<Attributes>() as u64;
    // SAFETY: a live string, and a live struct with its size.
    unsafe { raw::call(libc::SYS_mount_setattr, [fd, path, flags | RECURSIVE, (&raw const change) as u64, size, 0]) }
}

/// A file system in memory whose root is the user's.
// SAFETY: (of a call) all addresses in `s` are live.
unsafe fn empty(s: &Setup) -> i64 {
    // SAFETY: live strings and numbers.
    unsafe {
        let made = raw::call(libc::SYS_fsopen, [c"tmpfs".as_ptr() as u64, 1, 0, 0, 0, 0]);
        if made < 0 {
            return made;
        }
        let made = made as u64;
        let options = [
            (c"mode".as_ptr() as u64, c"0700".as_ptr() as u64),
            (c"uid".as_ptr() as u64, s.places.uid),
            (c"gid".as_ptr() as u64, s.places.gid),
        ];
        for (name, value) in options {
            let set = raw::call(libc::SYS_fsconfig, [made, SET_STRING, name, value, 0, 0]);
            if set < 0 {
                return set;
            }
        }
        let created = raw::call(libc::SYS_fsconfig, [made, CREATE, 0, 0, 0, 0]);
        match created < 0 {
            true => created,
            false => raw::call(libc::SYS_fsmount, [made, 1, NO_DEVICES, 0, 0, 0]),
        }
    }
}
