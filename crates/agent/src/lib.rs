//! The node daemon: the agent of one front end on this machine (DESIGN 4).
#![forbid(unsafe_code)]

mod bodies;
mod events;
mod fence;
mod kin;
mod leases;
mod stands;
mod uplink;
pub mod streams;
