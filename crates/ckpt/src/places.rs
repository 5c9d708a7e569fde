//! Files of an image are opened with the rights of its process: names may lead elsewhere by now, links in them are other users' to exchange, and the
//! process is to come to nothing that it could not open itself. But it may have been given what it could not: a log of root's, a directory. Where an
//! image can be believed, and root alone decides where a name leads, root opens it.

use image::thread::{Creds, Thread};
use kern::proc::PROC;
use kern::rights::Rights;
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use vocab::{Fault, Result};

/// The major number of devices whose open files have no state: null, zero, full, random (Documentation/admin-guide/devices.txt).
pub(crate) const STATELESS: u32 = 1;

/// With whose rights files are opened.
pub(crate) struct Opener {
    pub(crate) rights: Rights,
    /// The image is root's word, or a mover's.
    pub(crate) believed: bool,
}

/// The rights of the process to which these threads belong, of which the first tells. Those that it may raise count.
pub(crate) fn rights(threads: &[Thread]) -> Rights {
    let Some(leader) = threads.first() else {
        // An image of before threads were first in it; the kernel takes away what the caller does not have.
        return Rights { capabilities: !0, ..Rights::default() };
    };
    rights_of(&leader.creds)
}

/// The same of who has these.
pub(crate) fn rights_of(creds: &Creds) -> Rights {
    let ([.., uid], [.., gid]) = (creds.uids, creds.gids);
    Rights { uid, gid, groups: creds.groups.clone(), capabilities: creds.capabilities[1] }
}

fn failed(path: &[u8]) -> impl Fn(rustix::io::Errno) -> Fault + '_ {
    |e| Fault::sys(e.raw_os_error(), format!("open {}", String::from_utf8_lossy(path)))
}

impl Opener {
    /// Finds it without opening it: who is asked to open a pipe with a name waits.
    fn find(&self, path: &[u8]) -> Result<OwnedFd> {
        let found = self.rights.lent(|| rustix::fs::open(path, FOUND, Mode::empty()))?;
        found.or_else(|errno| self.given(path, errno)).map_err(failed(path))
    }

    /// What it cannot come to itself: another way, or the same failure.
    fn given(&self, path: &[u8], errno: rustix::io::Errno) -> rustix::io::Result<OwnedFd> {
        let found = (errno == rustix::io::Errno::ACCESS && self.believed).then(|| roots_own(path)).flatten();
        found.ok_or(errno)
    }
}

const FOUND: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// File systems whose names lead to the same file for everybody, and to nothing but files (linux/magic.h): ext, xfs, btrfs, tmpfs, ramfs, overlayfs, f2fs, NFS,
/// SMB, Ceph, Lustre, GPFS, ZFS.
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

/// A path on which nobody but root can exchange anything, and which no link leads astray.
fn roots_own(path: &[u8]) -> Option<OwnedFd> {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let mut at = rustix::fs::open("/", FOUND, Mode::empty()).ok()?;
    for part in path.components() {
        let name = match part {
            Component::RootDir => continue,
            Component::Normal(name) => name,
            _ => return None,
        };
        let directory = rustix::fs::fstat(&at).ok()?;
        let next = rustix::fs::openat(&at, name, FOUND | OFlags::NOFOLLOW, Mode::empty()).ok()?;
        let found = rustix::fs::fstat(&next).ok()?;
        let fixed = directory.st_mode & OTHERS_WRITE == 0 || directory.st_mode & STICKY != 0 && found.st_uid == 0;
        let plain =
            rustix::fs::fstatfs(&next).is_ok_and(|system| PLAIN.contains(&(system.f_type as u64 & 0xffff_ffff)));
        if directory.st_uid != 0 || !fixed || !plain || FileType::from_raw_mode(found.st_mode) == FileType::Symlink {
            return None;
        }
        at = next;
    }
    path.is_absolute().then_some(at)
}

fn opened(found: &OwnedFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(format!("{PROC}/self/fd/{}", found.as_raw_fd()), flags | OFlags::CLOEXEC, Mode::empty())
}

/// A file, directory or device without a state.
///
/// # Errors
/// EACCES and its like where the process could not open it so; `Refused` for what else has its name.
pub(crate) fn file(path: &[u8], flags: OFlags, opener: &Opener) -> Result<OwnedFd> {
    let found = opener.find(path)?;
    if flags.contains(OFlags::PATH) {
        return Ok(found);
    }
    let now = rustix::fs::fstat(&found).map_err(failed(path))?;
    let carried = match FileType::from_raw_mode(now.st_mode) {
        FileType::RegularFile | FileType::Directory => true,
        FileType::CharacterDevice => rustix::fs::major(now.st_rdev) == STATELESS,
        _ => false,
    };
    if !carried {
        return Err(Fault::refused(format!("{} is another kind of file here", String::from_utf8_lossy(path))));
    }
    let open = opener.rights.lent(|| opened(&found, flags))?;
    open.or_else(|errno| opened(&opener.given(path, errno)?, flags)).map_err(failed(path))
}

/// A directory that the process may enter.
pub(crate) fn directory(path: &[u8], opener: &Opener) -> Result<OwnedFd> {
    let found = opener.find(path)?;
    match may_execute(&found, &opener.rights)? {
        Ok(()) => Ok(found),
        Err(errno) => opener.given(path, errno).map_err(failed(path)),
    }
}

/// A program that it may execute, and need not be able to read.
pub(crate) fn program(path: &[u8], opener: &Opener) -> Result<OwnedFd> {
    let found = opener.find(path)?;
    may_execute(&found, &opener.rights)?.map_err(failed(path))?;
    let now = rustix::fs::fstat(&found).map_err(failed(path))?;
    match FileType::from_raw_mode(now.st_mode) {
        FileType::RegularFile => opened(&found, OFlags::RDONLY).map_err(failed(path)),
        _ => Err(Fault::refused(format!("{} is no program here", String::from_utf8_lossy(path)))),
    }
}

fn may_execute(found: &OwnedFd, rights: &Rights) -> Result<rustix::io::Result<()>> {
    let again = format!("{PROC}/self/fd/{}", found.as_raw_fd());
    let may = || rustix::fs::accessat(rustix::fs::CWD, again, Access::EXEC_OK, AtFlags::EACCESS);
    rights.lent(may)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn nothing_is_opened_that_the_process_could_not_open_and_nobody_waits_for_a_pipe() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let at = std::env::temp_dir().join(format!("places.{}", std::process::id()));
        let (open, closed, secret, link) = (at.join("open"), at.join("closed"), at.join("secret"), at.join("link"));
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("mine");
        };
        for directory in [&at, &closed] {
            std::fs::create_dir(directory).expect("a new one");
        }
        std::fs::write(&open, "x").and_then(|()| std::fs::write(&secret, "x")).expect("files");
        std::os::unix::fs::symlink(&secret, &link).expect("a link");
        let fifo = at.join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("a pipe");
        for (path, bits) in [(&at, 0o755), (&open, 0o711), (&closed, 0o700), (&secret, 0o600), (&fifo, 0o666)] {
            mode(path, bits);
        }
        let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
        let by = |uid, capabilities, believed| {
            let rights = Rights { uid, gid: uid, groups: Vec::new(), capabilities };
            Opener { rights, believed }
        };
        let (ann, root) = (by(61001, 0, false), by(0, !0, true));
        let errno = |opened: Result<OwnedFd>| opened.map_or_else(|fault| fault.errno, |_| 0);
        for path in [&secret, &link, &open] {
            assert_eq!(errno(file(&bytes(path), OFlags::RDONLY, &ann)), libc::EACCES, "{path:?}");
        }
        assert_eq!(errno(program(&bytes(&open), &ann)), 0);
        assert_eq!(errno(program(&bytes(&link), &ann)), libc::EACCES);
        assert_eq!((errno(directory(&bytes(&closed), &ann)), errno(directory(&bytes(&at), &ann))), (libc::EACCES, 0));
        assert!(file(&bytes(&fifo), OFlags::RDONLY, &ann).is_err_and(|fault| fault.kind == vocab::Kind::Refused));
        assert_eq!(errno(file(&bytes(&link), OFlags::RDWR, &root)), 0);
        // What she may have been given, where nobody but root decides what that is.
        let believed = by(61001, 0, true);
        for path in [&secret, &open] {
            assert_eq!(errno(file(&bytes(path), OFlags::RDWR, &believed)), 0, "{path:?}");
        }
        assert_eq!(errno(directory(&bytes(&closed), &believed)), 0);
        assert_eq!(errno(file(&bytes(&link), OFlags::RDWR, &believed)), libc::EACCES);
        assert_eq!(errno(file(b"/proc/1/mem", OFlags::RDWR, &believed)), libc::EACCES);
        for (bits, owner, expected) in [(0o777, 0, libc::EACCES), (0o1777, 0, 0), (0o755, 61001, libc::EACCES)] {
            std::os::unix::fs::chown(&at, Some(owner), None).expect("mine");
            mode(&at, bits);
            assert_eq!(errno(file(&bytes(&secret), OFlags::RDWR, &believed)), expected, "{bits:o} of {owner}");
        }
        std::fs::remove_dir_all(&at).expect("mine");
    }
}
