//! The ghosts' directories of the tree are bound onto their own in /proc. With a ghost, what is bound to it goes (linux: `proc_flush_pid`).
//!
//! This is what a process does for which there is a [`crate::binder`].

use crate::names::ALL_MACHINES;
use kern::proc::PROC;
use kern::stat::known;
use kern::{mount, sock, sys, view};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use tracing::debug;
use vocab::{Pid, Result};

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

/// What ends who binds: no process has this number.
pub(crate) const END: i32 = 0;
/// What is told for each packet, when all in it has been done.
pub(crate) const DONE: u8 = b'.';

/// The packets that tell of these.
pub(crate) fn packets(numbers: &[i32]) -> impl Iterator<Item = Vec<u8>> + '_ {
    numbers.chunks(AT_ONCE).map(|some| some.iter().flat_map(|number| number.to_ne_bytes()).collect())
}

/// What stands in mount tables for a tree that is being looked at in the whole: from where in it to where.
const WHOLE: [(&str, &str); 6] = [
    ("stat", "/proc/stat"),
    ("meminfo", "/proc/meminfo"),
    ("loadavg", "/proc/loadavg"),
    ("cpuinfo", "/proc/cpuinfo"),
    ("vmstat", "/proc/vmstat"),
    ("cpu", "/sys/devices/system/cpu"),
];

/// The calling process, which has one thread, goes where the other one is, and brings the tree that is mounted at `at`; with what is of all machines, if it is to.
///
/// # Errors
/// As [`view::enter`] and mount(2).
pub(crate) fn go(process: &OwnedFd, at: &Path, whole: bool) -> Result<()> {
    let tree = view::copy_of(at)?;
    view::enter(process.as_fd())?;
    // Of one before, which may have had no time to.
    sweep(at);
    view::attach(&tree, at)?;
    let all = WHOLE.iter().filter(|_| whole);
    // A machine may have none of these.
    let there = all.filter(|(_, to)| Path::new(to).exists());
    there.into_iter().try_for_each(|(from, to)| mount::bind(&at.join(ALL_MACHINES).join(from), Path::new(to)))
}

/// Binds what it is told, or takes it away, until it is told to end, and takes all away then; or until nobody tells it any more.
pub(crate) fn follow(line: &OwnedFd, at: &Path) {
    while let Some(numbers) = next(line.as_fd()) {
        for number in &numbers {
            let pid = Pid(number.abs());
            if *number == END {
                sweep(at);
                continue;
            }
            // What is there may be of a ghost before it, or of one that runs here now.
            clear(pid, at);
            if *number > 0 {
                if let Err(fault) = mount::bind(&at.join(pid.to_string()), &place(pid)) {
                    debug!(%pid, %fault, "it has ended");
                }
            }
        }
        if sock::send(line.as_fd(), &[DONE]).is_err() || numbers.contains(&END) {
            return;
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
    for place in mounts.lines().rev().filter_map(|line| bound(line, &source)) {
        let _ = mount::detach(Path::new(place));
    }
    while mount::detach(at).is_ok() {}
}

/// Where this line's mount is, if it is one of this source that was bound.
fn bound<'l>(line: &'l str, source: &str) -> Option<&'l str> {
    let (head, tail) = line.split_once(" - ")?;
    let mut tail = tail.split(' ');
    if tail.next() != Some("fuse") || tail.next() != Some(source) {
        return None;
    }
    let is_ours = |place: &&str| {
        let process = place.strip_prefix("/proc/").is_some_and(|name| name.parse::<i32>().is_ok());
        process || WHOLE.iter().any(|(_, whole)| whole == place)
    };
    head.split(' ').nth(4).filter(is_ours)
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
        for place in ["/proc/7", "/proc/stat", "/sys/devices/system/cpu"] {
            assert_eq!(bound(&line(place, "fuse", &ours), &ours), Some(place));
        }
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
