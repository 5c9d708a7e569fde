//! The types of `include/sys/bproc_common.h`, as C lays them out.

use libc::{c_char, c_int, c_long, c_short, c_uint, c_void, sockaddr, time_t};

pub(super) const NODE_SELF: c_int = -2;
pub(super) const NODE_ANY: c_int = -4;
pub(super) const X_OK: c_int = 1;
pub(super) const DUMP_ALL: c_int = 7;
/// What goes along where a caller does not say: its own program, and what is no file's.
pub(super) const DUMP_DEFAULT: c_int = 6;

/// The longest word for a state, and its zero.
pub(super) const STATE: usize = 16;

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct NodeInfo {
    pub(super) node: c_int,
    pub(super) status: [c_char; STATE],
    pub(super) mode: c_uint,
    pub(super) user: c_uint,
    pub(super) group: c_uint,
    pub(super) addr: sockaddr,
    pub(super) atime: time_t,
    pub(super) mtime: time_t,
}

#[repr(C)]
pub(super) struct NodeSet {
    pub(super) size: c_int,
    pub(super) alloc: c_int,
    pub(super) node: *mut NodeInfo,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ProcInfo {
    pub(super) pid: c_int,
    pub(super) node: c_int,
}

pub(super) const IO_MOST: usize = 16;
pub(super) const IO_FILE: c_short = 0;
pub(super) const IO_SOCKET: c_short = 1;
pub(super) const IO_MEMFILE: c_short = 2;
pub(super) const IO_SEND_INFO: c_short = 1;
pub(super) const IO_DELAY: c_short = 2;

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct IoFile {
    pub(super) flags: c_int,
    pub(super) mode: c_int,
    pub(super) offset: c_long,
    pub(super) name: [c_char; 256],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct IoMemory {
    pub(super) base: *mut c_void,
    pub(super) size: c_long,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union IoWhat {
    pub(super) addr: sockaddr,
    pub(super) file: IoFile,
    pub(super) mem: IoMemory,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Io {
    pub(super) fd: c_int,
    pub(super) kind: c_short,
    pub(super) flags: c_short,
    pub(super) what: IoWhat,
}

#[repr(C)]
pub(super) struct Version {
    pub(super) magic: [c_char; 3],
    pub(super) arch: u8,
    pub(super) number: u32,
    pub(super) text: [c_char; 24],
}
