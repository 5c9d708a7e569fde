//! The parents of several copies of a program, written down for a successor of this daemon: such a parent has no body on any node
//! that would tell of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use vocab::{Exit, Pid};

/// What is kept of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    /// The worst end so far of its copies.
    pub(crate) worst: Exit,
    /// The copies that had not ended when this was last said; `None` before all were cloned.
    pub(crate) copies: Option<Vec<Pid>>,
}

/// All of them, in memory and in a file with a line for each: PID and wait status, and then `of` and the PIDs of the copies.
#[derive(Debug)]
pub(crate) struct Parents {
    file: PathBuf,
    all: BTreeMap<Pid, Kept>,
}

impl Parents {
    /// Kept in `file`, whose lines count if a daemon before this one has left stand-ins (`again`).
    pub(crate) fn new(file: PathBuf, again: bool) -> Parents {
        let text = if again { std::fs::read_to_string(&file).unwrap_or_default() } else { String::new() };
        let all = text.lines().filter_map(read).collect();
        Parents { file, all }
    }

    /// `parent` is one.
    pub(crate) fn keep(&mut self, parent: Pid, kept: Kept) {
        if self.all.get(&parent) != Some(&kept) {
            self.all.insert(parent, kept);
            self.write();
        }
    }

    /// Its process is gone, if it was one.
    pub(crate) fn forget(&mut self, pid: Pid) {
        if self.all.remove(&pid).is_some() {
            self.write();
        }
    }

    /// Those of a daemon before this one that are among the stand-ins `found`; the others are forgotten.
    pub(crate) fn left_by_predecessor(&mut self, found: &BTreeSet<Pid>) -> Vec<(Pid, Kept)> {
        self.all.retain(|pid, _| found.contains(pid));
        self.write();
        self.all.iter().map(|(pid, kept)| (*pid, kept.clone())).collect()
    }

    fn write(&self) {
        let text: String = self.all.iter().map(|(pid, kept)| write(*pid, kept)).collect();
        let new = self.file.with_extension("new");
        if let Err(e) = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &self.file)) {
            tracing::warn!("keep {}: {e}", self.file.display());
        }
    }
}

fn write(pid: Pid, kept: &Kept) -> String {
    let copies = kept
        .copies
        .iter()
        .flat_map(|copies| std::iter::once(" of".to_owned()).chain(copies.iter().map(|copy| format!(" {}", copy.0))));
    format!("{} {}{}\n", pid.0, kept.worst.to_status(), copies.collect::<String>())
}

fn read(line: &str) -> Option<(Pid, Kept)> {
    let mut words = line.split(' ');
    let pid = Pid(words.next()?.parse().ok()?);
    let worst = Exit::from_status(words.next()?.parse().ok()?)?;
    let copies = match words.next() {
        None => None,
        Some("of") => Some(words.map(|copy| copy.parse().ok().map(Pid)).collect::<Option<_>>()?),
        Some(_) => return None,
    };
    Some((pid, Kept { worst, copies }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_finds_those_that_are_still_there() {
        let file = std::env::temp_dir().join(format!("shoal-parents-{}", std::process::id()));
        let killed = Exit::Killed { sig: vocab::Sig::TERM, core: false };
        let kept = |worst, copies: Option<&[i32]>| Kept {
            worst,
            copies: copies.map(|all| all.iter().map(|n| Pid(*n)).collect()),
        };
        let mut parents = Parents::new(file.clone(), false);
        for pid in [7, 8, 9, 10, 11] {
            parents.keep(Pid(pid), kept(Exit::Code(0), None));
        }
        parents.keep(Pid(8), kept(killed, Some(&[20, 21])));
        parents.keep(Pid(10), kept(killed, Some(&[])));
        parents.forget(Pid(7));
        let mut again = Parents::new(file.clone(), true);
        let left = again.left_by_predecessor(&BTreeSet::from([7, 8, 10, 11].map(Pid)));
        let expected =
            [(8, kept(killed, Some(&[20, 21]))), (10, kept(killed, Some(&[]))), (11, kept(Exit::Code(0), None))];
        assert_eq!(left, expected.map(|(pid, kept)| (Pid(pid), kept)));
        assert_eq!(Parents::new(file.clone(), true).all.len(), 3);
        assert!(Parents::new(file.clone(), false).all.is_empty());
        std::fs::remove_file(file).expect("it was written");
    }
}
