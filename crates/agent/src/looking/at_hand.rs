//! What the agent looks at by itself, since nobody can keep it waiting: where a process's links lead. Two processes need not be woken for that.

use super::entries::owner;
use kern::proc::Proc;
use vocab::Pid;
use wire::entry::{Content, Entry, Found};

const LINKS: [&str; 3] = ["exe", "cwd", "root"];
/// As st_mode (linux: `tid_base_stuff`, LNK).
const MODE: u32 = 0o120_777;

/// What is at this path of `pid`. `None`: it is for somebody else to look at, or to say what is wrong with it.
pub(crate) fn look(proc: &Proc, pid: Pid, path: &[u8]) -> Option<Found> {
    let name = LINKS.into_iter().find(|name| name.as_bytes() == path)?;
    let before = owner(proc, pid, &proc.status(pid).ok()?)?;
    let to = proc.link(pid, name).ok()?;
    // What it executes meanwhile may be another user's, and nobody can tell of which what was read is. Who gets rights by it is not dumpable (linux: `commit_creds`).
    let (uid, gid) = if proc.owner(pid, "stat").ok()? == before { before } else { (0, 0) };
    let entry = Entry { path: path.to_vec(), mode: MODE, content: Content::Link(to) };
    Some(Found { pid, uid, gid, entries: vec![entry] })
}

/// This of one of its files. `None`: it is gone.
pub(super) fn answer(proc: &Proc, pid: Pid, path: &[u8], content: Content) -> Option<Found> {
    let (uid, gid) = owner(proc, pid, &proc.status(pid).ok()?)?;
    Some(Found { pid, uid, gid, entries: vec![Entry { path: path.to_vec(), mode: 0, content }] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn links_are_at_hand_and_nothing_else_is() {
        let (proc, me) = (Proc::open("/proc").expect("procfs"), Pid(std::process::id() as i32));
        for name in LINKS {
            let found = look(&proc, me, name.as_bytes()).expect("mine");
            let to = std::fs::read_link(format!("/proc/self/{name}")).expect("mine");
            assert_eq!(found.entries[0].content, Content::Link(to.as_os_str().as_bytes().to_vec()));
            assert_eq!(Some((found.uid, found.gid)), owner(&proc, me, &proc.status(me).expect("mine")));
        }
        for other in ["stat", "fd", "cwd/etc", "maps", ""] {
            assert_eq!(look(&proc, me, other.as_bytes()), None, "{other}");
        }
        assert_eq!(look(&proc, Pid(0x3f_fff0), b"exe"), None);
    }
}
