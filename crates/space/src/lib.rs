//! The process space as a pure machine: [`Space::step`] turns an [`Event`] into [`Effect`]s. No I/O, no clock.
//!
//! What nodes tell of bodies becomes commands to ghosts, in an order that ends in the same tree: commands of one ghost
//! are carried out in order, and where those of two ghosts depend on each other (a group must exist before it is joined) the later
//! one is held back ([`step`](crate::step)). What happens to ghosts becomes signals to bodies.
#![forbid(unsafe_code)]

mod audit;
mod effect;
mod event;
mod family;
mod ghost;
mod group;
mod kill;
mod life;
mod many;
mod moving;
mod node;
mod person;
mod recover;
mod run;
mod session;
mod signal;
mod space;
mod standin;
mod step;
mod stop;
mod table;
mod unsaid;
mod wait;

#[cfg(test)]
mod naive;

pub use effect::{Command, Effect, Transition, NO_GHOST};
pub use event::{BodyEvent, Event};
pub use person::{KillTarget, Kin, Person, Usage};
pub use run::known_of;
pub use space::{Space, View};
