//! Supplementary groups of who asks: a FUSE request does not say them.

use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// What was read counts so long. The node's kernel checks what it knows of a file by itself, by the groups that a process has at that moment.
const KEPT: Duration = Duration::from_secs(1);
const MOST: usize = 4096;

#[derive(Debug)]
pub(super) struct Groups {
    /// /proc of the namespace whose PIDs the requests have.
    proc: OwnedFd,
    known: HashMap<(u32, u32, u32), (Instant, Vec<u32>)>,
}

impl Groups {
    pub(super) fn new(proc: OwnedFd) -> Groups {
        Groups { proc, known: HashMap::new() }
    }

    /// Those of the process, whose file owner and group these are. None of root, who needs none.
    pub(super) fn of(&mut self, pid: u32, uid: u32, gid: u32) -> Vec<u32> {
        if uid == 0 || pid == 0 {
            return Vec::new();
        }
        let now = Instant::now();
        if let Some((at, groups)) = self.known.get(&(pid, uid, gid)) {
            if now.duration_since(*at) < KEPT {
                return groups.clone();
            }
        }
        let groups = self.read(pid).unwrap_or_default();
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert((pid, uid, gid), (now, groups.clone()));
        groups
    }

    fn read(&self, pid: u32) -> Option<Vec<u32>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.proc, format!("{pid}/status"), flags, Mode::empty()).ok()?;
        let mut text = String::new();
        File::from(fd).read_to_string(&mut text).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Groups:"))?;
        Some(line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect())
    }
}
