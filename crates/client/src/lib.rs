//! `shoal run`'s relay, and how programs speak to the shoal daemon of their machine.
#![forbid(unsafe_code)]

pub mod run;

pub use local::{again, moves, socket_path, Local};
