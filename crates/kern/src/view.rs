//! A mount namespace of its own for a few processes (mount_namespaces(7)): made by the first of them, entered by who mounts for them.

use crate::{mount, sys};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use vocab::{Pid, Result};

/// The calling process, which has one thread, gets a copy of all mounts. What is mounted on the machine later is mounted here too, but nothing that is mounted
/// here shows there, and below /proc neither shows in the other.
///
/// # Errors
/// `Sys` as unshare(2) and mount(2): EPERM for who is not root.
pub fn begin() -> Result<()> {
    // SAFETY: takes a number.
    let ret = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    sys::checked(ret.into(), || "make a mount namespace".into())?;
    mount::make_all_slaves()?;
    mount::make_private(Path::new("/proc"))
}

/// The calling process, which has one thread, sees from now on what that of the pidfd sees (setns(2), Linux 5.8). Its root and working directory are the
/// root there.
///
/// # Errors
/// `Sys` as setns(2): ESRCH when the process has ended.
pub fn enter(process: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: takes numbers.
    let ret = unsafe { libc::setns(process.as_raw_fd(), libc::CLONE_NEWNS) };
    sys::checked(ret.into(), || "enter a process's mount namespace".into()).map(drop)
}

/// The calling process, which has one thread, gets a copy of all mounts, for itself. Returns the namespace that it was in, for [`go_back`].
///
/// # Errors
/// `Sys` as unshare(2).
pub fn apart() -> Result<OwnedFd> {
    let before = own_namespace()?;
    // SAFETY: takes a number.
    let ret = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    sys::checked(ret.into(), || "make a mount namespace".into())?;
    Ok(before)
}

/// The mount namespace of the calling process.
///
/// # Errors
/// `Sys` as open(2).
pub fn own_namespace() -> Result<OwnedFd> {
    let file = std::fs::File::open(format!("{}/self/ns/mnt", crate::proc::PROC));
    file.map(OwnedFd::from).map_err(|e| vocab::Fault::io(&e, "open this mount namespace"))
}

/// The calling process, which has one thread, goes into that mount namespace (setns(2)): root and working directory are its root.
///
/// # Errors
/// `Sys` as setns(2).
pub fn go_back(namespace: &OwnedFd) -> Result<()> {
    // SAFETY: takes numbers.
    let ret = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNS) };
    sys::checked(ret.into(), || "enter a mount namespace".into()).map(drop)
}

/// The same by the path at which a namespace is mounted.
///
/// # Errors
/// `Sys` as open(2) and setns(2).
pub fn enter_at(path: &Path) -> Result<()> {
    let file = std::fs::File::open(path).map_err(|e| vocab::Fault::io(&e, format!("open {}", path.display())))?;
    go_back(&file.into())
}

/// The mount namespace that is mounted at this path, if one is.
pub fn namespace_at(path: &Path) -> Option<OwnedFd> {
    const NAMESPACES: i64 = 0x6e73_6673; // NSFS_MAGIC
    let file = std::fs::File::open(path).ok()?;
    let mut found = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: room for the answer, which any bytes are.
    let kind = unsafe {
        let ret = libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr());
        sys::check(ret.into()).ok()?;
        found.assume_init().f_type
    };
    (kind == NAMESPACES).then(|| file.into())
}

/// The mount namespace of the calling process, by the /proc of the machine on which it has been started: for who is in another one than that /proc is of.
///
/// # Errors
/// `Sys` as openat(2).
pub fn own_namespace_by(proc: &OwnedFd) -> Result<OwnedFd> {
    // SAFETY: a live C string.
    let fd = unsafe { libc::openat(proc.as_raw_fd(), c"self/ns/mnt".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    sys::own(fd.into(), || "open this mount namespace".into())
}

/// The name of the mount namespace of a process, as the kernel has it; none: it has ended.
pub fn name_of(pid: Pid) -> Option<std::path::PathBuf> {
    std::fs::read_link(format!("{}/{pid}/ns/mnt", crate::proc::PROC)).ok()
}

/// Does this process see a file system that is mounted from `source`, as mountinfo has it (proc_pid_mountinfo(5))?
pub fn sees(pid: Pid, kind_and_source: &str) -> bool {
    let text = std::fs::read_to_string(format!("{}/{pid}/mountinfo", crate::proc::PROC)).unwrap_or_default();
    let of_it = |line: &str| line.split_once(" - ").is_some_and(|(_, tail)| tail.starts_with(kind_and_source));
    text.lines().any(of_it)
}

/// What is mounted at `at`, to be put into another namespace by [`attach`] (open_tree(2)).
///
/// # Errors
/// `Sys` as open_tree(2).
pub fn copy_of(at: &Path) -> Result<OwnedFd> {
    const CLONE: u32 = 1; // OPEN_TREE_CLONE
    let path = sys::cstring(at.as_os_str().as_bytes())?;
    // SAFETY: the path is a live C string.
    let fd =
        unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), CLONE | libc::O_CLOEXEC as u32) };
    sys::own(fd, || format!("copy the mount at {}", at.display()))
}

/// Mounts it at `at` (move_mount(2)).
///
/// # Errors
/// `Sys` as move_mount(2).
pub fn attach(copy: &OwnedFd, at: &Path) -> Result<()> {
    const EMPTY_FROM: u32 = 4; // MOVE_MOUNT_F_EMPTY_PATH
    let path = sys::cstring(at.as_os_str().as_bytes())?;
    let from = copy.as_raw_fd();
    // SAFETY: both paths are live C strings.
    let ret =
        unsafe { libc::syscall(libc::SYS_move_mount, from, c"".as_ptr(), libc::AT_FDCWD, path.as_ptr(), EMPTY_FROM) };
    sys::checked(ret, || format!("mount a copy at {}", at.display())).map(drop)
}

/// Takes away what [`attach`] has mounted, wherever it is by now, and ends the FUSE connection that it is of: whoever waits for the server gets an error at once
/// (umount2(2): MNT_DETACH, MNT_FORCE). Waits for no server.
///
/// # Errors
/// `Sys` as umount2(2): EINVAL when somebody else has taken it away.
pub fn take_away(attached: &OwnedFd) -> Result<()> {
    let path = sys::cstring(format!("{}/self/fd/{}", crate::proc::PROC, attached.as_raw_fd()))?;
    // SAFETY: a live C string.
    let ret = unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH | libc::MNT_FORCE) };
    sys::checked(ret.into(), || "take a mount away".into()).map(drop)
}

/// Which mount namespace a process is in: the number of the device and of the inode. Nobody else has them as long as somebody is in it. `None`: it has ended.
pub fn of(pid: Pid) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(format!("{}/{pid}/ns/mnt", crate::proc::PROC)).ok()?;
    Some((found.dev(), found.ino()))
}

/// Is it of the caller's user namespace? Another one's mounts are for whoever made that one.
pub fn is_of_same_users(pid: Pid) -> bool {
    let users = |of: &str| std::fs::read_link(format!("{}/{of}/ns/user", crate::proc::PROC)).ok();
    users("self").is_some_and(|own| users(&pid.to_string()) == Some(own))
}

/// The calling process, which has one thread, becomes this user's, for good.
///
/// # Errors
/// `Sys` as setgroups(2), setresgid(2) and setresuid(2).
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> Result<()> {
    let doing = || format!("become user {uid}");
    // SAFETY: a live array with its length, and numbers; the calls are the kernel's own, which are of a thread, and there is one.
    unsafe {
        sys::checked(libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()), doing)?;
        sys::checked(libc::syscall(libc::SYS_setresgid, gid, gid, gid), doing)?;
        sys::checked(libc::syscall(libc::SYS_setresuid, uid, uid, uid), doing)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ns::{self, Forked, Namespaces};
    use crate::sock::{self, Kind};
    use crate::{pidfd, wait};
    use std::os::fd::AsFd;
    use vocab::Fault;

    fn told(line: &OwnedFd) -> u8 {
        let mut byte = [0];
        sys::read(line.as_fd(), &mut byte).map_or(b'!', |_| byte[0])
    }

    /// Entered by another process, it shows there what that one mounts, and nobody else sees it.
    #[test]
    fn what_is_mounted_in_a_view_is_seen_there_alone() {
        crate::testing::in_namespace(|_| {
            let at = std::env::temp_dir().join(format!("shoal-view.{}", std::process::id()));
            std::fs::create_dir_all(&at).expect("a directory");
            let (line, its) = sock::socketpair(Kind::SeqPacket).expect("pair");
            let Forked::Parent(child) = ns::fork(Namespaces::empty()).expect("fork") else {
                drop(line);
                let begun = begin().is_ok();
                let _ = sock::send(its.as_fd(), if begun { b"b" } else { b"f" });
                told(&its);
                let _ = sock::send(its.as_fd(), if at.join("seen").exists() { b"y" } else { b"n" });
                ns::exit(0)
            };
            drop(its);
            assert_eq!(told(&line), b'b');
            let process = pidfd::open(child.pid).expect("it lives");
            let Forked::Parent(enters) = ns::fork(Namespaces::empty()).expect("fork") else {
                let done = enter(process.as_fd())
                    .and_then(|()| mount::mount("tmpfs", &at, mount::Flags::NOSUID, ""))
                    .and_then(|()| std::fs::write(at.join("seen"), "").map_err(|e| Fault::io(&e, "write")));
                ns::exit(done.is_err().into())
            };
            assert!(matches!(
                wait::ended(enters.pid).expect("a child").change,
                wait::Change::Ended(vocab::Exit::Code(0))
            ));
            assert!(of(child.pid).is_some() && of(child.pid) != of(Pid(std::process::id() as i32)));
            assert!(!at.join("seen").exists());
            sock::send(line.as_fd(), b"?").expect("it lives");
            assert_eq!(told(&line), b'y');
            wait::ended(child.pid).expect("a child");
            let _ = std::fs::remove_dir(&at);
        });
    }
}
