//! Nodes as things with a state, an owner, a group, a mode and attributes: what `bpstat`, `bpctl` and the node files show and change.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use vocab::{Creds, NodeId};

/// The execute bits, the only ones that a node's mode has.
pub const MODE: u32 = 0o111;
/// The most attributes of one node, and the most bytes of an attribute's name and of its value.
pub const ATTRIBUTES: usize = 32;
pub const NAME: usize = 63;
pub const VALUE: usize = 64;
/// The most bytes of a state's word.
pub const STATE: usize = 15;
/// Attributes with this prefix are root's to set.
pub const PREFIX: &str = "bproc.";
/// Attributes that every node has, made of what is known of the node: neither is in [`NodeInfo::attributes`].
pub const STATE_NAME: &str = "bproc.state";
pub const ADDRESS_NAME: &str = "bproc.addr";
/// The state in which a node takes new programs.
pub const UP: &str = "up";
/// The state while the start-up script runs, and after it has failed.
pub const BOOT: &str = "boot";
pub const ERROR: &str = "error";
/// States that the front end sees for itself: no link, which nobody can set, and a link that says nothing, or that root has said so of.
pub const DOWN: &str = "down";
pub const UNAVAILABLE: &str = "unavailable";

/// One node, or the front end, as [`crate::ask::Answer::NodeInfos`] has it.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct NodeInfo {
    #[n(0)]
    pub node: NodeId,
    /// A word: [`is_state`].
    #[n(1)]
    pub state: String,
    #[n(2)]
    pub uid: u32,
    #[n(3)]
    pub gid: u32,
    /// Bits of [`MODE`].
    #[n(4)]
    pub mode: u32,
    /// `IP:PORT` of the node's end of the control link; of the front end, where nodes dial in.
    #[n(5)]
    pub address: String,
    /// When a program was last started on the node, or moved to it, in seconds since 1970.
    #[n(6)]
    pub atime: i64,
    /// When state, owner, group, mode or attributes last changed.
    #[n(7)]
    pub mtime: i64,
    /// In the order of their names.
    #[n(8)]
    #[cbor(default, skip_if = "Vec::is_empty")]
    pub attributes: Vec<(String, ByteVec)>,
    /// The node's name for itself; empty: none.
    #[n(9)]
    #[cbor(default, skip_if = "String::is_empty")]
    pub name: String,
}

/// One change of nodes, for [`crate::ask::Ask::ChangeNodes`].
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum NodeChange {
    #[n(0)]
    State(#[n(0)] String),
    #[n(1)]
    Owner(#[n(0)] u32),
    #[n(2)]
    Group(#[n(0)] u32),
    #[n(3)]
    Mode(#[n(0)] u32),
    #[n(4)]
    Attribute {
        #[n(0)]
        name: String,
        /// `None` removes the attribute.
        #[n(1)]
        value: Option<ByteVec>,
    },
    #[n(5)]
    Power(#[n(0)] Power),
    /// The directory of the node that is the root of programs which start there from now on; empty: the node's own root.
    #[n(6)]
    Chroot(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
}

/// Ways to stop a node's machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum Power {
    #[n(0)]
    Reboot,
    #[n(1)]
    Halt,
    #[n(2)]
    PowerOff,
}

/// A node's own part of a change ([`crate::node::ToNode::Administer`]).
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Chore {
    #[n(0)]
    Power(#[n(0)] Power),
    /// As [`NodeChange::Chroot`].
    #[n(1)]
    Chroot(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
}

/// The nodes of `all` that `spec` names, in the node language of BProc ([`vocab::select`]).
///
/// # Errors
/// As of that.
pub fn choose(spec: &str, all: &[NodeInfo]) -> vocab::Result<Vec<NodeId>> {
    let states: Vec<(NodeId, &str)> = all.iter().map(|info| (info.node, info.state.as_str())).collect();
    let names: Vec<(NodeId, &str)> = all.iter().map(|info| (info.node, info.name.as_str())).collect();
    vocab::select(&vocab::names::numbers(spec, &names, &states)?, &states)
}

/// Is it a word that a state may have: a letter, then letters, digits and `_`, at most [`STATE`] bytes?
pub fn is_state(word: &str) -> bool {
    let mut rest = word.bytes();
    let begins = rest.next().is_some_and(|first| first.is_ascii_alphabetic());
    begins && word.len() <= STATE && rest.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Is it a name that an attribute may have: printable characters of ASCII without blanks, at most [`NAME`] bytes?
pub fn is_name(name: &str) -> bool {
    (1..=NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Does the mode of a node with this owner and group let these credentials use the node? Root may whatever the mode is.
///
/// linux: `acl_permission_check`: of the three classes the first that fits counts.
pub fn permits(creds: &Creds, (uid, gid, mode): (u32, u32, u32)) -> bool {
    let class = match creds.uid.effective {
        0 => return true,
        own if own == uid => 0o100,
        _ if creds.gid.effective == gid || creds.groups.contains(&gid) => 0o010,
        _ => 0o001,
    };
    mode & class != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Ids;

    #[test]
    fn of_three_classes_the_first_that_fits_counts() {
        let creds =
            |uid, gid, groups: &[u32]| Creds { uid: Ids::all(uid), gid: Ids::all(gid), groups: groups.to_vec() };
        let users = [creds(7, 70, &[]), creds(8, 50, &[]), creds(8, 80, &[1, 50]), creds(9, 90, &[]), creds(0, 0, &[])];
        for mode in [0, 0o1, 0o10, 0o11, 0o100, 0o101, 0o110, 0o111] {
            let may: Vec<bool> = users.iter().map(|user| permits(user, (7, 50, mode))).collect();
            let (owner, group, others) = (mode & 0o100 != 0, mode & 0o10 != 0, mode & 1 != 0);
            assert_eq!(may, [owner, group, group, others, true], "{mode:o}");
        }
        assert!(!permits(&creds(7, 50, &[50]), (7, 50, 0o11)), "the owner is not taken for one of the group");
    }

    #[test]
    fn a_state_is_a_word_of_fifteen_bytes_at_most() {
        for word in ["up", "boot", "x", "Drained_2", "fifteen_letters"] {
            assert!(is_state(word), "{word:?}");
        }
        for word in ["", "2up", "_up", "up!", "two words", "über", "sixteen_letters_", "up\n", "up\0"] {
            assert!(!is_state(word), "{word:?}");
        }
    }

    #[test]
    fn an_attribute_has_a_name_that_can_be_printed() {
        let longest = "n".repeat(NAME);
        for name in ["x", "bproc.state", "user.rack", longest.as_str()] {
            assert!(is_name(name), "{name:?}");
        }
        let longer = "n".repeat(NAME + 1);
        for name in ["", "two words", "nul\0", "line\n", "é", longer.as_str()] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
