//! How programs speak to the shoal daemon of their machine: a question and an answer, and `shoal run`'s relay.
#![forbid(unsafe_code)]

pub mod again;
pub mod local;
pub mod moves;
pub mod run;

pub use local::{socket_path, Local};
