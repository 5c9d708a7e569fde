//! What a machine says of itself, to be held against what others say.

use kern::clock::realtime_ns;
use kern::features;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Users of people, not of the system's own services (login.defs(5)).
const PEOPLE: std::ops::Range<u32> = 1000..60_000;
/// File systems that several machines have by the network (linux: file_system_type.name).
const NETWORK: [&str; 12] =
    ["nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "gfs2", "ocfs2", "afs", "9p", "fuse.sshfs", "fuse.glusterfs"];

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Probe {
    pub(super) version: String,
    pub(super) kernel: String,
    /// Since 1970.
    pub(super) now_ns: u64,
    pub(super) users: BTreeMap<String, u32>,
    /// Of the network: by place, the type and the source.
    pub(super) mounts: BTreeMap<String, String>,
    /// Kernel features that are needed, and that are wished, and not there.
    pub(super) needed: Vec<String>,
    pub(super) wished: Vec<String>,
}

impl Probe {
    pub(super) fn of_this_machine() -> Probe {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let missing: Vec<_> = features::probe_all().into_iter().filter(|finding| finding.there.is_err()).collect();
        let names = |needed: bool| {
            let these = missing.iter().filter(|finding| finding.without.is_none() == needed);
            these.map(|finding| finding.name.to_owned()).collect()
        };
        let (needed, wished) = (names(true), names(false));
        Probe {
            version: env!("CARGO_PKG_VERSION").into(),
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            users: users(&read("/etc/passwd")),
            mounts: mounts(&read("/proc/self/mounts")),
            needed,
            wished,
            // Last: it is held against when the answer came.
            now_ns: realtime_ns(),
        }
    }
}

fn users(passwd: &str) -> BTreeMap<String, u32> {
    let one = |line: &str| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?.parse().ok()?);
        PEOPLE.contains(&number).then(|| (name.to_owned(), number))
    };
    passwd.lines().filter_map(one).collect()
}

/// From /proc/self/mounts (fstab(5)).
fn mounts(text: &str) -> BTreeMap<String, String> {
    let one = |line: &str| {
        let mut words = line.split(' ');
        let (source, at, kind) = (words.next()?, words.next()?, words.next()?);
        NETWORK.contains(&kind).then(|| (at.to_owned(), format!("{kind} {source}")))
    };
    text.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_mounts_of_the_network() {
        let passwd =
            "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nnobody:x:65534:65534::/:/bin/false\nbad\n";
        assert_eq!(users(passwd), BTreeMap::from([("ann".into(), 1000)]));
        let text = "proc /proc proc rw 0 0\nserver:/home /home nfs4 rw 0 0\n/dev/sda / ext4 rw 0 0\n";
        assert_eq!(mounts(text), BTreeMap::from([("/home".into(), "nfs4 server:/home".into())]));
        let own = Probe::of_this_machine();
        assert!(!own.kernel.is_empty() && own.now_ns > 0);
    }
}
