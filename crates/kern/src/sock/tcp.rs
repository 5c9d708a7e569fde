//! TCP connections: tcp(7).

use super::{poll_until, set_number};
use crate::clock::monotonic_us;
use crate::sys::{check, checked, own};
use std::mem::ManuallyDrop;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use vocab::{Fault, Kind, Result};

/// Seconds without traffic after which a connection is probed, and between two probes, at most; three lost probes end it, or less if
/// that takes longer than its TCP_USER_TIMEOUT (tcp_keepalive_timer).
pub const KEEPALIVE_S: u32 = 5;

/// Milliseconds that sent bytes may stay unacknowledged before the connection ends (TCP_USER_TIMEOUT), unless set
/// otherwise.
pub const USER_TIMEOUT_MS: u32 = 20_000;

/// Listens on `address`, nonblocking, with SO_REUSEADDR; port 0 takes a free one ([`local_address`] says which).
///
/// # Errors
/// `Sys` as bind(2), listen(2): EADDRINUSE, EADDRNOTAVAIL, EACCES.
pub fn tcp_listen(address: SocketAddr) -> Result<OwnedFd> {
    let listener = TcpListener::bind(address).map_err(|e| Fault::io(&e, format!("listen on {address}")))?;
    listener.set_nonblocking(true).map_err(|e| Fault::io(&e, "set O_NONBLOCK"))?;
    let fd = OwnedFd::from(listener);
    // SAFETY: takes numbers.
    let ret = unsafe { libc::listen(fd.as_raw_fd(), AS_MANY_AS_ALLOWED) };
    checked(ret.into(), || format!("listen on {address}")).map(|_| fd)
}

/// Connections that wait to be accepted: the kernel takes its own limit instead (listen(2): net.core.somaxconn, 4096). SOMAXCONN of the C library and what the standard library asks for, 128, are too few where a thousand programs
/// begin at a moment: of those beyond, the kernel drops some that
/// who connects takes for connected (`nstat`: ListenOverflows; 10 of 1,000 channels of one `shoal run`).
const AS_MANY_AS_ALLOWED: i32 = i32::MAX;

/// Listens at `port` (0: a free one) of all addresses of this machine, as [`tcp_listen`], of IPv6 and IPv4 by one socket (ipv6(7), IPV6_V6ONLY off).
///
/// # Errors
/// `Sys` as of [`tcp_listen`]; EAFNOSUPPORT and others where a machine has no IPv6.
pub(super) fn listen_at(port: u16) -> Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes numbers, returns a number.
    let fd = own(unsafe { libc::socket(libc::AF_INET6, kind, 0) }.into(), || "make a TCP socket".into())?;
    set_number(fd.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
    // Without it a port is taken for a minute after the connections of a daemon that has ended.
    set_number(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    let any = in6(&SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0));
    let length = size_of_val(&any) as libc::socklen_t;
    // SAFETY: a live address and its length; listen takes numbers.
    let ret = unsafe {
        match libc::bind(fd.as_raw_fd(), (&raw const any).cast(), length) {
            0 => libc::listen(fd.as_raw_fd(), AS_MANY_AS_ALLOWED),
            failed => failed,
        }
    };
    checked(ret.into(), || format!("listen on port {port} of IPv6")).map(|_| fd)
}

/// Begins to connect, without waiting. Wait until the descriptor is writable, then call [`tcp_finish`].
///
/// # Errors
/// `Sys` as socket(2), connect(2), for what is known at once: ENETUNREACH, EMFILE.
pub fn tcp_begin(address: SocketAddr) -> Result<OwnedFd> {
    begin(address, None)
}

fn begin(address: SocketAddr, from: Option<u16>) -> Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes numbers, returns a number.
    let fd = own(unsafe { libc::socket(family, kind, 0) }.into(), || "make a TCP socket".into())?;
    if let Some(port) = from {
        let taken = match address {
            SocketAddr::V4(_) => bind(fd.as_fd(), &in4(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))),
            SocketAddr::V6(_) => bind(fd.as_fd(), &in6(&SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0))),
        };
        taken.map_err(|errno| Fault::sys(errno, format!("take port {port}, which is root's")))?;
    }
    let ret = match address {
        SocketAddr::V4(v4) => connect(fd.as_fd(), &in4(&v4)),
        SocketAddr::V6(v6) => connect(fd.as_fd(), &in6(&v6)),
    };
    match ret {
        Ok(()) | Err(libc::EINPROGRESS) => Ok(fd),
        Err(errno) => Err(Fault::sys(errno, format!("connect to {address}"))),
    }
}

/// Ports that only root may take (ip(7)), those that bindresvport(3) takes.
const OF_ROOT: std::ops::RangeInclusive<u16> = 600..=1023;

/// Is it a port that only root may take? A peer with such a port is root on its machine.
pub fn is_port_of_root(port: u16) -> bool {
    (1..1024).contains(&port)
}

/// As [`tcp_begin`], from a port of this machine that only root may take, which shows the peer who dials.
///
/// # Errors
/// Likewise; `Sys` as bind(2): EACCES for who is not root, EADDRINUSE when no such port is free.
pub fn tcp_begin_as_root(address: SocketAddr) -> Result<OwnedFd> {
    let mut last = Fault::sys(libc::EADDRINUSE, "take a port of root's");
    for port in OF_ROOT.rev() {
        match begin(address, Some(port)) {
            // The same port may have spoken with the same address a moment ago.
            Err(fault) if [libc::EADDRINUSE, libc::EADDRNOTAVAIL].contains(&fault.errno) => last = fault,
            other => return other,
        }
    }
    Err(last)
}

/// The end of [`tcp_begin`]: true when the connection stands (it is tuned then, see [`tcp_tune`]), false while it is
/// under way.
///
/// # Errors
/// `Sys` as connect(2): ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH.
pub fn tcp_finish(fd: BorrowedFd<'_>) -> Result<bool> {
    match super::pending_error(fd)? {
        0 => {}
        errno => return Err(Fault::sys(errno, "connect")),
    }
    match peer_address(fd) {
        Ok(_) => {
            tcp_tune(fd, USER_TIMEOUT_MS)?;
            Ok(true)
        }
        Err(fault) if fault.errno == libc::ENOTCONN => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Connects and waits for it, at most until the monotonic moment `deadline_us`. The descriptor is nonblocking and
/// tuned.
///
/// # Errors
/// `Sys` as connect(2); `Gone` with ETIMEDOUT when the deadline passes.
pub fn tcp_connect(address: SocketAddr, deadline_us: u64) -> Result<OwnedFd> {
    tcp_await(tcp_begin(address)?, address, deadline_us)
}

/// Waits for the end of [`tcp_begin`] or [`tcp_begin_as_root`], as [`tcp_connect`] does.
///
/// # Errors
/// Likewise.
pub fn tcp_await(fd: OwnedFd, address: SocketAddr, deadline_us: u64) -> Result<OwnedFd> {
    while poll_until(fd.as_fd(), libc::POLLOUT, deadline_us)? {
        if tcp_finish(fd.as_fd()).map_err(|fault| fault.doing(format!("connect to {address}")))? {
            return Ok(fd);
        }
        if monotonic_us() >= deadline_us {
            break;
        }
    }
    Err(Fault { errno: libc::ETIMEDOUT, ..Fault::new(Kind::Gone, format!("connect to {address}")) })
}

/// linux/tcp.h, from 6.15 on.
const TCP_RTO_MAX_MS: i32 = 44;
/// The kernel takes no less.
const LEAST_RTO_MAX_MS: i32 = 1000;

/// What every connection of ours has: no delay of small writes, probes of a silent peer (twice in `user_timeout_ms`, and every [`KEEPALIVE_S`] at least), and an end
/// of waiting for a peer that acknowledges nothing, after `user_timeout_ms` milliseconds. What is not acknowledged is sent again every
/// second at least, where the kernel lets one say so (Linux 6.15); otherwise after pauses that double, from 0.2 s on.
///
/// # Errors
/// `Sys` as setsockopt(2): EOPNOTSUPP on what is no TCP socket.
pub fn tcp_tune(fd: BorrowedFd<'_>, user_timeout_ms: u32) -> Result<()> {
    let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    set_number(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    set_number(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    let probe = number((user_timeout_ms / 2_000).clamp(1, KEEPALIVE_S));
    set_number(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, probe)?;
    set_number(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, probe)?;
    set_number(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3)?;
    let _older_kernels_double = set_number(fd, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, LEAST_RTO_MAX_MS);
    set_number(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, number(user_timeout_ms))
}

/// The peer's kernel has acknowledged no byte of what was written: nobody has had any. Also of a connection that the peer has reset; false where it cannot be told.
pub fn is_unheard(fd: BorrowedFd<'_>) -> bool {
    /// linux/tcp.h: the place of `tcpi_bytes_acked` in `tcp_info`, in words. The SYN counts as one.
    const ACKNOWLEDGED: usize = 120 / 8;
    let mut info = [0u64; 64];
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: room for the answer, of which the kernel writes at most `length` bytes.
    let ret = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &mut length)
    };
    ret == 0 && length as usize > ACKNOWLEDGED * 8 && info[ACKNOWLEDGED] <= 1
}

/// From now on the socket can be read, as poll(2) sees it, when so many bytes are there; or its end, an error, or all for which there is room.
///
/// # Errors
/// `Sys` as setsockopt(2).
pub fn wake_at(fd: BorrowedFd<'_>, bytes: usize) -> Result<()> {
    set_number(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, i32::try_from(bytes).unwrap_or(i32::MAX))
}

/// How long something takes to the other end and back, as the kernel has measured it so far; in microseconds.
///
/// # Errors
/// `Sys` as getsockopt(2).
pub fn tcp_round_trip_us(fd: BorrowedFd<'_>) -> Result<u32> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the option's value is a live tcp_info, of which the kernel writes at most `length` bytes.
    let ret = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &mut length)
    };
    checked(ret.into(), || "read what is known of a connection".into())?;
    // SAFETY: numbers alone, which all of its bytes are: zeroes where the kernel wrote nothing.
    Ok(unsafe { info.assume_init() }.tcpi_rtt)
}

/// Takes `cubic` instead of the machine's congestion control, for bulk over fast networks (bbr's pacing costs a quarter
/// of the rate on loopback).
///
/// # Errors
/// `Sys` as setsockopt(2): ENOENT or EPERM where the kernel does not offer it.
pub fn tcp_cubic(fd: BorrowedFd<'_>) -> Result<()> {
    let name = b"cubic";
    // SAFETY: the option's value is a live byte string and its length is given.
    let ret = unsafe {
        let (value, length) = (name.as_ptr().cast(), name.len() as libc::socklen_t);
        libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, value, length)
    };
    checked(ret.into(), || "take cubic".into()).map(drop)
}

/// The congestion control of a TCP socket, by name.
///
/// # Errors
/// `Sys` as getsockopt(2).
pub fn tcp_congestion(fd: BorrowedFd<'_>) -> Result<String> {
    /// TCP_CA_NAME_MAX of linux/tcp.h.
    const MOST: usize = 16;
    let mut name = [0u8; MOST];
    let mut length = MOST as libc::socklen_t;
    // SAFETY: the option's value is a live array and `length` is its size, of which the kernel writes no more.
    let ret = unsafe {
        let value = name.as_mut_ptr().cast();
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, value, &mut length)
    };
    checked(ret.into(), || "read what congestion control a connection has".into())?;
    Ok(name.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect())
}

/// The local address of a TCP socket.
///
/// # Errors
/// `Sys` as getsockname(2).
pub fn local_address(fd: BorrowedFd<'_>) -> Result<SocketAddr> {
    stream(fd).local_addr().map_err(|e| Fault::io(&e, "read a socket's own address"))
}

/// The address of the other end of a TCP connection; of IPv4 as that, also where the socket is one of IPv6 (ipv6(7), v4-mapped).
///
/// # Errors
/// `Sys` as getpeername(2): ENOTCONN.
pub fn peer_address(fd: BorrowedFd<'_>) -> Result<SocketAddr> {
    let address = stream(fd).peer_addr().map_err(|e| Fault::io(&e, "read a socket's peer address"))?;
    Ok(match address {
        SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some() => {
            SocketAddr::new(address.ip().to_canonical(), v6.port())
        }
        other => other,
    })
}

/// The standard library knows how to read addresses. It is lent the descriptor: another one may not be to be had where nobody may fail for that
/// ([`tcp_finish`] of an agent at its limit).
fn stream(fd: BorrowedFd<'_>) -> ManuallyDrop<TcpStream> {
    // SAFETY: the descriptor is open for as long as the borrow of each caller, which reads an address by this and leaves it; it is never dropped, so never closed.
    ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(fd.as_raw_fd()) })
}

fn connect<T>(fd: BorrowedFd<'_>, address: &T) -> std::result::Result<(), i32> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `address` is a live sockaddr_in or sockaddr_in6 of that length.
    check(unsafe { libc::connect(fd.as_raw_fd(), std::ptr::from_ref(address).cast(), length) }.into()).map(drop)
}

fn bind<T>(fd: BorrowedFd<'_>, address: &T) -> std::result::Result<(), i32> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `address` is a live sockaddr_in or sockaddr_in6 of that length.
    check(unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(address).cast(), length) }.into()).map(drop)
}

fn in4(address: &std::net::SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
        sin_zero: [0; 8],
    }
}

fn in6(address: &std::net::SocketAddrV6) -> libc::sockaddr_in6 {
    libc::sockaddr_in6 {
        sin6_family: libc::AF_INET6 as libc::sa_family_t,
        sin6_port: address.port().to_be(),
        sin6_flowinfo: address.flowinfo(),
        sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
        sin6_scope_id: address.scope_id(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sock::{accept, get_number};

    fn deadline() -> u64 {
        monotonic_us() + 5_000_000
    }

    fn listener(address: &str) -> (OwnedFd, SocketAddr) {
        let fd = tcp_listen(address.parse().expect("an address")).expect("listen");
        let address = local_address(fd.as_fd()).expect("bound");
        (fd, address)
    }

    #[test]
    fn what_somebody_has_had_is_known_also_of_a_connection_that_is_reset() {
        let listener = tcp_listen("127.0.0.1:0".parse().expect("an address")).expect("listen");
        let at = crate::sock::local_address(listener.as_fd()).expect("it listens");
        let fd = tcp_connect(at, monotonic_us() + 5_000_000).expect("connected");
        assert!(is_unheard(fd.as_fd()));
        assert_eq!(crate::sock::send(fd.as_fd(), b"word"), Ok(4));
        let peer = crate::sock::accept(listener.as_fd()).expect("accept").expect("it is there");
        assert!(!is_unheard(fd.as_fd()));
        drop(peer);
        assert!(!is_unheard(fd.as_fd()));
    }

    #[test]
    fn a_connection_is_made_taken_and_tuned() {
        let (listening, address) = listener("127.0.0.1:0");
        assert!(accept(listening.as_fd()).expect("accept").is_none());
        let dialled = tcp_connect(address, deadline()).expect("connect");
        assert!(poll_until(listening.as_fd(), libc::POLLIN, deadline()).expect("poll"));
        let taken = accept(listening.as_fd()).expect("accept").expect("one waits");
        assert_eq!(peer_address(taken.as_fd()).expect("peer"), local_address(dialled.as_fd()).expect("own"));
        assert_eq!(get_number(dialled.as_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY).expect("read"), 1);
        assert_eq!(
            get_number(dialled.as_fd(), libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT).expect("read"),
            USER_TIMEOUT_MS as i32
        );
        tcp_cubic(taken.as_fd()).expect("cubic is always built in here");
        assert_eq!(tcp_congestion(taken.as_fd()).expect("known"), "cubic");
        assert!((1..5_000_000).contains(&tcp_round_trip_us(dialled.as_fd()).expect("known")));
        assert_eq!(crate::sys::read(dialled.as_fd(), &mut [0; 4]), Err(libc::EAGAIN), "it is nonblocking");
    }

    #[test]
    fn a_socket_can_be_read_when_enough_is_there_or_it_is_over() {
        let (listening, address) = listener("127.0.0.1:0");
        let dialled = tcp_connect(address, deadline()).expect("connect");
        assert!(poll_until(listening.as_fd(), libc::POLLIN, deadline()).expect("poll"));
        let taken = accept(listening.as_fd()).expect("accept").expect("one waits");
        let readable = |within| poll_until(taken.as_fd(), libc::POLLIN, monotonic_us() + within).expect("poll");
        wake_at(taken.as_fd(), 1000).expect("a number");
        assert_eq!(crate::sock::send(dialled.as_fd(), &[1; 999]), Ok(999));
        assert!(!readable(20_000));
        assert_eq!(crate::sock::send(dialled.as_fd(), &[1]), Ok(1));
        assert!(readable(5_000_000));
        assert_eq!(crate::sys::read(taken.as_fd(), &mut [0; 2000]), Ok(1000));
        drop(dialled);
        assert!(readable(5_000_000), "its end");
    }

    #[test]
    fn version_six_connects_too() {
        let Ok(fd) = tcp_listen("[::1]:0".parse().expect("an address")) else { return };
        let address = local_address(fd.as_fd()).expect("bound");
        tcp_connect(address, deadline()).expect("connect");
    }

    #[test]
    fn one_socket_listens_for_both_versions() {
        let fd = crate::sock::tcp_listen_anywhere().expect("listen");
        let port = local_address(fd.as_fd()).expect("bound").port();
        for ip in ["127.0.0.1", "::1"] {
            let address = SocketAddr::new(ip.parse().expect("an address"), port);
            // Not every machine has IPv6.
            let Ok(dialled) = tcp_connect(address, deadline()) else {
                assert_eq!(ip, "::1");
                continue;
            };
            assert!(poll_until(fd.as_fd(), libc::POLLIN, deadline()).expect("poll"));
            let taken = accept(fd.as_fd()).expect("accept").expect("one waits");
            assert_eq!(peer_address(taken.as_fd()).expect("peer"), local_address(dialled.as_fd()).expect("own"));
        }
    }

    #[test]
    fn nobody_listening_is_refused_and_a_full_queue_ends_at_the_deadline() {
        let (listening, address) = listener("127.0.0.1:0");
        drop(listening);
        assert_eq!(tcp_connect(address, deadline()).expect_err("closed").root_errno(), libc::ECONNREFUSED);
        let (full, address) = listener("127.0.0.1:0");
        // SAFETY: takes numbers, returns a number.
        assert_eq!(unsafe { libc::listen(full.as_raw_fd(), 0) }, 0);
        let _waiting = tcp_connect(address, deadline()).expect("the one place");
        let mut more = Vec::new();
        let fault = loop {
            match tcp_connect(address, monotonic_us() + 50_000) {
                Ok(fd) => more.push(fd),
                Err(fault) => break fault,
            }
            assert!(more.len() < 10, "a backlog of 0 takes this many");
        };
        assert_eq!((fault.kind, fault.errno), (Kind::Gone, libc::ETIMEDOUT));
    }
}
