//! Control groups, version 2 (cgroups(7)): a directory per group, so nothing here ends by itself. A group that must
//! not outlive its maker is marked with a lock on its directory ([`Claim`]): whose lock is free, nobody owns.

use crate::sys;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vocab::{Fault, Kind, Pid, Result};

/// Where the version 2 tree is mounted: on most machines `/sys/fs/cgroup`, beside version 1 often
/// `/sys/fs/cgroup/unified`.
///
/// # Errors
/// `Unsupported` where it is not mounted.
pub fn find_v2() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").map_err(|e| Fault::io(&e, "read /proc/self/mounts"))?;
    v2_of(&mounts).ok_or_else(|| Fault::new(Kind::Unsupported, "find the cgroup version 2 tree: it is not mounted"))
}

/// The mount point of the first line of type cgroup2 (proc_mounts(5): source, place, type, …).
fn v2_of(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place))
    })
}

/// How long what was killed in a group may take to end before the group is left to the next sweep.
const SWEEP_PATIENCE: Duration = Duration::from_secs(1);

/// What the names of groups begin with that limit the tasks of a node (and are nobody's when their claim is not held).
pub const FENCE: &str = "shoal-fence.";

/// The caller's own group in the tree of the pids controller, of version 1 or 2.
///
/// # Errors
/// `Unsupported` where there is none.
pub fn pids_own() -> Result<PathBuf> {
    own_of("pids")
}

/// The caller's own group in the tree of a controller, of version 1 or 2.
///
/// # Errors
/// `Unsupported` where there is none.
pub fn own_of(controller: &str) -> Result<PathBuf> {
    let read = |path: &str| fs::read_to_string(path).map_err(|e| Fault::io(&e, format!("read {path}")));
    let (groups, mounts) = (read("/proc/self/cgroup")?, read("/proc/self/mounts")?);
    let missing = || Fault::new(Kind::Unsupported, format!("find the caller's group: no {controller} controller"));
    let (root, own) = place(controller, &groups, &mounts).ok_or_else(missing)?;
    Ok(PathBuf::from(format!("{root}{own}")))
}

/// Mount point and own group of a version 1 controller, or of the version 2 tree.
fn place(controller: &str, groups: &str, mounts: &str) -> Option<(String, String)> {
    let mount = |wanted: &dyn Fn(&str, &str) -> bool| {
        mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, place, kind, options, ..] = words[..] else { return None };
            wanted(kind, options).then(|| place.to_owned())
        })
    };
    let group = |wanted: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let mut words = line.splitn(3, ':').skip(1);
            let (controllers, path) = (words.next()?, words.next()?);
            wanted(controllers).then(|| path.trim_end_matches('/').to_owned())
        })
    };
    let has_it = |list: &str| list.split(',').any(|word| word == controller);
    let first = mount(&|kind, options| kind == "cgroup" && has_it(options)).zip(group(&has_it));
    first.or_else(|| mount(&|kind, _| kind == "cgroup2").zip(group(&str::is_empty)))
}

/// Makes the group `path`; one that is there already is taken as it is.
pub fn make(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(Fault::io(&e, format!("make cgroup {}", path.display()))),
        _ => Ok(()),
    }
}

/// Lets the version 2 group `path`, just made below `parent`, limit tasks, though there are processes in `parent`: it becomes a threaded one, as the pids
/// controller can be (cgroups(7), "Thread mode"; the rule that only leaves have processes is for others). `parent` must limit nothing but tasks
/// and processors below it, and have no other groups below it that have processes. It can still be killed as a whole, `path` alone cannot.
///
/// # Errors
/// `Sys` where the groups above do not let `parent` have the controller (ENOENT: it is no word of its `cgroup.controllers`), or it cannot be a threaded
/// one (EOPNOTSUPP).
pub fn share_pids(parent: &Path, path: &Path) -> Result<()> {
    let root = find_v2()?;
    // Who may have it above need not have been asked yet: they have no processes, or have it already.
    let mut above: Vec<&Path> = parent.ancestors().skip(1).take_while(|group| group.starts_with(&root)).collect();
    above.reverse();
    for group in above {
        let _ = fs::write(group.join("cgroup.subtree_control"), "+pids");
    }
    for (file, word) in [(path.join("cgroup.type"), "threaded"), (parent.join("cgroup.subtree_control"), "+pids")] {
        fs::write(&file, word).map_err(|e| Fault::io(&e, format!("write {word} to {}", file.display())))?;
    }
    Ok(())
}

/// Puts process `pid` with all its threads into the group `path`; [`Pid::NONE`] means the caller.
pub fn enter(path: &Path, pid: Pid) -> Result<()> {
    let who = if pid == Pid::NONE { "the calling process".to_owned() } else { format!("process {pid}") };
    fs::write(path.join("cgroup.procs"), pid.0.to_string())
        .map_err(|e| Fault::io(&e, format!("put {who} into cgroup {}", path.display())))
}

/// Kills every process in the group `path` and in the groups below it with SIGKILL (cgroup.kill, Linux 5.14).
/// They may not have ended yet when this returns.
pub fn kill(path: &Path) -> Result<()> {
    fs::write(path.join("cgroup.kill"), "1").map_err(|e| Fault::io(&e, format!("kill cgroup {}", path.display())))
}

/// Is any process, zombies left out, in the group `path` or in one below it?
pub fn populated(path: &Path) -> Result<bool> {
    let events = fs::read_to_string(path.join("cgroup.events"))
        .map_err(|e| Fault::io(&e, format!("read the events of cgroup {}", path.display())))?;
    Ok(events.lines().any(|line| line == "populated 1"))
}

/// Removes the group `path` and the groups below it. One that is gone already is no error.
///
/// # Errors
/// EBUSY while a process is in one of them.
pub fn remove(path: &Path) -> Result<()> {
    let below = match fs::read_dir(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|e| Fault::io(&e, format!("list cgroup {}", path.display())))?,
    };
    for entry in below.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path())?;
        }
    }
    match fs::remove_dir(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Fault::io(&e, format!("remove cgroup {}", path.display()))),
        _ => Ok(()),
    }
}

/// The processes in the group `path` and in those below it, as this PID namespace numbers them; those that end
/// meanwhile may be missing.
pub fn processes(path: &Path) -> Vec<Pid> {
    let here = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<Pid> = here.lines().filter_map(|line| line.parse().ok()).map(Pid).collect();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            pids.extend(processes(&entry.path()));
        }
    }
    pids
}

/// Waits until no process is in the group `path` or in one below it. `false` when that is not so at `deadline`.
pub fn wait_empty(path: &Path, deadline: Instant) -> Result<bool> {
    let doing = || format!("watch cgroup {}", path.display());
    let mut events = File::open(path.join("cgroup.events")).map_err(|e| Fault::io(&e, doing()))?;
    loop {
        // The read arms the notification: a change after it makes the poll return (linux: kernfs_fop_poll).
        let mut text = String::new();
        events.seek(SeekFrom::Start(0)).map_err(|e| Fault::io(&e, doing()))?;
        events.read_to_string(&mut text).map_err(|e| Fault::io(&e, doing()))?;
        if text.lines().any(|line| line == "populated 0") {
            return Ok(true);
        }
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        if left == 0 {
            return Ok(false);
        }
        let mut poll = libc::pollfd { fd: events.as_raw_fd(), events: libc::POLLPRI, revents: 0 };
        // SAFETY: one live pollfd, as the count says. EINTR only makes the loop look again.
        unsafe { libc::poll(&mut poll, 1, i32::try_from(left).unwrap_or(i32::MAX)) };
    }
}

/// A group made by [`claim`]. Whoever has a copy of its descriptor (also by fork) keeps the claim alive.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    _lock: File,
}

impl Claim {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes the group `path`, a name that nobody else takes, and locks its directory, so that [`sweep`] leaves it alone as long as the lock is held.
///
/// A sweep may be first; then the group has another name, with a number behind `path`: a second sweep may have locked the one that the first
/// has removed, and removes by name.
///
/// # Errors
/// `Refused` when the group is there already and somebody claims it.
pub fn claim(path: &Path) -> Result<Claim> {
    let first = path;
    let mut path = path.to_owned();
    for turn in 1.. {
        make(&path)?;
        if let Some(lock) = lock_claim(&path)? {
            // It may have been removed between the two steps; then the lock is on a directory without a name.
            let inode = |metadata: fs::Metadata| metadata.ino();
            if fs::metadata(&path).map(inode).ok() == lock.metadata().map(inode).ok() {
                return Ok(Claim { path, _lock: lock });
            }
        }
        path = PathBuf::from(format!("{}.{turn}", first.display()));
    }
    Err(Fault::bug("numbers have ended"))
}

/// Locks the group for good. A sweep may have found it before, and has a shared lock until it has removed it: that one is waited
/// for. `None` when the group is gone.
fn lock_claim(path: &Path) -> Result<Option<File>> {
    if let Found::Locked(lock) = try_lock(path, libc::LOCK_EX)? {
        return Ok(Some(lock));
    }
    match try_lock(path, libc::LOCK_SH)? {
        Found::Gone => Ok(None),
        Found::Claimed => Err(Fault::refused(format!("make cgroup {}: it is in use", path.display()))),
        Found::Locked(lock) => loop {
            // Converting drops the shared lock first (flock(2)).
            // SAFETY: takes a descriptor and a number.
            match sys::check(unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) }.into()) {
                Ok(_) => return Ok(Some(lock)),
                Err(libc::EINTR) => {}
                Err(errno) => return Err(Fault::sys(errno, format!("lock {}", path.display()))),
            }
        },
    }
}

/// Removes every group directly below `parent` whose name begins with `prefix` and whose claim nobody holds any more,
/// after killing what is in it. What cannot be removed (yet) stays for the next sweep.
pub fn sweep(parent: &Path, prefix: &str) -> Result<()> {
    let entries = fs::read_dir(parent).map_err(|e| Fault::io(&e, format!("list cgroup {}", parent.display())))?;
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        let path = entry.path();
        if let Ok(Found::Locked(_lock)) = try_lock(&path, libc::LOCK_SH) {
            // All may fail because another sweep was first.
            let _ = kill(&path);
            let _ = wait_empty(&path, Instant::now() + SWEEP_PATIENCE);
            let _ = remove(&path);
        }
    }
    Ok(())
}

/// What an attempt to lock a group found.
enum Found {
    /// The locked directory.
    Locked(File),
    /// Somebody else has a lock that excludes this one.
    Claimed,
    Gone,
}

/// Whoever claims a group has it exclusively (`LOCK_EX`), who only sweeps, shared (`LOCK_SH`): so the two can be told from each other.
fn try_lock(path: &Path, how: i32) -> Result<Found> {
    let Ok(directory) = File::open(path) else { return Ok(Found::Gone) };
    // SAFETY: takes a descriptor and a number.
    match sys::check(unsafe { libc::flock(directory.as_raw_fd(), how | libc::LOCK_NB) }.into()) {
        Ok(_) => Ok(Found::Locked(directory)),
        Err(libc::EWOULDBLOCK) => Ok(Found::Claimed),
        Err(errno) => Err(Fault::sys(errno, format!("lock {}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_is_found_in_both_versions() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/pids cgroup rw,relatime,pids 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let groups = "8:pids:/a\n0::/b\n";
        assert_eq!(place("cpu", groups, mounts), Some(("/sys/fs/cgroup/unified".into(), "/b".into())));
        assert_eq!(place("pids", groups, mounts), Some(("/sys/fs/cgroup/pids".into(), "/a".into())));
        let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        assert_eq!(place("pids", "0::/\n", mounts), Some(("/sys/fs/cgroup".into(), String::new())));
        assert_eq!(place("pids", "", mounts), None);
    }

    #[test]
    fn the_tree_is_found_beside_version_1_too() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(v2_of(mounts), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(v2_of("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn a_sweep_takes_what_nobody_claims() {
        let root = find_v2().expect("a version 2 tree");
        let prefix = format!("shoal-test.{}.", std::process::id());
        let mine = claim(&root.join(format!("{prefix}a"))).expect("nobody has it");
        let other = root.join(format!("{prefix}b"));
        make(&other).expect("a new group");
        make(&other.join("inner")).expect("a new group");
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep is there");
        enter(&other.join("inner"), Pid(child.id() as i32)).expect("my child");
        assert_eq!(populated(&other), Ok(true));
        assert!(claim(mine.path()).is_err());
        sweep(&root, &prefix).expect("a sweep");
        child.wait().expect("killed by the sweep");
        sweep(&root, &prefix).expect("a sweep");
        assert!(!other.exists());
        assert!(mine.path().exists());
        let path = mine.path().to_owned();
        drop(mine);
        // Processes that other tests have just forked still have the claim, for a moment.
        let end = Instant::now() + SWEEP_PATIENCE;
        while path.exists() {
            assert!(Instant::now() < end, "it is still there");
            sweep(&root, &prefix).expect("a sweep");
        }
    }

    #[test]
    fn a_claim_waits_for_the_sweep_that_was_first() {
        let path = find_v2().expect("a version 2 tree").join(format!("shoal-test-both.{}", std::process::id()));
        make(&path).expect("a new group");
        let Ok(Found::Locked(sweeps)) = try_lock(&path, libc::LOCK_SH) else { panic!("nobody has it") };
        let claims = std::thread::spawn({
            let path = path.clone();
            move || claim(&path)
        });
        let inode = format!(":{} ", fs::metadata(&path).expect("it is there").ino());
        let waits = |line: &str| line.contains("-> FLOCK") && line.contains(&inode);
        while !claims.is_finished() && !fs::read_to_string("/proc/locks").expect("procfs").lines().any(waits) {
            std::thread::yield_now();
        }
        remove(&path).expect("an empty group");
        drop(sweeps);
        let mine = claims.join().expect("it ends").expect("nobody claims it");
        assert!(mine.path().exists() && claim(mine.path()).is_err());
        // As a second sweep would that had locked it before the first removed it.
        remove(&path).expect("it is gone");
        assert!(mine.path().exists());
        remove(mine.path()).expect("an empty group");
    }

    #[test]
    fn an_emptied_group_is_noticed() {
        let path = find_v2().expect("a version 2 tree").join(format!("shoal-test-empty.{}", std::process::id()));
        make(&path).expect("a new group");
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep is there");
        enter(&path, Pid(child.id() as i32)).expect("my child");
        let soon = Instant::now() + std::time::Duration::from_millis(20);
        assert_eq!(wait_empty(&path, soon), Ok(false));
        kill(&path).expect("a live group");
        let late = Instant::now() + std::time::Duration::from_secs(10);
        assert_eq!(wait_empty(&path, late), Ok(true));
        child.wait().expect("my child");
        remove(&path).expect("an empty group");
    }
}
