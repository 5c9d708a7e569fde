//! The files that a sample is made of, each kept open, and what of their lines is wanted.

use crate::layout::Column;
use crate::lines::{self, Line};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of a file that are read at most; what is longer is not sampled.
pub(crate) const MOST: usize = 256 * 1024;

/// Of /proc/vmstat: the rest is of use to nobody but who knows it, and each line costs the kernel 0.1 us.
const VMSTAT: &[&str] = &[
    "nr_dirty",
    "nr_writeback",
    "pgpgin",
    "pgpgout",
    "pswpin",
    "pswpout",
    "pgfault",
    "pgmajfault",
    "pgsteal_kswapd",
    "pgscan_kswapd",
    "pgscan_direct",
    "oom_kill",
];

const CPU: &[&str] = &["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"];

/// Of /proc/stat, beside the processors: the first number of each.
const STAT: &[&str] = &["intr", "ctxt", "btime", "processes", "procs_running", "procs_blocked", "softirq"];

/// Of /proc/net/dev, in its order.
const NET: &[&str] = &[
    "rx_bytes",
    "rx_packets",
    "rx_errs",
    "rx_drop",
    "rx_fifo",
    "rx_frame",
    "rx_compressed",
    "rx_multicast",
    "tx_bytes",
    "tx_packets",
    "tx_errs",
    "tx_drop",
    "tx_fifo",
    "tx_colls",
    "tx_carrier",
    "tx_compressed",
];

/// Of /sys/block/DISK/stat (linux: Documentation/block/stat.rst).
const DISK: &[&str] = &[
    "reads",
    "reads_merged",
    "sectors_read",
    "read_ms",
    "writes",
    "writes_merged",
    "sectors_written",
    "write_ms",
    "in_flight",
    "io_ms",
    "queue_ms",
    "discards",
    "discards_merged",
    "sectors_discarded",
    "discard_ms",
    "flushes",
    "flush_ms",
];

const PRESSURE: &[&str] = &["avg10", "avg60", "avg300", "total"];

/// How a file is to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Load,
    Uptime,
    Stat,
    Memory,
    Vmstat,
    Net,
    Pressure(&'static str),
    Disk(String),
}

impl Form {
    /// Of every machine, in the order of a sample; disks come last.
    pub(crate) fn fixed() -> Vec<Form> {
        let pressures = ["cpu", "io", "memory"].map(Form::Pressure);
        let first = [Form::Load, Form::Uptime, Form::Stat, Form::Memory, Form::Vmstat];
        first.into_iter().chain(pressures).chain([Form::Net]).collect()
    }

    pub(crate) fn path(&self) -> String {
        match self {
            Form::Load => "/proc/loadavg".into(),
            Form::Uptime => "/proc/uptime".into(),
            Form::Stat => "/proc/stat".into(),
            Form::Memory => "/proc/meminfo".into(),
            Form::Vmstat => "/proc/vmstat".into(),
            // Of this process's network namespace, also when it is read through a descriptor later.
            Form::Net => "/proc/net/dev".into(),
            Form::Pressure(of) => format!("/proc/pressure/{of}"),
            Form::Disk(name) => format!("/sys/block/{name}/stat"),
        }
    }

    /// What of `text` is wanted, and what it is. The lines are those up to the last that is wanted.
    fn plan(&self, text: &[u8]) -> (Vec<Line>, Vec<Column>) {
        let (mut lines, mut columns) = (Vec::new(), Vec::new());
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let (line, found) = self.plan_line(line);
            lines.push(line);
            columns.extend(found);
        }
        if !self.is_read_whole() {
            let wanted = lines.iter().rposition(|line| line.numbers > 0).map_or(0, |last| last + 1);
            lines.truncate(wanted);
        }
        (lines, columns)
    }

    /// Are lines behind the last wanted one a sign that something is new?
    fn is_read_whole(&self) -> bool {
        matches!(self, Form::Net)
    }

    fn plan_line(&self, text: &[u8]) -> (Line, Vec<Column>) {
        let blanks = text.iter().take_while(|byte| **byte == b' ').count();
        let ends = |byte: &u8| matches!(byte, b' ' | b':');
        let length = text[blanks..].iter().position(ends).map_or(0, |at| at + 1);
        let word = &text[blanks..blanks + length];
        let name = String::from_utf8_lossy(&word[..length.saturating_sub(1)]).into_owned();
        let behind = &text[blanks + length..];
        let fields = |group: &str, key: &str, names: &[&str], prefix: &str| -> Vec<Column> {
            names.iter().map(|name| Column::new(group, key, &format!("{prefix}{name}"))).collect()
        };
        let up_to = |names: &'static [&'static str], text: &[u8], mark| {
            let there = lines::count(text, mark);
            &names[..names.len().min(there)]
        };
        let columns = match self {
            Form::Load => fields("load", "", &["load1", "load5", "load15", "running", "threads"], ""),
            Form::Uptime => fields("uptime", "", &["up", "idle"], ""),
            Form::Stat => match name.strip_prefix("cpu") {
                Some("") => fields("cpu", "all", up_to(CPU, behind, None), ""),
                Some(number) => fields("cpu", number, up_to(CPU, behind, None), ""),
                None if STAT.contains(&&*name) => fields("stat", "", &[&name], ""),
                None => Vec::new(),
            },
            Form::Memory if lines::count(behind, None) > 0 => fields("memory", "", &[&plain(&name)], ""),
            Form::Vmstat if VMSTAT.contains(&&*name) => fields("vmstat", "", &[&name], ""),
            Form::Net if word.ends_with(b":") => fields("net", &name, up_to(NET, behind, None), ""),
            Form::Pressure(of) => fields("pressure", of, up_to(PRESSURE, behind, Some(b'=')), &format!("{name}_")),
            Form::Disk(disk) => fields("disk", disk, up_to(DISK, text, None), ""),
            Form::Memory | Form::Vmstat | Form::Net => Vec::new(),
        };
        let named = !matches!(self, Form::Load | Form::Uptime | Form::Disk(_));
        let mark = matches!(self, Form::Pressure(_)).then_some(b'=');
        (Line { name: if named { word.into() } else { Box::default() }, numbers: columns.len(), mark }, columns)
    }
}

/// `Active(anon)` would have to be quoted everywhere.
fn plain(name: &str) -> String {
    name.replace('(', "_").replace(')', "")
}

/// One file, open, and what of it is wanted.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) form: Form,
    file: File,
    lines: Vec<Line>,
    pub(crate) columns: Vec<Column>,
    /// Bytes to be read: the kernel writes the lines behind them for nobody.
    length: usize,
}

impl Source {
    /// `None` for a file that this machine does not have, or that has nothing.
    pub(crate) fn open(form: Form, buffer: &mut Vec<u8>) -> Option<Source> {
        let file = File::open(form.path()).ok()?;
        let mut text = read_whole(&file, buffer)?;
        if let Form::Disk(_) = form {
            // A disk that has never done anything is none: loop devices, mostly.
            text.iter().find(|byte| matches!(byte, b'1'..=b'9'))?;
        }
        let (lines, columns) = form.plan(text);
        if !form.is_read_whole() {
            let wanted: usize = text.split_inclusive(|byte| *byte == b'\n').take(lines.len()).map(<[u8]>::len).sum();
            text = &text[..wanted];
        }
        // Numbers get longer.
        let length = (text.len() + 64).min(MOST);
        (!columns.is_empty()).then_some(Source { form, file, lines, columns, length })
    }

    /// Reads it anew. False: it is not what it was; `values` are of no use then.
    pub(crate) fn sample(&self, buffer: &mut Vec<u8>, values: &mut [u64]) -> bool {
        if buffer.len() < self.length {
            buffer.resize(self.length, 0);
        }
        let Ok(got) = self.file.read_at(&mut buffer[..self.length], 0) else { return false };
        lines::fill(&buffer[..got], &self.lines, self.form.is_read_whole(), values)
    }
}

/// All of it, in one read as the later ones are.
fn read_whole<'b>(file: &File, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]> {
    let mut length = buffer.len().max(16 * 1024);
    loop {
        buffer.resize(length, 0);
        let got = file.read_at(buffer, 0).ok()?;
        // seq_file gives whole lines, up to the length of the buffer.
        if got + 1024 < length {
            return Some(&buffer[..got]);
        }
        length *= 2;
        if length > MOST {
            return None;
        }
    }
}

/// The disks of this machine.
pub(crate) fn disks() -> Vec<String> {
    let found = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut names: Vec<String> = found.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(form: &Form, text: &str) -> String {
        let (lines, columns) = form.plan(text.as_bytes());
        let mut values = vec![0; columns.len()];
        assert!(lines::fill(text.as_bytes(), &lines, form.is_read_whole(), &mut values), "{text}");
        let name = |c: &Column| format!("{}.{}.{}", c.group, c.key, c.field);
        columns.iter().zip(values).map(|(c, v)| format!("{}={v} ", name(c))).collect()
    }

    #[test]
    fn the_kernels_files_are_read_as_they_are_written() {
        assert_eq!(
            names(&Form::Stat, "cpu  1 2 3\ncpu7 4 5 6\nintr 9 0 0\npage 1\nctxt 8\n"),
            "cpu.all.user=1 cpu.all.nice=2 cpu.all.system=3 cpu.7.user=4 cpu.7.nice=5 cpu.7.system=6 stat..intr=9 stat..ctxt=8 "
        );
        assert_eq!(
            names(&Form::Memory, "MemTotal:       16 kB\nActive(anon):  7 kB\nHugePages_Total:  0\n"),
            "memory..MemTotal=16 memory..Active_anon=7 memory..HugePages_Total=0 "
        );
        assert_eq!(
            names(&Form::Net, "Inter-|  Receive\n face |bytes\n  eth0.1: 10 11\n"),
            "net.eth0.1.rx_bytes=10 net.eth0.1.rx_packets=11 "
        );
        assert_eq!(names(&Form::Disk("vda".into()), "  3 4\n"), "disk.vda.reads=3 disk.vda.reads_merged=4 ");
        assert_eq!(
            names(&Form::Pressure("io"), "some avg10=0.01 avg60=0.00 avg300=0.00 total=9\n"),
            "pressure.io.some_avg10=1 pressure.io.some_avg60=0 pressure.io.some_avg300=0 pressure.io.some_total=9 "
        );
        assert_eq!(
            names(&Form::Vmstat, "nr_free 1\nnr_dirty 2\nx 3\npgfault 4\nlast 5\n"),
            "vmstat..nr_dirty=2 vmstat..pgfault=4 "
        );
    }
}
