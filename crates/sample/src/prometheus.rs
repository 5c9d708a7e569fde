//! Samples in Prometheus' text exposition format.

use crate::layout::{Column, Kind, Sample, Unit};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// One metric: all nodes' lines of it stand together.
struct Family {
    name: String,
    kind: Kind,
    help: String,
    lines: String,
}

/// All that `samples` say, as Prometheus reads it (text format 0.0.4, `Content-Type: text/plain; version=0.0.4`), each line with its `node`; of two samples
/// of one node the first. Base units: bytes, seconds, ratios. `shoal_node_up` is 0 for a node that is silent; what is known of it from elsewhere may be in its
/// sample. It has no time stamps: whoever asks for it asks for samples of now.
///
/// Names are those of node_exporter where that has the same, behind `shoal_` (`shoal_node_load1`, `shoal_node_cpu_seconds_total{cpu,mode}`,
/// `shoal_node_memory_available_bytes`, `shoal_node_network_receive_bytes_total{device}`, `shoal_node_disk_read_bytes_total{device}`,
/// `shoal_node_pressure_seconds_total{resource,kind}`); docs/monitor.md has the list.
pub fn prometheus(samples: &[Sample]) -> String {
    let (mut families, mut places) = (Vec::<Family>::new(), HashMap::new());
    let mut known = HashSet::new();
    let mut add = |metric: Metric, help: &str, node: &str, value: &str| {
        let place = *places.entry(metric.name.clone()).or_insert_with(|| {
            let (name, kind) = (metric.name.clone(), metric.kind);
            families.push(Family { name, kind, help: help.into(), lines: String::new() });
            families.len() - 1
        });
        let Family { name, lines, .. } = &mut families[place];
        let mut labels = format!("node=\"{}\"", escaped(node));
        for (label, value) in &metric.labels {
            let _ = write!(labels, ",{label}=\"{}\"", escaped(value));
        }
        // Of two names that are one here the first counts.
        if known.insert((place, labels.clone())) {
            let _ = writeln!(lines, "{name}{{{labels}}} {value}");
        }
    };
    let mut seen = HashSet::new();
    for sample in samples.iter().filter(|sample| seen.insert(&sample.node)) {
        let up = if sample.silent.is_none() { "1" } else { "0" };
        add(Metric::gauge("up"), "Whether the node's monitor has answered", &sample.node, up);
        for (column, value) in sample.layout.columns.iter().zip(&sample.values) {
            if let Some(metric) = metric(column) {
                add(metric, &help(column), &sample.node, &in_base_unit(*value, column.unit));
            }
        }
    }
    let mut out = String::new();
    for Family { name, kind, help, lines } in &families {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {}\n{lines}", kind.word());
    }
    out
}

struct Metric {
    name: String,
    kind: Kind,
    labels: Vec<(&'static str, String)>,
}

impl Metric {
    /// What no metric's name may have becomes `_`.
    fn gauge(name: &str) -> Metric {
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        Metric { name: format!("shoal_node_{name}"), kind: Kind::Gauge, labels: Vec::new() }
    }

    fn counter(name: &str) -> Metric {
        Metric { kind: Kind::Counter, ..Metric::gauge(&format!("{name}_total")) }
    }

    fn with(mut self, label: &'static str, value: &str) -> Metric {
        self.labels.push((label, value.into()));
        self
    }
}

/// What a column is called; `None` for what is the sum of others.
fn metric(column: &Column) -> Option<Metric> {
    let (key, field) = (&*column.key, &*column.field);
    Some(match &*column.group {
        "load" => match field {
            "running" => Metric::gauge("threads_running"),
            other => Metric::gauge(other),
        },
        "uptime" if field == "up" => Metric::gauge("uptime_seconds"),
        "uptime" => Metric::counter("idle_seconds"),
        "cpu" if key == "all" => return None,
        // It is in `user` and `nice` as well.
        "cpu" if field.starts_with("guest") => {
            let mode = if field == "guest" { "user" } else { "nice" };
            Metric::counter("cpu_guest_seconds").with("cpu", key).with("mode", mode)
        }
        "cpu" => Metric::counter("cpu_seconds").with("cpu", key).with("mode", field),
        "stat" => match field {
            "ctxt" => Metric::counter("context_switches"),
            "btime" => Metric::gauge("boot_time_seconds"),
            "processes" => Metric::counter("forks"),
            "softirq" => Metric::counter("softirqs"),
            _ if column.kind == Kind::Counter => Metric::counter(field),
            _ => Metric::gauge(field),
        },
        "memory" => match field.strip_prefix("HugePages_") {
            Some(state) => Metric::gauge("memory_huge_pages").with("state", &snake(state)),
            None => Metric::gauge(&format!("memory_{}_bytes", snake(field.strip_prefix("Mem").unwrap_or(field)))),
        },
        "vmstat" => match (column.kind, column.unit) {
            (Kind::Counter, Unit::Kilobytes) => Metric::counter(&format!("vmstat_{field}_bytes")),
            (Kind::Counter, _) => Metric::counter(&format!("vmstat_{field}")),
            (Kind::Gauge, _) => Metric::gauge(&format!("vmstat_{field}_pages")),
        },
        "pressure" => {
            let (kind, what) = field.split_once('_')?;
            match what.strip_prefix("avg") {
                Some(window) => Metric::gauge("pressure_ratio").with("window", &format!("{window}s")),
                None => Metric::counter("pressure_seconds"),
            }
            .with("resource", key)
            .with("kind", kind)
        }
        "net" => match field.split_once('_') {
            Some(("rx", what)) => Metric::counter(&format!("network_receive_{what}")).with("device", key),
            Some((_, what)) => Metric::counter(&format!("network_transmit_{what}")).with("device", key),
            None => return None,
        },
        "disk" => disk(field)?.with("device", key),
        group => match column.kind {
            Kind::Counter => Metric::counter(&format!("{}_{}", snake(group), snake(field))),
            Kind::Gauge => Metric::gauge(&format!("{}_{}", snake(group), snake(field))),
        },
    })
}

fn disk(field: &str) -> Option<Metric> {
    Some(match field {
        "reads" => Metric::counter("disk_reads_completed"),
        "writes" => Metric::counter("disk_writes_completed"),
        "discards" => Metric::counter("disk_discards_completed"),
        "flushes" => Metric::counter("disk_flush_requests"),
        "sectors_read" => Metric::counter("disk_read_bytes"),
        "sectors_written" => Metric::counter("disk_written_bytes"),
        "sectors_discarded" => Metric::counter("disk_discarded_bytes"),
        "in_flight" => Metric::gauge("disk_io_now"),
        "queue_ms" => Metric::counter("disk_io_time_weighted_seconds"),
        "io_ms" => Metric::counter("disk_io_time_seconds"),
        _ => match field.strip_suffix("_ms") {
            Some(what) => Metric::counter(&format!("disk_{what}_time_seconds")),
            None => Metric::counter(&format!("disk_{field}")),
        },
    })
}

fn help(column: &Column) -> String {
    let key = if column.key.is_empty() { "" } else { ".*" };
    let field = if matches!(&*column.group, "cpu" | "pressure") { "*" } else { &column.field };
    format!("The number {}{key}.{field} of the node's monitor", column.group)
}

fn in_base_unit(value: u64, unit: Unit) -> String {
    match unit {
        Unit::None | Unit::Bytes => value.to_string(),
        Unit::Hundredths | Unit::Ticks | Unit::Seconds => format!("{}.{:02}", value / 100, value % 100),
        Unit::Percent => format!("{}.{:04}", value / 10_000, value % 10_000),
        Unit::Milliseconds => format!("{}.{:03}", value / 1000, value % 1000),
        Unit::Microseconds => format!("{}.{:06}", value / 1_000_000, value % 1_000_000),
        Unit::Kilobytes => (u128::from(value) * 1024).to_string(),
        Unit::Sectors => (u128::from(value) * 512).to_string(),
    }
}

/// `SwapTotal` as `swap_total`; what no metric's name may have becomes `_`.
fn snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (at, char) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| chars[at]);
        let follows = chars.get(at + 1).is_some_and(char::is_ascii_lowercase);
        let begins = char.is_ascii_uppercase()
            && before
                .is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || (c.is_ascii_uppercase() && follows));
        if begins {
            out.push('_');
        }
        out.push(if char.is_ascii_alphanumeric() { char.to_ascii_lowercase() } else { '_' });
    }
    out
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn sample(node: &str, columns: &[(&str, &str, &str, u64)]) -> Sample {
        let layout =
            Layout { columns: columns.iter().map(|(group, key, field, _)| Column::new(group, key, field)).collect() };
        let values = columns.iter().map(|column| column.3).collect();
        Sample { node: node.into(), time_us: 1, silent: None, layout: Arc::new(layout), values }
    }

    #[test]
    fn names_are_conventional_and_units_are_base_units() {
        let one = sample(
            "n0",
            &[
                ("load", "", "load1", 105),
                ("cpu", "all", "user", 9),
                ("cpu", "0", "user", 1234),
                ("cpu", "0", "guest_nice", 100),
                ("odd", "", "a\nb\\", 1),
                ("memory", "", "MemAvailable", 2),
                ("memory", "", "SReclaimable", 1),
                ("memory", "", "HugePages_Total", 3),
                ("net", "lo", "rx_bytes", 7),
                ("disk", "vda", "sectors_read", 2),
                ("disk", "vda", "read_ms", 1500),
                ("pressure", "io", "some_avg10", 5000),
                ("pressure", "io", "some_total", 1_500_000),
            ],
        );
        let text = prometheus(&[one, sample("n0", &[("load", "", "load1", 1)]), Sample::silent("n\"1", "dead")]);
        for line in [
            "# TYPE shoal_node_load1 gauge\nshoal_node_load1{node=\"n0\"} 1.05\n",
            "# TYPE shoal_node_cpu_seconds_total counter\nshoal_node_cpu_seconds_total{node=\"n0\",cpu=\"0\",mode=\"user\"} 12.34\n",
            "shoal_node_cpu_guest_seconds_total{node=\"n0\",cpu=\"0\",mode=\"nice\"} 1.00\n",
            "# HELP shoal_node_odd_a_b_ The number odd.a\\nb\\\\ of the node's monitor\n# TYPE shoal_node_odd_a_b_ gauge\n",
            "shoal_node_memory_available_bytes{node=\"n0\"} 2048\n",
            "shoal_node_memory_s_reclaimable_bytes{node=\"n0\"} 1024\n",
            "shoal_node_memory_huge_pages{node=\"n0\",state=\"total\"} 3\n",
            "shoal_node_network_receive_bytes_total{node=\"n0\",device=\"lo\"} 7\n",
            "shoal_node_disk_read_bytes_total{node=\"n0\",device=\"vda\"} 1024\n",
            "shoal_node_disk_read_time_seconds_total{node=\"n0\",device=\"vda\"} 1.500\n",
            "shoal_node_pressure_ratio{node=\"n0\",window=\"10s\",resource=\"io\",kind=\"some\"} 0.5000\n",
            "shoal_node_pressure_seconds_total{node=\"n0\",resource=\"io\",kind=\"some\"} 1.500000\n",
            "shoal_node_up{node=\"n0\"} 1\nshoal_node_up{node=\"n\\\"1\"} 0\n",
        ] {
            assert!(text.contains(line), "{line}\nis not in\n{text}");
        }
        assert_eq!(text.matches("shoal_node_load1{").count(), 1, "one line of a node");
    }

    proptest! {
        /// Each metric is declared once, before its lines, and its name is one.
        #[test]
        fn any_names_give_metrics(groups in proptest::collection::vec(("[a-zA-Z]{1,6}|load|cpu|memory|net|disk|pressure|vmstat", "[ -~é]{0,4}", "[a-zA-Z_0-9]{1,8}|[ -~é\n]{1,4}"), 0..10)) {
            let columns: Vec<_> = groups.iter().map(|(group, key, field)| (&**group, &**key, &**field, 1)).collect();
            let text = prometheus(&[sample("n0", &columns), sample("n1", &columns)]);
            let (mut declared, mut all) = (HashSet::new(), HashSet::new());
            let mut current = String::new();
            for line in text.lines() {
                if let Some(rest) = line.strip_prefix("# TYPE ") {
                    current = rest.split(' ').next().unwrap_or_default().to_string();
                    prop_assert!(declared.insert(current.clone()), "twice: {}", line);
                } else if !line.starts_with('#') {
                    let name = line.split('{').next().unwrap_or_default();
                    prop_assert_eq!(name, &current);
                    prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{}", line);
                    let series = line.rsplit_once(' ').map(|(series, _)| series.to_string());
                    prop_assert!(all.insert(series), "twice: {}", line);
                }
            }
        }
    }
}
