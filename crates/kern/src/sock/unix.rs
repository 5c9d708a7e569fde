//! Unix sockets: unix(7).

use crate::sock::set_number;
use crate::sys::{check, checked, cstring, own, set_nonblocking};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use vocab::{Fault, Result};

/// Connections that wait to be taken: few, since whoever connects next waits behind them. connect(2) waits for room in the order of the callers.
const BACKLOG: i32 = 128;

/// What a pair of sockets carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Bytes.
    Stream,
    /// Messages, in order, each whole.
    SeqPacket,
}

/// Not in the libc crate: asm-generic/socket.h.
const SO_PASSRIGHTS: i32 = 83;

/// Two sockets joined to each other; blocking, close-on-exec.
///
/// # Errors
/// `Sys` as socketpair(2).
pub fn socketpair(kind: Kind) -> Result<(OwnedFd, OwnedFd)> {
    let kind = match kind {
        Kind::Stream => libc::SOCK_STREAM,
        Kind::SeqPacket => libc::SOCK_SEQPACKET,
    };
    let mut ends = [0i32; 2];
    // SAFETY: `ends` is an array of two ints, as socketpair(2) wants.
    let ret = unsafe { libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) };
    checked(ret.into(), || "make a socket pair".into())?;
    // SAFETY: both were made just now and belong to nobody.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Listens at `path`, nonblocking, with the permission bits `mode` (to connect one needs write permission). Nobody can
/// connect before they are set. A socket that a dead daemon left there is replaced.
///
/// Whoever connects can send no descriptors over it, from Linux 6.16 on (SO_PASSRIGHTS). Before, a receiver has to close them, and closing
/// may wait for whoever sent them (a TCP socket with SO_LINGER, say).
///
/// # Errors
/// `Sys` as bind(2): EADDRINUSE when somebody listens there, EACCES, ENOENT; `Refused` for a path longer than 107
/// bytes.
pub fn unix_listen(path: &Path, mode: u32) -> Result<OwnedFd> {
    listen(path, mode, false)
}

/// The same for root, who may send descriptors.
///
/// # Errors
/// As [`unix_listen`].
pub fn unix_listen_for_descriptors(path: &Path) -> Result<OwnedFd> {
    listen(path, 0o600, true)
}

fn listen(path: &Path, mode: u32, takes_descriptors: bool) -> Result<OwnedFd> {
    let fd = socket(libc::SOCK_NONBLOCK)?;
    let address = address(path)?;
    match bind(fd.as_fd(), &address) {
        Err(libc::EADDRINUSE) if is_left_over(path) => {
            std::fs::remove_file(path).map_err(|e| Fault::io(&e, format!("remove the old {}", path.display())))?;
            bind(fd.as_fd(), &address)
        }
        done => done,
    }
    .map_err(|errno| Fault::sys(errno, format!("bind {}", path.display())))?;
    // Older kernels do not know it.
    let _ = set_number(fd.as_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, takes_descriptors.into());
    let name = cstring(path.as_os_str().as_bytes())?;
    // SAFETY: `name` is a live C string.
    checked(unsafe { libc::chmod(name.as_ptr(), mode) }.into(), || format!("chmod {}", path.display()))?;
    // SAFETY: takes numbers, returns a number.
    checked(unsafe { libc::listen(fd.as_raw_fd(), BACKLOG) }.into(), || format!("listen at {}", path.display()))?;
    Ok(fd)
}

/// Connects to the socket at `path`; the descriptor is nonblocking. Waits at most `timeout_us` microseconds for a place
/// in the listener's queue.
///
/// # Errors
/// `Gone` with ECONNREFUSED or ENOENT when nobody listens there, `Sys` as connect(2) otherwise: EACCES, EAGAIN when the
/// time is over.
pub fn unix_connect(path: &Path, timeout_us: u64) -> Result<OwnedFd> {
    let fd = socket(0)?;
    set_send_timeout(fd.as_fd(), timeout_us.max(1))?;
    let doing = || format!("connect to {}", path.display());
    match connect(fd.as_fd(), &address(path)?) {
        Ok(()) => {}
        Err(errno @ (libc::ECONNREFUSED | libc::ENOENT)) => return Err(Fault { errno, ..Fault::gone(doing()) }),
        Err(errno) => return Err(Fault::sys(errno, doing())),
    }
    set_send_timeout(fd.as_fd(), 0)?;
    set_nonblocking(fd.as_fd(), true)?;
    Ok(fd)
}

/// Is there a socket at `path` on which nobody listens?
fn is_left_over(path: &Path) -> bool {
    // A connect to any other kind of file is refused with the same errno (linux: unix_find_bsd).
    if !std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        return false;
    }
    let Ok(probe) = socket(libc::SOCK_NONBLOCK) else { return false };
    let Ok(address) = address(path) else { return false };
    connect(probe.as_fd(), &address) == Err(libc::ECONNREFUSED)
}

fn socket(flags: i32) -> Result<OwnedFd> {
    // SAFETY: takes numbers, returns a number.
    let ret = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags, 0) };
    own(ret.into(), || "make a unix socket".into())
}

fn address(path: &Path) -> Result<libc::sockaddr_un> {
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; 108] };
    let bytes = path.as_os_str().as_bytes();
    // One place stays for the NUL; an empty path or a first NUL would mean another name space (unix(7)).
    if bytes.is_empty() || bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        return Err(Fault::refused(format!("socket path {}: 1 to 107 bytes without NUL are allowed", path.display())));
    }
    for (place, byte) in address.sun_path.iter_mut().zip(bytes) {
        *place = *byte as libc::c_char;
    }
    Ok(address)
}

fn bind(fd: BorrowedFd<'_>, address: &libc::sockaddr_un) -> std::result::Result<(), i32> {
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: `address` is a live sockaddr_un of that length.
    check(unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(address).cast(), length) }.into()).map(drop)
}

fn connect(fd: BorrowedFd<'_>, address: &libc::sockaddr_un) -> std::result::Result<(), i32> {
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: `address` is a live sockaddr_un of that length.
    check(unsafe { libc::connect(fd.as_raw_fd(), std::ptr::from_ref(address).cast(), length) }.into()).map(drop)
}

/// SO_SNDTIMEO is also how long a connect waits (linux: `unix_stream_connect`); 0 is for ever.
fn set_send_timeout(fd: BorrowedFd<'_>, us: u64) -> Result<()> {
    let time =
        libc::timeval { tv_sec: (us / 1_000_000) as libc::time_t, tv_usec: (us % 1_000_000) as libc::suseconds_t };
    let length = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: the option's value is a live timeval of that length.
    let ret = unsafe {
        let value = std::ptr::from_ref(&time).cast();
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDTIMEO, value, length)
    };
    checked(ret.into(), || "set SO_SNDTIMEO".into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sock::accept;
    use std::os::unix::fs::PermissionsExt;

    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("shoal-sock-{}-{name}", std::process::id()));
            std::fs::create_dir(&path).expect("a new directory");
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_mode_is_set_and_a_left_over_socket_is_replaced_but_not_a_live_one() {
        let scratch = Scratch::new("listen");
        let path = scratch.0.join("s");
        let first = unix_listen(&path, 0o660).expect("listen");
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o660);
        assert_eq!(unix_listen(&path, 0o660).expect_err("taken").errno, libc::EADDRINUSE);
        drop(first);
        assert_eq!(unix_connect(&path, 1_000_000).expect_err("left over").errno, libc::ECONNREFUSED);
        let second = unix_listen(&path, 0o600).expect("replaced");
        // The probe of a live listener leaves a dead connection in the queue: only what is made after it counts here.
        let _dialled = unix_connect(&path, 1_000_000).expect("connect");
        assert!(accept(second.as_fd()).expect("accept").is_some());
        assert!(accept(second.as_fd()).expect("accept").is_none());
    }

    #[test]
    fn a_file_that_is_no_socket_is_not_removed() {
        let scratch = Scratch::new("file");
        let path = scratch.0.join("s");
        std::fs::write(&path, "mine").expect("write");
        assert_eq!(unix_listen(&path, 0o600).expect_err("taken").errno, libc::EADDRINUSE);
        assert_eq!(std::fs::read(&path).expect("still there"), b"mine");
    }

    #[test]
    fn bad_paths_are_refused_and_missing_ones_gone() {
        assert_eq!(unix_connect(Path::new(""), 1).expect_err("empty").kind, vocab::Kind::Refused);
        let long = "x".repeat(108);
        assert_eq!(unix_listen(Path::new(&long), 0).expect_err("long").kind, vocab::Kind::Refused);
        assert_eq!(unix_connect(Path::new("/nonexistent/s"), 1).expect_err("none").kind, vocab::Kind::Gone);
    }
}
