//! The names in the directory, and what they stand for.

use kern::fuse::files::{Shown, ROOT};
use vocab::NodeId;
use wire::nodes::NodeInfo;

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// Numbers of the two that are no node's, and of the front end's, which is the first that is.
const STATUS: u64 = 2;
const OWN: u64 = 3;
const FIRST: u64 = 16;

/// An inode number's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    Root,
    /// A line for each node.
    Status,
    /// A link to the node that this machine is.
    Own,
    Node(NodeId),
}

impl Entry {
    pub(crate) fn of(number: u64) -> Option<Entry> {
        match number {
            ROOT => Some(Entry::Root),
            STATUS => Some(Entry::Status),
            OWN => Some(Entry::Own),
            number => {
                let node = i32::try_from(number.checked_sub(FIRST)?).ok()?;
                Some(Entry::Node(NodeId(node - 1)))
            }
        }
    }

    pub(crate) fn named(name: &[u8]) -> Option<Entry> {
        match name {
            b"status" => Some(Entry::Status),
            b"self" => Some(Entry::Own),
            number => {
                let number = std::str::from_utf8(number).ok()?;
                let node: i32 = number.parse().ok().filter(|node| *node >= -1)?;
                // Each node has one name: neither +3 nor 03.
                (node.to_string() == number).then_some(Entry::Node(NodeId(node)))
            }
        }
    }

    pub(crate) fn number(self) -> u64 {
        match self {
            Entry::Root => ROOT,
            Entry::Status => STATUS,
            Entry::Own => OWN,
            Entry::Node(NodeId(node)) => FIRST.wrapping_add_signed(i64::from(node) + 1),
        }
    }

    /// As stat(2) has it, of one that is no node.
    pub(crate) fn shown(self) -> Shown {
        let mode = match self {
            Entry::Root => DIRECTORY | 0o555,
            Entry::Own => LINK | 0o777,
            Entry::Status | Entry::Node(_) => FILE | 0o444,
        };
        Shown { node: self.number(), mode, ..Shown::default() }
    }
}

/// A node's file: the mode is its execute bits, and nothing else.
pub(crate) fn shown(info: &NodeInfo) -> Shown {
    let (node, mode) = (Entry::Node(info.node).number(), FILE | info.mode);
    let time = |seconds: i64| u64::try_from(seconds).unwrap_or(0);
    let (atime, mtime) = (time(info.atime), time(info.mtime));
    Shown { node, mode, uid: info.uid, gid: info.gid, size: 0, atime, mtime }
}

/// All names in the directory.
pub(crate) fn names(infos: &[NodeInfo]) -> Vec<(Vec<u8>, u32)> {
    let fixed = [(".", DIRECTORY), ("..", DIRECTORY), ("self", LINK), ("status", FILE)];
    let fixed = fixed.into_iter().map(|(name, mode)| (name.as_bytes().to_vec(), mode));
    fixed.chain(infos.iter().map(|info| (info.node.0.to_string().into_bytes(), FILE))).collect()
}

/// A node's line: number, state, mode, uid, gid, address.
pub(crate) fn line(info: &NodeInfo) -> String {
    let NodeInfo { node, state, uid, gid, mode, address, .. } = info;
    let address = if address.is_empty() { "-" } else { address };
    format!("{} {state} {mode:04o} {uid} {gid} {address}\n", node.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_a_number_and_each_number_one_name() {
        for name in ["status", "self", "-1", "0", "7", "65535", "2147483646"] {
            let entry = Entry::named(name.as_bytes()).expect("it is one");
            assert_eq!(Entry::of(entry.number()), Some(entry), "{name}");
        }
        for name in ["", ".", "-2", "+1", "01", "n1", "-0", "2147483648", "\u{fffd}"] {
            assert_eq!(Entry::named(name.as_bytes()), None, "{name}");
        }
        assert_eq!((Entry::of(0), Entry::of(5), Entry::of(u64::MAX)), (None, None, None));
    }

    #[test]
    fn a_file_is_what_its_node_is() {
        let info = NodeInfo {
            node: NodeId(3),
            state: "up".into(),
            uid: 7,
            gid: 50,
            mode: 0o110,
            address: String::new(),
            atime: -1,
            mtime: 9,
            attributes: Vec::new(),
            name: String::new(),
        };
        let shown = shown(&info);
        assert_eq!((shown.mode, shown.uid, shown.gid, shown.atime, shown.mtime), (0o100_110, 7, 50, 0, 9));
        assert_eq!(line(&info), "3 up 0110 7 50 -\n");
    }
}
