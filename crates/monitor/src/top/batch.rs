//! `shoal top --batch`: plain text, for scripts.

use super::order::Order;
use crate::people::name_of;
use crate::picture::{used, Picture};
use crate::tree::branch;
use crate::units::{bytes, cpu_time, plain};
use std::collections::HashMap;
use std::fmt::Write;

/// One look at everything, as lines.
pub(crate) fn text(picture: &Picture, order: &Order, people: &HashMap<u32, String>) -> String {
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = writeln!(
        text,
        "{:<6} {:<7} {:>6} {:>5} {:>8} {:>8} {:>5} {:>9}",
        "NODE", "STATE", "LOAD", "CORES", "MEMORY", "FREE", "USED%", "PROCESSES"
    );
    for node in &picture.nodes {
        let (number, used) = (node.node.to_string(), used(node) * 100.0);
        let (memory, free) = (bytes(node.memory), bytes(node.memory_free));
        let _ = writeln!(
            text,
            "{number:<6} {:<7} {:>6.2} {:>5} {memory:>8} {free:>8} {used:>5.1} {:>9}",
            node.state, node.load, node.cores, node.processes
        );
    }
    let _ = writeln!(
        text,
        "\n{:>7} {:<6} {:<10} S {:>6} {:>7} {:>9} COMMAND",
        "PID", "NODE", "USER", "CPU%", "RSS", "TIME"
    );
    for (depth, one) in order.of(&picture.processes, people) {
        let row = &one.row;
        let (node, user) = (row.node.to_string() + if one.stale { "?" } else { "" }, name_of(people, row.uid));
        let (rss, time) = (bytes(row.rss_kb * 1024), cpu_time(row.cpu_ms));
        let (branch, command) = (branch(depth), plain(&row.command));
        let _ = writeln!(
            text,
            "{:>7} {node:<6} {user:<10} {} {:>6.1} {rss:>7} {time:>9} {branch}{command}",
            row.pid.to_string(),
            row.state,
            one.cpu
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::tests::{node, row};
    use crate::picture::Sample;
    use vocab::NodeId;

    #[test]
    fn what_is_printed() {
        let mut picture = Picture::default();
        let mut hostile = row(5, 1, 0);
        hostile.command = "a\x1b[2J".into();
        picture.take(Sample {
            at_ms: 0,
            nodes: vec![node(0, 0.5)],
            rows: vec![row(3, 0, 0), hostile.clone()],
            missing: vec![],
        });
        let nodes = vec![node(0, 0.5)];
        picture.take(Sample { at_ms: 1000, nodes, rows: vec![row(3, 0, 500), hostile], missing: vec![NodeId(1)] });
        let text = text(&picture, &Order::default(), &HashMap::from([(0, "root".into())]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "n0     up        0.50     2    8.0Gi    6.0Gi  25.0         1");
        assert_eq!(lines[4], "      3 n0     root       S   50.0   100Ki     00:00 c3");
        assert_eq!(lines[5], "      5 n1?    root       S    0.0   100Ki     00:00 a?[2J");
    }
}
