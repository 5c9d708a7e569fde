//! Names and addresses in a sandbox: the same in every one, since each has its own network.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Where the front end listens.
pub(crate) const PORT: u16 = 7706;
/// All addresses are in one network with this prefix length.
pub(crate) const PREFIX: u8 = 16;
/// Nodes in one third-octet block.
const BLOCK: u32 = 250;

/// Where the daemons keep their things; a private tmpfs on every machine.
pub(crate) const RUN_DIR: &str = "/run/shoal";
/// The program, for everybody and with the capability it needs; first in PATH.
pub(crate) const BIN_DIR: &str = "/run/shoal/bin";
/// The settings of the machine's daemon.
pub(crate) const CONFIG: &str = "/run/shoal/shoal.toml";
/// The node files, for programs that ask BPFS_PATH where they are.
pub(crate) const NODE_FILES: &str = "/run/shoal/bpfs";
pub(crate) const KEY: &str = "/run/shoal/key";
/// What the machines share: logs, and the socket by which parts are broken on purpose. Seen by the front end.
pub(crate) const SHARED_DIR: &str = "/run/shoal/sandbox";

/// Cgroups with this prefix are a sandbox's.
pub(crate) const CGROUP_PREFIX: &str = "shoal-sandbox.";

/// One machine of the sandbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Host {
    Front,
    Node(u32),
}

impl Host {
    /// The front end, then all nodes.
    pub(crate) fn all(nodes: u32) -> impl Iterator<Item = Host> {
        std::iter::once(Host::Front).chain((0..nodes).map(Host::Node))
    }

    /// Host name, cgroup and log are called so, and the bridge's end of its network cable.
    pub(crate) fn name(self) -> String {
        match self {
            Host::Front => "front".into(),
            Host::Node(n) => format!("n{n}"),
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Host> {
        match name.strip_prefix('n').map(str::parse) {
            Some(Ok(n)) => Some(Host::Node(n)),
            _ if name == "front" => Some(Host::Front),
            _ => None,
        }
    }

    /// Made from the address, so that a machine that is made anew is at once known again by the others.
    pub(crate) fn hardware_address(self) -> [u8; 6] {
        let [a, b, c, d] = self.address().octets();
        [2, 0, a, b, c, d] // 2: locally administered
    }

    pub(crate) fn address(self) -> Ipv4Addr {
        match self {
            Host::Front => Ipv4Addr::new(10, 77, 0, 1),
            Host::Node(n) => Ipv4Addr::new(10, 77, (1 + n / BLOCK) as u8, (1 + n % BLOCK) as u8),
        }
    }
}

/// `/etc/hosts` of every machine.
pub(crate) fn hosts(nodes: u32) -> String {
    let mut text = String::from("127.0.0.1 localhost\n");
    for host in Host::all(nodes) {
        text += &format!("{} {}\n", host.address(), host.name());
    }
    text
}

pub(crate) fn log_of(directory: &Path, host: Host) -> PathBuf {
    directory.join(format!("{}.log", host.name()))
}

/// What `shoal chaos` prints.
pub(crate) fn chaos_log(directory: &Path) -> PathBuf {
    directory.join("chaos.log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_machines_have_a_hundred_addresses_and_names() {
        let mut addresses: Vec<Ipv4Addr> = Host::all(crate::MOST_NODES).map(Host::address).collect();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 101);
        assert!(Host::all(100).all(|host| Host::parse(&host.name()) == Some(host)));
        assert_eq!(Host::parse("nx"), None);
    }
}
