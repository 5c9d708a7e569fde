//! The mappings of a process. What is in them follows in records of pages.

use crate::file_id::FileId;
use crate::Bytes;
use minicbor::{Decode, Encode};
use serde::Serialize;

#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Memory {
    #[n(0)]
    pub areas: Vec<Area>,
    /// Where the kernel's own pages begin ([vvar] and [vdso]), and how long they are together; 0 without.
    #[n(1)]
    pub vdso: (u64, u64),
    /// The protection keys that are allocated, a bit for each.
    #[n(2)]
    #[cbor(default)]
    pub keys: u16,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Area {
    #[n(0)]
    pub start: u64,
    #[n(1)]
    pub end: u64,
    /// PROT_READ, PROT_WRITE, PROT_EXEC.
    #[n(2)]
    pub protection: u32,
    #[n(3)]
    pub shared: bool,
    /// Bits of kern::areas::AreaFlags; they are part of the format, so their numbers stay.
    #[n(4)]
    pub flags: u32,
    #[n(5)]
    pub file: Option<Mapped>,
    /// The protection key.
    #[n(6)]
    pub key: u32,
    /// What the process has named it (PR_SET_VMA_ANON_NAME).
    #[n(7)]
    pub name: Bytes,
    /// Guards in it, from and to which address (madvise(2), MADV_GUARD_INSTALL).
    #[n(8)]
    #[cbor(default)]
    pub guards: Vec<(u64, u64)>,
    /// Bytes of its pages, where they are huge ones from the pool; else 0.
    #[n(9)]
    #[cbor(default)]
    pub page: u64,
}

/// The file of a mapping.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Mapped {
    #[n(0)]
    pub path: Bytes,
    /// Of the mapping's beginning, in bytes.
    #[n(1)]
    pub offset: u64,
    /// Of the file, in bytes.
    #[n(2)]
    pub size: u64,
    /// Nanoseconds since 1970.
    #[n(3)]
    pub modified: u64,
    /// Was it mapped from a descriptor open for writing (a shared mapping that may become writable)?
    #[n(4)]
    pub writable: bool,
    /// Index among the objects, for a file without a name.
    #[n(5)]
    pub object: Option<u32>,
    /// Of a file with a name.
    #[n(6)]
    pub id: Option<FileId>,
}

/// What of the early pages was still so when the process stood still.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Kept {
    /// Addresses, from and to, in their order.
    #[n(0)]
    pub runs: Vec<(u64, u64)>,
}
