//! Relays that wait until their program has had the signals that its ghost has had ([`wire::ask::Ask::Delivered`]).
//!
//! Members of a group on one machine get a signal at the same moment. Over several nodes one may have died of it before another has it, and the
//! end of what the first wrote must not reach the second first: streams go straight to the node, signals by way of the ghost and this daemon.
//!
//! | at | until |
//! |---|---|
//! | Ghost | it holds with no signal pending, and none waits in the space |
//! | Node | it has answered a Barrier, which is behind the signals on its link; not where none was sent since the last |

use crate::front::Front;
use crate::runs::Asker;
use std::collections::HashSet;
use vocab::{Fault, NodeId, Pid};
use wire::ask::Answer;
use wire::node::ToNode;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Ghost,
    Node {
        node: NodeId,
        id: u64,
    },
    /// It is to be answered.
    Over,
}

#[derive(Debug)]
struct Wait {
    pid: Pid,
    asker: Asker,
    copy: u32,
    at: At,
}

/// Who waits, and for whom a Barrier is needed.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    waits: Vec<Wait>,
    /// Programs that were sent a signal which no Barrier has followed.
    signalled: HashSet<Pid>,
    barriers: u64,
}

impl Deliveries {
    /// A signal was sent to the body of `pid`.
    pub(crate) fn signalled(&mut self, pid: Pid) {
        self.signalled.insert(pid);
    }

    /// `pid` has ended.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.signalled.remove(&pid);
    }

    fn take(&mut self, which: impl Fn(&Wait) -> bool) -> Vec<Wait> {
        self.waits.extract_if(.., |wait| which(wait)).collect()
    }
}

impl Front {
    /// [`wire::ask::Ask::Delivered`].
    pub(crate) fn on_delivered(&mut self, asker: Asker, caller: Pid, copy: u32) {
        match self.runs.program(caller, copy) {
            Some(_) if self.deliveries.waits.iter().any(|wait| wait.asker == asker && wait.copy == copy) => {
                let fault = Fault::refused("wait for signals to be delivered: the same client waits already");
                self.answer(asker, Answer::Failed(fault), true);
            }
            Some(pid) => self.deliveries.waits.push(Wait { pid, asker, copy, at: At::Ghost }),
            // It has ended, or has not begun.
            None => self.answer(asker, Answer::Delivered { copy }, true),
        }
    }

    /// Goes on with those whose ghosts are quiet by now.
    pub(crate) fn look_after_deliveries(&mut self) {
        if self.deliveries.waits.is_empty() {
            return;
        }
        let mut waits = std::mem::take(&mut self.deliveries.waits);
        for wait in waits.iter_mut().filter(|wait| wait.at == At::Ghost) {
            let view = self.space.get(wait.pid).filter(|view| view.ended.is_none());
            let (node, early) = view.map_or((None, false), |view| (Some(view.node), view.signals_wait));
            if early || !self.ghosts.is_quiet(wait.pid) {
                continue;
            }
            let node = node.filter(|_| self.deliveries.signalled.remove(&wait.pid));
            self.deliveries.barriers += 1;
            let id = self.deliveries.barriers;
            let sent = node.map(|node| (node, self.try_send(node, &ToNode::Barrier { id, pid: wait.pid })));
            match sent {
                Some((node, Ok(()))) => wait.at = At::Node { node, id },
                _ => wait.at = At::Over,
            }
        }
        waits.append(&mut self.deliveries.waits);
        self.deliveries.waits = waits;
        self.deliveries_pass(|at| at == At::Over);
    }

    /// A node has answered a Barrier.
    pub(crate) fn delivered(&mut self, node: NodeId, id: u64) {
        self.deliveries_pass(|at| at == At::Node { node, id });
    }

    /// The link to a node is cut: its answers do not come any more.
    pub(crate) fn deliveries_lose(&mut self, lost: NodeId) {
        self.deliveries_pass(|at| matches!(at, At::Node { node, .. } if node == lost));
    }

    fn deliveries_pass(&mut self, which: impl Fn(At) -> bool) {
        for Wait { asker, copy, .. } in self.deliveries.take(|wait| which(wait.at)) {
            self.answer(asker, Answer::Delivered { copy }, true);
        }
    }
}
