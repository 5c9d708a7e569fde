//! Processes that run on a node before all of their memory has come there (`shoal move --lazy`): what the front end hears of that. Who moves them is told when all is
//! there, or that it is lost.

use crate::front::Front;
use crate::move_states::Change;
use vocab::{Exit, Fault, NodeId, Pid};
use wire::event::BodyEvent;
use wire::node::ToNode;

/// What is said of a move to a node that is lost.
pub(crate) const NODE_LOST: &str = "the node is lost";

impl Front {
    /// All of it is there. The node tells it again after each reconnect until it hears that this is known.
    pub(crate) fn is_whole(&mut self, node: NodeId, pid: Pid) {
        self.move_says(node, pid, Change::Whole, None);
        self.send(node, &ToNode::Forget { pid });
    }

    /// Its new node is lost: who asked is told now. Nobody needs what the old one keeps.
    pub(crate) fn comes_nowhere(&mut self, pid: Pid) {
        let Some(one) = self.moves.get_mut(&pid) else { return };
        let (from, to) = (one.from, one.to);
        if let Some(asker) = one.asker.take() {
            self.answer_of_move(asker, (pid, to), Err(Fault::gone(NODE_LOST)));
        }
        self.send(from, &ToNode::RestLost { pid });
    }

    /// Before these events of a node are taken in: of which it says that they have ended for want of their memory.
    pub(crate) fn lost_on_the_way(&mut self, node: NodeId, events: &[BodyEvent]) {
        for event in events {
            if let BodyEvent::Exited { pid, exit: Exit::NodeLost, .. } = event {
                if let Some(one) = self.moves.get_mut(pid).filter(|one| one.to == node) {
                    one.lost = true;
                }
            }
        }
    }

    /// The space knows what the node has told: to those that have ended nothing comes any more.
    pub(crate) fn come_no_more(&mut self, node: NodeId) {
        let lack = self.moves.iter().filter(|(_, one)| one.to == node && one.state.lacks());
        let ended = |pid: &Pid| self.space.get(*pid).map_or(Some(None), |view| view.ended.map(Some));
        let ended = lack.filter_map(|(pid, _)| ended(pid).map(|exit| (*pid, exit)));
        for (pid, exit) in ended.collect::<Vec<_>>() {
            if let Some(one) = self.moves.get_mut(&pid) {
                one.lost |= exit == Some(Exit::NodeLost);
            }
            self.move_changes(node, pid, Change::Whole, Fault::bug("it has ended"));
        }
    }
}
