//! What of a process others have too. Nobody tells who else has a pipe or a deleted file, so all processes are looked at.

use crate::proc;
use kern::areas::areas;
use kern::proc::{root, PROC};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use vocab::{Fault, Pid, Result};

/// Which file: device and inode.
pub(crate) type Identity = (u64, u64);

pub(crate) fn identity(path: &str) -> Option<Identity> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Links of descriptors when they were last looked at, and who else had them.
pub(crate) type Known = BTreeMap<Vec<u8>, Option<Pid>>;

/// What is looked for, and what was found: who has it besides.
#[derive(Default)]
pub(crate) struct Elsewhere {
    /// Links of descriptors that are the name of one thing: `pipe:[77]`.
    pub(crate) links: BTreeMap<Vec<u8>, Option<Pid>>,
    pub(crate) files: BTreeMap<Identity, Option<Pid>>,
    passed_over: Vec<Pid>,
}

impl Elsewhere {
    pub(crate) fn of(links: BTreeSet<Vec<u8>>, files: BTreeSet<Identity>) -> Elsewhere {
        Elsewhere {
            links: links.into_iter().map(|link| (link, None)).collect(),
            files: files.into_iter().map(|file| (file, None)).collect(),
            passed_over: Vec::new(),
        }
    }

    /// As [`Elsewhere::look`], for what is not known already: a process that stands still should not wait for all others. Of what was nobody
    /// else's then [`nobody_elses`] can tell later whether it still is.
    pub(crate) fn look_unless(&mut self, pid: Pid, known: &Known) -> Result<()> {
        let is_known = |link: &Vec<u8>| known.contains_key(link);
        let wanted: BTreeSet<Vec<u8>> = std::mem::take(&mut self.links).into_keys().collect();
        self.links = wanted.iter().filter(|link| !is_known(link)).map(|link| (link.clone(), None)).collect();
        self.look(pid)?;
        self.links.extend(wanted.into_iter().filter(is_known).map(|link| {
            let who = known.get(&link).copied().flatten();
            (link, who)
        }));
        Ok(())
    }

    /// Looks at the descriptors, and for files at the mappings, of all processes but `pid`, until somebody is found who has each of what is looked for.
    pub(crate) fn look(&mut self, pid: Pid) -> Result<()> {
        if self.has_found_all() {
            return Ok(());
        }
        let entries = std::fs::read_dir(root()).map_err(|e| Fault::io(&e, "read /proc"))?;
        let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        for other in numbers.map(Pid).filter(|other| *other != pid) {
            if self.passed_over.contains(&other) {
                continue;
            }
            self.descriptors_of(other);
            if !self.files.is_empty() {
                self.mappings_of(other);
            }
            if self.has_found_all() {
                break;
            }
        }
        Ok(())
    }

    fn has_found_all(&self) -> bool {
        self.links.values().chain(self.files.values()).all(Option::is_some)
    }

    /// One that has ended has none.
    fn descriptors_of(&mut self, other: Pid) {
        for number in proc::numbers_in(other, "fd").unwrap_or_default() {
            let link = proc::name(other, &format!("fd/{number}")).unwrap_or_default();
            if let Some(who) = self.links.get_mut(&link) {
                *who = Some(other);
            }
            if !self.files.is_empty() && (is_deleted(&link) || link == proc::TOO_LONG) {
                self.found(other, &format!("{PROC}/{other}/fd/{number}"));
            }
        }
    }

    fn mappings_of(&mut self, other: Pid) {
        for area in areas(other, false).unwrap_or_default() {
            if area.inode != 0 && (is_deleted(&area.path) || area.path.starts_with(b"[anon_shmem")) {
                self.found(other, &format!("{PROC}/{other}/map_files/{:x}-{:x}", area.start, area.end));
            }
        }
    }

    fn found(&mut self, other: Pid, path: &str) {
        if let Some(who) = identity(path).and_then(|file| self.files.get_mut(&file)) {
            *who = Some(other);
        }
    }
}

/// `trusted`: processes that are known to take nothing from others; they may have many descriptors.
///
/// # Errors
/// `Changed` when another process has one of these by now.
pub(crate) fn nobody_elses(pid: Pid, links: &BTreeSet<Vec<u8>>, trusted: &[Pid]) -> Result<()> {
    let mut elsewhere = Elsewhere { passed_over: trusted.to_vec(), ..Elsewhere::of(links.clone(), BTreeSet::new()) };
    elsewhere.look(pid)?;
    match elsewhere.links.iter().find_map(|(link, who)| Some((link, (*who)?))) {
        None => Ok(()),
        Some((link, who)) => {
            let what = format!("process {who} has {} too by now", String::from_utf8_lossy(link));
            Err(Fault::changed(what))
        }
    }
}

/// /proc says so of a file without a name.
pub(crate) fn is_deleted(link: &[u8]) -> bool {
    link.ends_with(b" (deleted)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_pipe_that_another_process_has_by_now_is_found() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::piped()).spawn().expect("sleep");
        let (own, other) = (Pid(std::process::id() as i32), Pid(child.id() as i32));
        let pipe = BTreeSet::from([proc::link(other, "fd/0").expect("a child")]);
        let found = nobody_elses(own, &pipe, &[]);
        assert_eq!(nobody_elses(own, &pipe, &[other]), Ok(()));
        child.kill().and_then(|()| child.wait()).expect("a child");
        assert!(found
            .is_err_and(|fault| fault.kind == vocab::Kind::Changed && fault.to_string().contains(&other.to_string())));
        assert_eq!(nobody_elses(own, &pipe, &[]), Ok(()));
    }
}
