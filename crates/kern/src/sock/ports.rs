//! At which ports this process takes channels: any free one, or those that a firewall lets through.

use super::tcp::{listen_at, tcp_listen};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::sync::OnceLock;
use vocab::{Fault, Result};

/// A port, or all from the first to the last; written `7100` or `7100-7199`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ports {
    first: u16,
    last: u16,
}

/// What [`take_channels_at`] was given, and the same as text.
static PORTS: OnceLock<(Ports, String)> = OnceLock::new();

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Ports, String> {
        let bad = || format!("{text:?} is no port and no range of ports (as 7100 or 7100-7199)");
        let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0 && !text.starts_with('+'));
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = port(first).zip(port(last)).ok_or_else(bad)?;
        (first <= last).then_some(Ports { first, last }).ok_or_else(bad)
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(to, "{}", self.first),
            false => write!(to, "{}-{}", self.first, self.last),
        }
    }
}

/// From now on [`tcp_listen_anywhere`] takes only these ports, in this process and in programs that are given [`channel_ports`]. For the beginning of a
/// program; a second call does not count.
pub fn take_channels_at(ports: Ports) {
    let _first = PORTS.set((ports, ports.to_string()));
}

/// For the arguments of programs that take channels for this one, if not every port will do.
pub fn channel_ports() -> Option<&'static str> {
    PORTS.get().map(|(_, text)| &**text)
}

/// Listens at a free port of all addresses of this machine, as [`tcp_listen`]: of IPv6 and IPv4 by one socket, where a machine has no IPv6 of IPv4.
///
/// # Errors
/// `Sys` as of [`tcp_listen`]: EADDRINUSE where none of the ports is free that [`take_channels_at`] has named.
pub fn tcp_listen_anywhere() -> Result<OwnedFd> {
    match PORTS.get() {
        None => listen(0),
        Some((ports, _)) => listen_within(*ports),
    }
}

fn listen_within(ports: Ports) -> Result<OwnedFd> {
    let is_taken = |tried: &Result<OwnedFd>| tried.as_ref().is_err_and(|fault| fault.root_errno() == libc::EADDRINUSE);
    let free = (ports.first..=ports.last).map(listen).find(|tried| !is_taken(tried));
    let none = || Fault::sys(libc::EADDRINUSE, format!("take a channel at a port of channel_ports ({ports})"));
    free.unwrap_or_else(|| Err(none()))
}

fn listen(port: u16) -> Result<OwnedFd> {
    match listen_at(port) {
        Err(fault) if fault.root_errno() != libc::EADDRINUSE => {
            tcp_listen(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
        }
        listens => listens,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sock::local_address;
    use std::os::fd::AsFd;

    #[test]
    fn ports_are_read_as_they_are_written() {
        for text in ["7100", "7100-7199", "1-65535"] {
            assert_eq!(text.parse::<Ports>().expect(text).to_string(), text);
        }
        for bad in ["", "0", "-", "1-", "7-6", "0-9", "65536", "+1", "1-2-3", "x", "7100,7101"] {
            assert!(bad.parse::<Ports>().expect_err(bad).contains("7100-7199"), "{bad}");
        }
    }

    #[test]
    fn each_port_of_a_range_is_taken_once_and_then_none_is_free() {
        let port = |fd: &OwnedFd| local_address(fd.as_fd()).expect("bound").port();
        let any = listen(0).expect("a free port");
        let ports = Ports { first: port(&any), last: port(&any) };
        let fault = listen_within(ports).expect_err("taken");
        assert_eq!(fault.root_errno(), libc::EADDRINUSE);
        assert!(fault.to_string().contains(&format!("channel_ports ({ports})")), "{fault}");
        drop(any);
        assert_eq!(port(&listen_within(ports).expect("free again")), ports.first);
    }
}
