//! Stand-ins held by FUSE (docs/mechanisms.md, "The hold"): the daemon's side of the hold protocol, on the front end and on nodes.
//!
//! [`Ghosts`] keeps what is known of each stand-in on this machine, queues commands for it in order, and tells what happened
//! to it. What a signal or an end means is not decided here.
#![forbid(unsafe_code)]

mod command;
mod dump;
mod early;
mod exit;
mod family;
mod late;
mod life;
mod looks;
mod no_room;
mod recover;
mod signals;
mod slots;
mod table;

pub use command::{Command, Name};
pub use no_room::no_room;
pub use slots::KeptSlot;
pub use table::{Ghosts, Happened, Outcome};
