//! Mounts (mount(2)) and the one extended attribute that depends on how a file system is mounted: file capabilities.

use crate::capability::CHECKPOINT_RESTORE;
use crate::proc::PROC;
use crate::sys;
use bitflags::bitflags;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use vocab::{Fault, Pid, Result};

bitflags! {
    /// The flags of a mount that we use (mount(2)).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Flags: libc::c_ulong {
        const RDONLY = libc::MS_RDONLY;
        const NOSUID = libc::MS_NOSUID;
        const NODEV = libc::MS_NODEV;
        const NOEXEC = libc::MS_NOEXEC;
    }
}

fn call(source: &Path, target: &Path, kind: &str, flags: libc::c_ulong, data: &str, doing: &str) -> Result<()> {
    let source_text = path(source)?;
    let target_text = path(target)?;
    let kind = sys::cstring(kind)?;
    let data = sys::cstring(data)?;
    // SAFETY: four strings that end with a NUL and outlive the call, as mount(2) wants them.
    let ret =
        unsafe { libc::mount(source_text.as_ptr(), target_text.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast()) };
    sys::checked(ret.into(), || format!("{doing} {}", target.display())).map(drop)
}

fn path(path: &Path) -> Result<CString> {
    sys::cstring(path.as_os_str().as_bytes())
}

/// Makes the directory `at`, and those above it, where they are missing; returns a path of it that stays right when the working directory changes.
pub fn directory(at: &Path) -> Result<PathBuf> {
    let doing = || format!("make the directory {}", at.display());
    std::fs::create_dir_all(at).and_then(|()| at.canonicalize()).map_err(|e| Fault::io(&e, doing()))
}

/// Cuts every mount of this mount namespace off from its peers in others, so that nothing done here shows there.
pub fn make_all_private() -> Result<()> {
    call(Path::new("none"), Path::new("/"), "", libc::MS_REC | libc::MS_PRIVATE, "", "make private all mounts below")
}

/// Mounts that are made or taken away at peers are here too, and nothing that is done here is there (MS_SLAVE).
pub fn make_all_slaves() -> Result<()> {
    let flags = libc::MS_REC | libc::MS_SLAVE;
    call(Path::new("none"), Path::new("/"), "", flags, "", "make slaves of all mounts below")
}

/// Makes each mount of this mount namespace a peer of its copies in namespaces that are made from this one, as systemd does on a real machine (MS_SHARED).
pub fn make_all_shared() -> Result<()> {
    call(Path::new("none"), Path::new("/"), "", libc::MS_REC | libc::MS_SHARED, "", "share all mounts below")
}

/// Cuts the mount at `target` off from its peers in other mount namespaces.
pub fn make_private(target: &Path) -> Result<()> {
    call(Path::new("none"), target, "", libc::MS_PRIVATE, "", "make private")
}

/// Mounts a new file system of type `kind` at `target`; `options` as in mount(8), may be empty.
pub fn mount(kind: &str, target: &Path, flags: Flags, options: &str) -> Result<()> {
    call(Path::new(kind), target, kind, flags.bits(), options, &format!("mount {kind} at"))
}

/// The same, and mount tables say that it comes from `source`.
pub fn mount_from(source: &str, kind: &str, target: &Path, flags: Flags, options: &str) -> Result<()> {
    call(Path::new(source), target, kind, flags.bits(), options, &format!("mount {kind} at"))
}

/// A new file system of type `kind` that is mounted nowhere, and goes with the descriptor of its root, which is returned (fsmount(2)).
pub fn detached(kind: &str) -> Result<OwnedFd> {
    const CREATE: libc::c_uint = 6; // FSCONFIG_CMD_CREATE
    const ATTRIBUTES: libc::c_uint = 2 | 4 | 8; // MOUNT_ATTR_NOSUID, _NODEV, _NOEXEC
    let doing = || format!("make a {kind} file system");
    let name = sys::cstring(kind)?;
    // SAFETY: a live string, numbers, and null for what is not given.
    unsafe {
        let made = sys::own(libc::syscall(libc::SYS_fsopen, name.as_ptr(), 1 /* FSOPEN_CLOEXEC */), doing)?;
        let none = std::ptr::null::<libc::c_char>();
        sys::checked(libc::syscall(libc::SYS_fsconfig, made.as_raw_fd(), CREATE, none, none, 0), doing)?;
        sys::own(libc::syscall(libc::SYS_fsmount, made.as_raw_fd(), 1 /* FSMOUNT_CLOEXEC */, ATTRIBUTES), doing)
    }
}

/// The same with options, each with a value or without one; no device files.
///
/// # Errors
/// `Sys` as fsopen(2), fsconfig(2) and fsmount(2).
pub fn detached_with(kind: &str, options: &[(&str, Option<&str>)]) -> Result<OwnedFd> {
    const FLAG: libc::c_uint = 0; // FSCONFIG_SET_FLAG
    const STRING: libc::c_uint = 1; // FSCONFIG_SET_STRING
    const CREATE: libc::c_uint = 6; // FSCONFIG_CMD_CREATE
    const NODEV: libc::c_uint = 4; // MOUNT_ATTR_NODEV
    let doing = || format!("make a {kind} file system");
    let name = sys::cstring(kind)?;
    // SAFETY: live strings, numbers, and null for what is not given.
    unsafe {
        let made = sys::own(libc::syscall(libc::SYS_fsopen, name.as_ptr(), 1 /* FSOPEN_CLOEXEC */), doing)?;
        let none = std::ptr::null::<libc::c_char>();
        for (name, value) in options {
            let doing = || format!("make a {kind} file system with {name}");
            let name = sys::cstring(*name)?;
            let value = value.map(sys::cstring).transpose()?;
            let (how, value) = value.as_ref().map_or((FLAG, none), |value| (STRING, value.as_ptr()));
            sys::checked(libc::syscall(libc::SYS_fsconfig, made.as_raw_fd(), how, name.as_ptr(), value, 0), doing)?;
        }
        sys::checked(libc::syscall(libc::SYS_fsconfig, made.as_raw_fd(), CREATE, none, none, 0), doing)?;
        sys::own(libc::syscall(libc::SYS_fsmount, made.as_raw_fd(), 1 /* FSMOUNT_CLOEXEC */, NODEV), doing)
    }
}

/// Makes the file or directory `source` (this one mount only) also visible at `target`.
pub fn bind(source: &Path, target: &Path) -> Result<()> {
    call(source, target, "", libc::MS_BIND, "", &format!("bind {} to", source.display()))
}

/// Makes the directory `source` and all that is mounted below it also visible at `target`, but for what [`make_unbindable`] was.
pub fn bind_all(source: &Path, target: &Path) -> Result<()> {
    let doing = format!("bind {} and what is mounted there to", source.display());
    call(source, target, "", libc::MS_BIND | libc::MS_REC, "", &doing)
}

/// The mount at `target` is left out where a tree of mounts is copied (MS_UNBINDABLE).
pub fn make_unbindable(target: &Path) -> Result<()> {
    call(Path::new("none"), target, "", libc::MS_UNBINDABLE, "", "make unbindable")
}

/// The mount at `at` becomes the root of this mount namespace, for this process and all whose root the old one was, which is mounted nowhere then
/// (pivot_root(2)). The process is in the new root.
///
/// # Errors
/// `Sys` as pivot_root(2): EINVAL where the old root is no mount that can be taken away.
pub fn become_root(at: &Path) -> Result<()> {
    let target = path(at)?;
    let doing = || format!("make {} the root", at.display());
    // SAFETY: live strings.
    unsafe {
        sys::checked(libc::chdir(target.as_ptr()).into(), doing)?;
        sys::checked(libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()), doing)?;
        // What was the root lies upon it now.
        sys::checked(libc::umount2(c".".as_ptr(), libc::MNT_DETACH).into(), doing)?;
        sys::checked(libc::chdir(c"/".as_ptr()).into(), doing).map(drop)
    }
}

/// Makes the mount at `target` read-only in this place; other places where the file system is mounted are untouched.
pub fn make_read_only(target: &Path) -> Result<()> {
    let flags = libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY;
    call(Path::new("none"), target, "", flags, "", "make read-only")
}

/// Takes the mount at `target` away at once; it ends when the last user is gone (MNT_DETACH).
pub fn detach(target: &Path) -> Result<()> {
    let text = path(target)?;
    // SAFETY: a string that ends with a NUL.
    let ret = unsafe { libc::umount2(text.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) };
    sys::checked(ret.into(), || format!("unmount {}", target.display())).map(drop)
}

/// Ends the FUSE connection of what is mounted at `target`: every process that waits for its server gets an error at once, here and
/// wherever else it is mounted, and mounts that are in use stay, of no use (MNT_FORCE; linux: `fuse_umount_begin`). Waits for no server.
pub fn abort(target: &Path) -> Result<()> {
    let text = path(target)?;
    // SAFETY: a string that ends with a NUL.
    let ret = unsafe { libc::umount2(text.as_ptr(), libc::MNT_FORCE | libc::UMOUNT_NOFOLLOW) };
    match sys::check(ret.into()) {
        // It is in use, and ended all the same.
        Ok(_) | Err(libc::EBUSY) => Ok(()),
        Err(errno) => Err(Fault::sys(errno, format!("end who serves {}", target.display()))),
    }
}

/// The type of what is mounted at `target` in this process's mount namespace, if something is; `target` as mountinfo has it (proc_pid_mountinfo(5)). Looks
/// into none of it.
pub fn kind_at(target: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("{PROC}/self/mountinfo")).ok()?;
    let of_line = |line: &str| {
        let (head, tail) = line.split_once(" - ")?;
        (head.split(' ').nth(4)? == target).then(|| tail.split(' ').next().map(str::to_owned))?
    };
    // What is mounted last is on top.
    text.lines().rev().find_map(of_line)
}

/// The connections (numbers in `/sys/fs/fuse/connections`) of the FUSE file systems that process `pid` sees mounted.
/// Empty when it has ended, or is about to and has given its mounts up.
pub fn fuse_connections(pid: Pid) -> Vec<u32> {
    // The main thread may have ended before the others; then only those still have mounts.
    for task in std::fs::read_dir(format!("{PROC}/{pid}/task")).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(task.path().join("mountinfo")).unwrap_or_default();
        if !text.is_empty() {
            return text.lines().filter_map(fuse_connection).collect();
        }
    }
    Vec::new()
}

/// From a line of mountinfo (proc_pid_mountinfo(5)): id, parent, major:minor, …, a lone dash, the type.
fn fuse_connection(line: &str) -> Option<u32> {
    let (head, tail) = line.split_once(" - ")?;
    let kind = tail.split(' ').next()?;
    let minor = || head.split(' ').nth(2)?.strip_prefix("0:")?.parse().ok();
    if kind == "fuse" || kind.starts_with("fuse.") {
        minor()
    } else {
        None
    }
}

/// Ends a FUSE connection: every process that waits for its server gets an error at once.
pub fn abort_fuse(connection: u32) -> Result<()> {
    let file = format!("/sys/fs/fuse/connections/{connection}/abort");
    std::fs::write(&file, "1").map_err(|e| Fault::io(&e, format!("write to {file}")))
}

/// Gives the program file the capability that `shoal run` needs when an ordinary user calls it:
/// what `setcap cap_checkpoint_restore=ep FILE` does.
///
/// # Errors
/// EPERM without CAP_SETFCAP, EOPNOTSUPP on a file system without extended attributes.
pub fn set_checkpoint_restore(file: &Path) -> Result<()> {
    const REVISION_2_EFFECTIVE: u32 = 0x0200_0001;
    let words = [REVISION_2_EFFECTIVE, 0, 0, 1 << (CHECKPOINT_RESTORE - 32), 0];
    set_capabilities(file, &words, "cap_checkpoint_restore")
}

/// Gives the program file all capabilities as permitted ones: whoever executes it has those that are in its bounding set, none of them in
/// effect. (With the effective bit it could not be executed where one of them is missing: execve(2), EPERM.)
///
/// # Errors
/// As [`set_checkpoint_restore`].
pub fn permit_all_capabilities(file: &Path) -> Result<()> {
    const REVISION_2: u32 = 0x0200_0000;
    set_capabilities(file, &[REVISION_2, !0, 0, !0, 0], "all capabilities")
}

/// The words are struct vfs_cap_data of revision 2: magic and the effective bit, then permitted and inheritable for caps 0-31
/// and for caps 32-63, all little endian (linux/capability.h).
fn set_capabilities(file: &Path, words: &[u32; 5], what: &str) -> Result<()> {
    let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let text = path(file)?;
    // SAFETY: two strings that end with a NUL, and a buffer with its length.
    let ret = unsafe {
        libc::setxattr(text.as_ptr(), c"security.capability".as_ptr(), value.as_ptr().cast(), value.len(), 0)
    };
    sys::checked(ret.into(), || format!("give {what} to {}", file.display())).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuse_mounts_are_told_by_their_type() {
        let line = "390 355 0:81 / /run/shoal/ghosts rw,nosuid shared:4 - fuse shoal rw,user_id=0";
        assert_eq!(fuse_connection(line), Some(81));
        assert_eq!(fuse_connection(&line.replace("- fuse ", "- fuse.sshfs ")), Some(81));
        assert_eq!(fuse_connection(&line.replace("- fuse ", "- fusectl ")), None);
        assert_eq!(fuse_connection("nonsense"), None);
    }
}
