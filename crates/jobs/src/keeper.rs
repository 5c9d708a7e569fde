//! The keeper of one job: the parent of its command, and of all orphans below that. It outlives the batch system and the daemon, and ends when nothing of the job
//! lives any more on any machine: for each process elsewhere the front end has a ghost, which is below the keeper as the process itself would be.
//!
//! SIGTERM to the keeper ends the job: all of its processes get SIGTERM, and SIGKILL [`GRACE_US`] later. So does the end of the requested time. The end of the command
//! is the end of the job: what it leaves gets SIGKILL at once.

use crate::record::{Job, Status};
use crate::{start, store};
use kern::clock::monotonic_us;
use kern::init::SignalFd;
use kern::ns::{self, Forked, Namespaces};
use kern::poll::{poll_for, Ready};
use kern::proc::Proc;
use kern::{mount, own, pidfd, sys, wait};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;
use tracing::info;
use vocab::{Exit, Fault, Pid, Result, Sig};

/// Between SIGTERM and SIGKILL, in microseconds.
const GRACE_US: u64 = 5_000_000;
/// Between two rounds of SIGKILL, the first and the longest, in microseconds. A ghost ends only when its process elsewhere has.
const PAUSES_US: (u64, u64) = (10_000, 500_000);
/// Out of 1000: the kernel kills others first when memory runs out.
const OOM_SCORE: &str = "-900";

/// Keeps the job of this directory until it has ended, unless another process does or has done so.
///
/// # Errors
/// What kept it from beginning, or from telling how the job has ended.
pub fn keep(directory: &Path) -> Result<()> {
    let _its_own_already = ns::new_session();
    leave_descriptors()?;
    let job = store::read_job(directory)?;
    ns::set_name(format!("shoal:job {}", job.id))?;
    // Where that is not allowed, the keeper is one among others.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    let Some(_lock) = store::lock(directory)? else { return Ok(()) };
    if !store::begin(directory)? {
        return Ok(());
    }
    let status = run(&job).unwrap_or_else(|fault| Status { fault: Some(fault), ..Status::default() });
    info!(job = job.id, ?status, "a job has ended");
    store::leave(directory, &status)
}

/// Closes what the daemon and the batch system pass on to programs of theirs, a procfs each: the command is to have nothing of it.
fn leave_descriptors() -> Result<()> {
    own::unshare_descriptors([std::io::stdin().as_fd(), std::io::stderr().as_fd()], true)?;
    // Takes number 1, the lowest that is free, for as long as the process lives.
    let output = File::options().write(true).open("/dev/null").map_err(|e| Fault::io(&e, "open /dev/null"))?;
    let _number = output.into_raw_fd();
    Ok(())
}

fn run(job: &Job) -> Result<Status> {
    own::take_orphans()?;
    let signals = SignalFd::new(&[Sig::CHLD, Sig::TERM])?;
    // A procfs that asks no daemon.
    let proc = Proc::from_dir(mount::detached("proc")?);
    let (said, says) = sys::pipe()?;
    let keeper = Pid(std::process::id() as i32);
    let command = match ns::fork(Namespaces::empty())? {
        Forked::Parent(child) => child.pid,
        Forked::Child => {
            let (fault, code) = start::become_command(job, keeper);
            let bytes = minicbor::to_vec(&fault).unwrap_or_default();
            // The keeper reads the fault after the end of this process.
            let _ = sys::write(says.as_fd(), &bytes);
            ns::exit(code)
        }
    };
    drop(says);
    info!(job = job.id, uid = job.uid(), nodes = %start::shown(job), "a job begins");
    let limit_us = job.submission.seconds.saturating_mul(1_000_000).saturating_add(monotonic_us());
    let mut keeping = Keeping { proc, keeper, signals, command, limit_us, exit: None, late: false, phase: Phase::Runs };
    keeping.run()?;
    Ok(Status { exit: keeping.exit, late: keeping.late, fault: fault_of(&said) })
}

/// Why the command could not be started, if its process has said so.
fn fault_of(said: &OwnedFd) -> Option<Fault> {
    let mut bytes = vec![0; 64 * 1024];
    let count = sys::read_now(said.as_fd(), &mut bytes).unwrap_or(0);
    minicbor::decode(&bytes[..count]).ok()
}

/// How far the job's end is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Runs,
    /// All have had SIGTERM, and get SIGKILL at this time (monotonic).
    Asked(u64),
    /// All get SIGKILL, again and again, after so many microseconds.
    Kills(u64),
}

struct Keeping {
    proc: Proc,
    keeper: Pid,
    signals: SignalFd,
    command: Pid,
    /// Monotonic.
    limit_us: u64,
    exit: Option<Exit>,
    late: bool,
    phase: Phase,
}

impl Keeping {
    /// Until no child is left, hence no process of the job.
    fn run(&mut self) -> Result<()> {
        loop {
            let mut asked = false;
            while let Some(sig) = self.signals.take()? {
                asked |= sig == Sig::TERM;
            }
            if !self.reap() {
                return Ok(());
            }
            let due_us = self.act(asked, monotonic_us())?;
            let patience = Duration::from_micros(due_us.saturating_sub(monotonic_us()));
            // Interrupted, it goes round.
            let _ = poll_for(&[(self.signals.as_fd(), Ready::READ)], Some(patience));
        }
    }

    /// False: no child is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait::any() {
                Ok(Some(waited)) => match waited.change {
                    wait::Change::Ended(exit) if waited.pid == self.command => self.exit = Some(exit),
                    _ => {}
                },
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Does what is due, and says when something is due next.
    fn act(&mut self, asked: bool, now_us: u64) -> Result<u64> {
        match self.phase {
            Phase::Runs if self.exit.is_some() => self.phase = Phase::Kills(PAUSES_US.0),
            Phase::Runs if asked || now_us >= self.limit_us => {
                self.late = !asked;
                self.signal(&[Sig::TERM, Sig::CONT])?;
                self.phase = Phase::Asked(now_us + GRACE_US);
            }
            Phase::Asked(until_us) if now_us >= until_us => self.phase = Phase::Kills(PAUSES_US.0),
            _ => {}
        }
        match self.phase {
            Phase::Runs => Ok(self.limit_us),
            Phase::Asked(until_us) => Ok(until_us),
            Phase::Kills(pause_us) => {
                self.signal(&[Sig::KILL])?;
                self.phase = Phase::Kills(PAUSES_US.1.min(2 * pause_us));
                Ok(now_us + pause_us)
            }
        }
    }

    fn signal(&self, signals: &[Sig]) -> Result<()> {
        let below = below(self.keeper, &self.parents()?);
        for pid in &below {
            let Ok(handle) = pidfd::open(*pid) else { continue };
            // The number may have become another process's; the handle is of who has it now.
            let is_ours = self.proc.parent(*pid).is_ok_and(|parent| parent == self.keeper || below.contains(&parent));
            for sig in signals.iter().filter(|_| is_ours) {
                // A process that has ended needs none.
                let _ = pidfd::kill(handle.as_fd(), *sig);
            }
        }
        Ok(())
    }

    /// All processes of this machine, each with its parent.
    fn parents(&self) -> Result<Vec<(Pid, Pid)>> {
        let pids = self.proc.pids()?;
        Ok(pids.into_iter().filter_map(|pid| self.proc.parent(pid).ok().map(|parent| (pid, parent))).collect())
    }
}

/// All descendants of `root`.
fn below(root: Pid, parents: &[(Pid, Pid)]) -> BTreeSet<Pid> {
    let mut children: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
    for (pid, parent) in parents {
        children.entry(*parent).or_default().push(*pid);
    }
    let (mut found, mut next) = (BTreeSet::new(), vec![root]);
    while let Some(at) = next.pop() {
        next.extend(children.remove(&at).into_iter().flatten().filter(|pid| found.insert(*pid)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_at_any_depth_and_nobody_else() {
        let parents =
            [(2, 1), (3, 1), (4, 2), (5, 4), (6, 3), (9, 7), (7, 9)].map(|(pid, parent)| (Pid(pid), Pid(parent)));
        let found = |root| below(Pid(root), &parents).into_iter().map(|pid| pid.0).collect::<Vec<_>>();
        assert_eq!(found(2), [4, 5]);
        assert_eq!(found(1), [2, 3, 4, 5, 6]);
        assert_eq!(found(5), [0i32; 0]);
        // A list that was read while it changed may have a circle.
        assert_eq!(found(9), [7, 9]);
    }
}
