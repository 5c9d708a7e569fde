//! `shoal move --explain`: the old node says how a process would go and what is in the way there, the new one whether it has what the
//! process needs. Nothing is done to it.

use crate::front::Front;
use crate::runs::Asker;
use kern::clock::monotonic_us;
use std::collections::HashMap;
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::Answer;
use wire::look::{Explained, Look};
use wire::node::ToNode;
use wire::run::Caller;

/// Both nodes have this long together, in microseconds: the memory of a large process is looked at.
const PATIENCE_US: u64 = 10_000_000;

/// That an ordinary user may wait for at the same time.
const MOST_OF_A_USER: usize = 16;

/// Those under way.
#[derive(Debug, Default)]
pub(crate) struct Explanations {
    all: HashMap<u64, Explanation>,
    last: u64,
}

#[derive(Debug)]
struct Explanation {
    asker: Asker,
    uid: u32,
    /// So far.
    explained: Explained,
    deadline_us: u64,
}

impl Explanations {
    fn begin(&mut self, asker: Asker, uid: u32, explained: Explained, now_us: u64) -> u64 {
        self.last += 1;
        self.all.insert(self.last, Explanation { asker, uid, explained, deadline_us: now_us + PATIENCE_US });
        self.last
    }

    /// Each is work of root's for a user.
    fn may_ask_more(&self, uid: u32) -> Result<()> {
        match uid == 0 || self.all.values().filter(|one| one.uid == uid).count() < MOST_OF_A_USER {
            true => Ok(()),
            false => Err(Fault::refused(format!("user {uid} has asked for {MOST_OF_A_USER} explanations already"))),
        }
    }

    fn late(&mut self, now_us: u64) -> Vec<Explanation> {
        let late: Vec<u64> = self.all.iter().filter(|(_, one)| now_us >= one.deadline_us).map(|(id, _)| *id).collect();
        late.into_iter().filter_map(|id| self.all.remove(&id)).collect()
    }

    /// When the first of them is late.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.all.values().map(|one| one.deadline_us).min()
    }
}

impl Front {
    /// A client wants to know how `pid` would go to node `to`.
    pub(crate) fn on_explain(&mut self, asker: Asker, caller: &Caller, pid: Pid, to: NodeId) {
        let uid = caller.creds.uid.effective;
        let may = self.explanations.may_ask_more(uid);
        let from = match may.and_then(|()| self.is_movable(caller, pid)) {
            Ok(from) => from,
            Err(fault) => return self.answer(asker, Answer::Failed(fault.doing(format!("move {pid}"))), true),
        };
        let mut explained = Explained { pid, from, to, outlook: None, obstacles: Vec::new() };
        if self.is_moving(pid) {
            explained.obstacles.push(format!("{pid} is on its way already"));
        }
        if from == to {
            return self.answer(asker, Answer::Explained(Box::new(explained)), true);
        }
        if to.is_front() {
            explained.obstacles.extend(self.not_to_come_home(pid, false));
        } else if let Err(why) = self.nodes.takes_processes(to) {
            explained.obstacles.push(why.to_string());
        }
        explained.obstacles.extend(self.may_use(to, &caller.creds).err().map(|why| why.to_string()));
        let id = self.explanations.begin(asker, uid, explained, monotonic_us());
        let streams = self.relayed_with(pid).is_some();
        self.send(from, &ToNode::Look { id, pid, streams, user: caller.ordinary() });
    }

    /// The old node has looked.
    pub(crate) fn looked(&mut self, node: NodeId, id: u64, look: Look) {
        let Some(one) = self.explanations.all.get_mut(&id).filter(|one| one.explained.from == node) else { return };
        one.explained.outlook = look.outlook;
        one.explained.obstacles.extend(look.obstacles);
        let (pid, to) = (one.explained.pid, one.explained.to);
        match one.explained.outlook.is_some() && (to.is_front() || self.nodes.takes_processes(to).is_ok()) {
            true => self.send(to, &ToNode::Suits { id, pid, needs: look.needs }),
            false => self.is_explained(id),
        }
    }

    /// The new node has.
    pub(crate) fn suited(&mut self, node: NodeId, id: u64, obstacles: Vec<String>) {
        let Some(one) = self.explanations.all.get_mut(&id).filter(|one| one.explained.to == node) else { return };
        one.explained.obstacles.extend(obstacles.into_iter().map(|what| format!("node {node}: {what}")));
        self.is_explained(id);
    }

    fn is_explained(&mut self, id: u64) {
        if let Some(Explanation { asker, explained, .. }) = self.explanations.all.remove(&id) {
            self.answer(asker, Answer::Explained(Box::new(explained)), true);
        }
    }

    pub(crate) fn tell_late_explanations(&mut self) {
        for Explanation { asker, explained: Explained { pid, from, to, .. }, .. } in
            self.explanations.late(monotonic_us())
        {
            let fault = Fault::gone(format!("node {from} or {to} does not say how {pid} would move"));
            self.answer(asker, Answer::Failed(fault), true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_too_long_is_told_so() {
        let mut all = Explanations::default();
        let (pid, from, to) = (Pid(7), NodeId(0), NodeId(1));
        let explained = Explained { pid, from, to, outlook: None, obstacles: Vec::new() };
        let first = all.begin(Asker::Local(1), 7, explained.clone(), 100);
        all.begin(Asker::Local(1), 7, explained.clone(), 200);
        assert_eq!(all.due_us(), Some(100 + PATIENCE_US));
        assert!(all.late(99 + PATIENCE_US).is_empty());
        assert_eq!(all.late(100 + PATIENCE_US).len(), 1);
        assert!(!all.all.contains_key(&first) && all.all.len() == 1);
        for _ in 1..MOST_OF_A_USER {
            assert_eq!(all.may_ask_more(7), Ok(()));
            all.begin(Asker::Local(1), 7, explained.clone(), 200);
        }
        assert!(all.may_ask_more(7).is_err() && all.may_ask_more(8).is_ok() && all.may_ask_more(0).is_ok());
    }
}
