//! What the numbers of a sample mean.

use std::sync::Arc;

/// In what a number is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Things.
    None,
    /// Hundredths of a thing, written with a point: a load of 60 is `0.60`.
    Hundredths,
    /// Hundredths of a second of processor time (USER_HZ is 100 on x86).
    Ticks,
    /// Hundredths of a second, written with a point.
    Seconds,
    /// Hundredths of a percent, written with a point.
    Percent,
    Milliseconds,
    Microseconds,
    /// 1024 bytes; the kernel writes `kB`.
    Kilobytes,
    Bytes,
    /// 512 bytes.
    Sectors,
}

impl Unit {
    /// Its word in a schema.
    pub fn word(self) -> &'static str {
        match self {
            Unit::None => "count",
            Unit::Hundredths => "decimal",
            Unit::Ticks => "ticks",
            Unit::Seconds => "seconds",
            Unit::Percent => "percent",
            Unit::Milliseconds => "ms",
            Unit::Microseconds => "us",
            Unit::Kilobytes => "kB",
            Unit::Bytes => "bytes",
            Unit::Sectors => "sectors",
        }
    }

    /// Is it written with a point and two digits?
    pub fn has_point(self) -> bool {
        matches!(self, Unit::Hundredths | Unit::Seconds | Unit::Percent)
    }
}

/// Does a number only grow, until the machine starts again?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Counter,
    Gauge,
}

impl Kind {
    /// Its word in a schema.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

/// One number of a sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// `load`, `cpu`, `memory`, …
    pub group: Box<str>,
    /// Which of several: a processor, an interface, a disk, a resource. Empty where there is one of it.
    pub key: Box<str>,
    /// `user`, `MemFree`, …
    pub field: Box<str>,
    pub unit: Unit,
    pub kind: Kind,
}

impl Column {
    /// Unit and kind follow from the names.
    pub fn new(group: &str, key: &str, field: &str) -> Column {
        let (unit, kind) = meaning(group, field);
        Column { group: group.into(), key: key.into(), field: field.into(), unit, kind }
    }

    /// Is it meant by `pattern`: names joined by points from the group on, the last of which may be a beginning that ends in `*`?
    /// `cpu` means all of that group, `cpu.0` one processor, `cpu.*.user` and `memory.Mem*` what they say.
    pub fn is_meant(&self, pattern: &str) -> bool {
        let mut names = [&*self.group, &*self.key, &*self.field].into_iter().filter(|name| !name.is_empty());
        let mut rest = pattern;
        loop {
            let Some(name) = names.next() else { return false };
            // Interfaces have points in their names.
            match rest.strip_prefix(name) {
                Some("") => return true,
                Some(more) if more.starts_with('.') => {
                    rest = &more[1..];
                    continue;
                }
                _ => {}
            }
            let (first, more) = rest.split_once('.').map_or((rest, None), |(first, more)| (first, Some(more)));
            let Some(beginning) = first.strip_suffix('*') else { return false };
            if !name.starts_with(beginning) {
                return false;
            }
            match more {
                Some(more) => rest = more,
                None => return true,
            }
        }
    }
}

/// What the names alone tell.
fn meaning(group: &str, field: &str) -> (Unit, Kind) {
    match (group, field) {
        ("load", "load1" | "load5" | "load15") => (Unit::Hundredths, Kind::Gauge),
        ("uptime", _) => (Unit::Seconds, Kind::Counter),
        ("cpu", _) => (Unit::Ticks, Kind::Counter),
        ("stat", "procs_running" | "procs_blocked") => (Unit::None, Kind::Gauge),
        ("stat", "btime") => (Unit::None, Kind::Gauge),
        ("stat" | "net_errors", _) => (Unit::None, Kind::Counter),
        ("memory", name) if name.starts_with("HugePages_") => (Unit::None, Kind::Gauge),
        ("memory", _) => (Unit::Kilobytes, Kind::Gauge),
        ("vmstat", "pgpgin" | "pgpgout") => (Unit::Kilobytes, Kind::Counter),
        ("vmstat", name) if name.starts_with("nr_") => (Unit::None, Kind::Gauge),
        ("vmstat", _) => (Unit::None, Kind::Counter),
        ("net", "rx_bytes" | "tx_bytes") => (Unit::Bytes, Kind::Counter),
        ("net", _) => (Unit::None, Kind::Counter),
        ("disk", "in_flight") => (Unit::None, Kind::Gauge),
        ("disk", name) if name.starts_with("sectors") => (Unit::Sectors, Kind::Counter),
        ("disk", name) if name.ends_with("ms") => (Unit::Milliseconds, Kind::Counter),
        ("disk", _) => (Unit::None, Kind::Counter),
        ("pressure", name) if name.ends_with("total") => (Unit::Microseconds, Kind::Counter),
        ("pressure", _) => (Unit::Percent, Kind::Gauge),
        _ => (Unit::None, Kind::Gauge),
    }
}

/// The numbers of a sample, in their order: what belongs together (group, then key) stands together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    pub columns: Vec<Column>,
}

/// What one machine says at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Whose it is.
    pub node: String,
    /// Microseconds since 1970 by the clock of that machine; 0 for one that has said nothing.
    pub time_us: u64,
    /// Why it has said nothing, if it has not.
    pub silent: Option<String>,
    pub layout: Arc<Layout>,
    /// As many as the layout has columns.
    pub values: Vec<u64>,
}

impl Sample {
    /// A node that has not answered.
    pub fn silent(node: &str, why: &str) -> Sample {
        Sample { node: node.into(), time_us: 0, silent: Some(why.into()), layout: Arc::default(), values: Vec::new() }
    }

    /// The number of one column, as it is kept: hundredths where it is written with a point.
    pub fn get(&self, group: &str, key: &str, field: &str) -> Option<u64> {
        let found = |c: &Column| &*c.group == group && &*c.key == key && &*c.field == field;
        self.layout.columns.iter().position(found).and_then(|at| self.values.get(at)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_a_group_a_part_of_it_or_what_begins_so() {
        let user = Column::new("cpu", "0", "user");
        for pattern in ["cpu", "cpu.0", "cpu.0.user", "c*", "*", "cpu.*", "cpu.*.user", "cpu.*.us*", "*.0.*"] {
            assert!(user.is_meant(pattern), "{pattern}");
        }
        for pattern in ["", "cp", "cpu.1", "cpu.0.use", "cpu.0.user.x", "cpu.", ".", "cpu.*.idle", "x*"] {
            assert!(!user.is_meant(pattern), "{pattern}");
        }
        let vlan = Column::new("net", "eth0.100", "rx_bytes");
        assert!(vlan.is_meant("net.eth0.100") && vlan.is_meant("net.eth0.100.rx_*") && !vlan.is_meant("net.eth0"));
        assert!(Column::new("memory", "", "MemFree").is_meant("memory.MemF*"));
    }
}
