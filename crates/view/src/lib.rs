//! The file view: on a node programs see the files of the front end.
//!
//! The node's kernel asks for files over FUSE; what it asks goes over an encrypted connection to the front end as it is ([`node`]), and is done there with the rights of who asks
//! ([`server`]). Each is a process of its own, so that no daemon waits for a disk, and a disk for no daemon.
#![forbid(unsafe_code)]

mod fuse;
mod line;
pub mod node;
pub mod server;

pub use fuse::operation;
