//! Sockets: TCP between machines, unix streams within one, always close-on-exec. Who is at the other end is in `peer`,
//! descriptors on the way in `pass`.

mod pass;
mod peer;
mod ports;
mod tcp;
mod unix;

pub use pass::{receive_with, send_with, Received, MOST_DESCRIPTORS};
pub use peer::{peer_credentials, peer_groups, peer_identity, peer_pidfd, Peer, PeerCreds};
pub use ports::{channel_ports, take_channels_at, tcp_listen_anywhere, Ports};
pub use tcp::{
    is_port_of_root, is_unheard, local_address, peer_address, tcp_await, tcp_begin, tcp_begin_as_root, tcp_congestion,
    tcp_connect, tcp_cubic, tcp_finish, tcp_listen, tcp_round_trip_us, tcp_tune, wake_at, KEEPALIVE_S, USER_TIMEOUT_MS,
};
pub use unix::{socketpair, unix_connect, unix_listen, unix_listen_for_descriptors, Kind};

use crate::clock::{monotonic_us, timespec};
use crate::sys::{check, checked};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use vocab::{Fault, Result};

/// Sends once, without SIGPIPE; may send less than all. The errno is EAGAIN when a nonblocking socket takes nothing
/// now.
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> std::result::Result<usize, i32> {
    // SAFETY: the pointer and the length are those of a live slice.
    let ret = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
    check(ret as i64).map(|n| n as usize)
}

/// Copies what is to be received next, and leaves it there; `None` when there is nothing now. Descriptors that come with it stay too.
///
/// # Errors
/// `Sys` as recv(2).
pub fn peek(fd: BorrowedFd<'_>, into: &mut [u8]) -> Result<Option<usize>> {
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    loop {
        // SAFETY: the pointer and the length are those of a live slice that may be written.
        match check(unsafe { libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags) } as i64) {
            Ok(bytes) => return Ok(Some(bytes as usize)),
            Err(libc::EINTR) => {}
            Err(libc::EAGAIN) => return Ok(None),
            Err(errno) => return Err(Fault::sys(errno, "look at what is to be received")),
        }
    }
}

/// Takes one waiting connection, nonblocking and close-on-exec; `None` when nobody waits. Connections that died while
/// they waited are skipped.
///
/// # Errors
/// `Sys` as accept4(2); EMFILE and ENFILE leave the connection waiting, so a loop must not spin on them.
pub fn accept(fd: BorrowedFd<'_>) -> Result<Option<OwnedFd>> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    loop {
        let none = std::ptr::null_mut();
        // SAFETY: the peer's address is not asked for.
        match check(unsafe { libc::accept4(fd.as_raw_fd(), none, none.cast(), flags) }.into()) {
            // SAFETY: the kernel made it just now, nobody else owns it.
            Ok(fd) => return Ok(Some(unsafe { OwnedFd::from_raw_fd(fd as i32) })),
            Err(libc::EAGAIN) => return Ok(None),
            // accept(2), "Error handling": an error that is already pending on the new socket comes out here.
            Err(
                libc::EINTR
                | libc::ECONNABORTED
                | libc::EPROTO
                | libc::ENETDOWN
                | libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::EHOSTDOWN
                | libc::ENOPROTOOPT
                | libc::ENONET,
            ) => {}
            Err(errno) => return Err(Fault::sys(errno, "accept a connection")),
        }
    }
}

/// No more bytes will be sent from here: the other end reads the end of the file.
///
/// # Errors
/// `Sys` as shutdown(2).
pub fn shutdown_write(fd: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: takes numbers, returns a number.
    checked(unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) }.into(), || "shut a socket".into()).map(drop)
}

/// The error that waits on a socket (SO_ERROR), which this clears; 0: none.
///
/// # Errors
/// `Sys` as getsockopt(2).
pub fn pending_error(fd: BorrowedFd<'_>) -> Result<i32> {
    get_number(fd, libc::SOL_SOCKET, libc::SO_ERROR)
}

/// Waits for `events` (poll(2)) on one descriptor until the monotonic moment `deadline_us`. False: it is past.
pub(crate) fn poll_until(fd: BorrowedFd<'_>, events: i16, deadline_us: u64) -> Result<bool> {
    loop {
        let mut one = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
        let left = timespec(deadline_us.saturating_sub(monotonic_us()));
        // SAFETY: one live pollfd, a live timespec, no signal mask.
        match check(unsafe { libc::ppoll(&mut one, 1, &left, std::ptr::null()) }.into()) {
            Ok(count) => return Ok(count > 0),
            Err(libc::EINTR) => {}
            Err(errno) => return Err(Fault::sys(errno, "wait for a socket")),
        }
    }
}

pub(crate) fn set_number(fd: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> Result<()> {
    // SAFETY: the option's value is a live int and its size is given.
    let ret = unsafe {
        let value = std::ptr::from_ref(&value);
        libc::setsockopt(fd.as_raw_fd(), level, option, value.cast(), size_of::<i32>() as libc::socklen_t)
    };
    checked(ret.into(), || format!("set socket option {level}/{option}")).map(drop)
}

pub(crate) fn get_number(fd: BorrowedFd<'_>, level: i32, option: i32) -> Result<i32> {
    let mut value = 0i32;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the option's value is a live int and `length` is its size.
    let ret = unsafe {
        let value = std::ptr::from_mut(&mut value);
        libc::getsockopt(fd.as_raw_fd(), level, option, value.cast(), &mut length)
    };
    checked(ret.into(), || format!("read socket option {level}/{option}"))?;
    Ok(value)
}
