//! The few calls that everything else is made of: errno as a value, descriptors that close themselves.

use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use vocab::{Fault, Result};

/// The result of a libc call: `-1` becomes the errno.
pub fn check(ret: i64) -> std::result::Result<i64, i32> {
    if ret == -1 {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    } else {
        Ok(ret)
    }
}

/// The same, as a fault that says what was being done.
pub fn checked(ret: i64, doing: impl FnOnce() -> String) -> Result<i64> {
    check(ret).map_err(|errno| Fault::sys(errno, doing()))
}

/// Fills `into` with bytes that nobody can guess, of the kernel: no descriptor is needed for it, and no file.
///
/// # Errors
/// `Sys` as getrandom(2).
pub fn random(into: &mut [u8]) -> Result<()> {
    let mut done = 0;
    while done < into.len() {
        let rest = &mut into[done..];
        // SAFETY: the kernel writes at most as many bytes as there are.
        match check(unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) } as i64) {
            Ok(count) => done += count as usize,
            Err(libc::EINTR) => {}
            Err(errno) => return Err(Fault::sys(errno, "get random bytes")),
        }
    }
    Ok(())
}

/// A path or other string for the kernel.
///
/// # Errors
/// `Refused` when it has a NUL inside.
pub fn cstring(text: impl Into<Vec<u8>>) -> Result<CString> {
    CString::new(text).map_err(|_| Fault::refused("a string for the kernel has a NUL inside"))
}

/// Takes ownership of a descriptor that a call has just returned.
pub fn own(ret: i64, doing: impl FnOnce() -> String) -> Result<OwnedFd> {
    let fd = checked(ret, doing)?;
    // SAFETY: the kernel returned it to this call just now, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Reads once. `Ok(0)` is the end of the file.
pub fn read(fd: BorrowedFd<'_>, into: &mut [u8]) -> std::result::Result<usize, i32> {
    // SAFETY: the pointer and the length are those of a live, writable slice.
    check(unsafe { libc::read(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) } as i64).map(|n| n as usize)
}

/// Reads what is there of a pipe or socket whatever mode its description has, which others share (RWF_NOWAIT, preadv2(2)): EAGAIN
/// when there is nothing. Before Linux 6.4 pipes did not know of it; there this is [`read`], and waits if somebody else was faster.
pub fn read_now(fd: BorrowedFd<'_>, into: &mut [u8]) -> std::result::Result<usize, i32> {
    let piece = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: one iovec, which describes a live, writable slice; -1: the file's own position.
    let ret = unsafe { libc::preadv2(fd.as_raw_fd(), &piece, 1, -1, libc::RWF_NOWAIT) };
    match check(ret as i64) {
        Err(libc::EOPNOTSUPP) => read(fd, into),
        got => got.map(|n| n as usize),
    }
}

/// Writes once; may write less than all.
pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> std::result::Result<usize, i32> {
    // SAFETY: the pointer and the length are those of a live slice.
    check(unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) } as i64).map(|n| n as usize)
}

/// Of an open file (F_GETFL).
fn flags(fd: BorrowedFd<'_>) -> Result<i32> {
    // SAFETY: F_GETFL takes and returns plain numbers.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    checked(flags.into(), || "read descriptor flags".into()).map(|flags| flags as i32)
}

/// Is it open for both reading and writing?
///
/// # Errors
/// `Sys` as fcntl(2).
pub fn reads_and_writes(fd: BorrowedFd<'_>) -> Result<bool> {
    Ok(flags(fd)? & libc::O_ACCMODE == libc::O_RDWR)
}

/// Sets or clears O_NONBLOCK.
pub fn set_nonblocking(fd: BorrowedFd<'_>, on: bool) -> Result<()> {
    let flags = if on { flags(fd)? | libc::O_NONBLOCK } else { flags(fd)? & !libc::O_NONBLOCK };
    // SAFETY: F_SETFL takes and returns plain numbers.
    checked(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) }.into(), || "set O_NONBLOCK".into()).map(drop)
}

/// A file in memory with these bytes in it (memfd_create(2)).
pub fn memory_file(bytes: &[u8]) -> Result<OwnedFd> {
    // SAFETY: a live string and flags.
    let fd = unsafe { libc::memfd_create(c"shoal".as_ptr(), libc::MFD_CLOEXEC) };
    let mut file = std::fs::File::from(own(fd.into(), || "make a file in memory".into())?);
    std::io::Write::write_all(&mut file, bytes).map_err(|e| Fault::io(&e, "fill a file in memory"))?;
    Ok(file.into())
}

/// A pipe, both ends close-on-exec: (read, write).
pub fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0i32; 2];
    // SAFETY: `ends` is an array of two ints, as pipe2(2) wants.
    checked(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }.into(), || "make a pipe".into())?;
    // SAFETY: both were made just now and belong to nobody.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}
