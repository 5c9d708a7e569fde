//! The image of a stopped process as bytes: what a checkpoint file has in it, and what travels when a process moves.
//!
//! An image is a stream: magic and version, then records, each with its kind, length and checksum, the last of which says that it is
//! the last. Nothing is looked up by position, so a pipe will do. Records are CBOR maps with numbered fields: a reader skips fields
//! that it does not know, and numbers are never used again for something else. No I/O of the kernel's is here.

#![forbid(unsafe_code)]

mod bytes;
pub mod cpu;
pub mod file_id;
pub mod files;
pub mod forecast;
pub mod frame;
pub mod memory;
pub mod objects;
pub mod process;
mod read;
pub mod show;
pub mod terminal;
pub mod thread;

pub use bytes::Bytes;
pub use frame::{Pages, Piece, Record, Sealer, Writer};
pub use read::{Raw, Reader};
