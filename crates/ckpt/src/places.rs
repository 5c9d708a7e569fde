//! Files of an image are opened with the rights of its process: names may lead elsewhere by now, links in them are other users' to exchange, and the
//! process is to come to nothing that it could not open itself.

use image::thread::Thread;
use kern::rights::Rights;
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags};
use std::os::fd::{AsRawFd, OwnedFd};
use vocab::{Fault, Result};

/// The major number of devices whose open files have no state: null, zero, full, random (Documentation/admin-guide/devices.txt).
pub(crate) const STATELESS: u32 = 1;

/// The rights of the process to which these threads belong, of which the first tells. Those that it may raise count.
pub(crate) fn rights(threads: &[Thread]) -> Rights {
    let Some(leader) = threads.first() else {
        // An image of before threads were first in it; the kernel takes away what the caller does not have.
        return Rights { capabilities: !0, ..Rights::default() };
    };
    let creds = &leader.creds;
    let ([.., uid], [.., gid]) = (creds.uids, creds.gids);
    Rights { uid, gid, groups: creds.groups.clone(), capabilities: creds.capabilities[1] }
}

fn failed(path: &[u8]) -> impl Fn(rustix::io::Errno) -> Fault + '_ {
    |e| Fault::sys(e.raw_os_error(), format!("open {}", String::from_utf8_lossy(path)))
}

/// Finds it without opening it: who is asked to open a pipe with a name waits.
fn find(path: &[u8], rights: &Rights) -> Result<OwnedFd> {
    let found = rights.lent(|| rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()))?;
    found.map_err(failed(path))
}

fn opened(found: &OwnedFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(format!("/proc/self/fd/{}", found.as_raw_fd()), flags | OFlags::CLOEXEC, Mode::empty())
}

/// A file, directory or device without a state.
///
/// # Errors
/// EACCES and its like where the process could not open it so; `Refused` for what else has its name.
pub(crate) fn file(path: &[u8], flags: OFlags, rights: &Rights) -> Result<OwnedFd> {
    let found = find(path, rights)?;
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
    rights.lent(|| opened(&found, flags))?.map_err(failed(path))
}

/// A directory that the process may enter.
pub(crate) fn directory(path: &[u8], rights: &Rights) -> Result<OwnedFd> {
    let found = find(path, rights)?;
    may_execute(&found, path, rights).map(|()| found)
}

/// A program that it may execute, and need not be able to read.
pub(crate) fn program(path: &[u8], rights: &Rights) -> Result<OwnedFd> {
    let found = find(path, rights)?;
    may_execute(&found, path, rights)?;
    let now = rustix::fs::fstat(&found).map_err(failed(path))?;
    match FileType::from_raw_mode(now.st_mode) {
        FileType::RegularFile => opened(&found, OFlags::RDONLY).map_err(failed(path)),
        _ => Err(Fault::refused(format!("{} is no program here", String::from_utf8_lossy(path)))),
    }
}

fn may_execute(found: &OwnedFd, path: &[u8], rights: &Rights) -> Result<()> {
    let again = format!("/proc/self/fd/{}", found.as_raw_fd());
    let may = || rustix::fs::accessat(rustix::fs::CWD, again, Access::EXEC_OK, AtFlags::EACCESS);
    rights.lent(may)?.map_err(failed(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

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
        let ann = Rights { uid: 61001, gid: 61001, groups: Vec::new(), capabilities: 0 };
        let errno = |opened: Result<OwnedFd>| opened.map_or_else(|fault| fault.errno, |_| 0);
        for path in [&secret, &link, &open] {
            assert_eq!(errno(file(&bytes(path), OFlags::RDONLY, &ann)), libc::EACCES, "{path:?}");
        }
        assert_eq!(errno(program(&bytes(&open), &ann)), 0);
        assert_eq!(errno(program(&bytes(&link), &ann)), libc::EACCES);
        assert_eq!((errno(directory(&bytes(&closed), &ann)), errno(directory(&bytes(&at), &ann))), (libc::EACCES, 0));
        assert!(file(&bytes(&fifo), OFlags::RDONLY, &ann).is_err_and(|fault| fault.kind == vocab::Kind::Refused));
        let root = Rights { capabilities: !0, ..Rights::default() };
        assert_eq!(errno(file(&bytes(&link), OFlags::RDWR, &root)), 0);
        std::fs::remove_dir_all(&at).expect("mine");
    }
}
