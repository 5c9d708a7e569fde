//! Logs of daemons, for who may read them: the node's daemon is asked, and each answer is a piece of its log.

use crate::front::Front;
use crate::runs::Asker;
use kern::clock::monotonic_us;
use kern::users;
use std::collections::HashMap;
use vocab::{Creds, Fault, NodeId, Result};
use wire::ask::Answer;
use wire::log::{LogPiece, LogWanted};
use wire::node::ToNode;
use wire::run::Caller;

/// A node has this long to answer, in microseconds.
const PATIENCE_US: u64 = 5_000_000;
/// Groups whose members read the journal of a machine (systemd-journald.service(8)), and so the daemons' logs; the front end's.
const GROUPS: [&str; 2] = ["adm", "systemd-journal"];

/// Questions that nodes have yet to answer.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    all: HashMap<u64, Open>,
    last: u64,
}

#[derive(Debug)]
struct Open {
    asker: Asker,
    node: NodeId,
    deadline_us: u64,
}

impl Logs {
    fn begin(&mut self, asker: Asker, node: NodeId, now_us: u64) -> u64 {
        self.last += 1;
        self.all.insert(self.last, Open { asker, node, deadline_us: now_us + PATIENCE_US });
        self.last
    }

    /// The asker whose question the node answers.
    fn told(&mut self, node: NodeId, id: u64) -> Option<Asker> {
        self.all.get(&id).filter(|open| open.node == node)?;
        self.all.remove(&id).map(|open| open.asker)
    }

    /// Takes out questions that are late, and all to node `lost`: the askers are told that nothing comes.
    fn in_vain(&mut self, lost: Option<NodeId>, now_us: u64) -> Vec<(Asker, NodeId)> {
        let over = self.all.extract_if(|_, open| now_us >= open.deadline_us || lost == Some(open.node));
        over.map(|(_, open)| (open.asker, open.node)).collect()
    }

    /// When the first of them is late.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.all.values().map(|open| open.deadline_us).min()
    }
}

/// # Errors
/// `Refused`, with who may.
fn may_read(creds: &Creds) -> Result<()> {
    let is_in = |group: &str| users::gid(group).is_some_and(|gid| creds.groups.contains(&gid));
    match creds.uid.effective == 0 || GROUPS.into_iter().any(is_in) {
        true => Ok(()),
        false => Err(Fault::refused(format!(
            "read the log of a daemon: that is for root, and for who is in group {}",
            GROUPS.join(" or ")
        ))),
    }
}

impl Front {
    /// A client wants lines of a log.
    pub(crate) fn on_log_wanted(&mut self, asker: Asker, caller: &Caller, node: NodeId, wanted: LogWanted) {
        let answer = match may_read(&caller.creds) {
            Err(fault) => Answer::Failed(fault),
            Ok(()) if node.is_front() => {
                journal::read(&self.config.run_dir, wanted).map_or_else(Answer::Failed, Answer::Log)
            }
            Ok(()) => {
                let id = self.admin.logs.begin(asker, node, monotonic_us());
                match self.try_send(node, &ToNode::Log { id, wanted }) {
                    Ok(()) => return,
                    Err(fault) => {
                        self.admin.logs.told(node, id);
                        Answer::Failed(fault)
                    }
                }
            }
        };
        self.answer(asker, answer, true);
    }

    /// A node answers.
    pub(crate) fn log_told(&mut self, node: NodeId, id: u64, piece: LogPiece, fault: Option<Fault>) {
        let Some(asker) = self.admin.logs.told(node, id) else { return };
        let answer = fault.map_or(Answer::Log(piece), |fault| Answer::Failed(fault.on(node)));
        self.answer(asker, answer, true);
    }

    /// Tells those for whom nothing comes any more; `lost`: a node whose link is cut.
    pub(crate) fn give_logs_up(&mut self, lost: Option<NodeId>) {
        for (asker, node) in self.admin.logs.in_vain(lost, monotonic_us()) {
            let why = Fault::gone(format!("node {node} has not said what is in its log"));
            self.answer(asker, Answer::Failed(why), true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::Ids;

    #[test]
    fn who_reads_journals_reads_logs() {
        let creds = |uid, groups: &[u32]| Creds { uid: Ids::all(uid), gid: Ids::all(100), groups: groups.to_vec() };
        assert!(may_read(&creds(0, &[])).is_ok());
        assert!(may_read(&creds(7, &[7, 100])).is_err());
        for gid in GROUPS.into_iter().filter_map(users::gid) {
            assert!(may_read(&creds(7, &[7, gid])).is_ok());
            let by_setgid = Creds { gid: Ids::all(gid), ..creds(7, &[7]) };
            assert!(may_read(&by_setgid).is_err(), "by a set-group-ID program");
        }
    }

    #[test]
    fn each_is_answered_once_by_the_node_that_was_asked() {
        let (mut logs, a, b) = (Logs::default(), NodeId(0), NodeId(1));
        let [one, two, three] =
            [(1, a), (2, b), (3, b)].map(|(asker, node)| logs.begin(Asker::Local(asker), node, 100));
        assert_eq!((logs.told(b, one), logs.told(a, one), logs.told(a, one)), (None, Some(Asker::Local(1)), None));
        assert_eq!(logs.in_vain(Some(a), 100), []);
        assert_eq!(logs.told(b, two), Some(Asker::Local(2)));
        assert_eq!((logs.due_us(), logs.in_vain(Some(b), 100)), (Some(100 + PATIENCE_US), vec![(Asker::Local(3), b)]));
        logs.begin(Asker::Local(4), a, 100);
        assert_eq!(logs.in_vain(None, 100 + PATIENCE_US), [(Asker::Local(4), a)]);
        assert_eq!((logs.due_us(), logs.told(b, three)), (None, None));
    }
}
