//! What the page fetches, as JSON, and what Prometheus does.

use super::watch::{now_ms, Event, Seen};
use crate::people::name_of;
use crate::picture::{History, Process};
use sample::Sample;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write;
use wire::ask::NodeRow;
use wire::feed::Happening;

#[derive(Serialize)]
struct State<'a> {
    now_ms: u64,
    /// Why the daemon cannot be asked.
    away: Option<&'a str>,
    /// How long ago all of this was so; none: nothing is known yet.
    age_ms: Option<u64>,
    /// That is so long that it may be otherwise by now.
    old: bool,
    nodes: Vec<Node<'a>>,
    processes: Vec<Row<'a>>,
    /// Processes that are not shown.
    more: usize,
    events: Vec<Told<'a>>,
}

/// Memory in bytes; figures with the oldest first.
#[derive(Serialize)]
struct Node<'a> {
    node: String,
    number: i32,
    state: &'a str,
    address: &'a str,
    processes: u32,
    cores: u32,
    memory: u64,
    memory_free: u64,
    load: f32,
    loads: Vec<f32>,
    used: Vec<f32>,
}

#[derive(Serialize)]
struct Row<'a> {
    pid: i32,
    /// Told with the number when something is to be done to it.
    birth: u64,
    ppid: i32,
    depth: usize,
    node: String,
    user: String,
    state: char,
    cpu: f32,
    cpu_ms: u64,
    rss_kb: u64,
    command: &'a str,
    stale: bool,
}

#[derive(Serialize)]
struct Told<'a> {
    number: u64,
    at_ms: u64,
    what: &'static str,
    pid: Option<i32>,
    from: Option<String>,
    to: Option<String>,
    state: Option<&'a str>,
    why: Option<&'a str>,
    command: &'a str,
}

/// What is seen, as the page wants it.
pub(crate) fn state(seen: &Seen, people: &HashMap<u32, String>) -> Vec<u8> {
    let view = &seen.view;
    let state = State {
        now_ms: now_ms(),
        away: seen.away.as_deref(),
        age_ms: view.age().map(|age| age.as_millis() as u64),
        old: seen.is_old(),
        nodes: view.nodes.iter().map(|row| node(row, view.history.get(&row.node))).collect(),
        processes: view.shown.iter().map(|(depth, at)| process(people, *depth, &view.processes[*at])).collect(),
        more: view.more(),
        events: seen.events.iter().rev().map(told).collect(),
    };
    // Neither maps with odd keys nor anything else that JSON has not.
    serde_json::to_vec(&state).unwrap_or_default()
}

fn node<'a>(row: &'a NodeRow, history: Option<&History>) -> Node<'a> {
    let NodeRow { node, state, address, processes, cores, memory, memory_free, load, .. } = row;
    let of = |figures: fn(&History) -> Vec<f32>| history.map_or_else(Vec::new, figures);
    Node {
        node: node.to_string(),
        number: node.0,
        state,
        address,
        processes: *processes,
        cores: *cores,
        memory: *memory,
        memory_free: *memory_free,
        load: *load,
        loads: of(|history| history.load.iter().copied().map(short).collect()),
        used: of(|history| history.memory.iter().copied().map(short).collect()),
    }
}

/// With as many digits as one can see.
fn short(figure: f32) -> f32 {
    (figure * 100.0).round() / 100.0
}

fn process<'a>(people: &HashMap<u32, String>, depth: usize, one: &'a Process) -> Row<'a> {
    let row = &one.row;
    Row {
        pid: row.pid.0,
        birth: row.birth,
        ppid: row.ppid.0,
        depth,
        node: row.node.to_string(),
        user: name_of(people, row.uid),
        state: row.state,
        cpu: short(one.cpu),
        cpu_ms: row.cpu_ms,
        rss_kb: row.rss_kb,
        command: &row.command,
        stale: one.stale,
    }
}

fn told(event: &Event) -> Told<'_> {
    let Event { number, at_ms, what, command } = event;
    let none = Told {
        number: *number,
        at_ms: *at_ms,
        what: "",
        pid: None,
        from: None,
        to: None,
        state: None,
        why: None,
        command,
    };
    let moves = |what, pid: &vocab::Pid, from: &vocab::NodeId, to: &vocab::NodeId| {
        (what, Some(pid.0), Some(from.to_string()), Some(to.to_string()))
    };
    let (what, pid, from, to) = match what {
        Happening::Listening => ("listening", None, None, None),
        Happening::Begun { pid, from, to } => moves("begun", pid, from, to),
        Happening::Moved { pid, from, to } => moves("moved", pid, from, to),
        Happening::Stayed { pid, from, to, why } => {
            let (what, pid, from, to) = moves("stayed", pid, from, to);
            return Told { what, pid, from, to, why: Some(why), ..none };
        }
        Happening::Changed { node } => {
            return Told { what: "changed", to: Some(node.to_string()), ..none };
        }
        Happening::Node { node, state } => {
            return Told { what: "node", to: Some(node.to_string()), state: Some(state), ..none }
        }
    };
    Told { what, pid, from, to, ..none }
}

/// The text format of Prometheus, 0.0.4; `samples` are those of the nodes' monitors. Of what may be otherwise by now nothing is said.
pub(crate) fn metrics(seen: &Seen, samples: &[Sample]) -> String {
    let (view, old) = (&seen.view, seen.is_old());
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, samples: Vec<(String, f64)>| {
        // Writing into a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let each = |figure: &dyn Fn(&NodeRow) -> f64| -> Vec<(String, f64)> {
        view.nodes.iter().map(|row| (format!("{{node=\"{}\"}}", row.node), figure(row))).collect()
    };
    let one = |figure: f64| vec![(String::new(), figure)];
    let total = |row: &NodeRow| view.totals.get(&row.node).copied().unwrap_or_default();
    family("shoal_up", "gauge", "Whether the daemon answers.", one(if old { 0.0 } else { 1.0 }));
    if old {
        return text;
    }
    family("shoal_nodes", "gauge", "Nodes that have ever joined.", one(view.nodes.len() as f64));
    family(
        "shoal_node_linked",
        "gauge",
        "Whether the node is linked and beats.",
        each(&|row| if row.is_linked() { 1.0 } else { 0.0 }),
    );
    family("shoal_node_cores", "gauge", "Processors of the node.", each(&|row| row.cores.into()));
    family(
        "shoal_processes",
        "gauge",
        "Processes of the space that run on the node.",
        each(&|row| total(row).0 as f64),
    );
    family(
        "shoal_processes_resident_bytes",
        "gauge",
        "Resident memory of these, summed.",
        each(&|row| total(row).1 as f64 * 1024.0),
    );
    family(
        "shoal_moves_total",
        "counter",
        "Processes that have moved, since this server began.",
        one(seen.moved as f64),
    );
    family("shoal_moves_failed_total", "counter", "Processes that were to move and have not.", one(seen.stayed as f64));
    text + &sample::prometheus(samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::tests::row;
    use crate::web::watch::tests::{seen, seen_of};

    #[test]
    fn the_page_gets_everything() {
        let hostile = "</script><b>\u{202e}\0";
        let mut row = row(1, 0, 0);
        (row.command, row.birth) = (hostile.into(), 7);
        let state = state(&seen_of(vec![row]), &HashMap::new());
        let state: serde_json::Value = serde_json::from_slice(&state).expect("JSON");
        assert_eq!(state["nodes"][1]["loads"][0], 1.5);
        let one = &state["processes"][0];
        assert_eq!((&one["command"], &one["stale"], &one["birth"]), (&hostile.into(), &false.into(), &7.into()));
        assert!(state["age_ms"].is_u64() && state["old"] == false);
    }

    #[test]
    fn metrics_have_the_conventional_form_and_no_name_twice() {
        let sample = Sample::silent("n0", "why");
        let mut seen = seen(3);
        let text = metrics(&seen, std::slice::from_ref(&sample));
        for line in [
            "shoal_up 1",
            "shoal_nodes 2",
            "shoal_node_linked{node=\"n1\"} 1",
            "shoal_node_up{node=\"n0\"} 0",
            "shoal_processes{node=\"n0\"} 3",
            "shoal_processes_resident_bytes{node=\"n0\"} 307200",
            "shoal_moves_total 0",
            "# TYPE shoal_moves_total counter",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        assert!(text.ends_with('\n'));
        let mut families: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
        families.sort_unstable();
        let count = families.len();
        families.dedup();
        assert_eq!(families.len(), count);
        seen.away = Some("gone".into());
        let text = metrics(&seen, &[sample]);
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>(), ["shoal_up 0"]);
    }
}
