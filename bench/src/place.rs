//! A sandbox that runs one command line after the other, and the C program that is measured in it.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use vocab::{Fault, Result};

/// No measurement is silent for longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A shell on the front end of a sandbox.
pub(crate) struct Place {
    sandbox: Child,
    commands: ChildStdin,
    lines: mpsc::Receiver<String>,
}

impl Place {
    /// # Errors
    /// What keeps the sandbox from starting.
    pub(crate) fn open(nodes: usize) -> Result<Place> {
        Place::start(Command::new(shoal()?), nodes, &[])
    }

    /// The same with nodes that have nothing but a kernel.
    pub(crate) fn open_bare(nodes: usize) -> Result<Place> {
        Place::start(Command::new(shoal()?), nodes, &["--bare"])
    }

    /// The same, with all its machines on one processor.
    pub(crate) fn open_on_one_processor(nodes: usize) -> Result<Place> {
        let mut taskset = Command::new("taskset");
        taskset.args(["-c", "0"]).arg(shoal()?);
        Place::start(taskset, nodes, &[])
    }

    fn start(mut shoal: Command, nodes: usize, more: &[&str]) -> Result<Place> {
        // One clock for all, by which figures can be held against those of before there were others.
        let clocks = std::env::var("CLOCKS").unwrap_or_else(|_| "same".into());
        let mut sandbox = shoal
            .args(["sandbox", "-n", &nodes.to_string(), "--clocks", &clocks])
            .args(more)
            .args(["--", "/bin/sh", "-c"])
            .arg("while read -r line; do eval \"$line\"; done")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| Fault::io(&e, "start shoal sandbox"))?;
        let commands = sandbox.stdin.take().ok_or_else(|| Fault::bug("no pipe to the sandbox"))?;
        let out = sandbox.stdout.take().ok_or_else(|| Fault::bug("no pipe from the sandbox"))?;
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || read_lines(out, &send));
        Ok(Place { sandbox, commands, lines })
    }

    /// Runs one command line of a shell.
    pub(crate) fn say(&mut self, command: &str) -> Result<()> {
        writeln!(self.commands, "{command}").map_err(|e| Fault::io(&e, "tell the sandbox's shell"))
    }

    /// The next line that a command writes.
    pub(crate) fn line(&mut self) -> Result<String> {
        self.lines.recv_timeout(PATIENCE).map_err(|_| Fault::gone("the sandbox's shell says nothing"))
    }

    /// Runs a command that writes one number.
    pub(crate) fn number(&mut self, command: &str) -> Result<f64> {
        // A command that fails says why on stderr, and writes no number for which to wait.
        self.say(&format!("{command} </dev/null || echo status $?"))?;
        parse(&self.line()?)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.sandbox.id()
    }

    /// Ends the sandbox and waits for it.
    pub(crate) fn close(mut self) -> Result<()> {
        drop(self.commands);
        while self.lines.recv_timeout(PATIENCE).is_ok() {}
        self.sandbox.wait().map(drop).map_err(|e| Fault::io(&e, "wait for the sandbox"))
    }
}

fn read_lines(out: ChildStdout, send: &mpsc::Sender<String>) {
    for line in BufReader::new(out).lines().map_while(std::result::Result::ok) {
        if send.send(line).is_err() {
            return;
        }
    }
}

pub(crate) fn parse(line: &str) -> Result<f64> {
    line.trim().parse().map_err(|_| Fault::refused(format!("measured {line:?}, which is no number")))
}

/// The shoal that was built together with this program.
pub(crate) fn shoal() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(|e| Fault::io(&e, "find this program"))?;
    let beside = own.with_file_name("shoal");
    if beside.exists() {
        return Ok(beside);
    }
    Err(Fault::refused(format!("{} is not there: cargo build --release -p cli", beside.display())))
}

/// Compiles one of bench/prog, and removes what it made when dropped.
pub(crate) struct Program {
    dir: PathBuf,
    name: &'static str,
}

impl Program {
    pub(crate) fn compile(name: &'static str, linked: &str) -> Result<Program> {
        Program::made(name, linked, &["-O2", linked, "-pthread"], &[])
    }

    /// With the calls of libbproc (`./x library`).
    pub(crate) fn compile_with_library(name: &'static str) -> Result<Program> {
        let library = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/library/dist");
        let (include, archive) = (format!("-I{library}/include"), format!("{library}/lib/libbproc.a"));
        Program::made(name, "-library", &["-O2", &include, "-pthread"], &[&archive])
    }

    /// `libraries` stand behind the program's source, which needs them.
    fn made(name: &'static str, kind: &str, options: &[&str], libraries: &[&str]) -> Result<Program> {
        let dir = std::env::temp_dir().join(format!("shoal-bench{kind}.{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(|e| Fault::io(&e, format!("make {}", dir.display())))?;
        let program = Program { dir, name };
        let source = format!("{}/prog/{name}.c", env!("CARGO_MANIFEST_DIR"));
        let mut cc = Command::new("cc");
        match cc.args(options).arg("-o").arg(program.path()).arg(source).args(libraries).status() {
            Ok(status) if status.success() => Ok(program),
            Ok(status) => Err(Fault::refused(format!("cc: {status}"))),
            Err(e) => Err(Fault::io(&e, "run cc")),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.join(self.name)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
