//! The descriptors of a process, and the open files behind them.

use crate::process::Interval;
use crate::Bytes;
use minicbor::{Decode, Encode};
use serde::Serialize;

#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Files {
    #[n(0)]
    pub descriptors: Vec<Descriptor>,
    #[n(1)]
    pub files: Vec<OpenFile>,
    #[n(2)]
    pub pipes: Vec<Pipe>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Descriptor {
    #[n(0)]
    pub number: i32,
    #[n(1)]
    pub close_on_exec: bool,
    /// Index of the open file, which several descriptors share after dup(2).
    #[n(2)]
    pub file: u32,
}

/// An open file description (open(2)).
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct OpenFile {
    /// F_GETFL.
    #[n(0)]
    pub flags: u32,
    /// In bytes; 0 where there is none.
    #[n(1)]
    pub offset: u64,
    #[n(2)]
    pub kind: Kind,
    #[n(3)]
    #[cbor(default)]
    pub locks: Vec<Lock>,
}

/// A lock on a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Lock {
    #[n(0)]
    pub kind: LockKind,
    #[n(1)]
    pub exclusive: bool,
    /// In bytes.
    #[n(2)]
    pub start: u64,
    /// 0: to the end of the file, wherever that is.
    #[n(3)]
    pub length: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode, Serialize)]
pub enum LockKind {
    /// F_SETLK.
    #[n(0)]
    Process,
    /// F_OFD_SETLK.
    #[n(1)]
    OpenFile,
    /// flock(2).
    #[n(2)]
    Whole,
}

/// What is open. Each kind has a file in ckpt/src/kinds.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode, Serialize)]
pub enum Kind {
    /// A file, directory or device that has a name.
    #[n(0)]
    Named {
        #[n(0)]
        path: Bytes,
    },
    /// An end of a pipe; which end, the flags say.
    #[n(1)]
    Pipe {
        /// Index among the pipes.
        #[n(0)]
        pipe: u32,
    },
    #[n(2)]
    EventFd {
        #[n(0)]
        count: u64,
        #[n(1)]
        semaphore: bool,
    },
    #[n(3)]
    Epoll {
        #[n(0)]
        watches: Vec<Watch>,
    },
    #[n(4)]
    TimerFd {
        #[n(0)]
        clock: i32,
        /// How often it has gone off unread.
        #[n(1)]
        ticks: u64,
        #[n(2)]
        interval: Interval,
    },
    #[n(5)]
    SignalFd {
        #[n(0)]
        mask: u64,
    },
    /// A terminal, pipe or socket that leads out of the process: standard input, output or error of whoever restores it.
    #[n(6)]
    Standard {
        /// 0, 1 or 2.
        #[n(0)]
        stream: u8,
    },
    /// A file without a name.
    #[n(7)]
    Object {
        /// Index among the objects.
        #[n(0)]
        object: u32,
    },
}

/// What an epoll instance looks at (epoll_ctl(2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Watch {
    #[n(0)]
    pub descriptor: i32,
    #[n(1)]
    pub events: u32,
    #[n(2)]
    pub data: u64,
}

/// A pipe both of whose ends are within the process.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Pipe {
    /// Bytes that it takes (F_GETPIPE_SZ).
    #[n(0)]
    pub capacity: u32,
    /// What was written and not yet read.
    #[n(1)]
    pub data: Bytes,
}
