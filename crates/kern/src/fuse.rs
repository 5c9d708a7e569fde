//! The FUSE device as the hold protocol needs it: one file in one directory, requests as values, answers by unique. Beside it a stand-in dumps core
//! ([`core_file`]).
//!
//! Structures from linux/fuse.h (protocol 7.31 and later). Request PIDs are numbers of the PID namespace in which
//! [`Device::mount`] was called (fuse_conn_init).

use crate::sys;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use vocab::{Fault, Pid, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub mod ahead;
mod core_file;
pub mod files;
mod notices;
pub mod raw;
pub mod tree;

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const OPEN: u32 = 14;
const WRITE: u32 = 16;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const CREATE: u32 = 35;
const INTERRUPT: u32 = 36;
const DESTROY: u32 = 38;
const IOCTL: u32 = 39;
const BATCH_FORGET: u32 = 42;
/// FUSE_NOTIFY_RESEND (linux/fuse.h, since 6.9).
const NOTIFY_RESEND: i32 = 7;
const FOPEN_DIRECT_IO: u32 = 1;
const FOPEN_NONSEEKABLE: u32 = 4;
/// Seconds for which the kernel may keep names and attributes: nothing here ever changes.
const KEEP: u64 = 1_000_000;
const FILE_NODE: u64 = 2;
/// A request is at most a header, an ioctl header and a [`crate::standin::Hold`]; the kernel wants room for 8 KiB (FUSE_MIN_READ_BUFFER).
const BUFFER: usize = 16 * 1024;

#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
struct InHeader {
    len: u32,
    opcode: u32,
    unique: u64,
    nodeid: u64,
    uid: u32,
    gid: u32,
    pid: u32,
    extlen: u16,
    pad: u16,
}

#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
struct OutHeader {
    len: u32,
    error: i32,
    unique: u64,
}

#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Default)]
struct InitOut {
    major: u32,
    minor: u32,
    max_readahead: u32,
    flags: u32,
    max_background: u16,
    congestion_threshold: u16,
    max_write: u32,
    time_gran: u32,
    rest: [u32; 9],
}

#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Default)]
struct Attr {
    ino: u64,
    size: u64,
    blocks: u64,
    times: [u64; 3],
    nsec: [u32; 3],
    mode: u32,
    nlink: u32,
    uid: u32,
    gid: u32,
    rdev: u32,
    blksize: u32,
    flags: u32,
}

#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Default)]
struct EntryOut {
    nodeid: u64,
    generation: u64,
    entry_valid: u64,
    attr_valid: u64,
    nsec: [u32; 2],
    attr: Attr,
}

#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Default)]
struct AttrOut {
    valid: u64,
    nsec: u32,
    pad: u32,
    attr: Attr,
}

#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Default)]
struct OpenOut {
    fh: u64,
    flags: u32,
    pad: u32,
}

#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
struct IoctlIn {
    fh: u64,
    flags: u32,
    cmd: u32,
    arg: u64,
    in_size: u32,
    out_size: u32,
}

#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Default)]
struct IoctlOut {
    result: i32,
    flags: u32,
    in_iovs: u32,
    out_iovs: u32,
}

/// One request that the daemon must look at; the rest is answered by [`Device::next`].
#[derive(Clone, Copy)]
pub enum Request {
    /// The hold file is being opened; answer with [`Device::opened`] or [`Device::fail`].
    Open { unique: u64, pid: Pid, uid: u32 },
    /// A stand-in holds; `hold` is what it hands over.
    Hold { unique: u64, pid: Pid, fh: u64, hold: crate::standin::Hold },
    /// The hold `unique` was interrupted by a signal.
    Interrupt { unique: u64 },
    /// `pid` closes the hold file: a stand-in that dies waits here for [`Device::done`].
    Flush { unique: u64, pid: Pid, fh: u64 },
    /// Nobody has what was opened as `fh` open any more. Answered already.
    Release { fh: u64 },
    /// A file is being made; answer with [`Device::created`], if `pid` is one that dumps core, or [`Device::fail`].
    Create { unique: u64, pid: Pid, uid: u32 },
    /// Answered already.
    Nothing,
}

/// The daemon's end of a FUSE mount.
pub struct Device {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

impl Device {
    /// Mounts a fresh tree at the directory `at`; its one file is `hold`.
    ///
    /// # Errors
    /// `Sys` from open(2) of /dev/fuse or mount(2).
    pub fn mount(at: &Path) -> Result<Device> {
        let fd = mount_at(at, "shoal", libc::O_NONBLOCK, "allow_other");
        fd.map(Device::adopt).map_err(|fault| fault.doing("mount the hold file"))
    }

    /// Takes over the descriptor of a mount that another process made.
    pub fn adopt(fd: OwnedFd) -> Device {
        Device { fd, buffer: vec![0; BUFFER] }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Asks the kernel to send all outstanding requests again (their uniques come with bit 63).
    ///
    /// # Errors
    /// `Sys`; ENOENT or EINVAL from a kernel before 6.9.
    pub fn resend(&self) -> Result<()> {
        let header = OutHeader { len: size_of::<OutHeader>() as u32, error: NOTIFY_RESEND, unique: 0 };
        sys::write(self.fd(), header.as_bytes())
            .map(drop)
            .map_err(|errno| Fault::sys(errno, "ask for outstanding holds"))
    }

    /// The next request, `None` when there is none at present.
    ///
    /// # Errors
    /// `Gone` when the mount has gone.
    pub fn next_request(&mut self) -> Result<Option<Request>> {
        let length = loop {
            // SAFETY: the buffer is live and writable for its whole length.
            let ret = unsafe { libc::read(self.fd.as_raw_fd(), self.buffer.as_mut_ptr().cast(), self.buffer.len()) };
            match sys::check(ret as i64) {
                Ok(n) => break n as usize,
                Err(libc::EAGAIN) => return Ok(None),
                // A request that was taken back between poll and read (fuse_dev_do_read).
                Err(libc::EINTR | libc::ENOENT) => continue,
                Err(errno) => {
                    return Err(Fault { errno, ..Fault::gone("read from the hold file's device") });
                }
            }
        };
        let bytes = &self.buffer[..length];
        let Ok((header, body)) = InHeader::read_from_prefix(bytes) else {
            return Err(Fault::bug("a FUSE request shorter than its header"));
        };
        Ok(Some(request(self.fd.as_fd(), &header, body)))
    }

    /// Answers `unique` with a command.
    pub fn command(&self, unique: u64, hold: &crate::standin::Hold) {
        #[repr(C)]
        #[derive(IntoBytes, Immutable)]
        struct Answer {
            ioctl: IoctlOut,
            hold: crate::standin::Hold,
        }
        let answer = Answer { ioctl: IoctlOut::default(), hold: *hold };
        reply(self.fd(), unique, 0, answer.as_bytes());
    }

    /// Answers `unique` with success and no data: lets a FLUSH go.
    pub fn done(&self, unique: u64) {
        reply(self.fd(), unique, 0, &[]);
    }

    /// Answers `unique` with a failure.
    pub fn fail(&self, unique: u64, errno: i32) {
        reply(self.fd(), unique, -errno, &[]);
    }

    /// Lets an open go on; `fh` comes back with each request on that file.
    pub fn opened(&self, unique: u64, fh: u64) {
        let out = OpenOut { fh, flags: FOPEN_DIRECT_IO | FOPEN_NONSEEKABLE, pad: 0 };
        reply(self.fd(), unique, 0, out.as_bytes());
    }

    /// Lets a stand-in of user `uid` dump core, into a file that takes everything and keeps nothing.
    pub fn created(&self, unique: u64, uid: u32) {
        reply(self.fd(), unique, 0, core_file::created(uid).as_bytes());
    }
}

/// Nothing there is executed.
fn mount_at(at: &Path, source: &str, flags: i32, options: &str) -> Result<OwnedFd> {
    mount_with(at, source, (flags, libc::MS_NOEXEC), options)
}

fn mount_with(at: &Path, source: &str, (flags, more): (i32, u64), options: &str) -> Result<OwnedFd> {
    let fd = open_device(flags)?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,{options}", fd.as_raw_fd());
    let (kind, target) = (sys::cstring("fuse")?, sys::cstring(at.as_os_str().as_encoded_bytes())?);
    let (source, options) = (sys::cstring(source)?, sys::cstring(options)?);
    let flags = libc::MS_NOSUID | libc::MS_NODEV | more;
    // SAFETY: live strings.
    let ret = unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) };
    sys::checked(ret.into(), || format!("mount at {}", at.display()))?;
    Ok(fd)
}

fn open_device(flags: i32) -> Result<OwnedFd> {
    // SAFETY: open(2) with a live path.
    let fd = unsafe { libc::open(c"/dev/fuse".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | flags) };
    sys::own(fd.into(), || "open /dev/fuse".into())
}

/// A failed answer is not an error of ours: the process it was for was killed and the kernel forgot the request (ENOENT).
fn reply(fd: BorrowedFd<'_>, unique: u64, error: i32, data: &[u8]) {
    let header = OutHeader { len: (size_of::<OutHeader>() + data.len()) as u32, error, unique };
    let parts = [
        libc::iovec { iov_base: header.as_bytes().as_ptr().cast_mut().cast(), iov_len: size_of::<OutHeader>() },
        libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() },
    ];
    // SAFETY: both parts are live slices, only read.
    unsafe { libc::writev(fd.as_raw_fd(), parts.as_ptr(), if data.is_empty() { 1 } else { 2 }) };
}

fn attr(node: u64) -> Attr {
    let mode = if node == FILE_NODE { libc::S_IFREG | 0o666 } else { libc::S_IFDIR | 0o711 };
    Attr { ino: node, mode, nlink: 1, blksize: 4096, ..Attr::default() }
}

fn request(fd: BorrowedFd<'_>, header: &InHeader, body: &[u8]) -> Request {
    let (unique, pid) = (header.unique, Pid(header.pid as i32));
    if let Some(uid) = core_file::owner(header.nodeid) {
        core_file::serve(fd, header, uid, body);
        return Request::Nothing;
    }
    match header.opcode {
        INIT => init(fd, unique, body),
        LOOKUP if body == b"hold\0" => {
            let out = EntryOut {
                nodeid: FILE_NODE,
                entry_valid: KEEP,
                attr_valid: KEEP,
                attr: attr(FILE_NODE),
                ..EntryOut::default()
            };
            reply(fd, unique, 0, out.as_bytes());
        }
        LOOKUP => reply(fd, unique, -libc::ENOENT, &[]),
        GETATTR => {
            let out = AttrOut { valid: KEEP, attr: attr(header.nodeid), ..AttrOut::default() };
            reply(fd, unique, 0, out.as_bytes());
        }
        CREATE => return Request::Create { unique, pid, uid: header.uid },
        OPEN => return Request::Open { unique, pid, uid: header.uid },
        IOCTL => return ioctl(fd, unique, pid, body),
        INTERRUPT => {
            if let Ok((of, _)) = u64::read_from_prefix(body) {
                return Request::Interrupt { unique: of };
            }
        }
        FLUSH => {
            let fh = u64::read_from_prefix(body).map_or(0, |(fh, _)| fh);
            return Request::Flush { unique, pid, fh };
        }
        // Nobody has anything to look for here: as a directory that may be searched and not read.
        OPENDIR => reply(fd, unique, -libc::EACCES, &[]),
        RELEASE => {
            reply(fd, unique, 0, &[]);
            return Request::Release { fh: u64::read_from_prefix(body).map_or(0, |(fh, _)| fh) };
        }
        FORGET | BATCH_FORGET | DESTROY => {}
        _ => reply(fd, unique, -libc::ENOSYS, &[]),
    }
    Request::Nothing
}

fn init(fd: BorrowedFd<'_>, unique: u64, body: &[u8]) {
    let minor = body.get(4..8).and_then(|b| u32::read_from_bytes(b).ok()).unwrap_or(31);
    let out = InitOut {
        major: 7,
        minor: minor.min(31),
        max_write: 4096,
        max_background: 1000,
        time_gran: 1,
        ..InitOut::default()
    };
    reply(fd, unique, 0, out.as_bytes());
}

fn ioctl(fd: BorrowedFd<'_>, unique: u64, pid: Pid, body: &[u8]) -> Request {
    let Ok((head, rest)) = IoctlIn::read_from_prefix(body) else {
        reply(fd, unique, -libc::EINVAL, &[]);
        return Request::Nothing;
    };
    match crate::standin::Hold::read_from_prefix(rest) {
        Ok((hold, _)) if head.cmd == crate::standin::HOLD_IOCTL => Request::Hold { unique, pid, fh: head.fh, hold },
        _ => {
            reply(fd, unique, -libc::ENOTTY, &[]);
            Request::Nothing
        }
    }
}
