//! The node daemon: the agent of one front end on this machine (docs/mechanisms.md).
//!
//! [`run`] is the outer process, a watchdog in the machine's own namespaces (`outer`). Its child, the agent, is init of the
//! space's PID namespace on this machine (`birth`, then `reactor`): when it dies, in whatever way, the kernel ends every process of
//! the space here.
#![forbid(unsafe_code)]

mod administer;
mod adopting;
mod agent;
mod asks;
mod birth;
mod bodies;
mod channels;
mod checks;
pub mod clients;
mod config;
mod deliver;
mod elders;
mod ends;
mod entries;
mod events;
mod fence;
mod front;
mod gate;
mod gates;
mod handles;
mod identity;
mod idle;
mod killing;
mod kin;
mod leases;
mod looking;
mod making;
mod message;
mod mirror;
mod moving;
mod names;
mod newborns;
pub mod order;
mod orphans;
mod outer;
mod pace;
mod ps;
mod reactor;
mod settle;
mod setup;
mod share;
mod showing;
mod spawn;
mod standing;
mod stands;
mod starts;
mod stopping;
mod strangers;
pub mod streams;
mod surroundings;
mod unheard;
mod unsent;
mod uplink;
mod usage;
mod viewing;
mod views;
mod volley;
mod watch;

pub use config::{NodeConfig, Powers, UsersConfig, ViewConfig};
pub use outer::run;
