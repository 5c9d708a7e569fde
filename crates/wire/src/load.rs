//! How busy a node is.

use minicbor::{Decode, Encode};

/// A node's load, sent with each beat.
#[derive(Clone, Copy, PartialEq, Debug, Default, Encode, Decode)]
pub struct Load {
    /// One-minute load average.
    #[n(0)]
    pub load: f32,
    /// Bytes.
    #[n(1)]
    pub memory_free: u64,
    #[n(2)]
    pub cores: u32,
    /// Bytes.
    #[n(3)]
    pub memory: u64,
}
