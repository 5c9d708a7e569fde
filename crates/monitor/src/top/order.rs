//! Which processes are shown, and in which order.

use crate::people::name_of;
use crate::picture::Process;
use crate::tree::forest;
use std::cmp::Reverse;
use std::collections::HashMap;
use vocab::{NodeId, NodeSet};

/// What lines are ordered by; of time, memory and processor the most first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sort {
    #[default]
    Cpu,
    Memory,
    Time,
    Pid,
    Node,
    User,
}

impl Sort {
    pub(crate) const ALL: [Sort; 6] = [Sort::Cpu, Sort::Memory, Sort::Time, Sort::Pid, Sort::Node, Sort::User];

    pub(crate) fn after(self) -> Sort {
        let at = Sort::ALL.iter().position(|one| *one == self).unwrap_or(0);
        Sort::ALL[(at + 1) % Sort::ALL.len()]
    }
}

/// What must be so of a process that is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// Part of its command, small or capital letters, or its number; empty: any.
    pub(crate) text: String,
    pub(crate) nodes: Option<NodeSet>,
    /// A user's name or number; empty: any.
    pub(crate) user: String,
}

impl Filter {
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.nodes.is_none() && self.user.is_empty()
    }

    fn wants(&self, one: &Process, people: &HashMap<u32, String>) -> bool {
        let text = self.text.to_lowercase();
        let by_text = || one.row.command.to_lowercase().contains(&text) || one.row.pid.to_string() == text;
        let by_node = |node: NodeId| self.nodes.as_ref().is_none_or(|nodes| nodes.nodes().contains(&node));
        let by_user = |uid: u32| name_of(people, uid) == self.user || uid.to_string() == self.user;
        by_node(one.row.node) && (self.user.is_empty() || by_user(one.row.uid)) && (self.text.is_empty() || by_text())
    }
}

/// How what is known is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    pub(crate) sort: Sort,
    pub(crate) reverse: bool,
    pub(crate) tree: bool,
    pub(crate) filter: Filter,
}

impl Order {
    /// What is shown, each with its depth in the tree.
    pub(crate) fn of(&self, all: &[Process], people: &HashMap<u32, String>) -> Vec<(usize, Process)> {
        let mut shown: Vec<Process> = all.iter().filter(|one| self.filter.wants(one, people)).cloned().collect();
        shown.sort_unstable_by_key(|one| one.row.pid);
        match self.sort {
            Sort::Pid => {}
            Sort::Cpu => shown.sort_by(|one, other| other.cpu.total_cmp(&one.cpu)),
            Sort::Memory => shown.sort_by_key(|one| Reverse(one.row.rss_kb)),
            Sort::Time => shown.sort_by_key(|one| Reverse(one.row.cpu_ms)),
            Sort::Node => shown.sort_by_key(|one| one.row.node),
            Sort::User => shown.sort_by_cached_key(|one| name_of(people, one.row.uid)),
        }
        if self.reverse {
            shown.reverse();
        }
        match self.tree {
            true => forest(shown, |one| (one.row.pid, one.row.ppid)),
            false => shown.into_iter().map(|one| (0, one)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::tests::row;
    use vocab::Pid;

    fn all() -> Vec<Process> {
        let one = |pid, node, cpu_ms, cpu, stale| Process { row: row(pid, node, cpu_ms), cpu, stale };
        let mut all = vec![one(3, 1, 10, 0.0, false), one(5, 0, 30, 2.0, false), one(4, 2, 20, 90.0, true)];
        all[0].row.rss_kb = 7;
        all[1].row.ppid = Pid(3);
        all[2].row.uid = 1000;
        all
    }

    fn pids(order: &Order) -> Vec<(usize, i32)> {
        let people = HashMap::from([(0, "root".to_string()), (1000, "ann".into())]);
        order.of(&all(), &people).into_iter().map(|(depth, one)| (depth, one.row.pid.0)).collect()
    }

    #[test]
    fn every_order() {
        let expected: [(Sort, [i32; 3]); 6] = [
            (Sort::Cpu, [4, 5, 3]),
            (Sort::Memory, [4, 5, 3]),
            (Sort::Time, [5, 4, 3]),
            (Sort::Pid, [3, 4, 5]),
            (Sort::Node, [5, 3, 4]),
            (Sort::User, [4, 3, 5]),
        ];
        let mut sort = Sort::Cpu;
        for (one, mut pids_of) in expected {
            assert_eq!(sort, one);
            let order = Order { sort, ..Order::default() };
            assert_eq!(pids(&order).into_iter().map(|(_, pid)| pid).collect::<Vec<_>>(), pids_of, "{sort:?}");
            pids_of.reverse();
            let order = Order { sort, reverse: true, ..Order::default() };
            assert_eq!(pids(&order).into_iter().map(|(_, pid)| pid).collect::<Vec<_>>(), pids_of, "{sort:?} reversed");
            sort = sort.after();
        }
        assert_eq!(sort, Sort::Cpu);
        assert_eq!(pids(&Order { sort: Sort::Pid, tree: true, ..Order::default() }), [(0, 3), (1, 5), (0, 4)]);
    }

    #[test]
    fn every_filter() {
        let filter = |text: &str, nodes: Option<&str>, user: &str| {
            let nodes = nodes.map(|nodes| NodeSet::parse(nodes).expect("nodes"));
            let filter = Filter { text: text.into(), nodes, user: user.into() };
            pids(&Order { sort: Sort::Pid, filter, ..Order::default() })
                .into_iter()
                .map(|(_, pid)| pid)
                .collect::<Vec<_>>()
        };
        assert_eq!(filter("", None, ""), [3, 4, 5]);
        assert_eq!(filter("C3", None, ""), [3]);
        assert_eq!(filter("4", None, ""), [4], "by its command, which has the number, or by the number");
        assert_eq!(filter("", Some("0-1"), ""), [3, 5]);
        assert_eq!(filter("", None, "ann"), [4]);
        assert_eq!(filter("", None, "0"), [3, 5]);
        assert_eq!(filter("c", Some("2"), "root"), [] as [i32; 0]);
    }
}
