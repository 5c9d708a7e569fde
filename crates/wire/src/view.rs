//! The file view: requests of a node's kernel for files (linux/fuse.h) on their way to the front end, and what comes back.
//!
//! A connection of its own carries them, which begins with `V` ([`link::preamble`]). The bodies are the kernel's own bytes, of this machine's byte order: both ends are checked to be
//! of one architecture by [`VERSION`].

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use vocab::{Fault, NodeId};

/// Of these messages and of the FUSE requests in them.
pub const VERSION: u32 = 4;
/// Bytes of a session's name.
pub const SESSION: usize = 16;
/// The most bytes of one read or write.
pub const MOST: u32 = 1024 * 1024;

/// Sizes of contents that nodes keep on their disks. Smaller ones go with the answer to OPEN.
pub const KEPT: std::ops::RangeInclusive<u64> = 256 * 1024 + 1..=1 << 30;
/// In the place of an operation of FUSE, about a file that the node may keep: what its content is known by.
pub const SUMS: u32 = 0x1_0000;

/// In the place of a notice of FUSE, about a file (8 bytes, its number): the node writes what it keeps of it before it notes that.
pub const WRITE_BACK: i32 = 1000;

/// For words that are left out of a message.
fn is_not(word: &bool) -> bool {
    !word
}

fn is_no_port(port: &u16) -> bool {
    *port == 0
}

/// The same of a number.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The same of an intent.
fn is_nothing(intent: &u8) -> bool {
    *intent == 0
}

/// What a process is going to do with a file that is looked up for it, as far as its system call says.
pub mod intent {
    /// Open it for reading.
    pub const READ: u8 = 1;
    /// Open it as a directory.
    pub const LIST: u8 = 2;
    /// Execute it.
    pub const EXECUTE: u8 = 3;
    /// Look up all names of the directory, which it has listed.
    pub const EACH: u8 = 4;
}

/// From a node.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ToServer {
    /// The first message. A session outlives its connection: `resumes` asks for one that was begun before.
    #[n(0)]
    Hello {
        #[n(0)]
        version: u32,
        #[n(1)]
        session: ByteVec,
        #[n(2)]
        node: NodeId,
        #[n(3)]
        resumes: bool,
        /// Where other nodes ask for contents that this one has on its disk; 0: it keeps none.
        #[n(4)]
        #[cbor(default, skip_if = "is_no_port")]
        port: u16,
        /// The node takes [`ToNode::Granted`] and [`ToNode::Listing`], and writes behind.
        #[n(5)]
        #[cbor(default, skip_if = "is_not")]
        takes_grants: bool,
    },
    /// A request as the kernel wrote it. `number` is this session's, each one higher than the last; said again after a new connection, a request is done once.
    #[n(1)]
    Ask {
        #[n(0)]
        number: u64,
        /// Supplementary groups of who asks.
        #[n(1)]
        groups: Vec<u32>,
        #[n(2)]
        request: ByteVec,
        /// Numbers whose answers have come: nobody will ask for them again.
        #[n(3)]
        done: Vec<u64>,
        /// How many requests of its kernel's the node has answered by itself, since the session began.
        #[n(4)]
        #[cbor(default, skip_if = "is_zero")]
        own: u64,
        /// Nobody waits for the answer: it may come with another one.
        #[n(6)]
        #[cbor(default, skip_if = "is_not")]
        silent: bool,
        /// Of LOOKUP, if that is known: what the process will ask for behind this name, as a path.
        #[n(5)]
        path: Option<ByteVec>,
        /// Of LOOKUP: what the process is going to do with the file at the end of that path ([`intent`]).
        #[n(7)]
        #[cbor(default, skip_if = "is_nothing")]
        intent: u8,
    },
    /// The kernel has been told this notice, and these others.
    #[n(2)]
    Noted(#[n(0)] u64, #[cbor(n(1), default, skip_if = "Vec::is_empty")] Vec<u64>),
    /// How much the node keeps on its disk, in bytes, and what it has had from there and from other nodes since its session began.
    #[n(3)]
    Kept {
        #[n(0)]
        bytes: u64,
        #[n(1)]
        from_disk: u64,
        #[n(2)]
        from_nodes: u64,
    },
}

/// To a node.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ToNode {
    /// The session goes on; `false`: it has begun.
    #[n(0)]
    Welcome(#[n(0)] bool),
    #[n(1)]
    Refused(#[n(0)] Fault),
    #[n(2)]
    Answer {
        #[n(0)]
        number: u64,
        /// 0: none.
        #[n(1)]
        errno: i32,
        #[n(2)]
        data: ByteVec,
        /// Of OPEN for reading and of GETXATTR: the node may answer the same itself until a notice about the file comes; what is opened so has the handle 0.
        #[n(3)]
        #[cbor(default, skip_if = "is_not")]
        keeps: bool,
        /// With `keeps`: until a notice comes. Otherwise for a second at most.
        #[n(4)]
        #[cbor(default, skip_if = "is_not")]
        long: bool,
        /// With `keeps`: attributes of the file that the request is about (struct fuse_attr_out); and of OPEN the whole content of a small one. Of LOOKUP the content is what a symbolic link says. The node may answer GETATTR and READ by them, until a notice comes.
        #[n(5)]
        attributes: Option<ByteVec>,
        #[n(6)]
        content: Option<ByteVec>,
        /// Requests that nobody waits for and that are done too.
        #[n(7)]
        #[cbor(default, skip_if = "Vec::is_empty")]
        silent: Vec<u64>,
        /// Of the files in it, those that have no extended attributes: that counts until a notice comes, for a second at most.
        #[n(8)]
        #[cbor(default, skip_if = "Vec::is_empty")]
        plain: Vec<u64>,
        /// With `keeps`, of OPEN if that is known or needed soon, and of [`SUMS`]: what the file is known by on disks of nodes.
        #[n(9)]
        stored: Option<Stored>,
        /// Of CREATE: nobody else has the file open, and who opens it waits until the node has written what it keeps of it ([`WRITE_BACK`]).
        #[n(10)]
        #[cbor(default, skip_if = "is_not")]
        behind: bool,
    },
    /// To be told the kernel (`enum fuse_notify_code`), and then to be noted, if it has a number other than 0.
    #[n(3)]
    Notice {
        #[n(0)]
        number: u64,
        #[n(1)]
        code: i32,
        #[n(2)]
        body: ByteVec,
    },
    /// Names of a directory, without being asked for. They count until a notice comes; one about any name of the directory does if `whole`: there are no others.
    #[n(4)]
    Ahead {
        #[n(0)]
        directory: u64,
        #[n(1)]
        whole: bool,
        #[n(2)]
        names: Vec<Ahead>,
        /// As [`ToNode::Answer`] has it.
        #[n(3)]
        plain: Vec<u64>,
    },
    /// The right to open a file for reading, without being asked for: as an answer to OPEN that the node may keep, with the same company. `fresh`: the kernel is to drop
    /// pages of the file at the next OPEN.
    #[n(5)]
    Granted {
        #[n(0)]
        node: u64,
        #[n(1)]
        fresh: bool,
        #[n(2)]
        attributes: ByteVec,
        #[n(3)]
        content: Option<ByteVec>,
        #[n(4)]
        stored: Option<Stored>,
    },
    /// The same of a directory, with all that can be read of it (each name as struct fuse_dirent has it). A notice about any of its names makes it void.
    #[n(6)]
    Listing {
        #[n(0)]
        node: u64,
        #[n(1)]
        fresh: bool,
        #[n(2)]
        names: ByteVec,
    },
}

/// The content of a file, which a node may have on its disk, from an earlier run or for a file of another name.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Stored {
    /// Bytes.
    #[n(0)]
    pub size: u64,
    /// Of its pieces (BLAKE3, 32 bytes each).
    #[n(1)]
    pub sums: ByteVec,
    /// Addresses of nodes that have it, or are having it, the nearest first. They may have none of it any more.
    #[n(2)]
    pub sources: Vec<String>,
}

/// A name, and what it leads to (struct fuse_entry_out), which counts as looked up; empty: to something.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Ahead {
    #[n(0)]
    pub name: ByteVec,
    #[n(1)]
    pub entry: ByteVec,
    /// The target of a symbolic link.
    #[n(2)]
    pub link: Option<ByteVec>,
}

/// The requests of nodes to the server of files.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Status {
    /// Files that nodes know of, and those of them on which the server has a lease.
    #[n(0)]
    pub files: u64,
    #[n(1)]
    pub leases: u64,
    #[n(2)]
    pub nodes: Vec<NodeStatus>,
}

/// One node's; counts are since its session began.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct NodeStatus {
    #[n(0)]
    pub node: NodeId,
    #[n(1)]
    pub connected: bool,
    /// Files that it has open by the server, that it knows of, and whose content it may keep.
    #[n(2)]
    pub open: u64,
    #[n(3)]
    pub files: u64,
    #[n(4)]
    pub contents: u64,
    /// Requests of its kernel's that it has answered by itself.
    #[n(5)]
    pub own: u64,
    /// Requests that have come to the server, by operation (`enum fuse_opcode`).
    #[n(6)]
    pub requests: Vec<(u32, u64)>,
    /// Bytes.
    #[n(7)]
    pub read: u64,
    #[n(8)]
    pub written: u64,
    /// Names that were sent without being asked for.
    #[n(9)]
    pub ahead: u64,
    /// Notices that it was sent, and those that called content back.
    #[n(10)]
    pub notices: u64,
    #[n(11)]
    pub recalls: u64,
    /// Bytes as [`ToServer::Kept`] has it.
    #[n(12)]
    #[cbor(default)]
    pub kept: u64,
    #[n(13)]
    #[cbor(default)]
    pub from_disk: u64,
    #[n(14)]
    #[cbor(default)]
    pub from_nodes: u64,
}
