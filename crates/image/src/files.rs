//! The descriptors of a process, and the open files behind them.

use crate::file_id::FileId;
use crate::process::Interval;
use crate::terminal::Terminal;
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
    #[n(3)]
    #[cbor(default)]
    pub sockets: Vec<SocketPair>,
    /// Only of one that moves.
    #[n(4)]
    pub terminal: Option<Terminal>,
}

impl Files {
    /// Is this one of the standard streams among them, which led out of the process?
    pub fn takes_over(&self, number: u8) -> bool {
        self.files.iter().any(|file| matches!(file.kind, Kind::Standard { stream } if stream == number))
    }

    /// Those of them at which an epoll instance looks.
    pub fn watched_streams(&self) -> Vec<u8> {
        let watches = self.files.iter().filter_map(|file| match &file.kind {
            Kind::Epoll { watches } => Some(watches),
            _ => None,
        });
        let open = |number| self.descriptors.iter().find(|one| one.number == number);
        let file = |watch: &Watch| self.files.get(open(watch.descriptor)?.file as usize);
        let streams = watches.flatten().filter_map(file).filter_map(|file| match file.kind {
            Kind::Standard { stream } => Some(stream),
            _ => None,
        });
        streams.collect()
    }
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
    #[n(4)]
    pub owner: Option<Owner>,
    /// Of one that has a name ([`Kind::Named`]); `None` also in an image of a build before there were file ids.
    #[n(5)]
    pub id: Option<FileId>,
}

/// Whom an open file signals when something can be read or written (fcntl(2), F_SETOWN_EX).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Owner {
    /// F_OWNER_TID, F_OWNER_PID or F_OWNER_PGRP.
    #[n(0)]
    pub kind: i32,
    /// 0: nobody.
    #[n(1)]
    pub id: i32,
    /// 0: SIGIO.
    #[n(2)]
    pub signal: i32,
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
        /// Of timerfd_settime(2), as it was set last.
        #[n(3)]
        #[cbor(default)]
        flags: u32,
        /// When it goes off, in nanoseconds of its clock: if it was set to a time (TFD_TIMER_ABSTIME).
        #[n(4)]
        due: Option<u64>,
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
    /// An end of a pair of unix sockets.
    #[n(8)]
    Socket {
        /// Index among the pairs.
        #[n(0)]
        pair: u32,
        /// 0 or 1.
        #[n(1)]
        end: u8,
    },
    #[n(9)]
    Inotify {
        #[n(0)]
        watches: Vec<Watched>,
    },
    /// The terminal.
    #[n(10)]
    Terminal {
        /// It was opened as /dev/tty.
        #[n(0)]
        controlling: bool,
    },
}

/// A watch of inotify(7).
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Watched {
    /// As inotify_add_watch(2) gave it.
    #[n(0)]
    pub number: i32,
    #[n(1)]
    pub mask: u32,
    #[n(2)]
    pub path: Bytes,
    /// Of the watched file.
    #[n(3)]
    pub id: Option<FileId>,
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
    /// The lengths of the packets of which that is made (pipe2(2), O_DIRECT); none of a pipe that has none.
    #[n(2)]
    #[cbor(default)]
    pub packets: Vec<u32>,
}

/// Two unix sockets that are connected (socketpair(2)), of which all descriptors are within the process.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct SocketPair {
    /// SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET.
    #[n(0)]
    pub kind: i32,
    /// Two.
    #[n(1)]
    pub ends: Vec<SocketEnd>,
    /// None in images of before it was recorded.
    #[n(2)]
    pub peer: Option<Peer>,
}

/// The maker of a pair of sockets, which is the peer of both of its ends (SO_PEERCRED, SO_PEERGROUPS; unix(7)).
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Peer {
    #[n(0)]
    pub uid: u32,
    #[n(1)]
    pub gid: u32,
    #[n(2)]
    pub groups: Vec<u32>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct SocketEnd {
    #[n(0)]
    pub closed: bool,
    /// 1: nothing will be read any more, 2: nothing will be written; 3: both (shutdown(2)).
    #[n(1)]
    pub shutdown: u8,
    /// What waits to be read here.
    #[n(2)]
    pub messages: Vec<Message>,
    #[n(3)]
    pub options: Vec<SocketOption>,
}

/// Of a stream, a piece.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct Message {
    #[n(0)]
    pub data: Bytes,
    /// UID and GID that the process had when it sent this, where they go with it (SO_PASSCRED).
    #[n(1)]
    pub sender: Option<(u32, u32)>,
}

/// An option of SOL_SOCKET.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode, Serialize)]
#[cbor(map)]
pub struct SocketOption {
    #[n(0)]
    pub name: i32,
    /// As getsockopt(2) gives it.
    #[n(1)]
    pub value: Bytes,
}
