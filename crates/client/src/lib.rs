//! Speaking to the local daemon: `shoal run`'s relay.
#![forbid(unsafe_code)]

pub mod run;
