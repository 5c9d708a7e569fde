//! How many processes of the space are on this node: those in the cgroup of its daemon.

use kern::clock::monotonic_us;
use std::path::{Path, PathBuf};

/// Microseconds for which a count is good: the kernel goes through all of them.
const FRESH_US: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct Space {
    daemon: u32,
    processes: u64,
    /// When it was counted (monotonic).
    counted_us: Option<u64>,
}

impl Space {
    pub(crate) fn new(daemon: u32) -> Space {
        Space { daemon, processes: 0, counted_us: None }
    }

    /// Bodies, what stands for processes elsewhere, and the daemon's own; at most [`FRESH_US`] old. 0 where it cannot be read.
    pub(crate) fn processes(&mut self) -> u64 {
        let now = monotonic_us();
        if self.counted_us.is_none_or(|at| now >= at + FRESH_US) {
            self.counted_us = Some(now);
            self.processes = cgroup(self.daemon).map_or(0, |path| kern::cgroup::processes(&path).len() as u64);
        }
        self.processes
    }
}

/// The cgroup (version 2) of a process: the daemon enters its own after it has started its monitor.
fn cgroup(pid: u32) -> Option<PathBuf> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(kern::cgroup::find_v2().ok()?.join(Path::new(path)))
}
