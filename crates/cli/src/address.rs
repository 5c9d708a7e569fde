//! Addresses as people write them, in flags and in the configuration file.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The TCP port of the front end, where none is said.
const PORT: u16 = 7706;
/// The TCP port of the monitor of a machine, where none is said.
pub(crate) const MON_PORT: u16 = 7708;

/// Where a node dials: a name or an address, with or without a port, as `HOST:PORT` or `[IPV6]:PORT`.
pub(crate) fn front(text: &str) -> Result<String, String> {
    let bad =
        || format!("{text:?} is no address of a front end: HOST, HOST:PORT or [IPV6]:PORT, port {PORT} by default");
    let (host, port) = split(text).ok_or_else(bad)?;
    let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    match host.parse::<Ipv6Addr>() {
        Ok(_) => Ok(format!("[{host}]:{port}")),
        Err(_) if !host.is_empty() && host.chars().all(name) => Ok(format!("{host}:{port}")),
        Err(_) => Err(bad()),
    }
}

/// Where the front end listens: an address of this machine, with or without a port.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    let bad = || {
        format!(
            "{text:?} is no address to listen at: ADDRESS or ADDRESS:PORT, as 0.0.0.0:{PORT} (all of IPv4) or [::]:{PORT} (all)"
        )
    };
    let (host, port) = split(text).ok_or_else(bad)?;
    host.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port)).map_err(|_| bad())
}

/// Where a monitor listens, or where it is asked; port [`MON_PORT`] by default.
pub(crate) fn monitor(text: &str) -> Result<SocketAddr, String> {
    let bad = || format!("{text:?} is no address of a monitor: ADDRESS or ADDRESS:PORT, port {MON_PORT} by default");
    let (host, port) = split_for(text, MON_PORT).ok_or_else(bad)?;
    host.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port)).map_err(|_| bad())
}

/// All interfaces, IPv4.
pub(crate) fn default_listen() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], PORT))
}

/// Host, without brackets, and port. An IPv6 address that has no brackets has no port.
fn split(text: &str) -> Option<(&str, u16)> {
    split_for(text, PORT)
}

/// The same, with another port where none is said.
fn split_for(text: &str, default: u16) -> Option<(&str, u16)> {
    let port = |text: &str| text.parse().ok().filter(|port| *port != 0 && !text.starts_with('+'));
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        host.parse::<Ipv6Addr>().ok()?;
        return match rest {
            "" => Some((host, default)),
            rest => Some((host, port(rest.strip_prefix(':')?)?)),
        };
    }
    match text.rsplit_once(':') {
        Some(_) if text.parse::<Ipv6Addr>().is_ok() => Some((text, default)),
        Some((host, number)) if !host.contains(':') => Some((host, port(number)?)),
        Some(_) => None,
        None => Some((text, default)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_have_the_default_port() {
        for (said, meant) in [
            ("front", "front:7706"),
            ("front.example:99", "front.example:99"),
            ("10.0.0.1", "10.0.0.1:7706"),
            ("10.0.0.1:1", "10.0.0.1:1"),
            ("::1", "[::1]:7706"),
            ("[fd00::1]", "[fd00::1]:7706"),
            ("[fd00::1]:8000", "[fd00::1]:8000"),
        ] {
            assert_eq!(front(said).as_deref(), Ok(meant), "{said}");
        }
        assert_eq!(listen("10.0.0.1"), Ok(SocketAddr::from(([10, 0, 0, 1], PORT))));
        assert_eq!(listen("[::]:80").map(|a| a.to_string()), Ok("[::]:80".into()));
        assert_eq!(listen("::").map(|a| a.to_string()), Ok("[::]:7706".into()));
    }

    #[test]
    fn what_is_no_address_is_told_with_what_is() {
        let bad = [
            "", ":", "x:", ":7706", "x:y", "x:0", "x:70000", "x:+1", "a b", "http://x", "1:2:3", "[x]", "[::1]x",
            "[::1]:", "[::1",
        ];
        for bad in bad {
            let why = front(bad).expect_err(bad);
            assert!(why.contains("HOST:PORT") && why.contains("7706"), "{why}");
            assert!(listen(bad).is_err(), "{bad}");
        }
        assert!(listen("localhost:7706").expect_err("a name").contains("0.0.0.0:7706"));
    }
}
