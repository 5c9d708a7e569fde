//! What the page fetches, as JSON, and what Prometheus does.

use super::watch::{now_ms, Event, Seen};
use crate::people::name_of;
use crate::picture::{History, Process};
use serde::Serialize;
use std::fmt::Write;
use wire::ask::NodeRow;
use wire::feed::Happening;

#[derive(Serialize)]
struct State<'a> {
    now_ms: u64,
    /// Why the daemon cannot be asked.
    away: Option<&'a str>,
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
pub(crate) fn state(seen: &Seen) -> Vec<u8> {
    let (shown, more) = seen.shown();
    let state = State {
        now_ms: now_ms(),
        away: seen.away.as_deref(),
        nodes: seen.picture.nodes.iter().map(|row| node(row, seen.picture.history.get(&row.node))).collect(),
        processes: shown.iter().map(|(depth, one)| process(seen, *depth, one)).collect(),
        more,
        events: seen.events.iter().rev().map(told).collect(),
    };
    // Neither maps with odd keys nor anything else that JSON has not.
    serde_json::to_vec(&state).unwrap_or_default()
}

fn node<'a>(row: &'a NodeRow, history: Option<&History>) -> Node<'a> {
    let NodeRow { node, state, address, processes, cores, memory, memory_free, load } = row;
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

fn process<'a>(seen: &Seen, depth: usize, one: &'a Process) -> Row<'a> {
    let row = &one.row;
    Row {
        pid: row.pid.0,
        ppid: row.ppid.0,
        depth,
        node: row.node.to_string(),
        user: name_of(&seen.people, row.uid),
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
        Happening::Node { node, state } => {
            return Told { what: "node", to: Some(node.to_string()), state: Some(state), ..none }
        }
    };
    Told { what, pid, from, to, ..none }
}

/// The text format of Prometheus, 0.0.4.
pub(crate) fn metrics(seen: &Seen) -> String {
    let nodes = &seen.picture.nodes;
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, samples: Vec<(String, f64)>| {
        // Writing into a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let each = |figure: fn(&NodeRow) -> f64| -> Vec<(String, f64)> {
        nodes.iter().map(|row| (format!("{{node=\"{}\"}}", row.node), figure(row))).collect()
    };
    let one = |figure: f64| vec![(String::new(), figure)];
    let here = |node: vocab::NodeId| seen.picture.processes.iter().filter(move |process| process.row.node == node);
    let labelled = |node: &NodeRow, figure: f64| (format!("{{node=\"{}\"}}", node.node), figure);
    let processes = nodes.iter().map(|node| labelled(node, here(node.node).count() as f64)).collect();
    let resident = nodes
        .iter()
        .map(|node| labelled(node, here(node.node).fold(0.0, |all, one| all + one.row.rss_kb as f64 * 1024.0)))
        .collect();
    family("shoal_up", "gauge", "Whether the daemon answers.", one(if seen.away.is_none() { 1.0 } else { 0.0 }));
    family("shoal_nodes", "gauge", "Nodes that have ever joined.", one(nodes.len() as f64));
    family(
        "shoal_node_up",
        "gauge",
        "Whether the node is linked and beats.",
        each(|row| if row.state == "up" { 1.0 } else { 0.0 }),
    );
    family("shoal_node_cores", "gauge", "Processors of the node.", each(|row| row.cores.into()));
    family(
        "shoal_node_load1",
        "gauge",
        "One-minute load average.",
        each(|row| (f64::from(row.load) * 100.0).round() / 100.0),
    );
    family("shoal_node_memory_bytes", "gauge", "Memory of the node.", each(|row| row.memory as f64));
    family(
        "shoal_node_memory_free_bytes",
        "gauge",
        "Memory of the node that programs can have.",
        each(|row| row.memory_free as f64),
    );
    family("shoal_processes", "gauge", "Processes of the space that run on the node.", processes);
    family("shoal_processes_resident_bytes", "gauge", "Resident memory of these, summed.", resident);
    family(
        "shoal_moves_total",
        "counter",
        "Processes that have moved, since this server began.",
        one(seen.moved as f64),
    );
    family("shoal_moves_failed_total", "counter", "Processes that were to move and have not.", one(seen.stayed as f64));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::watch::tests::seen;

    #[test]
    fn the_page_gets_everything() {
        let mut seen = seen(3);
        seen.picture.processes[0].row.command = "</script><b>\u{202e}\0".into();
        let state: serde_json::Value = serde_json::from_slice(&state(&seen)).expect("JSON");
        assert_eq!(state["nodes"][1]["loads"][0], 1.5);
        assert_eq!(
            (&state["processes"][0]["command"], &state["processes"][0]["stale"]),
            (&"</script><b>\u{202e}\0".into(), &false.into())
        );
    }

    #[test]
    fn metrics_have_the_conventional_form() {
        let text = metrics(&seen(3));
        for line in [
            "shoal_nodes 2",
            "shoal_node_up{node=\"n1\"} 1",
            "shoal_node_load1{node=\"n0\"} 0.5",
            "shoal_processes{node=\"n0\"} 3",
            "shoal_moves_total 0",
            "# TYPE shoal_moves_total counter",
            "shoal_node_memory_bytes{node=\"n0\"} 8589934592",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        assert!(text.ends_with('\n'));
    }
}
