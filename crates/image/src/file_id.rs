//! Ids of files: which file a name of the image led to, and whose that file was.

use crate::Bytes;
use minicbor::{Decode, Encode};
use serde::Serialize;

/// A file, directory or device with a name, as its machine saw it when the process stood still.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct FileId {
    /// Type and permission bits (st_mode of stat(2)).
    #[n(0)]
    pub mode: u32,
    #[n(1)]
    pub uid: u32,
    #[n(2)]
    pub gid: u32,
    /// A name for the file system that every machine with the same file system gives it, and no other: run of the kernel and device, or the source of a file system
    /// on a network.
    #[n(3)]
    pub system: Bytes,
    #[n(4)]
    pub inode: u64,
    /// Tells the file from an earlier one with the same inode number (name_to_handle_at(2)); empty where the file system does not.
    #[n(5)]
    pub handle: Bytes,
}

/// Program, working directory and root directory of a process; `None` in an image of a build before there were file ids.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Places {
    #[n(0)]
    pub exe: Option<FileId>,
    #[n(1)]
    pub cwd: Option<FileId>,
    #[n(2)]
    pub root: Option<FileId>,
}
