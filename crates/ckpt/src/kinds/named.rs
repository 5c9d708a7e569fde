//! Files, directories and devices that have a name.

use super::{generated, Seen, Verdict};
use crate::elsewhere::is_deleted;
use crate::kinds::All;
use crate::places::{Opener, Place};
use crate::{places, proc};
use image::files::{Kind, OpenFile};
use image::Bytes;
use rustix::fs::{OFlags, SeekFrom};
use std::ffi::OsStr;
use std::fs::FileType;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use vocab::{Fault, Result};

pub(super) fn look(seen: &Seen, all: &All) -> Result<Verdict> {
    if !seen.link.starts_with(b"/") {
        return Ok(Verdict::Other);
    }
    let opened = std::fs::metadata(seen.path()).map_err(|e| Fault::io(&e, format!("look at {}", seen.path())))?;
    let kind = opened.file_type();
    let refused = |why: &str| Ok(Verdict::Refused(seen.obstacle(why)));
    if kind.is_symlink() {
        return refused("is a symbolic link itself (O_PATH with O_NOFOLLOW), which is not carried");
    }
    if kind.is_char_device() && rustix::fs::major(opened.rdev()) != places::STATELESS {
        return refused("is a device that has a state");
    }
    if kind.is_block_device() {
        return refused("is a block device");
    }
    if kind.is_fifo() {
        return refused("is a named pipe");
    }
    all.left.as_ref().map_or(Ok(()), |left| generated::is_at_rest(seen, &opened, left))?;
    let path = proc::seen_from_here(seen.pid, &seen.link);
    match std::fs::metadata(OsStr::from_bytes(&path)) {
        Ok(named) if (named.dev(), named.ino()) == (opened.dev(), opened.ino()) => {
            Ok(Verdict::Carried(Kind::Named { path: seen.link.clone().into() }))
        }
        Ok(_) => refused("has another file in its place by now"),
        Err(_) if is_deleted(&seen.link) => refused(&format!("is a {} that has been deleted", noun(kind))),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            refused("has a name that leads nowhere: its file system is not mounted any more, or is seen by others only")
        }
        Err(e) => refused(&format!("cannot be found by its name: {e}")),
    }
}

fn noun(kind: FileType) -> &'static str {
    match () {
        () if kind.is_dir() => "directory",
        () if kind.is_char_device() => "device",
        () if kind.is_socket() => "socket's name",
        () => "file",
    }
}

/// What open(2) takes besides what it only does once.
pub(super) const KEPT: u32 = (libc::O_ACCMODE
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_DIRECT
    | libc::O_DIRECTORY
    | libc::O_NOATIME
    | libc::O_PATH
    | libc::O_SYNC
    | libc::O_DSYNC) as u32;

pub(super) fn reopen(path: &Bytes, file: &OpenFile, opener: &Opener) -> Result<OwnedFd> {
    let flags = OFlags::from_bits_retain(file.flags & KEPT) | OFlags::NOCTTY;
    let fd = places::file(Place::new(path, file.id.as_ref()), flags, opener)?;
    if file.offset != 0 {
        let name = String::from_utf8_lossy(&path.0);
        rustix::fs::seek(&fd, SeekFrom::Start(file.offset))
            .map_err(|e| Fault::sys(e.raw_os_error(), format!("open {name}")))?;
    }
    Ok(fd)
}
