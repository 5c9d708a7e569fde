//! One program on every node that forks many more: until all are seen, what they weigh, and until all are gone after Ctrl-C.

use crate::memory::Charged;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vocab::{Fault, Result};

/// Between two looks at how many tasks there are. Looking is cheap; counting the processes is not, since it makes an inode for each.
const PAUSE: Duration = Duration::from_millis(5);
/// After which processes are counted though the number of tasks does not say that it is time.
const DOUBT: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(40);

/// Prints milliseconds until all were seen, bytes for each, then waits for a line and prints milliseconds until all were gone.
/// A number that could not be had is `nan`, and what was seen instead goes to standard error.
pub(crate) fn storm(nodes: usize, forks: usize, program: &str) -> Result<bool> {
    let charged = Charged::new()?;
    let before = charged.bytes()?;
    let (others, tasks_before) = (count()?, tasks()?);
    let wanted = nodes * (forks + 1);
    let start = Instant::now();
    let mut run = start_run(program, forks, &charged)?;
    let all = tasks_before + 2 * wanted;
    let shown = until(start, |now| now >= all, || Ok(count()? >= others + wanted))?;
    println!("{shown}");
    println!("{}", (charged.bytes()? - before) / wanted as f64);
    println!("{}", ps()?.saturating_sub(others));
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    let keyboard = run.stdin.as_mut().ok_or_else(|| Fault::bug("no pipe to script(1)"))?;
    let start = Instant::now();
    keyboard.write_all(b"\x03").map_err(|e| Fault::io(&e, "type Ctrl-C"))?;
    let gone = until_gone(start, others, tasks_before + nodes, &mut run)?;
    println!("{gone}");
    // Where it is there still; it is our own child.
    let _ = run.kill();
    let _ = run.wait();
    Ok(true)
}

fn until_gone(start: Instant, others: usize, tasks: usize, run: &mut Child) -> Result<f64> {
    until(
        start,
        |now| now <= tasks,
        || {
            // The first of them is our own child: it stays in /proc until it is waited for.
            let _ = run.try_wait();
            Ok(count()? <= others)
        },
    )
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

/// Milliseconds from `start` until `sure` says so, which is asked when the number of tasks is as `likely` wants it, and now and then.
fn until(start: Instant, likely: impl Fn(usize) -> bool, mut sure: impl FnMut() -> Result<bool>) -> Result<f64> {
    let mut asked = Instant::now();
    loop {
        if likely(tasks()?) || asked.elapsed() > DOUBT {
            if sure()? {
                return Ok(start.elapsed().as_secs_f64() * 1e3);
            }
            asked = Instant::now();
        }
        if start.elapsed() > PATIENCE {
            eprintln!("bench: {} processes are there after {PATIENCE:?}", count()?);
            return Ok(f64::NAN);
        }
        std::thread::sleep(PAUSE);
    }
}

/// The tasks of the whole machine, other namespaces included (proc_loadavg(5)): bodies and ghosts.
fn tasks() -> Result<usize> {
    let text = std::fs::read_to_string("/proc/loadavg").map_err(|e| Fault::io(&e, "read /proc/loadavg"))?;
    let total = text.split([' ', '/']).nth(4).and_then(|number| number.parse().ok());
    total.ok_or_else(|| Fault::refused(format!("/proc/loadavg is odd: {text}")))
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
