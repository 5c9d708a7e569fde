//! Whether a name leads to the file of an image: what is known of an open file, and what that says of another one.

use crate::boot::boot;
use image::file_id::FileId;
use image::Bytes;
use kern::file_handle;
use kern::proc::PROC;
use rustix::fs::{major, minor};
use std::os::fd::AsFd;
use vocab::{Fault, Result};

/// Type and permissions of st_mode.
const MODE: u32 = libc::S_IFMT | 0o7777;

/// File systems that several machines can have at once, known by their source (linux/magic.h): NFS, SMB, Ceph, Lustre, GPFS, 9P, AFS.
const ON_A_NETWORK: [u64; 8] =
    [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400, 0x0bd0_0bd0, 0x4750_4653, 0x0102_1997, 0x6b41_4653];

/// File systems whose names lead to the same file for everybody, and to nothing but files (linux/magic.h): ext, xfs, btrfs, tmpfs, ramfs, overlayfs, f2fs, NFS,
/// SMB, Ceph, Lustre, GPFS, ZFS. An open file of procfs, for one, is of a process that its name means no more.
const PLAIN: [u64; 14] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0x8584_58f6,
    0x794c_7630,
    0xf2f5_2010,
    0x6969,
    0xff53_4d42,
    0xfe53_4d42,
    0x00c3_6400,
    0x0bd0_0bd0,
    0x4750_4653,
    0x2fc1_2fc1,
];

/// FUSE_SUPER_MAGIC, and how mountinfo says that it is the view of the front end's files (`view::node`), which all nodes have.
const FUSE: u64 = 0x6573_5546;
const VIEW: &[u8] = b"fuse shoal-view";

/// The type of a file system without the sign that some have.
fn magic(file: &impl AsFd) -> rustix::io::Result<u64> {
    rustix::fs::fstatfs(file).map(|system| system.f_type as u64 & 0xffff_ffff)
}

/// Is this a file of a file system that has nothing but files?
pub(crate) fn is_plain(file: &impl AsFd) -> bool {
    magic(file).is_ok_and(|magic| PLAIN.contains(&magic) || magic == FUSE && is_of_view(file))
}

fn is_of_view(file: &impl AsFd) -> bool {
    let device = rustix::fs::fstat(file).map(|found| (major(found.st_dev), minor(found.st_dev)));
    device.is_ok_and(|device| source(device).is_some_and(|source| source.0 == VIEW))
}

/// The id of an open file, which may be open with O_PATH.
///
/// # Errors
/// As fstat(2) and read(2) of the kernel's boot number.
pub(crate) fn of(file: &impl AsFd) -> Result<FileId> {
    let failed = |e: rustix::io::Errno| Fault::sys(e.raw_os_error(), "look which file it is");
    let found = rustix::fs::fstat(file).map_err(failed)?;
    // Block devices have a major number; only others can be of a network.
    let magic = magic(file).map_err(failed)?;
    let source = match major(found.st_dev) == 0 && (ON_A_NETWORK.contains(&magic) || magic == FUSE && is_of_view(file))
    {
        true => source((major(found.st_dev), minor(found.st_dev))),
        false => None,
    };
    let (system, handle) = match source {
        // Another machine's handle for it may differ.
        Some(source) => (source, Bytes::default()),
        None => (format!("{} {:x}", boot()?, found.st_dev).into_bytes().into(), handle(file)),
    };
    let (uid, gid, inode) = (found.st_uid, found.st_gid, found.st_ino);
    Ok(FileId { mode: found.st_mode & MODE, uid, gid, system, inode, handle })
}

fn handle(file: &impl AsFd) -> Bytes {
    let handle = file_handle::of(file.as_fd());
    handle.map_or_else(Bytes::default, |(kind, bytes)| [&kind.to_le_bytes()[..], &bytes].concat().into())
}

/// Type and source of the file system with this device number, as mountinfo has them (proc_pid_mountinfo(5)).
fn source((major, minor): (u32, u32)) -> Option<Bytes> {
    let mounts = std::fs::read_to_string(format!("{PROC}/self/mountinfo")).ok()?;
    let device = format!("{major}:{minor}");
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&device))?;
    let mut fields = line.split_once(" - ")?.1.split(' ');
    Some(format!("{} {}", fields.next()?, fields.next()?).into_bytes().into())
}

/// How a file that a name leads to here compares with the file of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Match {
    /// The very file.
    Itself,
    /// A file of another file system, of the same kind, owner, group and mode; or the image does not say.
    Alike,
    /// Why a process with the one is not to have the other.
    Other(String),
}

/// `was`: the file of the image, `now`: the one here.
pub(crate) fn compare(was: Option<&FileId>, now: &FileId) -> Match {
    let Some(was) = was else { return Match::Alike };
    let whose = |id: &FileId| (id.mode, id.uid, id.gid);
    match was.system == now.system {
        true if (was.inode, &was.handle) == (now.inode, &now.handle) => Match::Itself,
        true => Match::Other("is another file by now".to_owned()),
        false if whose(was) == whose(now) => Match::Alike,
        false => Match::Other(format!("is {} here, and was {}", in_words(now), in_words(was))),
    }
}

fn in_words(id: &FileId) -> String {
    format!("of user {} and group {}, mode {:o}", id.uid, id.gid, id.mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way in which two ids can differ.
    #[test]
    fn a_file_is_itself_alike_or_another() {
        let was =
            FileId { mode: 0o100_644, uid: 7, gid: 8, system: b"a"[..].into(), inode: 5, handle: b"h"[..].into() };
        assert_eq!(compare(None, &was), Match::Alike);
        for bits in 0..64 {
            let differs = |bit: u32| bits >> bit & 1 == 1;
            let now = FileId {
                mode: if differs(0) { 0o100_600 } else { was.mode },
                uid: if differs(1) { 0 } else { was.uid },
                gid: if differs(2) { 0 } else { was.gid },
                system: if differs(3) { b"b"[..].into() } else { was.system.clone() },
                inode: if differs(4) { 6 } else { was.inode },
                handle: if differs(5) { b"i"[..].into() } else { was.handle.clone() },
            };
            let found = compare(Some(&was), &now);
            let expected = match (differs(3), differs(4) || differs(5), differs(0) || differs(1) || differs(2)) {
                (false, false, _) => found == Match::Itself,
                (true, _, false) => found == Match::Alike,
                (false, true, _) | (true, _, true) => matches!(found, Match::Other(_)),
            };
            assert!(expected, "{bits:b}: {found:?}");
        }
    }

    #[test]
    fn one_file_has_one_id_by_whatever_name() {
        let dir = std::env::temp_dir().join(format!("shoal-file-id-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a new one");
        let (one, link) = (dir.join("one"), dir.join("link"));
        std::fs::write(&one, "x").and_then(|()| std::fs::hard_link(&one, &link)).expect("a file");
        let id = |path: &std::path::Path| of(&std::fs::File::open(path).expect("it is there")).expect("open");
        assert_eq!(compare(Some(&id(&one)), &id(&link)), Match::Itself);
        assert!(is_plain(&std::fs::File::open(&one).expect("it is there")));
        assert!(!is_plain(&std::fs::File::open("/proc/self/status").expect("it is there")));
        std::fs::remove_dir_all(&dir).expect("mine");
    }
}
