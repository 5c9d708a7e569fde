//! Nodes as things with an owner, a mode and a state: who may use them, what clients are told of them and change ([`crate::roster`]).

use crate::chores::Chores;
use crate::config::FrontConfig;
use crate::front::Front;
use crate::logs::Logs;
use crate::places::State;
use crate::roster::word::{Change, Word};
use crate::roster::{now, Roster};
use crate::runs::Asker;
use crate::scripts::Scripts;
use kern::clock::monotonic_us;
use link::allow::Allow;
use policy::{NodeView, Target};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use tracing::warn;
use vocab::{Creds, Fault, NodeId, Result};
use wire::ask::Answer;
use wire::feed::Happening;
use wire::nodes::{NodeChange, NodeInfo, DOWN, STATE_NAME, UNAVAILABLE, UP};
use wire::run::Caller;

/// The roster, the start-up scripts that run, and the chores that nodes have been given.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) roster: Roster,
    pub(crate) scripts: Scripts,
    pub(crate) chores: Chores,
    /// Who may start programs in the space.
    pub(crate) allow: Allow,
    pub(crate) logs: Logs,
}

impl Admin {
    /// # Errors
    /// `Sys` where the state directory cannot be used.
    pub(crate) fn new(config: &FrontConfig) -> Result<Admin> {
        let mut roster = Roster::open(&config.run_dir, &config.nodes.state_dir(&config.run_dir))?;
        roster.is_at(NodeId::FRONT, config.listen.to_string(), 0, now());
        let allow = Allow::of(config.allow.as_deref());
        let unknown = allow.unknown();
        if !unknown.is_empty() {
            warn!("allow names whom this machine's passwd(5) and group(5) do not know: {}", unknown.join(", "));
        }
        Ok(Admin { roster, scripts: Scripts::default(), chores: Chores::default(), allow, logs: Logs::default() })
    }
}

/// The most nodes of one change.
const MOST: usize = 65_536;

/// How attributes name what is not one.
fn meant(change: NodeChange) -> Result<NodeChange> {
    match change {
        NodeChange::Attribute { name, value: Some(value) } if name == STATE_NAME => {
            let word = String::from_utf8(value.to_vec());
            word.map(NodeChange::State).map_err(|_| Fault::refused(format!("{STATE_NAME}: that is no word")))
        }
        other => Ok(other),
    }
}

impl Front {
    pub(crate) fn node_infos(&self) -> Vec<NodeInfo> {
        let known: BTreeSet<NodeId> = self.nodes.iter().map(|(node, _)| node).collect();
        let known = known.into_iter().chain(self.admin.roster.iter().map(|(node, _)| node)).chain([NodeId::FRONT]);
        known.collect::<BTreeSet<NodeId>>().into_iter().map(|node| self.node_info(node)).collect()
    }

    fn node_info(&self, number: NodeId) -> NodeInfo {
        let record = self.admin.roster.of(number);
        let node = self.nodes.get(number);
        let state = match node.map(|node| node.state) {
            _ if number.is_front() => UP,
            Some(State::Up) => record.word.text(),
            Some(State::Silent) => UNAVAILABLE,
            // A daemon that follows another one does not know yet who comes back.
            None if self.awaits(number) => UNAVAILABLE,
            Some(State::Down) | None => DOWN,
        };
        let address = match node {
            _ if number.is_front() => self.config.listen.to_string(),
            Some(node) => node.address.to_string(),
            None => record.address.clone(),
        };
        let attributes = record.attributes.into_iter().map(|(name, value)| (name, value.into())).collect();
        NodeInfo {
            node: number,
            state: state.into(),
            uid: record.uid,
            gid: record.gid,
            mode: record.mode,
            address,
            atime: record.atime,
            mtime: record.mtime,
            attributes,
            name: record.name,
        }
    }

    pub(crate) fn on_change_nodes(&mut self, asker: Asker, caller: &Caller, nodes: Vec<NodeId>, change: NodeChange) {
        let changed = self.change_nodes(asker, caller, &nodes, change);
        match changed {
            // The nodes themselves have to say something to it first.
            Ok(false) => {}
            Ok(true) => self.answer(asker, Answer::NodesChanged, true),
            Err(fault) => self.answer(asker, Answer::Failed(fault), true),
        }
    }

    fn change_nodes(&mut self, asker: Asker, caller: &Caller, nodes: &[NodeId], change: NodeChange) -> Result<bool> {
        let change = meant(change)?;
        let known = |node: &NodeId| {
            node.is_front() || self.nodes.get(*node).is_some() || self.admin.roster.get(*node).is_some()
        };
        if nodes.is_empty() || nodes.len() > MOST {
            return Err(Fault::refused(format!("{} nodes are named: 1 to {MOST} are possible", nodes.len())));
        }
        if let Some(unknown) = nodes.iter().find(|node| !known(node)) {
            return Err(Fault::refused(format!("unknown node {unknown}")));
        }
        if matches!(change, NodeChange::Power(_) | NodeChange::Chroot(_)) {
            let roster = &self.admin.roster;
            nodes.iter().try_for_each(|node| roster.of(*node).may_change(*node, &caller.creds, &change))?;
            return self.begin_chore(asker, nodes, &change).map(|()| false);
        }
        let changed = self.admin.roster.change(nodes, &caller.creds, &change, now())?;
        if !matches!(change, NodeChange::State(_)) {
            changed.into_iter().for_each(|node| self.happened(&Happening::Changed { node }));
        }
        Ok(true)
    }

    /// A node has joined, or is back with what runs there.
    pub(crate) fn node_comes(&mut self, node: NodeId, back: bool) {
        let change = match (back, self.config.nodes.node_up.is_some()) {
            (true, true) => Change::Back,
            (true, false) => Change::BackAtOnce,
            (false, true) => Change::Joined,
            (false, false) => Change::JoinedAtOnce,
        };
        if let Some(one) = self.nodes.get(node) {
            self.admin.roster.is_at(node, one.address.to_string(), one.identity, now());
        }
        self.admin.roster.word_changes(node, change, now());
        if self.admin.roster.of(node).word == Word::Boot {
            self.start_script(node);
        }
    }

    /// The number of a node that asks for none: the one that it had, also before the daemon was started again, or a free one.
    pub(crate) fn number_for(&self, identity: u64, from: IpAddr) -> NodeId {
        let roster = &self.admin.roster;
        let is_there = |address: &str| address.parse::<SocketAddr>().is_ok_and(|address| address.ip() == from);
        // A copy of a machine may have its identity: while that may live, only who comes from its address is that one.
        let known = roster.number_of(identity).filter(|(node, address)| {
            self.nodes.get(*node).is_none() && (is_there(address) || !self.leases.has(*node))
        });
        match known {
            Some((node, _)) => node,
            None => self.nodes.number_for(identity, from, |node| self.leases.has(node) || roster.is_taken(node)),
        }
    }

    /// May this caller start programs on `node`, or move one there?
    ///
    /// # Errors
    /// `Refused`, with owner, group and mode of the node, or its state, or with who may start programs in the space or on that node.
    pub(crate) fn may_use(&self, node: NodeId, creds: &Creds) -> Result<()> {
        self.admin.roster.admits(node, creds)?;
        if node.is_front() {
            return Ok(());
        }
        self.admin.allow.admits(creds).map_err(|fault| fault.doing("the space of this front end"))?;
        // The node looks itself, too, by the names that it knows.
        self.nodes
            .get(node)
            .map_or(Ok(()), |one| one.allow.admits(creds))
            .map_err(|fault| fault.doing(format!("node {node}")))
    }

    /// The same, of one that does so.
    ///
    /// # Errors
    /// As [`Front::may_use`].
    pub(crate) fn uses(&mut self, node: NodeId, creds: &Creds) -> Result<()> {
        self.may_use(node, creds)?;
        self.admin.roster.is_used(node, now());
        Ok(())
    }

    /// Where programs go that this caller wants there.
    ///
    /// # Errors
    /// As [`policy::place`]; `Refused` for a node that the caller may not use.
    pub(crate) fn places_for(&mut self, target: &Target, caller: &Caller) -> Result<Vec<NodeId>> {
        let view = self.usable(self.nodes.view(monotonic_us()), target, &caller.creds)?;
        let to = policy::place(&view, target, &mut self.nodes.turn)?;
        to.iter().try_for_each(|node| self.may_use(*node, &caller.creds))?;
        to.iter().for_each(|node| self.admin.roster.is_used(*node, now()));
        Ok(to)
    }

    /// The nodes of `view` from which `target` is chosen: where no node is named, only nodes that are up and that the caller may use.
    ///
    /// # Errors
    /// `Refused` where there are nodes, and none for the caller.
    fn usable(&self, view: Vec<NodeView>, target: &Target, creds: &Creds) -> Result<Vec<NodeView>> {
        if matches!(target, Target::Nodes(_)) {
            return Ok(view);
        }
        let there = view.iter().filter(|one| one.up).map(|one| one.node).collect::<Vec<_>>();
        let may = |node: NodeId| self.admin.roster.is_up(node) && self.may_use(node, creds).is_ok();
        let usable: Vec<NodeView> = view.into_iter().filter(|one| may(one.node)).collect();
        match there.first() {
            Some(first) if !usable.iter().any(|one| one.up) => {
                let why = self.may_use(*first, creds).err();
                let why = why.unwrap_or_else(|| {
                    Fault::refused(format!("node {first} is {}", self.admin.roster.of(*first).word.text()))
                });
                Err(why.doing("no node takes your programs"))
            }
            _ => Ok(usable),
        }
    }
}
