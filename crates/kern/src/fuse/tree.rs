//! The FUSE device as a tree of small files needs it: names are looked up, whole files have a known size, and are read without being opened.
//!
//! OPEN is answered ENOSYS: from then on the kernel opens files by itself (linux: `fuse_file_open`), and reads what it has of a file whose attributes
//! are still valid without a request. When they are not, it asks for them, and a file with another time is read anew (FUSE_AUTO_INVAL_DATA).
//! Who may do what is decided by the kernel, by mode and owner (`default_permissions`).

use super::notices::Notices;
use super::{
    mount_at, reply, Attr, AttrOut, EntryOut, InHeader, InitOut, OpenOut, BATCH_FORGET, DESTROY, FORGET, GETATTR, INIT,
    INTERRUPT, LOOKUP, OPENDIR, SETATTR, WRITE,
};
use crate::sys;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use vocab::{Fault, Pid, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Of fuse_setattr_in: the mode is to be another one (linux/fuse.h).
const FATTR_MODE: u32 = 1;
const READLINK: u32 = 5;
const READ: u32 = 15;
const STATFS: u32 = 17;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const READDIRPLUS: u32 = 44;
/// Nodes that the kernel knows may be opened by their numbers ([`super::ahead::open_node`]).
const EXPORT_SUPPORT: u32 = 1 << 4;
const AUTO_INVAL_DATA: u32 = 1 << 12;
const DO_READDIRPLUS: u32 = 1 << 13;
const READDIRPLUS_AUTO: u32 = 1 << 14;
const PARALLEL_DIROPS: u32 = 1 << 18;
const MAX_PAGES: u32 = 1 << 22;
const MOST: u32 = 128 * 1024;
/// What a read of the device must have room for.
const ROOM: usize = MOST as usize + 4096;
/// The node of the directory that is mounted.
pub const ROOT: u64 = 1;

#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout)]
struct ReadIn {
    fh: u64,
    offset: u64,
    size: u32,
    rest: [u32; 5],
}

#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct DirentHead {
    ino: u64,
    offset: u64,
    length: u32,
    kind: u32,
}

/// What is asked of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A name in directory `node`; answer with [`Tree::found`], [`Tree::nothing`] or [`Tree::fail`].
    Lookup(Vec<u8>),
    /// The kernel has forgotten nodes, each looked up so many times. No answer.
    Forget(Vec<(u64, u64)>),
    /// Answer with [`Tree::attributes`] or [`Tree::fail`].
    Attributes,
    /// Where does the link lead? [`Tree::data`]
    Link,
    /// [`Tree::opened`]
    OpenDirectory,
    /// What is in the directory that was opened, from this name on; answer with [`Tree::names`]. `whole`: what is known of what they name is welcome.
    Names { handle: u64, from: u64, room: usize, whole: bool },
    /// Answered already.
    CloseDirectory { handle: u64 },
    /// [`Tree::data`]
    Read { from: u64, most: usize },
    /// [`Tree::written`]
    Write { data: Vec<u8> },
    /// Answered already.
    Nothing,
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    pub unique: u64,
    /// Of what.
    pub node: u64,
    /// Whose file accesses these are (fsuid).
    pub uid: u32,
    /// The thread that asks; 0 for one of another PID namespace.
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
    /// Nanoseconds since 1970; another one says that the content is another.
    pub time_ns: u64,
    /// How long, in microseconds, the name leads here, and the rest is so.
    pub name_us: u64,
    pub kept_us: u64,
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    pub name: Vec<u8>,
    /// As st_mode.
    pub mode: u32,
}

/// A mounted tree, for as many threads as like to serve it.
#[derive(Debug)]
pub struct Tree {
    fd: OwnedFd,
    notices: Notices,
}

impl Tree {
    /// Mounts a tree at the directory `at`; `source` is how mounts of it are told from others (mountinfo).
    ///
    /// # Errors
    /// `Sys` from open(2) of /dev/fuse or mount(2), and as [`Notices::start`].
    pub fn mount(at: &Path, source: &str) -> Result<Tree> {
        let fd = mount_at(at, source, 0, "allow_other,default_permissions")?;
        let notices = Notices::start(&fd)?;
        Ok(Tree { fd, notices })
    }

    /// Room for [`Tree::next_request`].
    pub fn room() -> Vec<u8> {
        vec![0; ROOM]
    }

    /// Waits for a request.
    ///
    /// # Errors
    /// `Gone` when the tree is not mounted any more.
    pub fn next_request(&self, room: &mut [u8]) -> Result<Asked> {
        let length = loop {
            match sys::read(self.fd.as_fd(), room) {
                Ok(length) => break length,
                Err(libc::EAGAIN | libc::EINTR | libc::ENOENT) => {}
                Err(errno) => return Err(Fault { errno, ..Fault::gone("read from the device of a tree") }),
            }
        };
        let Ok((header, body)) = InHeader::read_from_prefix(&room[..length]) else {
            return Err(Fault::bug("a FUSE request shorter than its header"));
        };
        let InHeader { unique, nodeid: node, uid, pid, .. } = header;
        Ok(Asked { unique, node, uid, pid: Pid(pid as i32), what: self.what(&header, body) })
    }

    fn what(&self, header: &InHeader, body: &[u8]) -> What {
        let number = |body: &[u8]| u64::read_from_prefix(body).map_or(0, |(number, _)| number);
        match header.opcode {
            INIT => self.begin(header.unique, body),
            LOOKUP => return What::Lookup(body.strip_suffix(&[0]).unwrap_or(body).to_vec()),
            FORGET => return What::Forget(vec![(header.nodeid, number(body))]),
            BATCH_FORGET => {
                let pairs = body.get(8..).unwrap_or_default().chunks_exact(16);
                return What::Forget(pairs.map(|pair| (number(pair), number(&pair[8..]))).collect());
            }
            GETATTR => return What::Attributes,
            SETATTR => match u32::read_from_prefix(body) {
                // As procfs does (linux: `proc_setattr`).
                Ok((wanted, _)) if wanted & FATTR_MODE != 0 => self.fail(header.unique, libc::EPERM),
                // Of a file that is opened to be written anew.
                _ => return What::Attributes,
            },
            READLINK => return What::Link,
            OPENDIR => return What::OpenDirectory,
            READ | READDIR | READDIRPLUS => {
                if let Ok((read, _)) = ReadIn::read_from_prefix(body) {
                    let (handle, from, most) = (read.fh, read.offset, read.size as usize);
                    return match header.opcode {
                        READ => What::Read { from, most },
                        opcode => What::Names { handle, from, room: most, whole: opcode == READDIRPLUS },
                    };
                }
                self.fail(header.unique, libc::EINVAL);
            }
            // Behind a fuse_write_in of 40 bytes.
            WRITE => return What::Write { data: body.get(40..).unwrap_or_default().to_vec() },
            RELEASEDIR => {
                reply(self.fd.as_fd(), header.unique, 0, &[]);
                return What::CloseDirectory { handle: number(body) };
            }
            STATFS => reply(self.fd.as_fd(), header.unique, 0, &[0; 80]),
            INTERRUPT | DESTROY => {}
            // OPEN among them.
            _ => self.fail(header.unique, libc::ENOSYS),
        }
        What::Nothing
    }

    fn begin(&self, unique: u64, body: &[u8]) {
        let minor = body.get(4..8).and_then(|b| u32::read_from_bytes(b).ok()).unwrap_or(31);
        let mut out = InitOut {
            major: 7,
            minor: minor.min(31),
            max_readahead: MOST,
            flags: EXPORT_SUPPORT | AUTO_INVAL_DATA | DO_READDIRPLUS | READDIRPLUS_AUTO | PARALLEL_DIROPS | MAX_PAGES,
            max_background: 64,
            congestion_threshold: 48,
            max_write: MOST,
            time_gran: 1,
            ..InitOut::default()
        };
        out.rest[0] = MOST / 4096;
        reply(self.fd.as_fd(), unique, 0, out.as_bytes());
    }

    pub fn found(&self, unique: u64, shown: &Shown) {
        reply(self.fd.as_fd(), unique, 0, entry(shown).as_bytes());
    }

    /// There is no such name, and will be none for this long.
    pub fn nothing(&self, unique: u64, name_us: u64) {
        let (entry_valid, ns) = time(name_us);
        let out = EntryOut { entry_valid, nsec: [ns, 0], ..EntryOut::default() };
        reply(self.fd.as_fd(), unique, 0, out.as_bytes());
    }

    pub fn attributes(&self, unique: u64, shown: &Shown) {
        let (valid, nsec) = time(shown.kept_us);
        let out = AttrOut { valid, nsec, pad: 0, attr: attr(shown) };
        reply(self.fd.as_fd(), unique, 0, out.as_bytes());
    }

    pub fn data(&self, unique: u64, data: &[u8]) {
        reply(self.fd.as_fd(), unique, 0, data);
    }

    /// So many bytes were written.
    pub fn written(&self, unique: u64, bytes: u32) {
        reply(self.fd.as_fd(), unique, 0, [bytes, 0].as_bytes());
    }

    /// A directory is open; `handle` comes back with what is asked of it.
    pub fn opened(&self, unique: u64, handle: u64) {
        let out = OpenOut { fh: handle, ..OpenOut::default() };
        reply(self.fd.as_fd(), unique, 0, out.as_bytes());
    }

    /// The names from number `from` on, as many as there is `room` for. `look_up`: what a name leads to, if it is known, where that is welcome
    /// (`whole`); it counts as looked up.
    pub fn names(
        &self,
        unique: u64,
        names: &[Named],
        (from, room, whole): (u64, usize, bool),
        mut look_up: impl FnMut(&Named) -> Option<Shown>,
    ) {
        let mut out = Vec::new();
        for (number, one) in names.iter().enumerate().skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            let before = if whole { size_of::<EntryOut>() } else { 0 };
            let padded = (before + size_of::<DirentHead>() + one.name.len()).next_multiple_of(8);
            if out.len() + padded > room {
                break;
            }
            let end = out.len() + padded;
            if whole {
                // Node 0: nothing is said of it (linux: `fuse_direntplus_link`).
                out.extend(look_up(one).as_ref().map_or_else(EntryOut::default, entry).as_bytes());
            }
            let kind = (one.mode & libc::S_IFMT) >> 12;
            // Of no use but to be there.
            let ino = u64::from(u32::MAX) + number as u64;
            let head = DirentHead { ino, offset: number as u64 + 1, length: one.name.len() as u32, kind };
            out.extend(head.as_bytes());
            out.extend(&one.name);
            out.resize(end, 0);
        }
        reply(self.fd.as_fd(), unique, 0, &out);
    }

    /// The name leads nowhere any more: the kernel forgets it, and what is below it, as soon as nobody uses it. Without this it keeps both until it needs the
    /// memory. Not for a thread that is to answer what is looked up in `directory`.
    pub fn remove(&self, directory: u64, name: &[u8]) {
        const INVAL_ENTRY: i32 = 3; // FUSE_NOTIFY_INVAL_ENTRY
        let head = [directory.to_ne_bytes(), u64::from(name.len() as u32).to_ne_bytes()].concat();
        self.notices.tell(INVAL_ENTRY, [&head, name, &[0]].concat());
    }

    /// What the kernel knows of a file counts no longer: it asks for its attributes, and reads it, when it needs them. Not for a thread that is to answer
    /// what is read of it.
    pub fn outdate(&self, node: u64) {
        const INVAL_INODE: i32 = 2; // FUSE_NOTIFY_INVAL_INODE: of a node, from byte 0 to the end
        self.notices.tell(INVAL_INODE, [node, 0, 0].as_bytes().to_vec());
    }

    /// What a file has in it, all of it, so that it need not be read; the kernel knows of it, and that it is that long. Whoever reads it may have to be answered before
    /// this returns: the calling thread tells it, since to wake another one costs more than to tell it.
    pub fn store(&self, node: u64, text: &[u8]) {
        const STORE: i32 = 4; // FUSE_NOTIFY_STORE: node, offset, size
        let head = [node, 0, u64::from(text.len() as u32)];
        reply(self.fd.as_fd(), 0, STORE, &[head.as_bytes(), text].concat());
    }

    /// Answers with an errno.
    pub fn fail(&self, unique: u64, errno: i32) {
        reply(self.fd.as_fd(), unique, -errno, &[]);
    }
}

fn entry(shown: &Shown) -> EntryOut {
    let (entry_valid, entry_ns) = time(shown.name_us);
    let (attr_valid, attr_ns) = time(shown.kept_us);
    let nsec = [entry_ns, attr_ns];
    EntryOut { nodeid: shown.node, generation: 0, entry_valid, attr_valid, nsec, attr: attr(shown) }
}

/// Seconds and nanoseconds.
fn time(us: u64) -> (u64, u32) {
    (us / 1_000_000, (us % 1_000_000 * 1000) as u32)
}

fn attr(shown: &Shown) -> Attr {
    let (seconds, ns) = (shown.time_ns / 1_000_000_000, (shown.time_ns % 1_000_000_000) as u32);
    let nlink = if shown.mode & libc::S_IFMT == libc::S_IFDIR { 2 } else { 1 };
    Attr {
        ino: shown.node,
        size: shown.size,
        times: [seconds; 3],
        nsec: [ns; 3],
        mode: shown.mode,
        nlink,
        uid: shown.uid,
        gid: shown.gid,
        blksize: 4096,
        ..Attr::default()
    }
}
