//! Lines of a daemon's log, as `shoal log` asks for them.

use minicbor::{Decode, Encode};

/// The most bytes of lines in one answer.
pub const MOST: usize = 128 * 1024;

/// The lines that are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum LogWanted {
    /// The last ones, so many.
    #[n(0)]
    Last(#[n(0)] u32),
    /// All lines that were written after an earlier answer.
    #[n(1)]
    After(#[n(0)] LogPlace),
}

/// A place in a daemon's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct LogPlace {
    /// The file: the log is begun anew when it has become long.
    #[n(0)]
    pub file: u64,
    /// Bytes from its beginning.
    #[n(1)]
    pub at: u64,
}

/// An answer: whole lines.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct LogPiece {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub lines: Vec<u8>,
    /// Behind these lines.
    #[n(1)]
    pub place: LogPlace,
    /// Lines are missing between these and those of the answer before.
    #[n(2)]
    pub gap: bool,
    /// There are more already.
    #[n(3)]
    pub more: bool,
}
