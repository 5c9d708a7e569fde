//! By which the front end knows a node again that has started afresh.

use link::keys::mark;
use std::path::Path;

/// The machine's own number, which lasts (machine-id(5)).
const MACHINE: &str = "/etc/machine-id";
const HOST: &str = "/proc/sys/kernel/hostname";

/// The identity of the node on this machine whose daemon has this run directory.
///
/// Copies of a machine often have the machine-id of the first, so the host name counts too. No peer learns the machine-id: machine-id(5) wants it
/// hashed with a secret, here the cluster key.
pub(crate) fn of_node(key: &[u8; 32], run_dir: &Path) -> u64 {
    // A container may have no machine-id. The host name has to do then.
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    mark(key, &[text(MACHINE).as_bytes(), text(HOST).as_bytes(), run_dir.as_os_str().as_encoded_bytes()])
}

/// The name of a node without one of its own: its host's, if that is a name.
pub(crate) fn name_of_host() -> String {
    let host = std::fs::read_to_string(HOST).unwrap_or_default();
    Some(host.trim()).filter(|host| vocab::names::is_name(host)).unwrap_or_default().to_owned()
}
