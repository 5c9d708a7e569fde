//! What is known of the cluster: the newest answers of the daemon, and what follows from those before.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};
use vocab::{NodeId, Pid};
use wire::ask::{NodeRow, ProcRow};

/// So many figures of a node are kept.
pub(crate) const KEPT: usize = 300;

/// What the daemon says at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// When it was taken, in milliseconds of a clock that does not go back.
    pub(crate) at_ms: u64,
    pub(crate) nodes: Vec<NodeRow>,
    pub(crate) rows: Vec<ProcRow>,
    /// Nodes that did not answer.
    pub(crate) missing: Vec<NodeId>,
}

/// One process, and none that has its number later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Who {
    pub(crate) pid: Pid,
    pub(crate) birth: u64,
}

impl Who {
    pub(crate) fn of(row: &ProcRow) -> Who {
        Who { pid: row.pid, birth: row.birth }
    }
}

/// What is known of one process.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Process {
    pub(crate) row: ProcRow,
    /// Percent of one processor since the sample before; 0 in the first one.
    pub(crate) cpu: f32,
    /// Its node did not answer: this is what it said last.
    pub(crate) stale: bool,
}

/// Figures of a node, the newest last.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) load: VecDeque<f32>,
    /// The share of memory in use, 0 to 1.
    pub(crate) memory: VecDeque<f32>,
}

impl History {
    fn note(&mut self, row: &NodeRow) {
        // What it said last is no figure of a node that is not there.
        let there = row.state != "down";
        keep(&mut self.load, if there { row.load } else { 0.0 });
        keep(&mut self.memory, if there { used(row) } else { 0.0 });
    }
}

fn keep(all: &mut VecDeque<f32>, one: f32) {
    if all.len() == KEPT {
        all.pop_front();
    }
    all.push_back(one);
}

/// The share of a node's memory that is in use, 0 to 1.
pub(crate) fn used(row: &NodeRow) -> f32 {
    match row.memory {
        0 => 0.0,
        all => 1.0 - (row.memory_free.min(all) as f64 / all as f64) as f32,
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    pub(crate) nodes: Vec<NodeRow>,
    pub(crate) processes: Vec<Process>,
    pub(crate) missing: BTreeSet<NodeId>,
    pub(crate) history: BTreeMap<NodeId, History>,
    /// The CPU time that each had used, and when that was; and its birth.
    before: HashMap<Pid, (u64, u64, u64)>,
    /// When the newest sample came.
    taken: Option<Instant>,
    /// Samples so far.
    pub(crate) samples: u64,
}

impl Picture {
    pub(crate) fn take(&mut self, sample: Sample) {
        let Sample { at_ms, nodes, rows, missing } = sample;
        for node in &nodes {
            self.history.entry(node.node).or_default().note(node);
        }
        self.nodes = nodes;
        self.missing = missing.into_iter().collect();
        let mut now = HashMap::with_capacity(rows.len());
        let processes = rows.into_iter().map(|row| {
            let stale = self.missing.contains(&row.node);
            let known = self.before.get(&row.pid).filter(|known| known.2 == row.birth);
            let before = known.map(|(used, then, _)| (*used, *then));
            let cpu = if stale { 0.0 } else { before.map_or(0.0, |before| percent(before, (row.cpu_ms, at_ms))) };
            let noted = if stale { before.unwrap_or((row.cpu_ms, at_ms)) } else { (row.cpu_ms, at_ms) };
            now.insert(row.pid, (noted.0, noted.1, row.birth));
            Process { row, cpu, stale }
        });
        self.processes = processes.collect();
        self.before = now;
        self.samples += 1;
        self.taken = Some(Instant::now());
    }

    /// How long ago the newest sample came.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.taken.map(|taken| taken.elapsed())
    }
}

/// Of two pairs of CPU time and time. CPU time that has gone back is another process's with that number, or one's that has moved.
fn percent((used, then): (u64, u64), (uses, now): (u64, u64)) -> f32 {
    match (uses.checked_sub(used), now.checked_sub(then)) {
        (Some(used), Some(time)) if time > 0 => (used as f64 * 100.0 / time as f64) as f32,
        _ => 0.0,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(pid: i32, node: i32, cpu_ms: u64) -> ProcRow {
        let (pid, node, ppid) = (Pid(pid), NodeId(node), Pid(1));
        ProcRow { pid, node, uid: 0, state: 'S', cpu_ms, rss_kb: 100, command: format!("c{pid}"), ppid, birth: 0 }
    }

    pub(crate) fn node(number: i32, load: f32) -> NodeRow {
        NodeRow {
            node: NodeId(number),
            state: "up".into(),
            address: "10.0.0.1".into(),
            processes: 1,
            cores: 2,
            memory: 8 << 30,
            memory_free: 6 << 30,
            load,
            uid: 0,
            gid: 0,
            mode: 0o111,
            name: String::new(),
        }
    }

    fn sample(at_ms: u64, rows: Vec<ProcRow>, missing: &[i32]) -> Sample {
        Sample { at_ms, nodes: vec![node(0, 0.5)], rows, missing: missing.iter().map(|n| NodeId(*n)).collect() }
    }

    #[test]
    fn percent_of_a_processor_is_of_the_time_between() {
        let mut picture = Picture::default();
        picture.take(sample(1000, vec![row(5, 0, 300)], &[]));
        assert_eq!(picture.processes[0].cpu, 0.0);
        picture.take(sample(3000, vec![row(5, 0, 1300), row(6, 0, 90_000)], &[]));
        assert_eq!((picture.processes[0].cpu, picture.processes[1].cpu), (50.0, 0.0));
        picture.take(sample(4000, vec![row(5, 1, 10)], &[]));
        assert_eq!(picture.processes[0].cpu, 0.0, "it has gone back");
        picture.take(sample(4000, vec![row(5, 1, 10)], &[]));
        assert_eq!(picture.processes[0].cpu, 0.0, "no time has gone by");
        picture.take(sample(5000, vec![ProcRow { birth: 7, ..row(5, 1, 510) }], &[]));
        assert_eq!(picture.processes[0].cpu, 0.0, "it is another one");
    }

    #[test]
    fn a_silent_nodes_rows_are_stale_and_count_over_the_whole_time_later() {
        let mut picture = Picture::default();
        picture.take(sample(1000, vec![row(5, 0, 0)], &[]));
        picture.take(sample(2000, vec![row(5, 0, 0)], &[0]));
        assert!(picture.processes[0].stale);
        picture.take(sample(3000, vec![row(5, 0, 1000)], &[]));
        assert_eq!((picture.processes[0].cpu, picture.processes[0].stale), (50.0, false));
    }

    #[test]
    fn a_node_that_is_down_has_no_load() {
        let mut picture = Picture::default();
        picture.take(sample(1000, vec![], &[]));
        for state in ["silent", "down"] {
            let gone = NodeRow { state: state.into(), ..node(0, 0.5) };
            picture.take(Sample { nodes: vec![gone], ..sample(2000, vec![], &[]) });
        }
        assert_eq!(picture.history[&NodeId(0)].load, [0.5, 0.5, 0.0]);
        assert_eq!(picture.history[&NodeId(0)].memory, [0.25, 0.25, 0.0]);
    }

    #[test]
    fn only_so_many_figures_are_kept() {
        let mut picture = Picture::default();
        for at in 0..KEPT as u64 + 5 {
            picture.take(sample(at, vec![], &[]));
        }
        let history = &picture.history[&NodeId(0)];
        assert_eq!((history.load.len(), history.memory.back()), (KEPT, Some(&0.25)));
        assert_eq!(used(&NodeRow { memory: 0, ..node(0, 0.0) }), 0.0);
    }
}
