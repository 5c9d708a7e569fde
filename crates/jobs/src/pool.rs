//! The nodes that the batch system gives to jobs, and how their owners and modes change for that, by way of the daemon.

use crate::record::{Held, Job};
use local::Local;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use vocab::{Fault, NodeId, NodeSet, Result, Sig};
use wire::ask::{Answer, Ask};
use wire::nodes::{permits, NodeChange, NodeInfo, DOWN, UP};

/// The daemon has so long for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The mode of a job's nodes: for their owner.
const OWNERS: u32 = 0o100;
/// The mode of a node that changes hands.
const NOBODYS: u32 = 0;

/// Which nodes are managed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Managed {
    All,
    These(NodeSet),
}

impl FromStr for Managed {
    type Err = Fault;

    /// `all`, or a list of nodes.
    fn from_str(text: &str) -> Result<Managed> {
        match text {
            "all" => Ok(Managed::All),
            list => NodeSet::parse(list).map(Managed::These),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Pool {
    managed: Managed,
    socket: PathBuf,
    daemon: Option<Local>,
    /// The daemon's last answer; empty: none yet.
    infos: BTreeMap<NodeId, NodeInfo>,
}

impl Pool {
    pub(crate) fn new(managed: Managed, socket: &Path) -> Pool {
        Pool { managed, socket: socket.into(), daemon: None, infos: BTreeMap::new() }
    }

    /// Takes over what the daemon says of all nodes.
    ///
    /// # Errors
    /// As of [`Local::ask`]; what was said before counts then.
    pub(crate) fn look(&mut self) -> Result<()> {
        match self.ask(&Ask::NodeInfos)? {
            Answer::NodeInfos(infos) => {
                let nodes = infos.into_iter().filter(|info| !info.node.is_front());
                self.infos = nodes.map(|info| (info.node, info)).collect();
                Ok(())
            }
            other => Err(Fault::wire(format!("the daemon answered NodeInfos with {other:?}"))),
        }
    }

    fn ask(&mut self, ask: &Ask) -> Result<Answer> {
        let mut daemon = match self.daemon.take() {
            Some(daemon) => daemon,
            None => Local::connect_within(&self.socket, PATIENCE)?,
        };
        let answer = daemon.ask(ask);
        // A daemon that refuses is there still.
        if answer.as_ref().map_or_else(|fault| fault.kind == vocab::Kind::Refused, |_| true) {
            self.daemon = Some(daemon);
        }
        answer
    }

    fn manages(&self, node: NodeId) -> bool {
        match &self.managed {
            Managed::All => true,
            Managed::These(nodes) => nodes.nodes().contains(&node),
        }
    }

    /// How many nodes are managed, up or not.
    pub(crate) fn size(&self) -> usize {
        match &self.managed {
            Managed::All => self.infos.len(),
            Managed::These(nodes) => nodes.nodes().len(),
        }
    }

    /// Nodes that jobs can have now, if no other job has them.
    pub(crate) fn usable(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.infos.values().filter(|info| info.state == UP && self.manages(info.node)).map(|info| info.node)
    }

    pub(crate) fn held(&self, node: NodeId) -> Option<Held> {
        self.infos.get(&node).map(Held::of)
    }

    /// A node of this job that is lost.
    pub(crate) fn lost(&self, job: &Job) -> Option<NodeId> {
        let is_lost = |node: &NodeId| self.infos.get(node).is_none_or(|info| info.state == DOWN);
        job.list().into_iter().find(|node| !self.infos.is_empty() && is_lost(node))
    }

    /// Makes the job's nodes its user's alone. May be done again.
    ///
    /// # Errors
    /// The daemon's.
    pub(crate) fn give(&mut self, job: &Job) -> Result<()> {
        let nodes = job.list();
        for change in [NodeChange::Mode(NOBODYS), NodeChange::Owner(job.uid()), NodeChange::Mode(OWNERS)] {
            self.change(nodes.clone(), change)?;
        }
        Ok(())
    }

    /// Makes the job's nodes what they were before it. False: processes of its user are on them still, that are to be none there; ask again. May be done again.
    ///
    /// # Errors
    /// The daemon's.
    pub(crate) fn take_back(&mut self, job: &Job) -> Result<bool> {
        self.look()?;
        // Of a node that root has forgotten nothing is left to be changed.
        let nodes: Vec<&Held> = job.nodes.iter().filter(|held| self.infos.contains_key(&held.node)).collect();
        if nodes.is_empty() {
            return Ok(true);
        }
        self.change(nodes.iter().map(|held| held.node).collect(), NodeChange::Mode(NOBODYS))?;
        if !self.cleared(job)? {
            return Ok(false);
        }
        let mut alike: BTreeMap<(u32, u32, u32), Vec<NodeId>> = BTreeMap::new();
        for held in &nodes {
            alike.entry((held.uid, held.gid, held.mode)).or_default().push(held.node);
            for change in self.attribute_changes(held) {
                // An attribute more or less is worth no endless attempts.
                let _told = self.change(vec![held.node], change).inspect_err(|fault| tracing::warn!("{fault}"));
            }
        }
        for ((uid, gid, mode), nodes) in alike {
            for change in [NodeChange::Owner(uid), NodeChange::Group(gid), NodeChange::Mode(mode)] {
                self.change(nodes.clone(), change)?;
            }
        }
        Ok(true)
    }

    /// Changes that make the attributes of a node what they were: its user may have set some.
    fn attribute_changes(&self, held: &Held) -> Vec<NodeChange> {
        let now: &[_] = self.infos.get(&held.node).map_or(&[], |info| &info.attributes);
        let gone = now.iter().filter(|(name, _)| held.attributes.iter().all(|(before, _)| before != name));
        let gone = gone.map(|(name, _)| NodeChange::Attribute { name: name.clone(), value: None });
        let other = held.attributes.iter().filter(|before| !now.contains(before));
        let other = other.map(|(name, value)| NodeChange::Attribute { name: name.clone(), value: Some(value.clone()) });
        gone.chain(other).collect()
    }

    /// Kills what the job's user has on nodes that are not for that user without the job, from wherever it was started. True: nothing is there.
    fn cleared(&mut self, job: &Job) -> Result<bool> {
        let without = |held: &&Held| !permits(&job.creds, (held.uid, held.gid, held.mode));
        let nodes: Vec<NodeId> = job.nodes.iter().filter(without).map(|held| held.node).collect();
        if nodes.is_empty() {
            return Ok(true);
        }
        let rows = match self.ask(&Ask::Ps)? {
            Answer::Ps { rows, .. } => rows,
            other => return Err(Fault::wire(format!("the daemon answered Ps with {other:?}"))),
        };
        let proc = kern::proc::Proc::open(kern::proc::root())?;
        let mut cleared = true;
        for row in rows.iter().filter(|row| row.uid == job.uid() && nodes.contains(&row.node)) {
            cleared = false;
            let Ok(handle) = kern::pidfd::open(row.pid) else { continue };
            // The number may have become another process's.
            let is_theirs = proc.status(row.pid).is_ok_and(|status| status.creds.uid.real == job.uid());
            if is_theirs {
                let _ended = kern::pidfd::kill(handle.as_fd(), Sig::KILL);
            }
        }
        Ok(cleared)
    }

    fn change(&mut self, nodes: Vec<NodeId>, change: NodeChange) -> Result<()> {
        match self.ask(&Ask::ChangeNodes { nodes, change })? {
            Answer::NodesChanged => Ok(()),
            other => Err(Fault::wire(format!("the daemon answered ChangeNodes with {other:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::{Creds, Ids};

    fn info(node: i32, state: &str) -> NodeInfo {
        NodeInfo {
            node: NodeId(node),
            state: state.into(),
            uid: 0,
            gid: 0,
            mode: 0,
            address: String::new(),
            atime: 0,
            mtime: 0,
            attributes: Vec::new(),
            name: String::new(),
        }
    }

    fn pool(managed: &str, states: &[(i32, &str)]) -> Pool {
        let mut pool = Pool::new(managed.parse().expect("a list"), Path::new("/nonexistent"));
        pool.infos = states.iter().map(|(node, state)| (NodeId(*node), info(*node, state))).collect();
        pool
    }

    #[test]
    fn only_managed_nodes_that_are_up_are_usable() {
        let states = [(0, "up"), (1, "drained"), (2, "up"), (7, "up")];
        let usable = |pool: &Pool| pool.usable().map(|node| node.0).collect::<Vec<_>>();
        let some = pool("0-3", &states);
        assert_eq!((usable(&some), some.size()), (vec![0, 2], 4));
        let all = pool("all", &states);
        assert_eq!((usable(&all), all.size()), (vec![0, 2, 7], 4));
        for bad in ["", "front", "up", "-1"] {
            assert!(bad.parse::<Managed>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_node_is_lost_when_it_is_down_or_forgotten_and_not_when_nobody_says_so() {
        let held = |node: i32| Held::of(&info(node, "up"));
        let job = Job { nodes: vec![held(0), held(1)], ..Job::default() };
        assert_eq!(pool("all", &[(0, "up"), (1, "unavailable")]).lost(&job), None);
        assert_eq!(pool("all", &[(0, "up"), (1, "down")]).lost(&job), Some(NodeId(1)));
        assert_eq!(pool("all", &[(1, "up")]).lost(&job), Some(NodeId(0)));
        assert_eq!(pool("all", &[]).lost(&job), None);
    }

    #[test]
    fn attributes_become_what_they_were() {
        let mut pool = pool("all", &[(0, "up")]);
        let attribute = |name: &str, value: &str| (name.to_string(), value.as_bytes().to_vec().into());
        if let Some(info) = pool.infos.get_mut(&NodeId(0)) {
            info.attributes = vec![attribute("kept", "1"), attribute("other", "2"), attribute("new", "3")];
        }
        let mut held = Held::of(&info(0, "up"));
        held.attributes = vec![attribute("kept", "1"), attribute("other", "1"), attribute("old", "4")];
        let changes: Vec<(String, bool)> = pool
            .attribute_changes(&held)
            .into_iter()
            .map(|change| match change {
                NodeChange::Attribute { name, value } => (name, value.is_some()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(changes, [("new".to_string(), false), ("other".into(), true), ("old".into(), true)]);
    }

    #[test]
    fn a_user_has_a_node_without_a_job_where_its_mode_says_so() {
        let creds = Creds { uid: Ids::all(7), gid: Ids::all(7), groups: Vec::new() };
        assert!(permits(&creds, (0, 0, 0o111)) && !permits(&creds, (0, 0, 0)));
    }
}
