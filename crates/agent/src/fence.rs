//! What keeps forks from taking numbers that are not this node's when every lease is used up: no number may be given out,
//! so forks must fail.
//!
//! The kernel has no lower bound for a wrap (per-namespace `pid_max` wraps to 300), so the bodies are put under a limit of tasks
//! (cgroups(7), the pids controller) that they are above already: fork, vfork and clone fail with EAGAIN, as at any other limit.

use kern::proc::Proc;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use tracing::{error, info};
use vocab::{Fault, Kind, Pid, Result};

/// The limit, made when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    group: Option<PathBuf>,
    up: bool,
}

impl Fence {
    pub(crate) fn is_up(&self) -> bool {
        self.up
    }

    /// No process may fork from now on, but init and those that `spared` names.
    ///
    /// # Errors
    /// `Unsupported` without a pids controller.
    pub(crate) fn raise(&mut self, proc: &Proc, spared: impl Fn(Pid) -> bool) -> Result<()> {
        let group = match &self.group {
            Some(group) => group.clone(),
            None => self.group.insert(make()?).clone(),
        };
        write(&group, "pids.max", "0")?;
        if !self.up {
            error!("leases: every number is used; forks fail until one is free");
        }
        self.up = true;
        // A fork may slip through while the others are put in, so until nobody is outside.
        let mut inside = BTreeSet::new();
        loop {
            let outside: Vec<Pid> =
                proc.pids()?.into_iter().filter(|p| *p != Pid::INIT && !spared(*p) && !inside.contains(p)).collect();
            if outside.is_empty() {
                return Ok(());
            }
            for pid in outside {
                // Gone meanwhile is as good as inside.
                let _ = fs::write(group.join("cgroup.procs"), pid.to_string());
                inside.insert(pid);
            }
        }
    }

    /// Forks may go on.
    pub(crate) fn lower(&mut self) -> Result<()> {
        if let (Some(group), true) = (&self.group, self.up) {
            write(group, "pids.max", "max")?;
            info!("leases: numbers are free again");
        }
        self.up = false;
        Ok(())
    }
}

fn write(group: &std::path::Path, file: &str, text: &str) -> Result<()> {
    let path = group.join(file);
    fs::write(&path, text).map_err(|e| Fault::io(&e, format!("write {text} to {}", path.display())))
}

/// A group of the pids controller, below the caller's own.
fn make() -> Result<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").map_err(|e| Fault::io(&e, "read /proc/self/cgroup"))?;
    let mounts = fs::read_to_string("/proc/self/mounts").map_err(|e| Fault::io(&e, "read /proc/self/mounts"))?;
    let missing = || Fault::new(Kind::Unsupported, "limit the number of tasks: no pids controller");
    let (root, own) = place(&groups, &mounts).ok_or_else(missing)?;
    let parent = PathBuf::from(format!("{root}{own}"));
    let path = parent.join(format!("shoal-fence.{:016x}", u64::from_ne_bytes(link::random::<8>()?)));
    kern::cgroup::make(&path)?;
    if path.join("pids.max").exists() {
        return Ok(path);
    }
    kern::cgroup::remove(&path)?;
    Err(missing())
}

/// Mount point and own group of the version 1 pids controller, or of the version 2 tree.
fn place(groups: &str, mounts: &str) -> Option<(String, String)> {
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
    let has_pids = |list: &str| list.split(',').any(|word| word == "pids");
    let first = mount(&|kind, options| kind == "cgroup" && has_pids(options)).zip(group(&has_pids));
    first.or_else(|| mount(&|kind, _| kind == "cgroup2").zip(group(&str::is_empty)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_is_found_in_both_versions() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/pids cgroup rw,relatime,pids 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let groups = "8:pids:/a\n0::/b\n";
        assert_eq!(place(groups, mounts), Some(("/sys/fs/cgroup/pids".into(), "/a".into())));
        let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        assert_eq!(place("0::/\n", mounts), Some(("/sys/fs/cgroup".into(), String::new())));
        assert_eq!(place("", mounts), None);
    }

    #[test]
    fn behind_the_fence_forks_fail_with_eagain_and_after_it_they_work() {
        use std::io::{BufRead, BufReader, Write};
        let script = "while read x; do (:) 2>/dev/null && echo yes || echo no; done";
        let mut command = std::process::Command::new("bash");
        // The test's own processes are spared, but this one.
        let command = command.args(["-c", script]).env("BASH_MAX_RETRIES", "0");
        let command = command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut shell = command.stderr(std::process::Stdio::null()).spawn().expect("bash");
        let mut answers = BufReader::new(shell.stdout.take().expect("piped")).lines();
        let mut ask = shell.stdin.take().expect("piped");
        let proc = Proc::open("/proc").expect("procfs");
        let me = Pid(shell.id() as i32);
        let mut fence = Fence { group: Some(make().expect("a pids controller")), up: false };
        let group = fence.group.clone().expect("made");
        write(&group, "cgroup.procs", &me.to_string()).expect("my child");
        writeln!(ask, "1").expect("it reads");
        assert_eq!(answers.next().expect("a line").expect("text"), "yes");
        fence.raise(&proc, |pid| pid != me).expect("root");
        assert!(fence.is_up());
        writeln!(ask, "2").expect("it reads");
        // bash tries again for some seconds before it says no: opening the fence answers it, and the kernel has counted.
        let denied = || fs::read_to_string(group.join("pids.events")).expect("a file").contains("max 0");
        while denied() {
            std::thread::yield_now();
        }
        fence.lower().expect("root");
        assert_eq!(answers.next().expect("a line").expect("text"), "yes");
        drop(ask);
        shell.wait().expect("my child");
        kern::cgroup::remove(&group).expect("empty");
    }
}
