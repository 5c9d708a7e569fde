//! The node daemon: the agent of one front end on this machine (DESIGN 4).
#![forbid(unsafe_code)]

mod bodies;
pub mod config;
mod events;
mod fence;
mod kin;
mod leases;
mod stands;
pub mod streams;
mod uplink;

pub use config::NodeConfig;

/// Runs the node daemon until it is told to end.
///
/// # Errors
/// `Unsupported`: this build has no node daemon yet.
pub fn run(_config: NodeConfig) -> vocab::Result<()> {
    Err(vocab::Fault::new(vocab::Kind::Unsupported, "run the node daemon: this build has none"))
}
