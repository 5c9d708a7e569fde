//! What happens is told to whoever has asked for it ([`Ask::Feed`](wire::ask::Ask::Feed)): moves, and states of nodes.

use crate::connection::Connection;
use crate::front::Front;
use crate::runs::Asker;
use std::collections::{BTreeMap, BTreeSet};
use vocab::{Fault, NodeId};
use wire::ask::Answer;
use wire::feed::Happening;

/// Who has so many bytes not read is dropped: what happens is of no use to them any more, and is not kept for ever.
const MOST_UNREAD: usize = 256 * 1024;

/// Who listens, and what they have been told of nodes.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    listeners: BTreeSet<Asker>,
    nodes: BTreeMap<NodeId, String>,
}

impl Front {
    pub(crate) fn on_feed(&mut self, asker: Asker) {
        self.tell_nodes();
        let begun = self.moves.iter().map(|(pid, one)| Happening::Begun { pid: *pid, from: one.from, to: one.to });
        let words: BTreeMap<NodeId, String> = self.node_words().map(|(node, state)| (node, state.into())).collect();
        let nodes = words.iter().map(|(node, state)| Happening::Node { node: *node, state: state.clone() });
        let all: Vec<Happening> = [Happening::Listening].into_iter().chain(begun).chain(nodes).collect();
        self.feeds.nodes = words;
        self.feeds.listeners.insert(asker);
        all.into_iter().for_each(|one| self.answer(asker, Answer::Feed(one), false));
    }

    /// Who listens, if anybody does, hears of it.
    pub(crate) fn happened(&mut self, what: &Happening) {
        for asker in self.feeds.listeners.iter().copied().collect::<Vec<_>>() {
            match asker {
                Asker::Local(token) if self.unread(token) > MOST_UNREAD => self.close(token),
                // Many are behind one link: whoever else is there must not wait for them.
                Asker::Remote { node, .. } if self.queued(node) > MOST_UNREAD => {
                    self.feeds.listeners.remove(&asker);
                    self.answer(asker, Answer::Failed(Fault::gone("what happens is not read")), true);
                }
                asker => self.answer(asker, Answer::Feed(what.clone()), false),
            }
        }
    }

    fn unread(&self, token: u64) -> usize {
        match self.connections.get(&token) {
            Some(Connection::Client { link, .. }) => link.queued(),
            _ => 0,
        }
    }

    /// States of nodes that are others than those told last.
    pub(crate) fn tell_nodes(&mut self) {
        if self.feeds.listeners.is_empty() {
            return;
        }
        let known = |node: NodeId| self.feeds.nodes.get(&node).map(String::as_str);
        let others = self.node_words().filter(|(node, state)| known(*node) != Some(state));
        for (node, state) in others.map(|(node, state)| (node, state.to_string())).collect::<Vec<_>>() {
            self.feeds.nodes.insert(node, state.clone());
            self.happened(&Happening::Node { node, state });
        }
    }

    fn node_words(&self) -> impl Iterator<Item = (NodeId, &str)> {
        self.nodes.iter().map(|(node, is)| (node, is.state.word(self.admin.roster.get(node))))
    }

    pub(crate) fn feed_asker_gone(&mut self, asker: Asker) {
        self.feeds.listeners.remove(&asker);
    }

    /// The link to a node is cut: those there learn it from their agent.
    pub(crate) fn feeds_lose(&mut self, lost: NodeId) {
        self.feeds.listeners.retain(|asker| !matches!(asker, Asker::Remote { node, .. } if *node == lost));
    }
}
