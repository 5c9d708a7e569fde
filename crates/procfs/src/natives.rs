//! What is in /proc of this machine, as links to it, for a view that stands in /proc's place: whoever follows one is in the native procfs, with all that
//! this can and nothing in between.
//!
//! A node's view shows processes that have no directory in its /proc, onto which one of ours could be bound; so the whole of /proc is ours there.

use kern::fuse::tree::{Named, Shown};
use kern::proc::PROC;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use vocab::Pid;

/// Numbers of nodes of the tree from here on are links: to a process's directory, by its number, and to what else there is, in the order in which it was
/// looked up.
const PROCESSES: u64 = 1 << 40;
const OTHERS: u64 = 1 << 41;
const LINK: u32 = 0o120_777;
/// For how long the name of a process is a link, in microseconds: it may be that of one that stands here no more. That of anything else always is.
const PROCESS_US: u64 = 1_000_000;
const FOREVER_US: u64 = 1_000_000_000_000;

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
        let there = PathBuf::from(PROC.to_string()).join(std::ffi::OsStr::from_bytes(name));
        std::fs::symlink_metadata(there).ok()?;
        let number = std::str::from_utf8(name).ok().and_then(|name| name.parse::<u32>().ok());
        let node = match number {
            Some(pid) => PROCESSES + u64::from(pid),
            None => {
                let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
                let known = others.iter().position(|known| known == name);
                let index = known.unwrap_or_else(|| {
                    others.push(name.to_vec());
                    others.len() - 1
                });
                OTHERS + index as u64
            }
        };
        Some(Shown { name_us: if number.is_some() { PROCESS_US } else { FOREVER_US }, ..self.show(node)? })
    }

    /// The link with this number, if it is one.
    pub(crate) fn show(&self, node: u64) -> Option<Shown> {
        let size = self.target(node)?.len() as u64;
        Some(Shown { node, mode: LINK, size, kept_us: FOREVER_US, ..Shown::default() })
    }

    /// Where that leads.
    pub(crate) fn target(&self, node: u64) -> Option<Vec<u8>> {
        let name = match node {
            OTHERS.. => {
                let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
                others.get((node - OTHERS) as usize)?.clone()
            }
            PROCESSES.. => (node - PROCESSES).to_string().into_bytes(),
            _ => return None,
        };
        Some(self.at.join(std::ffi::OsStr::from_bytes(&name)).into_os_string().into_vec())
    }

    /// All names, but those of processes that are among `shown`. What they are is not told: some who look for directories would not follow a link, but look
    /// at what they are not told of.
    pub(crate) fn names(&self, shown: &[Pid]) -> Vec<Named> {
        let all = std::fs::read_dir(PROC.to_string()).into_iter().flatten().flatten();
        let native = all.map(|one| one.file_name().into_vec()).filter(|name| {
            let pid = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok()).map(Pid);
            !pid.is_some_and(|pid| shown.contains(&pid))
        });
        native.map(|name| Named { name, mode: 0 }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_the_native_ones() {
        let natives = Natives::new(Path::new("/run/native"));
        let me = std::process::id();
        let link = natives.look_up(me.to_string().as_bytes()).expect("I am there");
        assert_eq!(natives.target(link.node), Some(format!("/run/native/{me}").into_bytes()));
        assert_eq!((link.mode, link.name_us), (LINK, PROCESS_US));
        let [stat, again, meminfo] = ["stat", "stat", "meminfo"].map(|name| natives.look_up(name.as_bytes()));
        let [stat, again, meminfo] = [stat, again, meminfo].map(|shown| shown.expect("it is there").node);
        assert!(stat == again && stat != meminfo);
        assert_eq!(natives.target(meminfo), Some(b"/run/native/meminfo".to_vec()));
        assert_eq!(natives.look_up(b"no-such-name"), None);
        assert_eq!((natives.show(7), natives.target(OTHERS + 77)), (None, None));
    }

    #[test]
    fn who_is_shown_otherwise_is_no_link() {
        let natives = Natives::new(Path::new("/run/native"));
        let me = std::process::id() as i32;
        let has = |shown: &[Pid]| natives.names(shown).iter().any(|one| one.name == me.to_string().as_bytes());
        assert!(has(&[]) && !has(&[Pid(me)]));
        assert!(natives.names(&[]).iter().any(|one| one.name == b"meminfo" && one.mode == 0));
    }
}
