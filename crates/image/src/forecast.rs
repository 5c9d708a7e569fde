//! What a process is expected to have when it stands still.

use crate::file_id::Places;
use crate::files::Files;
use crate::memory::{Kept, Memory};
use crate::thread::Creds;
use crate::Bytes;
use minicbor::{Decode, Encode};
use serde::Serialize;

/// Who has it can make so much of it before; what it has then is said by the other records all the same.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Forecast {
    /// Of the first thread.
    #[n(0)]
    pub creds: Creds,
    #[n(1)]
    pub exe: Bytes,
    #[n(2)]
    pub cwd: Bytes,
    #[n(3)]
    pub root: Bytes,
    #[n(4)]
    pub memory: Memory,
    #[n(5)]
    pub files: Files,
    /// Of the first thread.
    #[n(6)]
    pub name: Bytes,
    /// Where what is in memory stays behind.
    #[n(7)]
    #[cbor(default)]
    pub lazy: Kept,
    #[n(8)]
    #[cbor(default)]
    pub places: Places,
}
