//! The parents of several copies of a program, written down for a successor of this daemon: such a parent has no body on any node
//! that would tell of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use vocab::{Exit, Pid};

/// The worst end so far of each one's copies, in memory and in a file with a line for each: PID and wait status.
#[derive(Debug)]
pub(crate) struct Parents {
    file: PathBuf,
    worst: BTreeMap<Pid, Exit>,
}

impl Parents {
    /// Kept in `file`, whose lines count if a daemon before this one has left stand-ins (`again`).
    pub(crate) fn new(file: PathBuf, again: bool) -> Parents {
        let text = if again { std::fs::read_to_string(&file).unwrap_or_default() } else { String::new() };
        let worst = text.lines().filter_map(read).collect();
        Parents { file, worst }
    }

    /// `parent` is one, and `worst` the worst end among its copies.
    pub(crate) fn keep(&mut self, parent: Pid, worst: Exit) {
        if self.worst.insert(parent, worst) != Some(worst) {
            self.write();
        }
    }

    /// Its process is gone, if it was one.
    pub(crate) fn forget(&mut self, pid: Pid) {
        if self.worst.remove(&pid).is_some() {
            self.write();
        }
    }

    /// Those of a daemon before this one that are among the stand-ins `found`; the others are forgotten.
    pub(crate) fn left_by_predecessor(&mut self, found: &BTreeSet<Pid>) -> Vec<(Pid, Exit)> {
        self.worst.retain(|pid, _| found.contains(pid));
        self.write();
        self.worst.iter().map(|(pid, worst)| (*pid, *worst)).collect()
    }

    fn write(&self) {
        let text: String = self.worst.iter().map(|(pid, worst)| format!("{} {}\n", pid.0, worst.to_status())).collect();
        let new = self.file.with_extension("new");
        if let Err(e) = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &self.file)) {
            tracing::warn!("keep {}: {e}", self.file.display());
        }
    }
}

fn read(line: &str) -> Option<(Pid, Exit)> {
    let (pid, status) = line.split_once(' ')?;
    Some((Pid(pid.parse().ok()?), Exit::from_status(status.parse().ok()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_finds_those_that_are_still_there() {
        let file = std::env::temp_dir().join(format!("shoal-parents-{}", std::process::id()));
        let killed = Exit::Killed { sig: vocab::Sig::TERM, core: false };
        let mut parents = Parents::new(file.clone(), false);
        for pid in [7, 8, 9] {
            parents.keep(Pid(pid), Exit::Code(0));
        }
        parents.keep(Pid(8), killed);
        parents.forget(Pid(7));
        let mut again = Parents::new(file.clone(), true);
        assert_eq!(again.left_by_predecessor(&BTreeSet::from([Pid(7), Pid(8)])), [(Pid(8), killed)]);
        assert_eq!(Parents::new(file.clone(), true).worst.len(), 1);
        assert!(Parents::new(file.clone(), false).worst.is_empty());
        std::fs::remove_file(file).expect("it was written");
    }
}
