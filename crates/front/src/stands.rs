//! The stand-ins of a node that is back, where the space does not know for whom they stand: natives of the front end, and who has ended in the
//! meantime. (Of those that it knows it tells the node itself.)

use crate::front::Front;
use crate::persons::{process, usage_to_wire};
use space::{Person, Usage};
use vocab::{Exit, NodeId, Pid};
use wire::node::ToNode;

impl Front {
    /// Those of them that are natives.
    pub(crate) fn natives_among(&self, stand_ins: &[Pid]) -> Vec<Person> {
        let others = stand_ins.iter().filter(|pid| !self.ghosts.has(**pid));
        others.filter_map(|pid| process(&self.proc, *pid)).collect()
    }

    /// Ends those that stand for nobody. The space has been told of the node.
    pub(crate) fn end_stand_ins_of_nobody(&mut self, node: NodeId, stand_ins: Vec<Pid>) {
        for pid in stand_ins {
            if self.space.get(pid).is_some() || self.ghosts.has(pid) {
                continue;
            }
            let exit = match self.proc.stat_of_ended(pid) {
                // Its ghost has ended as it has, and waits for its parent's.
                Ok(Some(stat)) => Exit::from_status(stat.exit_status).unwrap_or(Exit::Code(0)),
                Ok(None) => continue,
                // Its body may be on a node that is not back, and its ghost be still to make.
                Err(_) if self.settle_at_us.is_some() => {
                    self.stands_in_doubt.push((node, pid));
                    continue;
                }
                // Who had to know has waited for it.
                Err(_) => Exit::Code(0),
            };
            self.send(node, &ToNode::Ended { pid, exit, usage: usage_to_wire(Usage::default()) });
        }
    }

    /// The time in which nodes could come back is over.
    pub(crate) fn stands_settle(&mut self) {
        for (node, pid) in std::mem::take(&mut self.stands_in_doubt) {
            self.end_stand_ins_of_nobody(node, vec![pid]);
        }
    }
}
