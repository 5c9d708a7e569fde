//! One program on every node that forks many more: until all are seen, what they weigh, and until all are gone after Ctrl-C.

use crate::memory::Charged;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vocab::{Fault, Result};

/// Between two looks at how many tasks there are. Looking is cheap; listing the processes is not, since it makes an inode for each, and the
/// kernel takes that out again when the process ends (linux: `proc_invalidate_siblings_dcache`).
const PAUSE: Duration = Duration::from_millis(5);
/// After which processes are listed though the number of tasks does not say that it is time.
const DOUBT: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(40);

/// Prints milliseconds until all were seen, bytes for each, then waits for a line and prints milliseconds until all were gone.
/// A number that could not be had is `nan`, and what was seen instead goes to standard error.
pub(crate) fn storm(nodes: usize, forks: usize, program: &str) -> Result<bool> {
    let charged = Charged::new()?;
    let before = charged.bytes()?;
    let (others, tasks_before) = (list()?, tasks()?);
    let wanted = nodes * (forks + 1);
    let start = Instant::now();
    let mut run = start_run(program, forks, &charged)?;
    let (shown, job) = until_shown(start, tasks_before + 2 * wanted, &others, wanted)?;
    println!("{shown}");
    println!("{}", (charged.bytes()? - before) / wanted as f64);
    println!("{}", ps()?.saturating_sub(others.len()));
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    let keyboard = run.stdin.as_mut().ok_or_else(|| Fault::bug("no pipe to script(1)"))?;
    let start = Instant::now();
    keyboard.write_all(b"\x03").map_err(|e| Fault::io(&e, "type Ctrl-C"))?;
    let gone = until_gone(start, job, &mut run);
    println!("{gone}");
    // Where it is there still; it is our own child.
    let _ = run.kill();
    let _ = run.wait();
    Ok(true)
}

/// `shoal run` on a terminal of its own (script(1)), so that Ctrl-C is the kernel's; charged to `charged`.
fn start_run(program: &str, forks: usize, charged: &Charged) -> Result<Child> {
    let command = format!("echo $$ >{} && exec shoal run -a {program} many {forks}", charged.door().display());
    Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|e| Fault::io(&e, "start script(1)"))
}

/// Milliseconds from `start` until `wanted` more than the `others` are listed, and those. They are listed when there are so many tasks, and now and
/// then.
fn until_shown(start: Instant, all: usize, others: &[i32], wanted: usize) -> Result<(f64, Vec<i32>)> {
    let mut listed = Instant::now();
    loop {
        if tasks()? >= all || listed.elapsed() > DOUBT {
            let mut job = list_apart()?;
            job.retain(|pid| !others.contains(pid));
            if job.len() >= wanted {
                return Ok((start.elapsed().as_secs_f64() * 1e3, job));
            }
            listed = Instant::now();
        }
        if start.elapsed() > PATIENCE {
            eprintln!("bench: only {} processes are there after {PATIENCE:?}", list()?.len());
            return Ok((f64::NAN, Vec::new()));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Milliseconds from `start` until none of `job` is in /proc any more.
fn until_gone(start: Instant, mut job: Vec<i32>, run: &mut Child) -> f64 {
    loop {
        // One of them is our own child, which stays in /proc until it is waited for.
        let _ = run.try_wait();
        while job.last().is_some_and(|pid| !exists(*pid)) {
            job.pop();
        }
        if job.is_empty() {
            return start.elapsed().as_secs_f64() * 1e3;
        }
        if start.elapsed() > PATIENCE {
            eprintln!("bench: process {:?} is there after {PATIENCE:?}", job.last());
            return f64::NAN;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Has that number not been waited for yet? No look at /proc.
fn exists(pid: i32) -> bool {
    rustix::process::Pid::from_raw(pid).is_some_and(|pid| rustix::process::getpgid(Some(pid)).is_ok())
}

/// The tasks of the whole machine, other namespaces included (proc_loadavg(5)): bodies and ghosts.
fn tasks() -> Result<usize> {
    let text = std::fs::read_to_string("/proc/loadavg").map_err(|e| Fault::io(&e, "read /proc/loadavg"))?;
    let total = text.split([' ', '/']).nth(4).and_then(|number| number.parse().ok());
    total.ok_or_else(|| Fault::refused(format!("/proc/loadavg is odd: {text}")))
}

/// The processes in /proc, from a mount of it that goes with its entries: what is seen is to end later. (And the one that looks, which is gone.)
fn list_apart() -> Result<Vec<i32>> {
    let own = std::env::current_exe().map_err(|e| Fault::io(&e, "find this program"))?;
    let out = Command::new("unshare").arg("--mount-proc").arg(own).args(["inside", "list"]).output();
    let out = out.map_err(|e| Fault::io(&e, "run unshare(1)"))?;
    let pids: Vec<i32> = String::from_utf8_lossy(&out.stdout).lines().filter_map(|line| line.parse().ok()).collect();
    Ok(pids.into_iter().filter(|pid| exists(*pid)).collect())
}

/// Prints the processes, one in a line.
pub(crate) fn print_list() -> Result<bool> {
    for pid in list()? {
        println!("{pid}");
    }
    Ok(true)
}

/// The processes in /proc.
fn list() -> Result<Vec<i32>> {
    let entries = std::fs::read_dir("/proc").map_err(|e| Fault::io(&e, "read /proc"))?;
    Ok(entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect())
}

/// The processes that the ordinary ps shows, without itself. It looks from a mount of /proc of its own, as in `crate::cpu`: how long the
/// kernel takes to forget what ps has seen is not to be measured.
fn ps() -> Result<usize> {
    let words = ["--mount-proc", "ps", "-e", "--no-headers"];
    let shown = Command::new("unshare").args(words).output().map_err(|e| Fault::io(&e, "run ps"))?;
    Ok(shown.stdout.iter().filter(|byte| **byte == b'\n').count().saturating_sub(1))
}
