//! The ghosts' directories of the tree are bound onto their own in /proc. With a ghost, what is bound to it goes (linux: `proc_flush_pid`).
//!
//! To bind is to look into the tree, and who looks into it waits for who serves it, also when that one is killed. So a process of its own does it, which has no
//! descriptor of the tree's: when the one that serves ends, the tree does, and nobody waits any more.

use kern::ns::{self, Child, Forked, Namespaces};
use kern::proc::PROC;
use kern::sock::{self, Kind};
use kern::stat::known;
use kern::{mount, own, pidfd, sys, wait};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use tracing::debug;
use vocab::{Fault, Pid, Result, Sig};

/// Numbers in a packet.
const AT_ONCE: usize = 1024;
const NUMBER: usize = size_of::<i32>();

/// What mounts of the tree at `at` are told by (proc_pid_mountinfo(5)): another front end of this machine has another place.
pub(crate) fn source(at: &Path) -> String {
    // Other bytes are written otherwise there.
    let plain = |c: char| if c.is_ascii_graphic() && !matches!(c, '\\' | '#') { c } else { '_' };
    let at: String = at.to_string_lossy().chars().map(plain).collect();
    format!("shoal-proc:{at}")
}

fn place(pid: Pid) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// The process that binds.
#[derive(Debug)]
pub(crate) struct Binder {
    line: OwnedFd,
    child: Child,
}

impl Binder {
    /// Starts it, for the tree that will be mounted at `at`, from a process that has one thread, and no tree.
    ///
    /// # Errors
    /// As [`ns::fork`].
    pub(crate) fn start(at: &Path) -> Result<Binder> {
        let (line, its) = sock::socketpair(Kind::SeqPacket)?;
        let parent = Pid(std::process::id() as i32);
        match ns::fork(Namespaces::empty())? {
            Forked::Child => {
                drop(line);
                let begun = own::die_with_parent(Sig::KILL, parent).and_then(|()| ns::set_name("shoal:binds"));
                if let Err(fault) = begun {
                    debug!(%fault, "nobody binds");
                    ns::exit(1);
                }
                follow(&its, at);
                ns::exit(0);
            }
            Forked::Parent(child) => Ok(Binder { line, child }),
        }
    }

    /// Another descriptor over which it is told.
    ///
    /// # Errors
    /// `Sys` when there is none to be had.
    pub(crate) fn line(&self) -> Result<Binds> {
        self.line.try_clone().map(Binds).map_err(|e| Fault::io(&e, "duplicate a socket"))
    }

    /// Ends it, while somebody serves the tree still.
    pub(crate) fn end(self) {
        // Ended already is as good.
        let _ = pidfd::kill(self.child.pidfd.as_fd(), Sig::KILL);
        let _ = wait::ended(self.child.pid);
    }
}

/// Who tells it.
#[derive(Debug)]
pub(crate) struct Binds(OwnedFd);

impl Binds {
    /// What is bound onto these is taken away, then these are bound.
    ///
    /// # Errors
    /// `Gone` when nobody does.
    pub(crate) fn tell(&self, gone: &[Pid], new: &[Pid]) -> Result<()> {
        let all: Vec<i32> = gone.iter().map(|pid| -pid.0).chain(new.iter().map(|pid| pid.0)).collect();
        for some in all.chunks(AT_ONCE) {
            let bytes: Vec<u8> = some.iter().flat_map(|number| number.to_ne_bytes()).collect();
            sock::send(self.0.as_fd(), &bytes).map_err(|_| Fault::gone("who binds directories"))?;
        }
        Ok(())
    }
}

/// Binds and takes away until nobody tells it to any more. Nobody waits for it.
fn follow(line: &OwnedFd, at: &Path) {
    // Or each would be seen, and cost, in every mount namespace of the machine.
    if let Err(fault) = mount::make_private(Path::new("/proc")) {
        debug!(%fault, "ghosts are seen in other mount namespaces too");
    }
    while let Some(numbers) = next(line.as_fd()) {
        for number in numbers {
            let pid = Pid(number.abs());
            // What is there may be of a ghost before it, or of one that runs here now.
            clear(pid, at);
            if number > 0 {
                if let Err(fault) = mount::bind(&at.join(pid.to_string()), &place(pid)) {
                    debug!(%pid, %fault, "it has ended");
                }
            }
        }
    }
}

fn next(line: BorrowedFd<'_>) -> Option<Vec<i32>> {
    let mut packet = vec![0; AT_ONCE * NUMBER];
    loop {
        match sys::read(line, &mut packet) {
            Ok(0) => return None,
            Ok(length) => {
                let number = |bytes: &[u8]| Some(i32::from_ne_bytes(bytes.try_into().ok()?));
                return packet[..length].chunks_exact(NUMBER).map(number).collect();
            }
            Err(kern::poll::EINTR) => {}
            Err(_) => return None,
        }
    }
}

/// Takes away what of the tree lies there.
fn clear(pid: Pid, at: &Path) {
    let ours = known(at).map(|tree| tree.dev);
    let there = || known(&place(pid)).map(|there| there.dev);
    while ours.is_some() && there() == ours && mount::detach(&place(pid)).is_ok() {}
}

/// Takes away all that was bound, by this process or one before, and the tree, which is mounted at `at`.
pub(crate) fn sweep(at: &Path) {
    let mounts = std::fs::read_to_string(format!("{PROC}/self/mountinfo")).unwrap_or_default();
    let source = source(at);
    // What came last lies on top.
    for pid in mounts.lines().rev().filter_map(|line| bound(line, &source)) {
        let _ = mount::detach(&place(pid));
    }
    while mount::detach(at).is_ok() {}
}

/// The process on whose directory this line's mount is, if it is one of this source.
fn bound(line: &str, source: &str) -> Option<Pid> {
    let (head, tail) = line.split_once(" - ")?;
    let mut tail = tail.split(' ');
    if tail.next() != Some("fuse") || tail.next() != Some(source) {
        return None;
    }
    head.split(' ').nth(4)?.strip_prefix("/proc/")?.parse().ok().map(Pid)
}

/// The group for which processes are in /proc beside their users, if they are hidden from others there (hidepid, proc(5)).
pub(crate) fn hidden_from_all_but() -> Option<u32> {
    let mounts = std::fs::read_to_string(format!("{PROC}/self/mountinfo")).unwrap_or_default();
    hides(&mounts)
}

fn hides(mountinfo: &str) -> Option<u32> {
    let proc = mountinfo.lines().rev().find_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let options = tail.strip_prefix("proc ")?.split(' ').nth(1)?;
        (head.split(' ').nth(4) == Some("/proc")).then_some(options)
    })?;
    let option = |name: &str| proc.split(',').find_map(|option| option.strip_prefix(name));
    let hidden = option("hidepid=").is_some_and(|how| !matches!(how, "0" | "off"));
    hidden.then(|| option("gid=").and_then(|gid| gid.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_ours_are_known() {
        let ours = source(Path::new("/run/my shoal/proc"));
        assert_eq!(ours, "shoal-proc:/run/my_shoal/proc");
        let line = |at: &str, kind: &str, source: &str| format!("40 30 0:50 /7 {at} rw,nosuid - {kind} {source} rw");
        assert_eq!(bound(&line("/proc/7", "fuse", &ours), &ours), Some(Pid(7)));
        assert_eq!(bound(&line("/proc/7", "fuse", &source(Path::new("/run/other/proc"))), &ours), None);
        assert_eq!(bound(&line("/proc", "proc", &ours), &ours), None);
        assert_eq!(bound(&line("/run/shoal/proc", "fuse", &ours), &ours), None);
        assert_eq!(bound("half a line", &ours), None);
    }

    #[test]
    fn a_proc_that_hides_processes_is_known() {
        let line = |options: &str| format!("22 1 0:21 / /proc rw,nosuid shared:5 - proc proc {options}\n");
        for (options, hides_from) in [
            ("rw", None),
            ("rw,hidepid=off", None),
            ("rw,hidepid=invisible", Some(0)),
            ("rw,gid=27,hidepid=2", Some(27)),
        ] {
            let other = "30 22 0:40 / /run/native rw - proc proc rw,hidepid=noaccess,gid=9\n";
            assert_eq!(hides(&(line(options) + other)), hides_from, "{options}");
        }
    }
}
