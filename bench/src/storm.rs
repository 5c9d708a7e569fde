//! One program on every node that forks many more: until all are seen, what they weigh, and until all are gone after Ctrl-C.

use crate::memory::Charged;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vocab::{Fault, Result};

/// At least so long between two counts. A count takes time in proportion to what is counted; the pause is at least four times that, so
/// that counting is not most of what the machine does.
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
    let keyboard = run.stdin.as_mut().ok_or_else(|| Fault::bug("no pipe to script(1)"))?;
    let start = Instant::now();
    keyboard.write_all(b"\x03").map_err(|e| Fault::io(&e, "type Ctrl-C"))?;
    let gone = until_gone(start, others, &mut run)?;
    println!("{gone}");
    // Where it is there still; it is our own child.
    let _ = run.kill();
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

/// Milliseconds from `start` until the number of processes is as wanted.
fn until(start: Instant, mut wanted: impl FnMut(usize) -> bool) -> Result<f64> {
    loop {
        let began = start.elapsed();
        let now = count()?;
        let took = start.elapsed();
        if wanted(now) {
            return Ok(took.as_secs_f64() * 1e3);
        }
        if took > PATIENCE {
            eprintln!("bench: {now} processes are there after {PATIENCE:?}");
            return Ok(f64::NAN);
        }
        std::thread::sleep(PAUSE.max((took - began) * 4));
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
