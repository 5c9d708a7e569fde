//! A sample of this machine, taken from the kernel.

use crate::layout::{Column, Layout};
use crate::sources::{self, Form, Source};
use crate::space::Space;
use kern::clock::{monotonic_us, realtime_ns};
use std::sync::Arc;
use vocab::{Fault, Result};

/// Microseconds between two looks for new disks.
const DISKS_US: u64 = 5_000_000;
/// How often the files may change while they are looked at.
const TRIES: usize = 4;

/// This machine's files, open, and the newest numbers of them.
#[derive(Debug)]
pub struct Sampler {
    sources: Vec<Source>,
    disks: Vec<String>,
    /// Monotonic.
    disks_us: u64,
    layout: Arc<Layout>,
    values: Vec<u64>,
    time_us: u64,
    buffer: Vec<u8>,
    space: Option<Space>,
}

impl Sampler {
    /// # Errors
    /// `Sys` where there is nothing to be sampled: /proc is not there.
    pub fn new() -> Result<Sampler> {
        let mut sampler = Sampler {
            sources: Vec::new(),
            disks: Vec::new(),
            disks_us: 0,
            layout: Arc::default(),
            values: Vec::new(),
            time_us: 0,
            buffer: Vec::new(),
            space: None,
        };
        sampler.look_anew();
        match sampler.sources.is_empty() {
            true => Err(Fault::sys(vocab::errno::ENOENT, "open the files of /proc that are sampled")),
            false => Ok(sampler),
        }
    }

    /// Counts the processes of the space too, those of the node daemon with this number.
    pub fn count_space(&mut self, daemon: u32) {
        self.space = Some(Space::new(daemon));
        self.look_anew();
    }

    /// What the numbers mean; another one when something has come or gone.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The numbers of the last sample, in the order of the layout.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// Microseconds since 1970, of the last sample.
    pub fn time_us(&self) -> u64 {
        self.time_us
    }

    /// Takes a sample; of the files in which no column is `wanted` (by the layout as it was) the numbers stay what they were. True: the layout is
    /// another one, and everything was sampled.
    pub fn take(&mut self, wanted: impl Fn(usize) -> bool) -> bool {
        self.time_us = realtime_ns() / 1000;
        let changed = self.new_disks();
        if !changed && self.read(wanted) {
            return false;
        }
        for _ in 0..TRIES {
            self.look_anew();
            if self.read(|_| true) {
                break;
            }
        }
        true
    }

    fn read(&mut self, wanted: impl Fn(usize) -> bool) -> bool {
        let Sampler { sources, values, buffer, space, .. } = self;
        let mut first = 0;
        let done = sources.iter().all(|source| {
            let behind = first + source.columns.len();
            let own = &mut values[first..behind];
            let needed = (first..behind).any(&wanted);
            first = behind;
            !needed || source.sample(buffer, own)
        });
        if let (Some(space), Some(last)) = (space, values.len().checked_sub(1)) {
            // Its column is the last one.
            if done && wanted(last) {
                values[last] = space.processes();
            }
        }
        done
    }

    /// Looks whether there are other disks than there were, now and then.
    fn new_disks(&mut self) -> bool {
        let now = monotonic_us();
        if now < self.disks_us + DISKS_US {
            return false;
        }
        self.disks_us = now;
        let now = self.used_disks();
        now != self.disks
    }

    fn used_disks(&mut self) -> Vec<String> {
        let used = |name: &String| Source::open(Form::Disk(name.clone()), &mut self.buffer).is_some();
        sources::disks().into_iter().filter(used).collect()
    }

    fn look_anew(&mut self) {
        self.disks = self.used_disks();
        self.disks_us = monotonic_us();
        let forms = Form::fixed().into_iter().chain(self.disks.iter().cloned().map(Form::Disk));
        self.sources = forms.filter_map(|form| Source::open(form, &mut self.buffer)).collect();
        let mut columns: Vec<Column> = self.sources.iter().flat_map(|source| source.columns.iter().cloned()).collect();
        columns.extend(self.space.as_ref().map(|_| Column::new("space", "", "processes")));
        self.layout = Arc::new(Layout { columns });
        self.values = vec![0; self.layout.columns.len()];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_what_every_machine_has() {
        let mut sampler = Sampler::new().expect("/proc is there");
        sampler.take(|_| true);
        let value = |sampler: &Sampler, group: &str, key: &str, field: &str| {
            let columns = &sampler.layout().columns;
            let at = columns.iter().position(|c| (&*c.group, &*c.key, &*c.field) == (group, key, field));
            sampler.values()[at.unwrap_or_else(|| panic!("{group} {key} {field}"))]
        };
        assert!(value(&sampler, "memory", "", "MemTotal") > 1000);
        assert!(value(&sampler, "cpu", "0", "user") > 0);
        assert!(value(&sampler, "uptime", "", "up") > 0);
        assert!(value(&sampler, "net", "lo", "rx_bytes") < u64::MAX / 2);
        let before = value(&sampler, "stat", "", "ctxt");
        std::thread::yield_now();
        let columns = sampler.layout().columns.clone();
        assert!(!sampler.take(|at| &*columns[at].group == "memory"));
        assert_eq!(value(&sampler, "stat", "", "ctxt"), before, "a file that is not wanted is not read");
        sampler.take(|_| true);
        assert!(value(&sampler, "stat", "", "ctxt") >= before);
    }
}
