//! `./x bench move`: processes that are carried.

use crate::place::{shoal, Program};
use crate::table::{head, print, print_failed, Bar, Line, Local, Spread};
use crate::travel;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use vocab::{Fault, Result};

const TIMES: usize = 11;
const TIMES_LARGE: usize = 5;
/// MiB.
const LARGE: &str = "1024";
/// 1 GB, in MiB.
const GIGABYTE: &str = "953";

/// Prints all lines; false when a bar was missed.
///
/// # Errors
/// Where nothing can be measured at all: no compiler.
pub(crate) fn measure() -> Result<bool> {
    let met = between()?;
    Ok(carried_in_files()? && met)
}

/// Checkpoints alone.
///
/// # Errors
/// As [`measure`].
pub(crate) fn checkpoints() -> Result<bool> {
    head();
    carried_in_files()
}

fn carried_in_files() -> Result<bool> {
    let mut met = true;
    let (fixed, dynamic) = (Program::compile("move", "-static")?, Program::compile("move", "-rdynamic")?);
    let (fixed, dynamic) = (words(&fixed.path(), &["small"]), dynamic.path());
    let python = ["python3", "-c", "import time; print('there', flush=True); time.sleep(1000)"].map(String::from);
    met &= small("static program, out and back", &fixed);
    met &= small("dynamic program, out and back", &words(&dynamic, &["small"]));
    met &= small("idle python3, out and back", &python);
    met &= small("4 threads, out and back", &words(&dynamic, &["threads"]));
    met &=
        told("1 GiB, 10 MB/s: it stands still", frozen(&words(&dynamic, &["memory", LARGE, "10"])), Bar::Figure(5.0));
    met &= large(&words(&dynamic, &["memory", GIGABYTE, "0"]));
    Ok(met)
}

/// The moves alone.
///
/// # Errors
/// As [`measure`].
pub(crate) fn between() -> Result<bool> {
    let (fixed, dynamic) = (Program::compile("moved", "-static")?, Program::compile("moved", "-rdynamic")?);
    let data = vec![1; travel::DATA];
    let file = fixed.path().with_extension("data");
    std::fs::write(&file, data).map_err(|e| Fault::io(&e, format!("write {}", file.display())))?;
    head();
    travel::measure(&fixed.path(), &dynamic.path(), &file)
}

/// Of these the ones that are held against plain TCP.
///
/// # Errors
/// As [`measure`].
pub(crate) fn plain() -> Result<bool> {
    let fixed = Program::compile("moved", "-static")?;
    head();
    travel::measure_all_of_it(&fixed.path())
}

fn words(program: &Path, rest: &[&str]) -> Vec<String> {
    std::iter::once(program.display().to_string()).chain(rest.iter().map(ToString::to_string)).collect()
}

fn told(name: &str, figures: Result<Vec<f64>>, bar: Bar) -> bool {
    match figures {
        Ok(figures) => print(&Line { name, figure: Spread::of(figures), local: None, unit: "ms", bar }),
        Err(fault) => print_failed(name, &fault.to_string()),
    }
}

fn io(doing: &str) -> impl Fn(std::io::Error) -> Fault + '_ {
    move |e| Fault::io(&e, doing)
}

/// A program that is there, with nothing open but its streams; a group of its own, and no more when dropped.
struct Victim {
    child: Child,
    /// It is this one's child when it was restored.
    pid: String,
}

impl Victim {
    fn start(words: &[String]) -> Result<Victim> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(io("start a program"))?;
        let out = child.stdout.take().ok_or_else(|| Fault::bug("no pipe from a program"))?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).map_err(io("wait for a program"))?;
        let pid = child.id().to_string();
        Ok(Victim { child, pid })
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ended_already = Command::new("kill").args(["-9", &self.pid]).stderr(Stdio::null()).status();
        let _ended_already = self.child.wait();
    }
}

/// `shoal restore`, up to the moment when the process runs.
fn restore(file: &str) -> Result<Child> {
    // The shell gives it a pipe as descriptor 3, which ends when the process has been told to run.
    let shoal = shoal()?;
    let mut command = Command::new("sh");
    command.args(["-c", "exec 3>&1 >/dev/null; exec \"$0\" restore --ready-fd 3 \"$1\""]).arg(shoal).arg(file);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(io("start shoal restore"))?;
    let mut line = [0];
    let out = child.stdout.as_mut().ok_or_else(|| Fault::bug("no pipe from shoal restore"))?;
    match out.read(&mut line).map_err(io("wait for shoal restore"))? {
        0 => Err(Fault::gone("shoal restore has failed")),
        _ => Ok(child),
    }
}

fn checkpoint(pid: &str, rest: &[&str]) -> Result<Command> {
    let mut command = Command::new(shoal()?);
    command.args(["checkpoint", pid]).args(rest).stdin(Stdio::null());
    Ok(command)
}

fn ms(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}

/// Out to a file in this folder and back, once; what is to be done before each way.
fn carried(words: &[String], folder: &Path, before: impl Fn() -> Result<()>) -> Result<(f64, f64)> {
    let image = Image(folder.join(format!("shoal-bench.{}.image", std::process::id())));
    let file = image.0.display().to_string();
    let mut victim = Victim::start(words)?;
    before()?;
    let begun = Instant::now();
    let done = checkpoint(&victim.pid, &["--stop", "-o", &file])?.status().map_err(io("run shoal checkpoint"))?;
    let out = ms(begun);
    if !done.success() {
        return Err(Fault::refused(format!("shoal checkpoint: {done}")));
    }
    victim.child.wait().map_err(io("wait for a program"))?;
    before()?;
    let begun = Instant::now();
    victim.child = restore(&file)?;
    Ok((out, ms(begun)))
}

struct Image(PathBuf);

impl Drop for Image {
    fn drop(&mut self) {
        let _none_written = std::fs::remove_file(&self.0);
    }
}

fn small(name: &str, words: &[String]) -> bool {
    let both = |_| carried(words, Path::new("/dev/shm"), || Ok(())).map(|(out, back)| out + back);
    told(name, (0..TIMES).map(both).collect(), Bar::None)
}

/// For how long a process that goes on stands still, as `--explain` says.
fn frozen(words: &[String]) -> Result<Vec<f64>> {
    let image = Image(std::env::temp_dir().join(format!("shoal-bench.{}.image", std::process::id())));
    let victim = Victim::start(words)?;
    let once = |_| {
        let file = image.0.display().to_string();
        let done = checkpoint(&victim.pid, &["--continue", "--explain", "-o", &file])?.output();
        let said = String::from_utf8_lossy(&done.map_err(io("run shoal checkpoint"))?.stderr).into_owned();
        let ms = said.lines().last().and_then(|line| line.strip_suffix(" ms")?.rsplit(' ').next()?.parse().ok());
        ms.ok_or_else(|| Fault::refused(format!("shoal checkpoint: {}", said.trim())))
    };
    (0..TIMES_LARGE).map(once).collect()
}

/// To a file and back, beside what the file system takes for as many bytes.
fn large(words: &[String]) -> bool {
    let mut all_met = true;
    for (folder, bar) in [(std::env::temp_dir(), Bar::Figure(1000.0)), (PathBuf::from("/dev/shm"), Bar::None)] {
        let (mut sums, mut outs, mut backs, mut floors) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut once = || -> Result<()> {
            let (out, back) = carried(words, &folder, warm)?;
            warm()?;
            floors.push(floor(&folder)?);
            sums.push(out + back);
            outs.push(out);
            backs.push(back);
            Ok(())
        };
        let name = format!("1 GB to {} and back", folder.display());
        if let Err(fault) = (0..TIMES).try_for_each(|_| once()) {
            all_met &= print_failed(&name, &fault.to_string());
            continue;
        }
        let local = Some(Local::pairs(&sums, &floors));
        let figure = Spread::of(sums);
        all_met &= print(&Line { name: &name, figure, local, unit: "ms", bar });
        print(&Line { name: "  of these out", figure: Spread::of(outs), local: None, unit: "ms", bar: Bar::None });
        print(&Line { name: "  of these back", figure: Spread::of(backs), local: None, unit: "ms", bar: Bar::None });
    }
    all_met
}

/// A virtual machine gives free memory back to its host within seconds, and fetching it again takes longer than anything that is measured here: so directly
/// before, as much as the host leaves waiting (1000 MiB) is fetched and given back, until that is fast.
pub(crate) fn warm() -> Result<()> {
    let done = Command::new("python3").args(["-c", WARM]).status().map_err(io("run python3"))?;
    match done.success() {
        true => Ok(()),
        false => Err(Fault::refused(format!("python3: {done}"))),
    }
}

const WARM: &str = "
import mmap, time
for _ in range(8):
    begun = time.monotonic()
    with mmap.mmap(-1, 1000 << 20, flags=mmap.MAP_PRIVATE) as m:
        m.madvise(mmap.MADV_HUGEPAGE)
        for page in range(0, 1000 << 20, 4096):
            m[page] = 1
    if time.monotonic() - begun < 0.2:
        break
";

/// As many bytes written to the disk and read again.
fn floor(folder: &Path) -> Result<f64> {
    let file = Image(folder.join(format!("shoal-bench.{}.floor", std::process::id())));
    let begun = Instant::now();
    let written = format!("of={}", file.0.display());
    let read = format!("if={}", file.0.display());
    for words in
        [["if=/dev/zero", &written, "count=953", "conv=fsync"], [&read, "of=/dev/null", "count=953", "conv=notrunc"]]
    {
        let done = Command::new("dd").args(["bs=1M", "status=none"]).args(words).status().map_err(io("run dd"))?;
        if !done.success() {
            return Err(Fault::refused(format!("dd: {done}")));
        }
    }
    Ok(ms(begun))
}
