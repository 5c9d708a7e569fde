//! The messages between front end, nodes and clients: bytes and types, no I/O.
//!
//! Every field and every variant has a number. A number is never used again, an unknown field is
//! skipped, an unknown message is an error with a name ([`frame::decode`]). Who sends what when is in
//! `docs/protocol.md`.
#![forbid(unsafe_code)]

pub mod ask;
pub mod carry;
mod channel;
pub mod entry;
pub mod event;
pub mod feed;
pub mod files;
pub mod frame;
pub mod hello;
pub mod jobs;
pub mod join;
mod lease;
mod load;
pub mod log;
pub mod look;
pub mod node;
pub mod nodes;
pub mod run;
pub mod stream;
mod to_node;
pub mod view;
pub mod way;
