//! What nodes ask of the front end's files and what they keep, for Prometheus. Only root can be told.

use std::fmt::{Display, Write};
use std::path::Path;
use wire::view::{NodeStatus, Status};

/// Of the server of files that belongs to the daemon at this socket; none where nobody serves files, or may not tell.
pub(super) fn status(socket: &Path) -> Option<Status> {
    view::server::status(socket.parent()?).ok()
}

/// A name, a help text, and the figure of a node.
type Figure = (&'static str, &'static str, fn(&NodeStatus) -> u64);

/// As [`super::api::metrics`] has it.
pub(super) fn metrics(status: &Status) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, lines: Vec<(String, u64)>| {
        // Writing into a string does not fail.
        let _ = writeln!(text, "# HELP shoal_{name} {help}\n# TYPE shoal_{name} {kind}");
        for (labels, value) in lines {
            let _ = writeln!(text, "shoal_{name}{labels} {value}");
        }
    };
    family("files_known", "gauge", "Files of the front end that nodes know.", vec![(String::new(), status.files)]);
    family("files_leased", "gauge", "Files that nodes may keep.", vec![(String::new(), status.leases)]);
    let label = |node: &dyn Display| format!("{{node=\"{node}\"}}");
    let each = |figure: fn(&NodeStatus) -> u64| -> Vec<(String, u64)> {
        status.nodes.iter().map(|node| (label(&node.node), figure(node))).collect()
    };
    let gauges: [Figure; 5] = [
        ("connected", "Whether the node is connected to the server of files.", |node| node.connected.into()),
        ("known", "Files that the node knows.", |node| node.files),
        ("contents", "Files of which the node may keep pages.", |node| node.contents),
        ("open", "Files that the node has open by the server.", |node| node.open),
        ("kept_bytes", "Contents on the node's disk.", |node| node.kept),
    ];
    for (name, help, figure) in gauges {
        family(&format!("node_files_{name}"), "gauge", help, each(figure));
    }
    let counters: [Figure; 8] = [
        ("answered_there", "Requests that the node has answered by itself.", |node| node.own),
        ("read_bytes", "Bytes that the node has read from the front end.", |node| node.read),
        ("written_bytes", "Bytes that it has written.", |node| node.written),
        ("names_ahead", "Names that it was sent without asking.", |node| node.ahead),
        ("notices", "Changes that it was told.", |node| node.notices),
        ("recalls", "Contents that were called back.", |node| node.recalls),
        ("from_disk_bytes", "Bytes of contents that were on its disk.", |node| node.from_disk),
        ("from_nodes_bytes", "Bytes of contents that came from other nodes.", |node| node.from_nodes),
    ];
    for (name, help, figure) in counters {
        family(&format!("node_files_{name}_total"), "counter", help, each(figure));
    }
    let requests = status.nodes.iter().flat_map(|node| {
        node.requests
            .iter()
            .map(|(kind, count)| (format!("{{node=\"{}\",request=\"{}\"}}", node.node, view::operation(*kind)), *count))
    });
    family("node_files_requests_total", "counter", "Requests of the node to the server of files.", requests.collect());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::NodeId;

    #[test]
    fn each_node_has_a_line_in_each_family() {
        let node = |number, read| NodeStatus {
            node: NodeId(number),
            connected: true,
            open: 1,
            files: 2,
            contents: 3,
            own: 4,
            requests: vec![(1, 5), (15, 6)],
            read,
            written: 7,
            ahead: 8,
            notices: 9,
            recalls: 10,
            kept: 11,
            from_disk: 12,
            from_nodes: 13,
        };
        let text = metrics(&Status { files: 20, leases: 21, nodes: vec![node(0, 100), node(3, 200)] });
        for line in [
            "shoal_files_known 20",
            "shoal_node_files_read_bytes_total{node=\"n3\"} 200",
            "# TYPE shoal_node_files_kept_bytes gauge",
            "shoal_node_files_requests_total{node=\"n0\",request=\"read\"} 6",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        let families = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
        assert_eq!((families, text.lines().filter(|line| !line.starts_with('#')).count()), (16, 2 + 13 * 2 + 4));
    }
}
