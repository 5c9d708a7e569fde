//! All machines of the space: what each says of itself, kept for a moment.

use crate::machines::Machines;
use crate::sums;
use kern::clock::monotonic_us;
use kern::machine::{files, PROCESSORS};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vocab::NodeId;
use wire::ask::{Ask, NodeRow};
use wire::entry::{Content, Found, Wanted};

/// How long the daemon may take to say which nodes there are.
const NODES: Duration = Duration::from_millis(100);

/// What a machine has said, by the names of [`kern::machine`].
type Files = BTreeMap<String, Vec<u8>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all have said, the front end first and then the nodes in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    machines: BTreeMap<NodeId, Files>,
    /// Until when it counts (monotonic), and for what processors are.
    until_us: u64,
    processors_until_us: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Cluster {
    said: Mutex<Said>,
    /// The nodes, and how often the daemon has told them.
    nodes: Mutex<(Vec<NodeId>, u64)>,
    told: Condvar,
}

impl Cluster {
    /// The daemon says which nodes there are.
    pub(crate) fn are(&self, rows: &[NodeRow]) {
        let mut nodes = locked(&self.nodes);
        let there = rows.iter().filter(|row| row.state != "down" && !row.node.is_front());
        *nodes = (there.map(|row| row.node).collect(), nodes.1 + 1);
        self.told.notify_all();
    }

    /// What all say now, or said a moment ago. A machine that does not answer is as it was; one that is lost is none of them.
    pub(crate) fn say(&self, machines: &Machines, processors: bool) -> Said {
        let mut said = {
            let _waits = machines.waits();
            locked(&self.said)
        };
        let now = monotonic_us();
        if now < said.until_us && (!processors || now < said.processors_until_us) {
            return said.clone();
        }
        let nodes = self.nodes(machines);
        let answers = machines.each(&nodes, Wanted::Machine { processors });
        said.machines.retain(|node, _| nodes.contains(node));
        for (node, found) in answers {
            said.machines.entry(node).or_default().extend(found.into_iter().flat_map(texts));
        }
        let own = files(processors).into_iter().map(|(name, text)| (name.to_owned(), text));
        said.machines.entry(NodeId::FRONT).or_default().extend(own);
        said.until_us = now + machines.fresh_us;
        if processors {
            said.processors_until_us = said.until_us;
        }
        said.clone()
    }

    fn nodes(&self, machines: &Machines) -> Vec<NodeId> {
        let nodes = locked(&self.nodes);
        let before = nodes.1;
        machines.ask_daemon(&Ask::Nodes);
        let _waits = machines.waits();
        let told = self.told.wait_timeout_while(nodes, NODES, |nodes| nodes.1 == before);
        told.unwrap_or_else(PoisonError::into_inner).0 .0.clone()
    }
}

fn texts(found: Found) -> impl Iterator<Item = (String, Vec<u8>)> {
    found.entries.into_iter().filter_map(|entry| match entry.content {
        Content::Text(text) => Some((String::from_utf8(entry.path).ok()?, text)),
        _ => None,
    })
}

/// A machine's, and from where on its processors are numbered.
type Placed<'a> = (&'a [u8], usize);

impl Said {
    pub(crate) fn until_us(&self, processors: bool) -> u64 {
        if processors {
            self.processors_until_us
        } else {
            self.until_us
        }
    }

    fn of<'a>(&'a self, name: &str) -> Vec<Placed<'a>> {
        let mut offset = 0;
        let mut all = Vec::new();
        for machine in self.machines.values() {
            if let Some(text) = machine.get(name) {
                all.push((&text[..], offset));
            }
            let own = machine.get("possible").map(|list| sums::processors(list));
            offset += own.and_then(|own| own.last().map(|last| last + 1)).unwrap_or_default();
        }
        all
    }

    /// The processors of one of the lists of all.
    pub(crate) fn processors(&self, name: &str) -> Vec<usize> {
        let all = self.of(name).into_iter();
        all.flat_map(|(list, offset)| sums::processors(list).into_iter().map(move |number| number + offset)).collect()
    }

    /// A file of /proc, of all machines; `None`: it is not one of these.
    pub(crate) fn text(&self, name: &str) -> Option<Vec<u8>> {
        let all = self.of(name);
        let texts: Vec<&[u8]> = all.iter().map(|(text, _)| *text).collect();
        match name {
            "stat" => Some(sums::stat(&all)),
            "meminfo" => Some(sums::meminfo(&texts)),
            "vmstat" => Some(sums::vmstat(&texts)),
            "loadavg" => Some(sums::loadavg(&texts)),
            PROCESSORS => Some(sums::cpuinfo(&all)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(machines: &[(i32, &str, &str)]) -> Said {
        let one = |(node, possible, stat): &(i32, &str, &str)| {
            let files = [("possible", possible), ("online", possible), ("stat", stat)];
            (
                NodeId(*node),
                files.map(|(name, text)| (name.to_string(), text.as_bytes().to_vec())).into_iter().collect(),
            )
        };
        Said { machines: machines.iter().map(one).collect(), ..Said::default() }
    }

    #[test]
    fn the_front_end_comes_first_and_each_node_behind_those_before() {
        let said = said(&[
            (1, "0\n", "cpu  4\ncpu0 4\n"),
            (-1, "0-1\n", "cpu  3\ncpu0 1\ncpu1 2\n"),
            (0, "0-3\n", "cpu  0\n"),
        ]);
        assert_eq!(said.processors("online"), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(said.text("stat"), Some(b"cpu  7\ncpu0 1\ncpu1 2\ncpu6 4\n".to_vec()));
        assert_eq!(said.text("nonsense"), None);
    }
}
