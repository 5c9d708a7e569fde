//! What /proc shows of bodies, as it is read where they run.
//!
//! It travels as bytes that nobody on the way looks into: [`Found`]s, each a frame of its own ([`crate::frame`]), one behind the other and in pieces.

use minicbor::{Decode, Encode};
use vocab::Pid;

/// What is wanted of a node.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Wanted {
    /// Of all bodies.
    #[n(0)]
    All {
        /// [`COMMON`].
        #[n(0)]
        common: bool,
        /// These too, as long as what is there is short: names in the directory of each.
        #[n(1)]
        paths: Vec<String>,
    },
    /// [`COMMON`] of one.
    #[n(1)]
    Body {
        #[n(0)]
        pid: Pid,
    },
    /// One file, link or directory of one; the path begins in its directory: `task/17/wchan`.
    #[n(2)]
    Entry {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        #[cbor(with = "minicbor::bytes")]
        path: Vec<u8>,
    },
    /// What /proc and /sys tell of the machine itself (crate `kern`, `machine`): of [`Pid::NONE`], each under its name there.
    #[n(3)]
    Machine {
        /// Also what its processors are, which on a large machine is long and takes its time.
        #[n(0)]
        processors: bool,
    },
    /// This is to be written into a file of one, with the rights of whoever writes. The answer is that entry: an empty text, or how it failed.
    #[n(4)]
    Write {
        #[n(0)]
        pid: Pid,
        #[n(1)]
        #[cbor(with = "minicbor::bytes")]
        path: Vec<u8>,
        #[n(2)]
        #[cbor(with = "minicbor::bytes")]
        text: Vec<u8>,
        #[n(3)]
        uid: u32,
        /// Bit n for capability n.
        #[n(4)]
        capabilities: u64,
    },
}

/// The files that ps and its like read of every process.
pub const COMMON: [&str; 4] = ["stat", "status", "comm", "cmdline"];

/// What is longer is not told of many at once (`Failed(E2BIG)`): nobody can make others wait for what is theirs.
pub const SHORT: usize = 4096;

/// What was found of one body.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Found {
    #[n(0)]
    pub pid: Pid,
    /// Whose those of its files are that are not for everybody.
    #[n(1)]
    pub uid: u32,
    #[n(2)]
    pub gid: u32,
    #[n(3)]
    pub entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Entry {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub path: Vec<u8>,
    /// As st_mode (inode(7)); 0 where many were asked for.
    #[n(1)]
    pub mode: u32,
    #[n(2)]
    pub content: Content,
}

#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Content {
    #[n(0)]
    Text(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
    /// Where a link leads to, as readlink(2) says.
    #[n(1)]
    Link(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
    #[n(2)]
    Directory(#[n(0)] Vec<Name>),
    /// The errno of looking; EAGAIN: nobody has looked, since to look at processes of this user might take for ever.
    #[n(3)]
    Failed(#[n(0)] i32),
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Name {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub name: Vec<u8>,
    /// As st_mode.
    #[n(1)]
    pub mode: u32,
}
