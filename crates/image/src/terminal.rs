//! A terminal that a process takes along.

use crate::Bytes;
use minicbor::{Decode, Encode};
use serde::Serialize;

#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Terminal {
    /// struct termios2.
    #[n(0)]
    pub modes: Bytes,
    /// Rows, columns, and their size in pixels.
    #[n(1)]
    pub size: [u16; 4],
    /// TIOCEXCL.
    #[n(2)]
    pub exclusive: bool,
    #[n(3)]
    pub stopped: Stopped,
    /// What nobody has read, in order.
    #[n(4)]
    pub typed: Vec<Typed>,
    /// The next byte that is typed means nothing but itself (VLNEXT).
    #[n(5)]
    pub literal_next: bool,
    /// It is the controlling terminal of the process, which leads its session and whose group is in the foreground.
    #[n(6)]
    pub controls: bool,
    /// Of its file: owner, group and mode.
    #[n(7)]
    pub uid: u32,
    #[n(8)]
    pub gid: u32,
    #[n(9)]
    pub mode: u32,
}

/// Why no output comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
pub enum Stopped {
    #[n(0)]
    #[default]
    No,
    /// Its stop character was typed.
    #[n(1)]
    Typed,
    /// tcflow(3).
    #[n(2)]
    Told,
}

/// A line, or where there are none what was typed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Typed {
    #[n(0)]
    pub bytes: Bytes,
    #[n(1)]
    pub end: End,
}

/// How a line ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
pub enum End {
    /// It does not yet.
    #[n(0)]
    #[default]
    Open,
    /// By the line feed that is its last byte.
    #[n(1)]
    Line,
    /// By the end of a file, or another byte that ends lines.
    #[n(2)]
    File,
}
