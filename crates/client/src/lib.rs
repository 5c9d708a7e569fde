//! How programs speak to the shoal daemon of their machine.
#![forbid(unsafe_code)]

pub mod local;

pub use local::Local;
