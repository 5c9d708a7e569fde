//! One question to the daemon of this machine, and its answer: all that small commands and C programs need of it.
#![forbid(unsafe_code)]

pub mod again;
pub mod daemon;
pub mod moves;

pub use daemon::{socket_path, Local};
