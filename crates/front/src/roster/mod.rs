//! All nodes that there are or have been, with owner, group, mode, state word and attributes, kept over restarts of the daemon. A pure table but for its file.

pub(crate) mod kept;
pub(crate) mod record;
pub(crate) mod word;

use kept::{Found, Keeper, Records};
use record::Record;
use std::path::{Path, PathBuf};
use tracing::{error, info, warn};
use vocab::names::is_name;
use vocab::{Creds, Fault, NodeId, Result};
use wire::nodes::{NodeChange, MODE};
use word::{next, Change, Word};

/// The mode of a node of which nothing is known because the file was damaged: nobody gets in who may not have been.
const CLOSED: u32 = 0o100;
/// The file in the state directory, and the one in the run directory.
const FILE: &str = "nodes";
const QUICK: &str = "roster";

/// See the module.
#[derive(Debug)]
pub(crate) struct Roster {
    records: Records,
    /// The mode of nodes that are new.
    mode: u32,
    /// Which list it is, counted on over restarts.
    number: u64,
    /// The file in the run directory, and who writes the other.
    kept: Option<(PathBuf, Keeper)>,
    /// Something has changed since it was written.
    unwritten: bool,
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    (kern::clock::realtime_ns() / 1_000_000_000) as i64
}

impl Default for Roster {
    fn default() -> Roster {
        Roster { records: Records::new(), mode: MODE, number: 0, kept: None, unwritten: false }
    }
}

impl Roster {
    /// With what a daemon before this one has kept in the run directory and in the state directory, which is made if need be.
    ///
    /// # Errors
    /// `Sys` where the directory or the file cannot be used.
    pub(crate) fn open(run_dir: &Path, directory: &Path) -> Result<Roster> {
        std::fs::create_dir_all(directory)
            .map_err(|e| Fault::io(&e, format!("make the state directory {}", directory.display())))?;
        let (quick, path) = (run_dir.join(QUICK), directory.join(FILE));
        let mut roster = Roster::default();
        match kept::find(&quick, &path)? {
            Found::Nothing => {}
            Found::All(records, number) => (roster.records, roster.number) = (records, number),
            Found::Older(records, number) => {
                warn!("nodes have the owners and modes that they had before the last change");
                (roster.records, roster.number) = (records, number);
            }
            Found::Damaged => {
                error!("the owners and modes of nodes are lost: each node is root's alone until root says otherwise (shoal node-set)");
                roster.mode = CLOSED;
            }
        }
        roster.kept = Some((quick, Keeper::start(path)?));
        Ok(roster)
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<&Record> {
        self.records.get(&node)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Record)> {
        self.records.iter().map(|(node, record)| (*node, record))
    }

    fn new_record(&self, node: NodeId) -> Record {
        Record::new(if node.is_front() { MODE } else { self.mode })
    }

    fn record(&mut self, node: NodeId) -> &mut Record {
        let new = self.new_record(node);
        self.records.entry(node).or_insert(new)
    }

    /// The node's record, or the one that it would get if it joined now.
    pub(crate) fn of(&self, node: NodeId) -> Record {
        self.get(node).cloned().unwrap_or_else(|| self.new_record(node))
    }

    /// As [`Record::admits`].
    ///
    /// # Errors
    /// Likewise.
    pub(crate) fn admits(&self, node: NodeId, creds: &Creds) -> Result<()> {
        match self.get(node) {
            Some(record) => record.admits(node, creds),
            None => self.new_record(node).admits(node, creds),
        }
    }

    /// Is it to be chosen for programs of nobody in particular, root's among them?
    pub(crate) fn is_up(&self, node: NodeId) -> bool {
        self.get(node).is_none_or(|record| record.word == Word::Up)
    }

    /// Something has happened to the node's word. Is it another one now?
    pub(crate) fn word_changes(&mut self, node: NodeId, change: Change, now: i64) -> bool {
        let record = self.record(node);
        let after = next(record.word.clone(), change);
        if after == record.word {
            return false;
        }
        info!(%node, "state: {} -> {}", record.word.text(), after.text());
        (record.word, record.mtime) = (after, now);
        self.unwritten = true;
        true
    }

    /// A node has joined from this address, and says this of itself, by which no other node has its number.
    pub(crate) fn is_at(&mut self, node: NodeId, address: String, identity: u64, now: i64) {
        let is_same = |other: &Record| identity != 0 && other.identity == identity;
        for (_, other) in self.records.iter_mut().filter(|(number, other)| **number != node && is_same(other)) {
            other.identity = 0;
            other.name.clear();
        }
        let is_new = !self.records.contains_key(&node);
        let record = self.record(node);
        if is_new {
            (record.atime, record.mtime) = (now, now);
        }
        if record.address != address || record.identity != identity {
            (record.address, record.identity) = (address, identity);
            self.unwritten = true;
        }
    }

    /// A node that has joined calls itself so; what is no name is none.
    pub(crate) fn is_called(&mut self, node: NodeId, name: &str) {
        let name = if is_name(name) { name } else { "" };
        let record = self.record(node);
        if record.name != name {
            record.name = name.into();
            self.unwritten = true;
        }
    }

    /// The number that the node of this identity had when it joined last, and where it was.
    pub(crate) fn number_of(&self, identity: u64) -> Option<(NodeId, &str)> {
        let mut known = self.records.iter().filter(|(_, record)| identity != 0 && record.identity == identity);
        known.next().map(|(node, record)| (*node, record.address.as_str()))
    }

    /// Is this the number of a node that would be known again? Whoever asks for no number gets another one, and not what was said of that node.
    pub(crate) fn is_taken(&self, node: NodeId) -> bool {
        self.get(node).is_some_and(|record| record.identity != 0)
    }

    /// A program was started there, or has moved there. Not worth a file by itself.
    pub(crate) fn is_used(&mut self, node: NodeId, now: i64) {
        self.record(node).atime = now;
    }

    /// Makes one change of several nodes, of all or of none, and keeps it. The nodes that are not as they were.
    ///
    /// # Errors
    /// `Refused` by the first of them; `Sys` where it cannot be kept: then nothing has changed.
    pub(crate) fn change(
        &mut self,
        nodes: &[NodeId],
        creds: &Creds,
        change: &NodeChange,
        now: i64,
    ) -> Result<Vec<NodeId>> {
        let mut nodes: Vec<NodeId> = nodes.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.iter().try_for_each(|node| self.of(*node).may_change(*node, creds, change))?;
        let before = self.records.clone();
        let changed: Vec<NodeId> = nodes.into_iter().filter(|node| self.record(*node).change(change, now)).collect();
        if changed.is_empty() {
            self.records = before;
            return Ok(changed);
        }
        self.unwritten = true;
        self.write().inspect_err(|_| self.records = before)?;
        info!(nodes = ?changed, by = creds.uid.effective, ?change, "nodes changed");
        Ok(changed)
    }

    /// Root has forgotten these nodes.
    pub(crate) fn forget(&mut self, nodes: &[NodeId]) {
        for node in nodes {
            self.unwritten |= self.records.remove(node).is_some();
        }
    }

    /// Keeps what has happened since the last time. For each turn of the daemon's loop.
    pub(crate) fn keep(&mut self) {
        if self.unwritten {
            if let Err(fault) = self.write() {
                warn!("{fault}");
            }
            // Tried again with the next change, not in each turn.
            self.unwritten = false;
        }
    }

    fn write(&mut self) -> Result<()> {
        if let Some((quick, keeper)) = &self.kept {
            let text = kept::text(&self.records, self.number + 1);
            kept::write(quick, &text, false)?;
            keeper.keep(text);
        }
        self.number += 1;
        self.unwritten = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Ids;

    fn user(uid: u32) -> Creds {
        Creds { uid: Ids::all(uid), gid: Ids::all(uid), groups: Vec::new() }
    }

    #[test]
    fn all_nodes_change_or_none() {
        let mut roster = Roster::default();
        let (a, b) = (NodeId(0), NodeId(1));
        assert_eq!(roster.change(&[a], &user(0), &NodeChange::Owner(7), 1), Ok(vec![a]));
        let mode = NodeChange::Mode(0o100);
        assert!(roster.change(&[a, b], &user(7), &mode, 2).is_err(), "one of them is root's");
        assert_eq!(roster.of(a).mode, MODE);
        assert_eq!(roster.change(&[a, b], &user(0), &mode, 3), Ok(vec![a, b]));
        assert_eq!(roster.change(&[a, b], &user(0), &mode, 4), Ok(vec![]), "they are so already");
        assert!(roster.admits(a, &user(7)).is_ok() && roster.admits(b, &user(7)).is_err());
        roster.forget(&[a]);
        assert!(roster.admits(a, &user(8)).is_ok(), "a new node");
    }

    #[test]
    fn a_node_is_known_again_and_its_number_is_nobody_else_s() {
        let mut roster = Roster::default();
        roster.is_at(NodeId(0), "10.0.0.1:7".into(), 70, 1);
        roster.is_called(NodeId(0), "lab");
        assert_eq!(roster.number_of(70), Some((NodeId(0), "10.0.0.1:7")));
        assert!(roster.is_taken(NodeId(0)) && !roster.is_taken(NodeId(1)));
        assert_eq!((roster.number_of(71), roster.number_of(0)), (None, None));
        // It is configured with another number from now on.
        roster.is_at(NodeId(5), "10.0.0.1:8".into(), 70, 2);
        assert_eq!(roster.number_of(70), Some((NodeId(5), "10.0.0.1:8")));
        assert!(!roster.is_taken(NodeId(0)));
        assert!(roster.of(NodeId(0)).name.is_empty(), "the name has gone with the machine");
        // Two that say nothing of themselves are two.
        roster.is_at(NodeId(6), "10.0.0.2:8".into(), 0, 3);
        roster.is_called(NodeId(6), "six");
        roster.is_at(NodeId(7), "10.0.0.3:8".into(), 0, 3);
        assert!(!roster.is_taken(NodeId(6)));
        assert_eq!(roster.of(NodeId(6)).name, "six");
    }

    #[test]
    fn a_restart_finds_what_was_kept_and_closes_what_is_lost() {
        let directory = std::env::temp_dir().join(format!("shoal-roster-all.{}", std::process::id()));
        let open = || Roster::open(&directory, &directory).expect("a directory");
        let node = NodeId(3);
        open().change(&[node], &user(0), &NodeChange::Owner(7), 1).expect("room");
        assert_eq!(open().of(node).uid, 7);
        let mut named = open();
        named.is_called(node, "lab3");
        named.is_called(NodeId(4), "no name");
        named.keep();
        drop(named);
        assert_eq!((open().of(node).name.as_str(), open().of(NodeId(4)).name.as_str()), ("lab3", ""));
        for name in ["nodes", "nodes.before", "roster"] {
            std::fs::write(directory.join(name), "nonsense").expect("room");
        }
        let roster = open();
        assert!(roster.admits(node, &user(7)).is_err() && roster.admits(node, &user(0)).is_ok());
        assert!(roster.admits(NodeId::FRONT, &user(7)).is_ok());
        std::fs::remove_dir_all(&directory).expect("ours");
    }
}
