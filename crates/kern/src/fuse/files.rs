//! The FUSE device as a directory of small files needs it whose owners, modes and extended attributes are set, and that are polled.
//!
//! Nothing is kept by the kernel: each look is a request. The server alone decides who may do what (the mount is without `default_permissions`), by the identity that comes
//! with each request.
//!
//! Whoever has sent a request waits for the answer, also when it is killed, once the server has read the request (linux: `request_wait_answer`): until then the thread
//! [`Asked::pid`] is the one that has asked, and its credentials are what they were.

use super::{
    mount_with, reply, Attr, AttrOut, EntryOut, InHeader, InitOut, OpenOut, BATCH_FORGET, CREATE, DESTROY, FLUSH,
    FOPEN_DIRECT_IO, FORGET, GETATTR, INIT, INTERRUPT, LOOKUP, OPEN, OPENDIR, RELEASE, SETATTR, WRITE,
};
use crate::sys;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use vocab::{Fault, Pid, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const READLINK: u32 = 5;
const SYMLINK: u32 = 6;
const MKNOD: u32 = 8;
const MKDIR: u32 = 9;
const UNLINK: u32 = 10;
const RMDIR: u32 = 11;
const RENAME: u32 = 12;
const LINK: u32 = 13;
const READ: u32 = 15;
const STATFS: u32 = 17;
const SETXATTR: u32 = 21;
const GETXATTR: u32 = 22;
const LISTXATTR: u32 = 23;
const REMOVEXATTR: u32 = 24;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const ACCESS: u32 = 34;
const POLL: u32 = 40;
const RENAME2: u32 = 45;

/// Of fuse_setattr_in, `valid` (linux/fuse.h).
const FATTR_MODE: u32 = 1;
const FATTR_UID: u32 = 1 << 1;
const FATTR_GID: u32 = 1 << 2;
const FATTR_SIZE: u32 = 1 << 3;
const FATTR_TIMES: u32 = 1 << 4 | 1 << 5;
/// Of fuse_poll_in, `flags`: the kernel wants to be told when that changes.
const POLL_SCHEDULE_NOTIFY: u32 = 1;
/// FUSE_NOTIFY_POLL.
const NOTIFY_POLL: i32 = 1;
const WRITING: u32 = (libc::O_WRONLY | libc::O_RDWR | libc::O_TRUNC) as u32;
/// A request is at most a header, a name and a value of an attribute, which are shorter (XATTR_SIZE_MAX is more, and is refused by the read of the device).
const ROOM: usize = 80 * 1024;
/// The node of the directory that is mounted.
pub const ROOT: u64 = 1;

#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout)]
struct SetattrIn {
    valid: u32,
    padding: u32,
    fh: u64,
    size: u64,
    lock_owner: u64,
    times: [u64; 3],
    nsec: [u32; 3],
    mode: u32,
    unused: u32,
    uid: u32,
    gid: u32,
    unused_again: u32,
}

#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout)]
struct ReadIn {
    fh: u64,
    offset: u64,
    size: u32,
    rest: [u32; 5],
}

#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout)]
struct PollIn {
    fh: u64,
    kernel: u64,
    flags: u32,
    events: u32,
}

#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct DirentHead {
    ino: u64,
    offset: u64,
    length: u32,
    kind: u32,
}

/// The kinds of requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A name in the directory; answer with [`Files::found`] or [`Files::fail`].
    Lookup(Vec<u8>),
    /// [`Files::attributes`]
    Attributes,
    /// Owner, group and mode, those that are to be others; answer with [`Files::attributes`] or [`Files::fail`].
    Change { uid: Option<u32>, gid: Option<u32>, mode: Option<u32> },
    /// Where does the link lead? [`Files::data`]
    Link,
    /// [`Files::opened`]
    Open,
    /// The directory is opened: [`Files::opened`]
    OpenDirectory,
    /// [`Files::names`]
    Names { from: u64, room: usize },
    /// Of what was opened as `handle`; answer with [`Files::data`].
    Read { handle: u64, from: u64, most: usize },
    /// Nobody has what was opened as `handle` open any more. Answered already.
    Close { handle: u64 },
    /// The value of this attribute; answer with [`Files::value`].
    Value { name: Vec<u8>, room: usize },
    /// The names of all attributes; answer with [`Files::value`], each with a NUL behind it.
    Attributed { room: usize },
    /// An attribute is set, or removed (`None`); answer with [`Files::done`].
    Set { name: Vec<u8>, value: Option<Vec<u8>>, flags: u32 },
    /// access(2), with bits R_OK, W_OK, X_OK; answer with [`Files::done`] or [`Files::fail`].
    Access { mask: u32 },
    /// poll(2) of the file that was opened as `handle`; answer with [`Files::polled`]. `tell`: the argument for [`Files::changed`] when the file changes.
    Poll { handle: u64, tell: Option<u64> },
    /// Answered already.
    Nothing,
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    pub unique: u64,
    /// Of what.
    pub node: u64,
    /// Whose file accesses these are (fsuid, fsgid).
    pub uid: u32,
    pub gid: u32,
    /// The thread that asks, by its number where the mount was made; 0 for one that has none there.
    pub pid: Pid,
    pub what: What,
}

/// A file, link or directory as it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shown {
    pub node: u64,
    /// As st_mode.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    /// Seconds since 1970.
    pub atime: u64,
    pub mtime: u64,
}

/// A mounted directory.
#[derive(Debug)]
pub struct Files {
    fd: OwnedFd,
}

impl Files {
    /// Mounts it at the directory `at`; `source` is how mounts of it are told from others (mountinfo).
    ///
    /// # Errors
    /// `Sys` from open(2) of /dev/fuse or mount(2).
    pub fn mount(at: &Path, source: &str) -> Result<Files> {
        // Or access(2) would say of nothing that it may be executed (linux: `do_faccessat`).
        Ok(Files { fd: mount_with(at, source, (libc::O_NONBLOCK, 0), "allow_other")? })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Room for [`Files::next_request`].
    pub fn room() -> Vec<u8> {
        vec![0; ROOM]
    }

    /// The next request; `None` when there is none at present.
    ///
    /// # Errors
    /// `Gone` when it is not mounted any more.
    pub fn next_request(&self, room: &mut [u8]) -> Result<Option<Asked>> {
        let length = loop {
            match sys::read(self.fd(), room) {
                Ok(length) => break length,
                Err(libc::EAGAIN) => return Ok(None),
                Err(libc::EINTR | libc::ENOENT) => {}
                Err(errno) => return Err(Fault { errno, ..Fault::gone("read from the device of the node files") }),
            }
        };
        let Ok((header, body)) = InHeader::read_from_prefix(&room[..length]) else {
            return Err(Fault::bug("a FUSE request shorter than its header"));
        };
        let InHeader { unique, nodeid: node, uid, gid, pid, .. } = header;
        Ok(Some(Asked { unique, node, uid, gid, pid: Pid(pid as i32), what: self.what(&header, body) }))
    }

    fn what(&self, header: &InHeader, body: &[u8]) -> What {
        let unique = header.unique;
        let number = |body: &[u8]| u64::read_from_prefix(body).map_or(0, |(number, _)| number);
        let word = |body: &[u8]| u32::read_from_prefix(body).map_or(0, |(word, _)| word);
        match header.opcode {
            INIT => self.begin(unique, body),
            LOOKUP => return What::Lookup(text(body).0.to_vec()),
            GETATTR => return What::Attributes,
            SETATTR => return self.setattr(unique, body),
            READLINK => return What::Link,
            OPEN if word(body) & WRITING != 0 => self.fail(unique, libc::EACCES),
            OPEN => return What::Open,
            OPENDIR => return What::OpenDirectory,
            READ | READDIR => {
                if let Ok((read, _)) = ReadIn::read_from_prefix(body) {
                    let (handle, from, most) = (read.fh, read.offset, read.size as usize);
                    return match header.opcode {
                        READ => What::Read { handle, from, most },
                        _ => What::Names { from, room: most },
                    };
                }
                self.fail(unique, libc::EINVAL);
            }
            RELEASE | RELEASEDIR => {
                self.done(unique);
                return What::Close { handle: number(body) };
            }
            FLUSH => self.done(unique),
            // Behind fuse_getxattr_in, of 8 bytes, and fuse_setxattr_in of protocol 7.31, of 8 too.
            GETXATTR => {
                return What::Value {
                    name: text(body.get(8..).unwrap_or_default()).0.to_vec(),
                    room: word(body) as usize,
                }
            }
            LISTXATTR => return What::Attributed { room: word(body) as usize },
            SETXATTR => {
                let (name, rest) = text(body.get(8..).unwrap_or_default());
                let value = rest.get(..word(body) as usize).unwrap_or(rest).to_vec();
                let flags = word(body.get(4..).unwrap_or_default());
                return What::Set { name: name.to_vec(), value: Some(value), flags };
            }
            REMOVEXATTR => return What::Set { name: text(body).0.to_vec(), value: None, flags: 0 },
            ACCESS => return What::Access { mask: word(body) },
            POLL => {
                if let Ok((poll, _)) = PollIn::read_from_prefix(body) {
                    let tell = (poll.flags & POLL_SCHEDULE_NOTIFY != 0).then_some(poll.kernel);
                    return What::Poll { handle: poll.fh, tell };
                }
                self.fail(unique, libc::EINVAL);
            }
            STATFS => reply(self.fd(), unique, 0, &[0; 80]),
            FORGET | BATCH_FORGET | INTERRUPT | DESTROY => {}
            SYMLINK | MKNOD | MKDIR | UNLINK | RMDIR | RENAME | RENAME2 | LINK | CREATE | WRITE => {
                self.fail(unique, libc::EPERM)
            }
            _ => self.fail(unique, libc::ENOSYS),
        }
        What::Nothing
    }

    fn begin(&self, unique: u64, body: &[u8]) {
        let minor = body.get(4..8).and_then(|b| u32::read_from_bytes(b).ok()).unwrap_or(31);
        let out = InitOut {
            major: 7,
            minor: minor.min(31),
            max_write: 64 * 1024,
            max_background: 64,
            congestion_threshold: 48,
            time_gran: 1,
            ..InitOut::default()
        };
        reply(self.fd(), unique, 0, out.as_bytes());
    }

    fn setattr(&self, unique: u64, body: &[u8]) -> What {
        let Ok((wanted, _)) = SetattrIn::read_from_prefix(body) else {
            self.fail(unique, libc::EINVAL);
            return What::Nothing;
        };
        if wanted.valid & (FATTR_SIZE | FATTR_TIMES) != 0 {
            self.fail(unique, libc::EPERM);
            return What::Nothing;
        }
        let if_set = |bit: u32, value: u32| (wanted.valid & bit != 0).then_some(value);
        What::Change {
            uid: if_set(FATTR_UID, wanted.uid),
            gid: if_set(FATTR_GID, wanted.gid),
            mode: if_set(FATTR_MODE, wanted.mode),
        }
    }

    pub fn found(&self, unique: u64, shown: &Shown) {
        let out = EntryOut { nodeid: shown.node, attr: attr(shown), ..EntryOut::default() };
        reply(self.fd(), unique, 0, out.as_bytes());
    }

    pub fn attributes(&self, unique: u64, shown: &Shown) {
        let out = AttrOut { attr: attr(shown), ..AttrOut::default() };
        reply(self.fd(), unique, 0, out.as_bytes());
    }

    pub fn data(&self, unique: u64, data: &[u8]) {
        reply(self.fd(), unique, 0, data);
    }

    /// `handle` comes back with what is asked of it.
    pub fn opened(&self, unique: u64, handle: u64) {
        let out = OpenOut { fh: handle, flags: FOPEN_DIRECT_IO, pad: 0 };
        reply(self.fd(), unique, 0, out.as_bytes());
    }

    /// The names from number `from` on, as many as there is `room` for, each with its st_mode.
    pub fn names(&self, unique: u64, names: &[(Vec<u8>, u32)], from: u64, room: usize) {
        let mut out = Vec::new();
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        for (number, (name, mode)) in names.iter().enumerate().skip(from) {
            let end = out.len() + (size_of::<DirentHead>() + name.len()).next_multiple_of(8);
            if end > room {
                break;
            }
            // Of no use but to be there.
            let ino = u64::from(u32::MAX) + number as u64;
            let kind = (mode & libc::S_IFMT) >> 12;
            let head = DirentHead { ino, offset: number as u64 + 1, length: name.len() as u32, kind };
            out.extend(head.as_bytes());
            out.extend(name);
            out.resize(end, 0);
        }
        reply(self.fd(), unique, 0, &out);
    }

    /// An attribute's value, or the names of all, into `room` bytes; 0: only the size is asked (getxattr(2)).
    pub fn value(&self, unique: u64, value: Option<&[u8]>, room: usize) {
        match value {
            None => self.fail(unique, libc::ENODATA),
            Some(value) if room == 0 => reply(self.fd(), unique, 0, [value.len() as u32, 0].as_bytes()),
            Some(value) if value.len() > room => self.fail(unique, libc::ERANGE),
            Some(value) => reply(self.fd(), unique, 0, value),
        }
    }

    /// Success: the change is made, or the access allowed.
    pub fn done(&self, unique: u64) {
        reply(self.fd(), unique, 0, &[]);
    }

    /// Is something to be read?
    pub fn polled(&self, unique: u64, readable: bool) {
        let events = if readable { (libc::POLLIN | libc::POLLRDNORM) as u32 } else { 0 };
        reply(self.fd(), unique, 0, [events, 0].as_bytes());
    }

    /// Wake the poller whose handle is `tell`.
    pub fn changed(&self, tell: u64) {
        reply(self.fd(), 0, NOTIFY_POLL, tell.as_bytes());
    }

    /// Answers with an errno.
    pub fn fail(&self, unique: u64, errno: i32) {
        reply(self.fd(), unique, -errno, &[]);
    }
}

/// A text up to its NUL, and what is behind that.
fn text(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

fn attr(shown: &Shown) -> Attr {
    let nlink = if shown.mode & libc::S_IFMT == libc::S_IFDIR { 2 } else { 1 };
    Attr {
        ino: shown.node,
        size: shown.size,
        times: [shown.atime, shown.mtime, shown.mtime],
        mode: shown.mode,
        nlink,
        uid: shown.uid,
        gid: shown.gid,
        blksize: 4096,
        ..Attr::default()
    }
}
