//! What /proc says of bodies and of this machine.

use crate::agent::Agent;
use kern::proc::Proc;
use tracing::warn;
use vocab::Pid;
use wire::ask::ProcRow;
use wire::node::Load;

/// Bytes of a command line that are worth telling.
const COMMAND: usize = 1024;
/// Milliseconds of a clock tick, and KiB of a page.
const TICK_MS: u64 = 10;
const PAGE_KB: u64 = 4;

impl Agent {
    /// A line for every body.
    pub(crate) fn ps(&self) -> Vec<ProcRow> {
        let mut rows: Vec<ProcRow> = self.bodies.iter().filter_map(|body| self.row(body.person.pid)).collect();
        rows.sort_unstable_by_key(|row| row.pid);
        rows
    }

    fn row(&self, pid: Pid) -> Option<ProcRow> {
        let stat = self.proc.stat(pid).ok()?;
        let uid = self.proc.status(pid).ok()?.creds.uid.effective;
        let words = self.proc.cmdline(pid, COMMAND).unwrap_or_default();
        let words = words.strip_suffix(&[0]).unwrap_or(&words);
        let command = match words {
            [] => format!("[{}]", String::from_utf8_lossy(stat.name.as_bytes())),
            words => String::from_utf8_lossy(words).replace('\0', " "),
        };
        Some(ProcRow {
            pid,
            node: self.number,
            uid,
            state: char::from(stat.state),
            cpu_ms: (stat.user_ticks + stat.system_ticks) * TICK_MS,
            rss_kb: stat.rss_pages * PAGE_KB,
            command,
            ppid: self.bodies.person(pid).map_or(stat.ppid, |person| person.ppid),
        })
    }

    pub(crate) fn load(&self) -> Load {
        load(&self.proc)
    }
}

/// This machine's load; what cannot be read is 0.
pub(crate) fn load(proc: &Proc) -> Load {
    let read = || -> vocab::Result<Load> {
        let memory = proc.memory()?;
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        Ok(Load { load: proc.load_average()?, memory_free: memory.available, cores, memory: memory.total })
    };
    read().unwrap_or_else(|fault| {
        warn!(%fault, "no load");
        Load::default()
    })
}
