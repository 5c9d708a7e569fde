//! The front-end daemon.
#![forbid(unsafe_code)]

pub mod config;

pub use config::FrontConfig;

/// Runs the front-end daemon until it is told to end.
///
/// # Errors
/// `Unsupported`: this build has no front end yet.
pub fn run(_config: FrontConfig) -> vocab::Result<()> {
    Err(vocab::Fault::new(vocab::Kind::Unsupported, "run the front end: this build has none"))
}
