//! One program on every node that forks many more: until all are seen, what they weigh, and until all are gone after Ctrl-C.

use crate::memory::Charged;
use rustix::process::{kill_process_group, Pid, Signal};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vocab::{Fault, Result};

/// Between two counts: a count of 15,000 takes a few milliseconds, and shall not be most of what the machine does.
const PAUSE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(40);

/// Prints milliseconds until all were seen, bytes for each, then waits for a line and prints milliseconds until all were gone.
/// A number that could not be had is `nan`, and what was seen instead goes to standard error.
pub(crate) fn storm(nodes: usize, forks: usize, program: &str) -> Result<bool> {
    let charged = Charged::new()?;
    let before = charged.bytes()?;
    let others = count()?;
    let wanted = nodes * (forks + 1);
    let start = Instant::now();
    let mut run = start_run(program, forks, &charged)?;
    let shown = until(start, |now| now >= others + wanted)?;
    println!("{shown}");
    println!("{}", (charged.bytes()? - before) / wanted as f64);
    println!("{}", ps()?.saturating_sub(others));
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    let group = i32::try_from(run.id()).ok().and_then(Pid::from_raw).ok_or_else(|| Fault::bug("a PID out of range"))?;
    let start = Instant::now();
    kill_process_group(group, Signal::INT).map_err(|e| Fault::sys(e.raw_os_error(), "kill(2) the group"))?;
    let gone = until_gone(start, others, &mut run)?;
    println!("{gone}");
    run.kill().map_err(|e| Fault::io(&e, "kill shoal run"))?;
    let _ = run.wait();
    Ok(true)
}

fn until_gone(start: Instant, others: usize, run: &mut Child) -> Result<f64> {
    until(start, |now| {
        // The first of them is our own child: it stays in /proc until it is waited for.
        let _ = run.try_wait();
        now <= others
    })
}

/// `shoal run` in a group of its own, as a shell starts a job, charged to `charged`.
fn start_run(program: &str, forks: usize, charged: &Charged) -> Result<Child> {
    let door = charged.door();
    Command::new("/bin/sh")
        .args(["-c", "echo $$ >\"$0\" && exec shoal run -a \"$1\" many \"$2\""])
        .arg(door)
        .args([program, &forks.to_string()])
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|e| Fault::io(&e, "start shoal run"))
}

/// Milliseconds from `start` until the number of processes is as wanted.
fn until(start: Instant, mut wanted: impl FnMut(usize) -> bool) -> Result<f64> {
    loop {
        let now = count()?;
        let took = start.elapsed();
        if wanted(now) {
            return Ok(took.as_secs_f64() * 1e3);
        }
        if took > PATIENCE {
            eprintln!("bench: {now} processes are there after {PATIENCE:?}");
            return Ok(f64::NAN);
        }
        std::thread::sleep(PAUSE);
    }
}

/// The processes in /proc.
fn count() -> Result<usize> {
    let entries = std::fs::read_dir("/proc").map_err(|e| Fault::io(&e, "read /proc"))?;
    let numbers =
        entries.flatten().filter(|e| e.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit));
    Ok(numbers.count())
}

/// The processes that the ordinary ps shows, without itself.
fn ps() -> Result<usize> {
    let shown = Command::new("ps").args(["-e", "--no-headers"]).output().map_err(|e| Fault::io(&e, "run ps"))?;
    Ok(shown.stdout.iter().filter(|byte| **byte == b'\n').count().saturating_sub(1))
}
