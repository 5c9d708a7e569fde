//! A stopped process obeys: its threads are stopped as values that one owns, and lend themselves for system calls, one at a time or a
//! script of many. Whoever gives back a loan leaves no trace of it.
//!
//! Knows nothing of checkpoints; a tracer is one OS thread (ptrace(2)), so none of these types can be sent to another.

#![forbid(unsafe_code)]

pub mod arena;
mod gate;
mod lifted;
pub mod loan;
mod rights;
pub mod script;
mod sequence;
pub mod thread;

pub use arena::Arena;
pub use loan::Loan;
pub use script::{Outcome, Script, Slot};
pub use thread::{Running, Stopped};
