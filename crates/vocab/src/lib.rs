//! The nouns that every part of shoal shares. No I/O, no kernel, no dependency but the encoder.
#![forbid(unsafe_code)]

mod creds;
pub mod errno;
mod exit;
mod fault;
mod id;
pub mod names;
mod nodeset;
mod nodespec;
mod sig;

pub use creds::{Capabilities, Creds, Ids};
pub use exit::Exit;
pub use fault::{Fault, Kind, Result};
pub use id::{NodeId, Pid};
pub use nodeset::NodeSet;
pub use nodespec::select;
pub use sig::{Sig, SigInfo, SigSet};
