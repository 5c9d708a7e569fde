//! The front-end daemon: where the whole space is visible (docs/glossary.md).
//!
//! One loop, one thread ([`front`]): nodes' links, clients' sockets and the stand-ins' device each bring events, the space
//! ([`space::Space`]) says what is to be done, and [`act`] does it.
#![forbid(unsafe_code)]

mod act;
mod admin;
mod asks;
mod away;
mod branches;
mod chores;
mod clients;
mod comeback;
pub mod config;
mod config_nodes;
mod connection;
mod cursor;
mod delivered;
mod departed;
mod distant;
mod doubts;
mod explanations;
mod feeds;
mod fetching;
mod flushing;
mod foreign;
mod front;
mod ghosts;
pub mod holder;
mod home;
mod leases;
mod links;
mod listings;
mod logs;
mod looks;
mod messages;
mod movable;
mod move_one;
mod move_states;
mod movers;
mod moves;
mod natives;
mod numbers;
mod outliving;
mod parents;
mod passes;
mod persons;
mod places;
mod pulse;
mod recover;
mod returning;
mod roster;
mod runs;
mod scripts;
mod sleepers;
mod stands;
mod told;
mod views;

pub use config::{FrontConfig, Proc};
pub use config_nodes::NodesConfig;

/// Runs the front-end daemon until SIGTERM or SIGINT.
///
/// # Errors
/// What kept it from starting: the address, the run directory, FUSE.
pub fn run(mut config: FrontConfig) -> vocab::Result<()> {
    config.run_dir = kern::mount::directory(&config.run_dir)?;
    kern::own::raise_files()?;
    kern::proc::look_apart()?;
    foreign::none_has_our_numbers(&config.run_dir)?;
    front::Front::new(config)?.serve()
}
