//! The process space as a pure machine: `step(Event) -> Vec<Effect>`.
#![forbid(unsafe_code)]
