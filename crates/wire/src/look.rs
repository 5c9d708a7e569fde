//! How a process would move, without anything being done to it (`shoal move --explain`), and how far one is.

use minicbor::{Decode, Encode};
use vocab::{NodeId, Pid};

/// Why it would go as it would.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Why {
    /// Large mappings are copied in rounds while it runs.
    #[n(0)]
    Large,
    /// So little is in large mappings that it stands still for all of it.
    #[n(1)]
    Little,
    /// It reads files past the cache (O_DIRECT) into its memory, which nobody would notice: it stands still for all of it.
    #[n(2)]
    ReadsDirectly,
}

/// What its memory is like, in bytes, and what that means.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Outlook {
    #[n(0)]
    pub why: Why,
    /// Pages that would travel: no file has them.
    #[n(1)]
    pub own: u64,
    /// Those of them in large mappings.
    #[n(2)]
    pub large: u64,
    /// In files without a name, which would travel too.
    #[n(3)]
    pub nameless: u64,
    /// The resident set.
    #[n(4)]
    pub resident: u64,
    /// Pages of zeroes that would not travel.
    #[n(5)]
    pub zero: u64,
    /// Pages of files that would not.
    #[n(6)]
    pub files: u64,
}

/// How far a process is that moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Progress {
    /// Bytes.
    #[n(0)]
    pub sent: u64,
    /// Bytes that will have been sent when this round is over; 0: nobody knows.
    #[n(1)]
    pub of: u64,
    /// From 1 on; 0: the process stands still.
    #[n(2)]
    pub round: u32,
}

/// A file that must be on the other node.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct File {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub path: Vec<u8>,
    /// Its size in bytes and its time in nanoseconds since 1970, where it must be the very same.
    #[n(1)]
    pub same: Option<(u64, u64)>,
}

/// What the other node must have.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Needs {
    /// What the processor has, as it is said when a process moves.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub cpu: Vec<u8>,
    #[n(1)]
    pub files: Vec<File>,
    /// How many huge pages from the pool (hugetlbpage(5)): bytes of one, and their number.
    #[n(2)]
    #[cbor(default, skip_if = "Vec::is_empty")]
    pub huge: Vec<(u64, u64)>,
}

/// The old node's part.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Look {
    /// Nothing of a process that could not be looked at.
    #[n(0)]
    pub outlook: Option<Outlook>,
    #[n(1)]
    pub obstacles: Vec<String>,
    #[n(2)]
    pub needs: Needs,
}

/// All of it.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Explained {
    #[n(0)]
    pub pid: Pid,
    #[n(1)]
    pub from: NodeId,
    #[n(2)]
    pub to: NodeId,
    #[n(3)]
    pub outlook: Option<Outlook>,
    /// All that is in the way, in words.
    #[n(4)]
    pub obstacles: Vec<String>,
}
