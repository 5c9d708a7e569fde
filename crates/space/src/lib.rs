//! The process space as a pure machine: [`Space::step`] turns an [`Event`] into [`Effect`]s. No I/O, no clock.
#![forbid(unsafe_code)]

mod effect;
mod event;
mod person;

pub use effect::{Command, Effect, Transition};
pub use event::{BodyEvent, Event};
pub use person::{KillTarget, Kin, Person, Usage};
