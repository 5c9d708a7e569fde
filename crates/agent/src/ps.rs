//! What /proc says of bodies and of this machine.

use crate::agent::Agent;
use crate::looking::{Question, Said};
use kern::clock::{monotonic_us, processor_us};
use kern::proc::Proc;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;
use tracing::warn;
use vocab::Pid;
use wire::ask::{shorten, ProcRow};
use wire::node::{Load, ToFront};

/// Microseconds for which arguments count as known: to look is most of the work, and who changes its own does that once.
const FRESH_US: u64 = 1_000_000;

/// Tables of bodies that the front end has asked for; arguments are a matter of the looker, for which the main loop does not wait.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// The front end's numbers of the questions: of those that get what is being found out, and of later ones.
    now: Vec<u64>,
    next: Vec<u64>,
    words: HashMap<Pid, Vec<u8>>,
    /// Those that have been looked at, as far as they let themselves, and have executed nothing since.
    seen: HashSet<Pid>,
    /// When the looking was over (monotonic).
    seen_us: u64,
}

impl Tables {
    pub(crate) fn executed(&mut self, pid: Pid) {
        self.seen.remove(&pid);
    }

    /// What has been executed is not known: records were lost.
    pub(crate) fn doubt(&mut self) {
        self.seen.clear();
    }

    /// Have all of these been looked at a moment ago?
    fn knows(&self, mut all: impl Iterator<Item = Pid>, now_us: u64) -> bool {
        self.seen_us != 0 && now_us < self.seen_us + FRESH_US && all.all(|pid| self.seen.contains(&pid))
    }
}

/// Rows that are made before records are read: forks must not use up a lease meanwhile.
const AT_ONCE: usize = 64;

impl Agent {
    /// The front end asks for a line for every body.
    pub(crate) fn ps(&mut self, id: u64) {
        self.tables.next.push(id);
        self.begin_table();
        if self.tables.next.contains(&id) || self.tables.now.contains(&id) {
            // Who says nothing for a while counts as one that does not answer.
            self.uplink.send(&ToFront::PsBegun { id });
        }
    }

    fn begin_table(&mut self) {
        if self.looker.is_busy() || self.tables.next.is_empty() {
            return;
        }
        self.tables.now = std::mem::take(&mut self.tables.next);
        let all = || self.bodies.iter().map(|body| body.person.pid);
        if self.tables.knows(all(), monotonic_us()) {
            return self.end_table();
        }
        self.tables.seen = all().collect();
        self.tables.words.clear();
        self.looker.ask(Question::Commands);
    }

    /// The looker has found something, or does not answer.
    pub(crate) fn looked(&mut self) {
        for said in self.looker.go_on(usize::MAX) {
            match said {
                Said::Command { pid, words } => drop(self.tables.words.insert(pid, words)),
                Said::End => {
                    self.tables.seen_us = monotonic_us();
                    self.end_table();
                }
                Said::At { .. } | Said::Awaited { .. } | Said::Entries(_) | Said::Last(_) => {}
            }
        }
    }

    fn end_table(&mut self) {
        let mut pids: Vec<Pid> = self.bodies.iter().map(|body| body.person.pid).collect();
        pids.sort_unstable();
        let mut rows: Vec<ProcRow> = Vec::with_capacity(pids.len());
        let mut buffer = Vec::new();
        for some in pids.chunks(AT_ONCE) {
            rows.extend(some.iter().filter_map(|pid| self.row(*pid, &mut buffer)));
            self.watch();
        }
        shorten(&mut rows);
        let mut ids = std::mem::take(&mut self.tables.now);
        let last = ids.pop();
        for id in ids {
            self.uplink.send(&ToFront::PsDone { id, rows: rows.clone() });
        }
        if let Some(id) = last {
            self.uplink.send(&ToFront::PsDone { id, rows });
        }
        self.begin_table();
    }

    fn row(&self, pid: Pid, buffer: &mut Vec<u8>) -> Option<ProcRow> {
        let status = self.proc.brief(pid, buffer).ok()?;
        let words = self.tables.words.get(&pid).map(Vec::as_slice).unwrap_or_default();
        let words = words.strip_suffix(&[0]).unwrap_or(words);
        let command = match words {
            [] => format!("[{}]", String::from_utf8_lossy(status.name.as_bytes())),
            words => String::from_utf8_lossy(words).replace('\0', " "),
        };
        Some(ProcRow {
            pid,
            node: self.number,
            uid: status.uid,
            state: char::from(status.state),
            cpu_ms: processor_us(pid).unwrap_or(0) / 1000,
            rss_kb: status.rss_kb,
            command,
            ppid: self.bodies.person(pid).map_or(status.ppid, |person| person.ppid),
            birth: 0,
        })
    }

    pub(crate) fn load(&self) -> Load {
        load(&self.proc)
    }
}

/// The processors that this process may use when it first asks: affinity and quota of the cgroup, a dozen calls, too many for each beat.
fn cores() -> u32 {
    static CORES: OnceLock<u32> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get() as u32))
}

/// This machine's load; what cannot be read is 0.
pub(crate) fn load(proc: &Proc) -> Load {
    let read = || -> vocab::Result<Load> {
        let memory = proc.memory()?;
        Ok(Load { load: proc.load_average()?, memory_free: memory.available, cores: cores(), memory: memory.total })
    };
    read().unwrap_or_else(|fault| {
        warn!(%fault, "no load");
        Load::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_known_for_a_moment_and_until_something_is_executed() {
        let mut tables = Tables { seen: HashSet::from([Pid(1), Pid(2)]), ..Tables::default() };
        let all = || [Pid(1), Pid(2)].into_iter();
        assert!(!tables.knows(all(), 0), "nobody has looked");
        tables.seen_us = 10;
        assert!(tables.knows(all(), 9 + FRESH_US) && !tables.knows(all(), 10 + FRESH_US));
        assert!(!tables.knows(all().chain([Pid(3)]), 10), "one has come");
        tables.executed(Pid(2));
        assert!(!tables.knows(all(), 10) && tables.knows([Pid(1)].into_iter(), 10));
        tables.doubt();
        assert!(!tables.knows([Pid(1)].into_iter(), 10));
    }
}
