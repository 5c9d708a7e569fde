//! Has the kernel ask whoever serves a [`super::tree`] for what somebody else is about to look for, with as few requests as there can be.

use crate::sys;
use libc::{c_int, c_uint};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use vocab::Result;

/// FILEID_INO64_GEN (linux: include/linux/exportfs.h): the node's number, upper half first, and its generation, which is 0 in a tree.
const NODE_HANDLE: c_int = 0x81;
const HANDLE_BYTES: c_uint = 12;

/// As struct file_handle (open_by_handle_at(2)).
#[repr(C)]
struct Handle {
    bytes: c_uint,
    kind: c_int,
    words: [u32; 3],
}

/// Opens the directory that is this node of the tree on which `within` is, without a request for what its name leads to.
///
/// # Errors
/// `Sys` from open_by_handle_at(2), for which CAP_DAC_READ_SEARCH is needed; ESTALE when the kernel does not know the node any more (linux: `fuse_get_dentry`).
pub fn open_node(within: BorrowedFd<'_>, node: u64) -> Result<File> {
    let words = [(node >> 32) as u32, node as u32, 0];
    let handle = Handle { bytes: HANDLE_BYTES, kind: NODE_HANDLE, words };
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the kernel reads the handle, of which it is told how long it is.
    let fd = unsafe { libc::syscall(libc::SYS_open_by_handle_at, within.as_raw_fd(), &raw const handle, flags) };
    sys::own(fd, || format!("open node {node} of a tree")).map(File::from)
}

/// Asks for what is in this open directory, once, with what is known of the names there.
///
/// # Errors
/// An errno of getdents64(2).
pub fn names(directory: BorrowedFd<'_>) -> std::result::Result<(), i32> {
    let mut names = [0u8; 4096];
    // SAFETY: no memory is involved.
    sys::check(unsafe { libc::lseek(directory.as_raw_fd(), 0, libc::SEEK_SET) })?;
    // SAFETY: the kernel writes at most as many bytes as there are.
    let read = unsafe { libc::syscall(libc::SYS_getdents64, directory.as_raw_fd(), names.as_mut_ptr(), names.len()) };
    sys::check(read).map(drop)
}

/// Asks for this name in an open directory, whether it is there or not.
///
/// # Errors
/// `Refused` for a name with a NUL in it.
pub fn name(directory: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let name = sys::cstring(name)?;
    // SAFETY: the name ends with a NUL. What is said of it is of no interest: the kernel knows now.
    unsafe { libc::faccessat(directory.as_raw_fd(), name.as_ptr(), libc::F_OK, 0) };
    Ok(())
}
