//! The FUSE device for who passes requests on to another machine as they are: bytes in, bytes out. Only the header is known here.

use super::{open_device, reply};
use crate::sys;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use vocab::{Fault, Pid, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What a request begins with (struct fuse_in_header).
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug)]
pub struct Header {
    pub length: u32,
    pub opcode: u32,
    pub unique: u64,
    pub node: u64,
    pub uid: u32,
    pub gid: u32,
    pub pid: u32,
    /// Of extensions behind the body, in units of 8 bytes.
    pub extensions: u16,
    pub padding: u16,
}

/// A connection, to be read by several threads.
#[derive(Debug)]
pub struct Connection(OwnedFd);

impl Connection {
    /// A new one, that nothing is mounted of.
    ///
    /// # Errors
    /// `Sys` from open(2) of /dev/fuse.
    pub fn open() -> Result<Connection> {
        open_device(0).map(Connection)
    }

    /// The file system, mounted nowhere yet ([`crate::view::attach`]), as [`Connection::mount`] would. Waits for nobody.
    ///
    /// # Errors
    /// `Sys` as fsopen(2), fsconfig(2) and fsmount(2).
    pub fn detached(&self, source: &str, most: u32) -> Result<OwnedFd> {
        let fd = self.0.as_raw_fd().to_string();
        let most = most.to_string();
        let texts = [("source", source), ("fd", &fd), ("rootmode", "40000"), ("user_id", "0"), ("group_id", "0")];
        let options: Vec<(&str, Option<&str>)> = texts
            .into_iter()
            .chain([("max_read", most.as_str())])
            .map(|(name, value)| (name, Some(value)))
            .chain([("allow_other", None), ("default_permissions", None)])
            .collect();
        crate::mount::detached_with("fuse", &options)
    }

    /// Takes over what another process has opened, and perhaps mounted.
    pub fn adopt(fd: OwnedFd) -> Connection {
        Connection(fd)
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Mounts it at the directory `at`, for all users, with the kernel's own look at owners and modes; `most`: bytes of a read at most. Set-user-ID programs
    /// are that; device files are not.
    ///
    /// # Errors
    /// `Sys` from mount(2).
    pub fn mount(&self, at: &Path, source: &str, most: u32) -> Result<()> {
        let fd = self.0.as_raw_fd();
        let options =
            format!("fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions,max_read={most}");
        crate::mount::mount_from(source, "fuse", at, crate::mount::Flags::NODEV, &options)
    }

    /// Waits for a request and reads it into `room`; how many bytes it has. `None`: the file system has gone.
    ///
    /// # Errors
    /// `Sys` as read(2).
    pub fn next(&self, room: &mut [u8]) -> Result<Option<usize>> {
        loop {
            match sys::read(self.0.as_fd(), room) {
                Ok(count) => return Ok(Some(count)),
                // A request that was taken back before it was read (linux: fuse_dev_do_read).
                Err(libc::EINTR | libc::EAGAIN | libc::ENOENT) => {}
                Err(libc::ENODEV | libc::ECONNABORTED) => return Ok(None),
                Err(errno) => return Err(Fault::sys(errno, "read from a FUSE device")),
            }
        }
    }

    /// Answers `unique`: an errno, or 0 and data. Whoever has asked may be gone, which is no fault.
    pub fn answer(&self, unique: u64, errno: i32, data: &[u8]) {
        reply(self.0.as_fd(), unique, -errno, data);
    }

    /// Tells the kernel something of its own accord (`enum fuse_notify_code`). It may wait for who waits for an answer.
    pub fn notify(&self, code: i32, body: &[u8]) {
        reply(self.0.as_fd(), 0, code, body);
    }
}

/// Splits a request into its header and the rest.
///
/// # Errors
/// `Bug`: it is shorter than a header.
pub fn split(request: &[u8]) -> Result<(Header, &[u8])> {
    let parts = Header::read_from_prefix(request);
    parts.map_err(|_| Fault::bug("a FUSE request shorter than its header"))
}

impl Header {
    /// A request of the server's own making, as the kernel would write it, by root.
    pub fn of(opcode: u32, body: &[u8]) -> Vec<u8> {
        Header::about(0, opcode, body)
    }

    /// The same about a file.
    pub fn about(node: u64, opcode: u32, body: &[u8]) -> Vec<u8> {
        Header::by((0, 0), node, opcode, body)
    }

    /// The same by this user and group.
    pub fn by((uid, gid): (u32, u32), node: u64, opcode: u32, body: &[u8]) -> Vec<u8> {
        let length = (size_of::<Header>() + body.len()) as u32;
        let (unique, pid, extensions, padding) = (0, 0, 0, 0);
        let head = Header { length, opcode, unique, node, uid, gid, pid, extensions, padding };
        [head.as_bytes(), body].concat()
    }

    /// Who has asked, as the PID namespace counts in which it was mounted; 0: the kernel, or somebody of another one.
    pub fn asker(&self) -> Pid {
        Pid(self.pid as i32)
    }
}
