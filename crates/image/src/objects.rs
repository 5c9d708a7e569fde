//! Files that have no name, so that an image carries what is in them: deleted files, memory files, shared anonymous memory.
//!
//! Descriptors and mappings say by its number which of them they are of, so that what was one file stays one.

use crate::Bytes;
use minicbor::{Decode, Encode};
use serde::Serialize;

#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Objects {
    #[n(0)]
    pub objects: Vec<Object>,
}

#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Object {
    #[n(0)]
    pub kind: ObjectKind,
    /// Bytes; where no record of content has any they are zero.
    #[n(1)]
    pub size: u64,
    /// Permissions, as in chmod(2).
    #[n(2)]
    pub mode: u32,
    #[n(3)]
    pub uid: u32,
    #[n(4)]
    pub gid: u32,
    /// Nanoseconds since 1970.
    #[n(5)]
    pub accessed: u64,
    /// Nanoseconds since 1970.
    #[n(6)]
    pub modified: u64,
    /// Bytes of its pages, where they are huge ones from the pool; else 0.
    #[n(7)]
    #[cbor(default)]
    pub page: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode, Serialize)]
pub enum ObjectKind {
    /// A file that was unlinked.
    #[n(0)]
    Deleted {
        /// The name that it had.
        #[n(0)]
        path: Bytes,
    },
    /// A file that never had a name (open(2), O_TMPFILE).
    #[n(1)]
    Unnamed {
        #[n(0)]
        directory: Bytes,
    },
    /// memfd_create(2).
    #[n(2)]
    Memory {
        #[n(0)]
        name: Bytes,
        /// F_GET_SEALS.
        #[n(1)]
        seals: u32,
    },
    /// mmap(2), MAP_SHARED | MAP_ANONYMOUS.
    #[n(3)]
    Shared {
        /// Is room set aside for all of it (no MAP_NORESERVE)?
        #[n(0)]
        reserved: bool,
    },
}
