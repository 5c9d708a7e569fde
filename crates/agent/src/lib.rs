//! The node daemon.
#![forbid(unsafe_code)]

pub mod config;
pub mod streams;

pub use config::NodeConfig;

/// Runs the node daemon until it is told to end.
///
/// # Errors
/// `Unsupported`: this build has no node daemon yet.
pub fn run(_config: NodeConfig) -> vocab::Result<()> {
    Err(vocab::Fault::new(vocab::Kind::Unsupported, "run the node daemon: this build has none"))
}
