//! What keeps forks from taking numbers that are not this node's when every lease is used up: no number may be given out,
//! so forks must fail.
//!
//! The kernel has no lower bound for a wrap (per-namespace `pid_max` wraps to 300), so the bodies are put under a limit of tasks
//! (cgroups(7), the pids controller) that they are above already: fork, vfork and clone fail with EAGAIN, as at any other limit.

use kern::cgroup::{self, Claim, FENCE};
use kern::proc::Proc;
use std::collections::BTreeSet;
use std::fs;
use tracing::{error, info};
use vocab::{Fault, Kind, Pid, Result};

/// The limit, made when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    group: Option<Claim>,
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
            Some(group) => group.path(),
            None => self.group.insert(make()?).path(),
        };
        write(group, "pids.max", "0")?;
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

    /// A program has begun: the limit is for it too.
    pub(crate) fn enclose(&self, pid: Pid) {
        if let (Some(group), true) = (&self.group, self.up) {
            // Gone meanwhile is as good as inside.
            let _ = fs::write(group.path().join("cgroup.procs"), pid.to_string());
        }
    }

    /// Forks may go on.
    pub(crate) fn lower(&mut self) -> Result<()> {
        if let (Some(group), true) = (&self.group, self.up) {
            write(group.path(), "pids.max", "max")?;
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
fn make() -> Result<Claim> {
    let parent = cgroup::pids_own()?;
    cgroup::sweep(&parent, FENCE)?;
    let claim = cgroup::claim(&parent.join(format!("{FENCE}{:016x}", u64::from_ne_bytes(link::random::<8>()?))))?;
    let limits = || claim.path().join("pids.max").exists();
    let why = match limits() {
        true => return Ok(claim),
        false => cgroup::share_pids(&parent, claim.path()).err(),
    };
    if limits() {
        return Ok(claim);
    }
    cgroup::remove(claim.path())?;
    let missing = Fault::new(Kind::Unsupported, "limit the number of tasks: no pids controller");
    Err(why.unwrap_or(missing))
}

/// Removes the limits of agents that have ended.
pub(crate) fn sweep() {
    // Without a pids controller there are none.
    if let Ok(parent) = cgroup::pids_own() {
        let _ = cgroup::sweep(&parent, FENCE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let group = fence.group.as_ref().expect("made").path().to_owned();
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
        cgroup::remove(&group).expect("empty");
    }
}
