//! Which processes `shoal ps` shows, and in which order.

use clap::{Args, ValueEnum};
use monitor::tree::forest;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use vocab::{Fault, NodeId, NodeSet, Pid, Result};
use wire::ask::ProcRow;

/// See the module.
#[derive(Args, Debug, Default)]
pub(crate) struct Choice {
    /// Only what runs on these nodes: 0, or 0-3,7, or names
    #[arg(short = 'n', long = "nodes", value_name = "NODES", value_parser = super::node_names::nodes)]
    nodes: Option<NodeSet>,
    /// Only what is theirs: names or numbers, with commas between
    #[arg(short = 'u', long = "user", value_name = "USERS", value_delimiter = ',')]
    users: Vec<String>,
    /// Only what this process has started, and the process itself: a `shoal run`, or any other
    #[arg(long, value_name = "PID")]
    job: Option<i32>,
    /// The order of lines; time and memory: the most first
    #[arg(long, value_name = "KEY", value_enum, default_value_t = Key::Pid)]
    sort: Key,
    /// Children below their parents
    #[arg(long)]
    tree: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Key {
    #[default]
    Pid,
    Node,
    User,
    Time,
    Memory,
}

impl Choice {
    pub(crate) fn is_of_a_job(&self) -> bool {
        self.job.is_some()
    }

    /// The nodes that were named, if any were.
    pub(crate) fn nodes(&self) -> Option<&[NodeId]> {
        self.nodes.as_ref().map(NodeSet::nodes)
    }

    /// The rows that are wanted, in order, each with its depth: 0, or in a tree how many of its ancestors are shown. `parent`: of processes that have no row.
    ///
    /// # Errors
    /// `Refused` for a user that there is not.
    pub(crate) fn of(
        &self,
        rows: Vec<ProcRow>,
        users: &HashMap<u32, String>,
        parent: impl Fn(Pid) -> Option<Pid>,
    ) -> Result<Vec<(usize, ProcRow)>> {
        let uids = self.uids(users)?;
        let wanted = |row: &ProcRow| {
            self.nodes().is_none_or(|nodes| nodes.contains(&row.node)) && (uids.is_empty() || uids.contains(&row.uid))
        };
        let job = self.job.map(|job| descendants(&rows, Pid(job), parent));
        let of_job = |row: &ProcRow| job.as_ref().is_none_or(|job| job.contains(&row.pid));
        let mut rows: Vec<ProcRow> = rows.into_iter().filter(|row| wanted(row) && of_job(row)).collect();
        rows.sort_unstable_by_key(|row| row.pid);
        match self.sort {
            Key::Pid => {}
            Key::Node => rows.sort_by_key(|row| row.node),
            Key::User => rows.sort_by_cached_key(|row| users.get(&row.uid).cloned().unwrap_or_default()),
            Key::Time => rows.sort_by_key(|row| Reverse(row.cpu_ms)),
            Key::Memory => rows.sort_by_key(|row| Reverse(row.rss_kb)),
        }
        Ok(if self.tree {
            forest(rows, |row| (row.pid, row.ppid))
        } else {
            rows.into_iter().map(|row| (0, row)).collect()
        })
    }

    fn uids(&self, users: &HashMap<u32, String>) -> Result<HashSet<u32>> {
        let uid = |name: &String| {
            let by_name = users.iter().find(|(_, known)| *known == name).map(|(uid, _)| *uid);
            by_name.or_else(|| name.parse().ok()).ok_or_else(|| Fault::refused(format!("there is no user {name}")))
        };
        self.users.iter().map(uid).collect()
    }
}

/// A process and all below it, also where some between them have no row: a script that has a script that calls `shoal run`. Who has been left to another
/// parent is not, as for ps(1).
fn descendants(rows: &[ProcRow], job: Pid, parent: impl Fn(Pid) -> Option<Pid>) -> HashSet<Pid> {
    let parents: HashMap<Pid, Pid> = rows.iter().map(|row| (row.pid, row.ppid)).collect();
    let mut known = HashMap::from([(job, true)]);
    for row in rows {
        let (mut way, mut at) = (Vec::new(), row.pid);
        let is_below = loop {
            match known.get(&at) {
                Some(is_below) => break *is_below,
                // A number that is met again on the way leads to nobody.
                None => drop(known.insert(at, false)),
            }
            way.push(at);
            match parents.get(&at).copied().or_else(|| parent(at)) {
                Some(above) => at = above,
                None => break false,
            }
        };
        known.extend(way.into_iter().map(|pid| (pid, is_below)));
    }
    known.into_iter().filter(|(_, is_below)| *is_below).map(|(pid, _)| pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn row(pid: i32, ppid: i32, node: i32, uid: u32, cpu_ms: u64) -> ProcRow {
        let (pid, ppid, node) = (Pid(pid), Pid(ppid), NodeId(node));
        ProcRow { pid, node, uid, state: 'S', cpu_ms, rss_kb: 10_000 - cpu_ms, command: String::new(), ppid, birth: 0 }
    }

    fn chosen(words: &[&str], rows: &[ProcRow]) -> Vec<(usize, i32)> {
        let command = Choice::augment_args(Command::new("ps").no_binary_name(true));
        let choice = Choice::from_arg_matches(&command.try_get_matches_from(words).expect("good")).expect("good");
        let users = HashMap::from([(0, "root".to_string()), (7, "ann".into())]);
        let natives =
            |pid: Pid| [(77, 70), (70, 60), (60, 70)].into_iter().find(|one| one.0 == pid.0).map(|one| Pid(one.1));
        let rows = choice.of(rows.to_vec(), &users, natives).expect("users that there are");
        rows.into_iter().map(|(depth, row)| (depth, row.pid.0)).collect()
    }

    #[test]
    fn filters_and_orders() {
        let rows = [row(5, 1, 0, 7, 10), row(3, 5, 1, 0, 30), row(4, 5, 2, 7, 20)];
        assert_eq!(chosen(&[], &rows), [(0, 3), (0, 4), (0, 5)]);
        assert_eq!(chosen(&["-n", "1-2"], &rows), [(0, 3), (0, 4)]);
        assert_eq!(chosen(&["-u", "ann"], &rows), [(0, 4), (0, 5)]);
        assert_eq!(chosen(&["-u", "0,ann", "--sort", "node"], &rows), [(0, 5), (0, 3), (0, 4)]);
        assert_eq!(chosen(&["--sort", "user"], &rows), [(0, 4), (0, 5), (0, 3)]);
        assert_eq!(chosen(&["--sort", "time"], &rows), [(0, 3), (0, 4), (0, 5)]);
        assert_eq!(chosen(&["--sort", "memory"], &rows), [(0, 5), (0, 4), (0, 3)]);
        assert_eq!(chosen(&["--job", "5"], &rows), [(0, 3), (0, 4), (0, 5)]);
        assert_eq!(chosen(&["--job", "3"], &rows), [(0, 3)]);
        assert_eq!(chosen(&["--job", "77"], &rows), []);
        let rows = [row(5, 77, 0, 7, 10), row(3, 5, 1, 0, 30), row(4, 1, 2, 7, 20)];
        assert_eq!(chosen(&["--job", "70"], &rows), [(0, 3), (0, 5)], "there is one between them that has no row");
        assert_eq!(chosen(&["--job", "61"], &rows), [], "a circle");
        assert!(Choice { users: vec!["nobody-such".into()], ..Choice::default() }
            .of(Vec::new(), &HashMap::new(), |_| None)
            .is_err());
    }

    #[test]
    fn children_stand_below_their_parents_and_nobody_is_lost() {
        let rows =
            [row(9, 1, 0, 0, 1), row(3, 9, 1, 0, 3), row(4, 9, 2, 0, 2), row(5, 3, 2, 0, 4), row(6, 77, 0, 0, 0)];
        assert_eq!(chosen(&["--tree"], &rows), [(0, 6), (0, 9), (1, 3), (2, 5), (1, 4)]);
        assert_eq!(chosen(&["--tree", "--sort", "time"], &rows)[..3], [(0, 9), (1, 3), (2, 5)]);
        let circle = [row(3, 4, 0, 0, 0), row(4, 3, 0, 0, 0), row(5, 5, 0, 0, 0)];
        assert_eq!(chosen(&["--tree"], &circle), [(0, 5), (0, 3), (0, 4)]);
    }
}
