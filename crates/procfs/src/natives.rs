//! What is in /proc of this machine, as links to it, for a view that stands in /proc's place: whoever follows one is in the native procfs, with all that
//! this can and nothing in between.
//!
//! A node's view shows processes that have no directory in its /proc, onto which one of ours could be bound; so the whole of /proc is ours there.

use crate::here::proc;
use crate::names::FOREVER_US;
use kern::fuse::tree::{Named, Shown};
use kern::proc::PROC;
use std::collections::BTreeMap;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use vocab::Pid;

/// Links that say who follows them (proc_pid_self(5)); other programs read them to know that, so they say the same here.
const SELF: &[u8] = b"self";
const THREAD_SELF: &[u8] = b"thread-self";
/// Numbers of nodes of the tree from here on, below those of [`crate::whole`], are links: to a process's directory, by its number, and to what else there is, in the order in which it was
/// looked up.
const PROCESSES: u64 = 1 << 50;
const OTHERS: u64 = 1 << 51;
const LINK: u32 = 0o120_777;
const DIRECTORY: u32 = 0o040_555;
/// For how long the name of a process is a link, in microseconds: it may be that of one that stands here no more. That of anything else always is.
const PROCESS_US: u64 = 1_000_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Natives {
    /// Where the native procfs is for whoever looks.
    at: PathBuf,
    /// Those that are no numbers, as they became known.
    others: Mutex<Vec<Vec<u8>>>,
}

impl Natives {
    pub(crate) fn new(at: &Path) -> Natives {
        Natives { at: at.into(), others: Mutex::default() }
    }

    /// The link of this name, if there is something here of that.
    pub(crate) fn look_up(&self, name: &[u8]) -> Option<Shown> {
        let number = std::str::from_utf8(name).ok().and_then(|name| name.parse::<u32>().ok());
        if let Some(pid) = number {
            return self.show(PROCESSES + u64::from(pid));
        }
        owner(name)?;
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let known = others.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            others.push(name.to_vec());
            others.len() - 1
        });
        drop(others);
        self.show(OTHERS + index as u64)
    }

    /// The link with this number, if it is one and leads to something. It belongs to whom that does.
    pub(crate) fn show(&self, node: u64) -> Option<Shown> {
        let (uid, gid) = owner(&self.name(node)?)?;
        let size = self.target(node, Pid::NONE)?.len() as u64;
        // Whose a process is changes.
        let (name_us, kept_us) = if node < OTHERS { (PROCESS_US, 0) } else { (FOREVER_US, FOREVER_US) };
        Some(Shown { node, mode: LINK, size, uid, gid, name_us, kept_us, ..Shown::default() })
    }

    fn name(&self, node: u64) -> Option<Vec<u8>> {
        match node {
            OTHERS.. => {
                let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
                others.get((node - OTHERS) as usize).cloned()
            }
            PROCESSES.. => Some((node - PROCESSES).to_string().into_bytes()),
            _ => None,
        }
    }

    /// Where that leads for thread `asker`, which is none of 0.
    pub(crate) fn target(&self, node: u64, asker: Pid) -> Option<Vec<u8>> {
        let name = self.name(node)?;
        let own = || proc().and_then(|proc| proc.status(asker)).map(|status| status.tgid);
        match &name[..] {
            SELF if asker != Pid::NONE => own().ok().map(|own| own.to_string().into_bytes()),
            THREAD_SELF if asker != Pid::NONE => own().ok().map(|own| format!("{own}/task/{asker}").into_bytes()),
            _ => Some(self.at.join(std::ffi::OsStr::from_bytes(&name)).into_os_string().into_vec()),
        }
    }

    /// All names in the order in which the kernel has them: what is no number, then processes by theirs, and `shown` among them. What a link is is not told: some who
    /// look for directories would not follow one, but look at what they are not told of.
    pub(crate) fn names(&self, shown: &[Pid]) -> Vec<Named> {
        let mut processes: BTreeMap<i32, u32> = BTreeMap::new();
        let mut names = Vec::new();
        for one in std::fs::read_dir(PROC.to_string()).into_iter().flatten().flatten() {
            let name = one.file_name();
            match name.to_str().and_then(|name| name.parse().ok()) {
                Some(pid) => drop(processes.insert(pid, 0)),
                None => names.push(Named { name: name.into_vec(), mode: 0 }),
            }
        }
        processes.extend(shown.iter().map(|pid| (pid.0, DIRECTORY)));
        names.extend(processes.into_iter().map(|(pid, mode)| Named { name: pid.to_string().into_bytes(), mode }));
        names
    }
}

/// Whose this is in the native procfs, if it is there.
fn owner(name: &[u8]) -> Option<(u32, u32)> {
    let there = PathBuf::from(PROC.to_string()).join(std::ffi::OsStr::from_bytes(name));
    std::fs::symlink_metadata(there).map(|there| (there.uid(), there.gid())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_the_native_ones() {
        let natives = Natives::new(Path::new("/run/native"));
        let me = Pid(std::process::id() as i32);
        let link = natives.look_up(me.to_string().as_bytes()).expect("I am there");
        assert_eq!(natives.target(link.node, me), Some(format!("/run/native/{me}").into_bytes()));
        assert_eq!((link.mode, link.name_us), (LINK, PROCESS_US));
        let [stat, again, meminfo] = ["stat", "stat", "meminfo"].map(|name| natives.look_up(name.as_bytes()));
        let [stat, again, meminfo] = [stat, again, meminfo].map(|shown| shown.expect("it is there").node);
        assert!(stat == again && stat != meminfo);
        assert_eq!(natives.target(meminfo, me), Some(b"/run/native/meminfo".to_vec()));
        assert_eq!(natives.look_up(b"no-such-name"), None);
        assert_eq!((natives.show(7), natives.target(OTHERS + 77, me)), (None, None));
        let own = |name: &str| {
            let link = natives.look_up(name.as_bytes()).expect("it is there");
            natives.target(link.node, me).and_then(|to| String::from_utf8(to).ok())
        };
        assert_eq!(own("self"), Some(me.to_string()));
        assert_eq!(own("thread-self"), Some(format!("{me}/task/{me}")));
    }

    #[test]
    fn processes_stand_by_their_numbers_and_those_that_are_shown_are_directories() {
        let natives = Natives::new(Path::new("/run/native"));
        let me = std::process::id() as i32;
        let names = natives.names(&[Pid(me), Pid(i32::MAX)]);
        let numbers: Vec<i32> =
            names.iter().filter_map(|one| std::str::from_utf8(&one.name).ok()?.parse().ok()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b) && numbers.last() == Some(&i32::MAX));
        let mode = |name: &[u8]| names.iter().find(|one| one.name == name).map(|one| one.mode);
        assert_eq!(mode(me.to_string().as_bytes()), Some(DIRECTORY));
        assert_eq!((mode(b"1"), mode(b"meminfo")), (Some(0), Some(0)));
    }
}
