//! Processor time that the processes of a sandbox have used.

use crate::place::parse;
use std::collections::HashMap;
use std::process::Command;
use vocab::{Fault, Result};

/// Milliseconds used so far by all shoal processes below `root`.
///
/// Whoever looks at a process in /proc leaves entries in that mount's cache, and the kernel takes them out one by one when the process ends (linux:
/// `proc_invalidate_siblings_dcache`): 25 us for each of 30,000. So the look is from a mount of /proc of its own, which goes with it.
///
/// # Errors
/// `Gone` when there are none; what keeps unshare(1) from running.
pub(crate) fn look(root: u32) -> Result<f64> {
    let own = std::env::current_exe().map_err(|e| Fault::io(&e, "find this program"))?;
    let out = Command::new("unshare")
        .arg("--mount-proc")
        .arg(own)
        .args(["inside", "cpu", &root.to_string()])
        .output()
        .map_err(|e| Fault::io(&e, "run unshare(1)"))?;
    match out.status.success() {
        true => parse(&String::from_utf8_lossy(&out.stdout)),
        false => Err(Fault::gone(String::from_utf8_lossy(&out.stderr).trim().to_owned())),
    }
}

/// Prints that number, from this mount of /proc.
pub(crate) fn print(root: u32) -> Result<bool> {
    println!("{}", below(root)?);
    Ok(true)
}

/// Milliseconds of processor time used so far by all shoal processes below `root`: daemons, agents (which run a copy), ghosts.
fn below(root: u32) -> Result<f64> {
    let entries = std::fs::read_dir("/proc").map_err(|e| Fault::io(&e, "read /proc"))?;
    let pids: Vec<u32> = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    let stats: HashMap<u32, Vec<String>> = pids.into_iter().filter_map(|pid| Some((pid, stat(pid)?))).collect();
    let parent = |pid: u32| stats.get(&pid)?.get(1)?.parse::<u32>().ok();
    let below = |pid: u32| std::iter::successors(Some(pid), |pid| parent(*pid)).any(|pid| pid == root);
    let ours = |pid: u32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("shoal"));
    let ns: u64 = stats.keys().filter(|pid| below(**pid) && ours(**pid)).map(|pid| cpu_ns(*pid)).sum();
    if ns == 0 {
        return Err(Fault::gone(format!("no process of the sandbox {root} is there")));
    }
    Ok(ns as f64 / 1e6)
}

/// The fields after the name.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

/// Nanoseconds on a processor, of all its threads: the first number of schedstat (linux: Documentation/scheduler/sched-stats.rst). utime and stime of
/// proc_pid_stat(5) miss two thirds of what a daemon uses that works for 100 us now and then.
pub(crate) fn cpu_ns(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let one = |task: std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("schedstat")).ok()?.split_whitespace().next()?.parse::<u64>().ok()
    };
    tasks.filter_map(one).sum()
}
