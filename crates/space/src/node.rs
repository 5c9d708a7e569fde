//! Nodes that come and go.

use crate::person::Usage;
use crate::space::Space;
use vocab::{Exit, NodeId, Pid};

impl Space {
    pub(crate) fn node_up(&mut self, node: NodeId) {
        self.nodes.insert(node);
        self.log(Pid::NONE, node, "node up", 0);
    }

    /// Everything on the node has ended. Asks that came from it have nobody who waits for them.
    pub(crate) fn node_lost(&mut self, node: NodeId) {
        self.nodes.remove(&node);
        self.unsaid.lost(node);
        self.log(Pid::NONE, node, "node lost", 0);
        self.steps.follows_no_more(|_, at| at == node);
        for entry in self.table.values_mut() {
            entry.stands.remove(&node);
            entry.comes_to.take_if(|to| *to == node);
            entry.drop_asks(node);
        }
        for pid in self.table.which(|e| e.lives_on(node)) {
            self.exited(pid, Exit::NodeLost, Usage::default());
        }
    }
}
