//! Sockets that are not carried, named by their kind.

use super::Seen;
use kern::unix_socket::option;
use std::os::fd::AsFd;
use vocab::Result;

/// # Errors
/// `Sys` for a descriptor that has been closed.
pub(super) fn why(seen: &Seen) -> Result<String> {
    let socket = super::copy(seen)?;
    let number = |name: i32| {
        let value = option(socket.as_fd(), name).ok()?;
        value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes))
    };
    let is = Is {
        family: number(libc::SO_DOMAIN).unwrap_or(-1),
        kind: number(libc::SO_TYPE).unwrap_or(-1),
        protocol: number(libc::SO_PROTOCOL).unwrap_or(-1),
        listens: number(libc::SO_ACCEPTCONN) == Some(1),
    };
    Ok(in_words(&is))
}

struct Is {
    family: i32,
    kind: i32,
    protocol: i32,
    listens: bool,
}

fn in_words(is: &Is) -> String {
    let listening = if is.listens { "listening " } else { "" };
    let (unix, inet) = (is.family == libc::AF_UNIX, matches!(is.family, libc::AF_INET | libc::AF_INET6));
    let name = match (is.kind, is.protocol) {
        // The other end is elsewhere: a pair within the process is carried.
        _ if unix && !is.listens => return "leads to other processes".into(),
        _ if unix => "unix socket".into(),
        (libc::SOCK_STREAM, libc::IPPROTO_TCP) if inet => "TCP socket".into(),
        (libc::SOCK_DGRAM, libc::IPPROTO_UDP) if inet => "UDP socket".into(),
        (libc::SOCK_RAW, _) if inet => "raw socket".into(),
        _ if inet => format!("socket of internet protocol {}", is.protocol),
        _ if is.family == libc::AF_NETLINK => "netlink socket".into(),
        _ if is.family == libc::AF_PACKET => "packet socket".into(),
        _ if is.family == libc::AF_VSOCK => "vsock socket".into(),
        _ => format!("socket of address family {}", is.family),
    };
    format!("is a {listening}{name}, which is not carried")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_name() {
        let said = |family, kind, protocol, listens| in_words(&Is { family, kind, protocol, listens });
        let (stream, datagrams) = (libc::SOCK_STREAM, libc::SOCK_DGRAM);
        assert_eq!(said(libc::AF_UNIX, stream, 0, true), "is a listening unix socket, which is not carried");
        assert_eq!(said(libc::AF_UNIX, stream, 0, false), "leads to other processes");
        let tcp = libc::IPPROTO_TCP;
        assert_eq!(said(libc::AF_INET6, stream, tcp, true), "is a listening TCP socket, which is not carried");
        assert_eq!(said(libc::AF_INET, stream, tcp, false), "is a TCP socket, which is not carried");
        assert_eq!(said(libc::AF_INET, datagrams, 17, false), "is a UDP socket, which is not carried");
        assert_eq!(
            said(libc::AF_INET, stream, 132, false),
            "is a socket of internet protocol 132, which is not carried"
        );
        assert_eq!(said(libc::AF_ALG, 5, 0, false), "is a socket of address family 38, which is not carried");
    }
}
