//! One node's owner, group, mode, state word and attributes, and who may use or change them.

use super::word::{next, Change, Word};
use kern::users;
use std::collections::BTreeMap;
use vocab::{Creds, Fault, NodeId, Result};
use wire::nodes::{self, permits, NodeChange, ADDRESS_NAME, ATTRIBUTES, MODE, PREFIX, STATE_NAME};

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Bits of [`MODE`].
    pub(crate) mode: u32,
    pub(crate) word: Word,
    /// Seconds since 1970: the last start or arrival of a program, and the last change.
    pub(crate) atime: i64,
    pub(crate) mtime: i64,
    /// Where the node was when it joined last; empty: nobody knows.
    pub(crate) address: String,
    /// The identity in its Hello then (`wire::hello::Hello::identity`); 0: none.
    pub(crate) identity: u64,
    /// The name it had then; empty: none.
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, Vec<u8>>,
}

impl Record {
    /// Root's, with this mode.
    pub(crate) fn new(mode: u32) -> Record {
        Record {
            uid: 0,
            gid: 0,
            mode,
            word: Word::Up,
            atime: 0,
            mtime: 0,
            address: String::new(),
            identity: 0,
            name: String::new(),
            attributes: BTreeMap::new(),
        }
    }

    /// May processes with these credentials start programs on `node`, and move there? Root may whatever the mode and the state are.
    ///
    /// # Errors
    /// `Refused`, with owner, group and mode, or with the state.
    pub(crate) fn admits(&self, node: NodeId, creds: &Creds) -> Result<()> {
        if is_root(creds) {
            return Ok(());
        }
        if !permits(creds, (self.uid, self.gid, self.mode)) {
            let (owner, group) = (who(self.uid, users::name), who(self.gid, users::group_name));
            let mode = self.mode;
            return Err(Fault::refused(format!(
                "node {node} is not yours to use: owner {owner}, group {group}, mode {mode:04o}"
            )));
        }
        match &self.word {
            Word::Up => Ok(()),
            word => Err(Fault::refused(format!("node {node} is {}", word.text()))),
        }
    }

    /// # Errors
    /// `Refused` where these credentials do not allow the change, or the change is none that there can be.
    pub(crate) fn may_change(&self, node: NodeId, creds: &Creds, change: &NodeChange) -> Result<()> {
        possible(node, change)?;
        let full = || self.attributes.len() >= ATTRIBUTES;
        match change {
            NodeChange::Attribute { name, value: Some(_) } if !self.attributes.contains_key(name) && full() => {
                Err(Fault::refused(format!("node {node} has {ATTRIBUTES} attributes, which is the most")))
            }
            _ if is_root(creds) => Ok(()),
            NodeChange::Group(_) | NodeChange::Mode(_) | NodeChange::Attribute { .. }
                if creds.uid.effective != self.uid =>
            {
                Err(Fault::refused(format!("node {node} is {}'s", who(self.uid, users::name))))
            }
            NodeChange::Group(gid) if !belongs(creds, *gid) => {
                Err(Fault::refused(format!("you are not in group {}", who(*gid, users::group_name))))
            }
            NodeChange::Attribute { name, .. } if name.starts_with(PREFIX) => {
                Err(Fault::refused(format!("attribute {name}: those that begin with {PREFIX} are root's to set")))
            }
            NodeChange::Group(_) | NodeChange::Mode(_) | NodeChange::Attribute { .. } => Ok(()),
            NodeChange::State(_) => Err(for_root("set a node's state")),
            NodeChange::Owner(_) => Err(for_root("set a node's owner")),
            NodeChange::Power(_) => Err(for_root("reboot, halt or power off a node")),
            NodeChange::Chroot(_) => Err(for_root("set a node's root directory")),
        }
    }

    /// Makes a change that [`Record::may_change`] allows. `false`: all is as it was.
    pub(crate) fn change(&mut self, change: &NodeChange, now: i64) -> bool {
        let before = self.clone();
        match change {
            NodeChange::State(word) => self.word = next(self.word.clone(), Change::Set(Word::of(word))),
            NodeChange::Owner(uid) => self.uid = *uid,
            NodeChange::Group(gid) => self.gid = *gid,
            NodeChange::Mode(mode) => self.mode = mode & MODE,
            NodeChange::Attribute { name, value: None } => drop(self.attributes.remove(name)),
            NodeChange::Attribute { name, value: Some(value) } => {
                self.attributes.insert(name.clone(), value.to_vec());
            }
            NodeChange::Power(_) | NodeChange::Chroot(_) => {}
        }
        let changed = *self != before;
        if changed {
            self.mtime = now;
        }
        changed
    }
}

/// Is it a change that there can be, whoever wants it?
fn possible(node: NodeId, change: &NodeChange) -> Result<()> {
    let refused = |why: String| Err(Fault::refused(why));
    match change {
        NodeChange::State(_) | NodeChange::Power(_) | NodeChange::Chroot(_) if node.is_front() => {
            refused("the front end itself is always up, and no node: its state, machine and root stay".into())
        }
        NodeChange::State(word) if word == nodes::DOWN => {
            refused(format!("state {word}: the front end sees by itself whether a node is that"))
        }
        NodeChange::State(word) if !nodes::is_state(word) => refused(format!(
            "state {word:?}: a state is a letter and then letters, digits and _, {} at most",
            nodes::STATE
        )),
        // For chown(2) it means: as it was.
        NodeChange::Owner(u32::MAX) | NodeChange::Group(u32::MAX) => {
            refused(format!("{} is nobody's number", u32::MAX))
        }
        NodeChange::Mode(mode) if *mode > 0o7777 => refused(format!("{mode:o} is no mode")),
        NodeChange::Attribute { name, .. } if !nodes::is_name(name) => refused(format!(
            "attribute {name:?}: a name is printable characters without blanks, {} at most",
            nodes::NAME
        )),
        NodeChange::Attribute { name, .. } if [STATE_NAME, ADDRESS_NAME].contains(&name.as_str()) => {
            refused(format!("attribute {name} is the node's state or address, and no attribute to set"))
        }
        NodeChange::Attribute { name, value: Some(value) } if value.len() > nodes::VALUE => {
            refused(format!("attribute {name} of {} bytes: {} is the most", value.len(), nodes::VALUE))
        }
        _ => Ok(()),
    }
}

fn is_root(creds: &Creds) -> bool {
    creds.uid.effective == 0
}

fn belongs(creds: &Creds, gid: u32) -> bool {
    creds.gid.effective == gid || creds.groups.contains(&gid)
}

fn for_root(what: &str) -> Fault {
    Fault::refused(format!("{what}: that is for root"))
}

/// The name of a user or group, or the number where passwd(5) or group(5) has none.
fn who(id: u32, name: impl Fn(u32) -> Option<String>) -> String {
    name(id).unwrap_or_else(|| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Ids;

    const N3: NodeId = NodeId(3);

    fn creds(uid: u32, gid: u32, groups: &[u32]) -> Creds {
        Creds { uid: Ids::all(uid), gid: Ids::all(gid), groups: groups.to_vec() }
    }

    fn of(uid: u32, gid: u32, mode: u32) -> Record {
        Record { uid, gid, ..Record::new(mode) }
    }

    #[test]
    fn a_node_in_any_state_but_up_is_root_s_alone() {
        for (word, may) in [("up", true), ("boot", false), ("error", false), ("drained", false)] {
            let mut node = of(7, 50, 0o111);
            node.word = Word::of(word);
            assert_eq!(node.admits(N3, &creds(7, 50, &[])).is_ok(), may, "{word}");
            assert!(node.admits(N3, &creds(0, 0, &[])).is_ok(), "{word}");
        }
        let told = Record { word: Word::Boot, ..Record::new(MODE) }.admits(N3, &creds(7, 7, &[]));
        assert_eq!(told.expect_err("it is boot").to_string(), "node n3 is boot");
    }

    #[test]
    fn a_refusal_names_owner_group_and_mode() {
        let told = of(4_000_001, 4_000_002, 0o110).admits(N3, &creds(8, 8, &[])).expect_err("others may not");
        let said = "node n3 is not yours to use: owner 4000001, group 4000002, mode 0110";
        assert_eq!(told.to_string(), said);
    }

    fn attribute(name: &str, value: Option<&[u8]>) -> NodeChange {
        NodeChange::Attribute { name: name.into(), value: value.map(|value| value.to_vec().into()) }
    }

    #[test]
    fn the_owner_changes_group_mode_and_attributes_and_root_all() {
        use wire::nodes::Power;
        let node = of(7, 50, 0o111);
        let (root, owner, other) = (creds(0, 0, &[]), creds(7, 70, &[50, 51]), creds(8, 50, &[50]));
        let table = [
            (NodeChange::State("drained".into()), false),
            (NodeChange::Owner(7), false),
            (NodeChange::Group(51), true),
            (NodeChange::Group(70), true),
            (NodeChange::Group(52), false),
            (NodeChange::Mode(0o100), true),
            (attribute("rack", Some(b"7")), true),
            (attribute("rack", None), true),
            (attribute("bproc.rack", Some(b"7")), false),
            (NodeChange::Power(Power::Halt), false),
            (NodeChange::Chroot(b"/srv".to_vec()), false),
        ];
        for (change, owners) in table {
            assert!(node.may_change(N3, &root, &change).is_ok(), "{change:?}");
            assert_eq!(node.may_change(N3, &owner, &change).is_ok(), owners, "{change:?}");
            assert!(node.may_change(N3, &other, &change).is_err(), "{change:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_for_root_too() {
        let (node, root) = (of(0, 0, 0o111), creds(0, 0, &[]));
        let state = |word: &str| NodeChange::State(word.into());
        let impossible = [
            state("down"),
            state("two words"),
            state("sixteen_letters_"),
            NodeChange::Owner(u32::MAX),
            NodeChange::Group(u32::MAX),
            NodeChange::Mode(0o10000),
            attribute("", Some(b"")),
            attribute("two words", Some(b"")),
            attribute("bproc.state", Some(b"up")),
            attribute("bproc.addr", None),
            attribute("long", Some(&[0; nodes::VALUE + 1])),
        ];
        for change in impossible {
            assert!(node.may_change(N3, &root, &change).is_err(), "{change:?}");
        }
        assert!(node.may_change(NodeId::FRONT, &root, &state("drained")).is_err());
        assert!(node.may_change(NodeId::FRONT, &root, &NodeChange::Mode(0)).is_ok());
    }

    #[test]
    fn a_node_has_so_many_attributes_and_no_more() {
        let (mut node, root) = (of(0, 0, 0o111), creds(0, 0, &[]));
        for number in 0..ATTRIBUTES {
            let one = attribute(&format!("a{number}"), Some(&[0; nodes::VALUE]));
            node.may_change(N3, &root, &one).expect("there is room");
            assert!(node.change(&one, 5));
        }
        assert!(node.may_change(N3, &root, &attribute("another", Some(b""))).is_err());
        node.may_change(N3, &root, &attribute("a0", Some(b"x"))).expect("it is there already");
        node.change(&attribute("a1", None), 6);
        node.may_change(N3, &root, &attribute("another", Some(b""))).expect("there is room again");
    }

    #[test]
    fn a_change_is_timed_and_only_one_that_is_a_change() {
        let mut node = of(0, 0, 0o111);
        assert!(!node.change(&NodeChange::Mode(0o755), 5), "the execute bits are as they were");
        assert!(node.change(&NodeChange::Mode(0o644), 6));
        assert_eq!((node.mode, node.mtime), (0, 6));
    }
}
