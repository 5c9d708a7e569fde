//! What a process may have found out about its processor, and rely on.

use minicbor::{Decode, Encode};
use serde::Serialize;

#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Cpu {
    /// Names as in /proc/cpuinfo, of what a program without privileges may use.
    #[n(0)]
    pub features: Vec<String>,
    /// XCR0: one bit for each part of the registers' state.
    #[n(1)]
    pub states: u64,
    /// Of the parts from number 2 on.
    #[n(2)]
    pub places: Vec<Place>,
}

/// Where XSAVE puts a part of the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Place {
    #[n(0)]
    pub number: u32,
    /// Bytes from the beginning of the area.
    #[n(1)]
    pub offset: u32,
    /// Bytes.
    #[n(2)]
    pub size: u32,
}
