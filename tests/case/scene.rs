//! A sandbox to play in.

use crate::lab::place::Place;
use crate::lab::procs::{self, Proc};
use crate::lab::proto::{Job, Outcome, Step};
use crate::lab::session::{Plan, Session};
use crate::lab::{Doing, Res};
use rustix::fs::OFlags;
use rustix::process::{getpid, pidfd_open, PidfdFlags, Signal};
use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Jobs of one scene that run at the same time.
const WORKERS: usize = 6;
/// How long what must come may take, where nothing else is promised.
const PATIENCE: Duration = Duration::from_secs(15);

/// A front end and nodes, broken by the scene that made it.
pub(crate) struct Sandbox {
    session: Arc<Session>,
    name: String,
    /// Every command that has ended, with what came of it.
    told: Arc<Mutex<Vec<String>>>,
}

thread_local! {
    /// What the sandboxes of this thread's scene have left to read, in the order in which they ended.
    static LEFT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The commands and the daemons' logs of all sandboxes that have ended in this thread since the last call.
pub(crate) fn take_left() -> String {
    LEFT.take()
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let told = self.told.lock().map_or_else(|_| String::new(), |told| told.join("\n"));
        LEFT.with_borrow_mut(|left| {
            *left += &format!("=== {}: commands\n{told}\n=== logs\n{}\n", self.name, self.logs())
        });
    }
}

/// A command that runs while the scene goes on.
pub(crate) struct Going {
    thread: JoinHandle<Res<Outcome>>,
}

impl Going {
    /// Waits for its end.
    pub(crate) fn end(self) -> Res<Outcome> {
        self.thread.join().map_err(|_| "the thread of a command has panicked".to_string())?
    }

    /// Whether it has not ended yet.
    pub(crate) fn is_going(&self) -> bool {
        !self.thread.is_finished()
    }
}

impl Sandbox {
    pub(crate) fn new(place: &Place, name: &str, nodes: u32) -> Res<Sandbox> {
        Sandbox::with(place, name, nodes, Plan::default())
    }

    /// The same with what else `plan` says.
    pub(crate) fn with(place: &Place, name: &str, nodes: u32, plan: Plan) -> Res<Sandbox> {
        let plan = Plan { nodes: Some(nodes), workers: WORKERS, ..plan };
        let session = Arc::new(Session::start(place, &format!("case-{name}"), &plan)?);
        Ok(Sandbox { session, name: name.to_string(), told: Arc::default() })
    }

    /// What runs a job here and notes how it ended, in any thread.
    fn runs(&self, job: Job) -> impl FnOnce() -> Res<Outcome> + Send + 'static {
        let (session, told, title) = (self.session.clone(), self.told.clone(), format!("case-{}", self.name));
        let command = job.argv.last().cloned().unwrap_or_default();
        move || {
            let done = session.run(&title, job);
            let end = done.as_ref().map_or_else(Clone::clone, Outcome::text);
            told.lock().doing("note a command's end")?.push(format!("$ {command}\n{end}"));
            done
        }
    }

    /// Runs a shell command on the front end, whatever becomes of it.
    pub(crate) fn sh(&self, script: &str) -> Res<Outcome> {
        self.runs(shell(script, 60))()
    }

    /// Runs a shell command that is to end with 0; its output, without blanks at the end.
    pub(crate) fn ok(&self, script: &str) -> Res<String> {
        let outcome = self.sh(script)?;
        match outcome.code() == Some(0) && !outcome.late && outcome.left.is_empty() {
            true => Ok(outcome.out.trim_end().to_string()),
            false => Err(format!("$ {script}\n{}", outcome.text())),
        }
    }

    /// Runs a shell command that is to print just this and end with 0.
    pub(crate) fn prints(&self, script: &str, expected: &str) -> Res {
        let got = self.ok(script)?;
        same(&format!("$ {script}"), got.as_str(), expected)
    }

    /// Runs a shell command that is to fail with this exit code and one line of error, which is returned.
    pub(crate) fn fails(&self, script: &str, code: i32) -> Res<String> {
        let outcome = self.sh(script)?;
        let line = outcome.err.trim_end().to_string();
        if outcome.code() != Some(code) || line.is_empty() || line.contains('\n') || outcome.late {
            return Err(format!("$ {script}\nis to fail with {code} and one line of error\n{}", outcome.text()));
        }
        Ok(line)
    }

    /// Starts a shell command that may take two minutes.
    pub(crate) fn start(&self, script: &str) -> Going {
        Going { thread: std::thread::spawn(self.runs(shell(script, 120))) }
    }

    /// Speaks with an interactive bash on a terminal of the front end. Its prompt is `%% `.
    pub(crate) fn talk(&self, steps: Vec<Step>) -> Res<Outcome> {
        let words = ["bash", "--norc", "--noprofile", "--noediting", "-i"];
        let env = [("PS1", "%% "), ("TERM", "dumb"), ("HISTFILE", "")];
        let job = Job {
            argv: words.map(String::from).to_vec(),
            env: env.map(|(name, value)| (name.to_string(), value.to_string())).to_vec(),
            deadline_ms: 30_000,
            dialogue: Some(steps),
            may_leave: false,
            ..Job::default()
        };
        let outcome = self.runs(job)()?;
        match outcome.missed.is_none() && !outcome.late && outcome.left.is_empty() {
            true => Ok(outcome),
            false => Err(outcome.text()),
        }
    }

    /// Until this shell command succeeds, for at most 15 s.
    pub(crate) fn until(&self, script: &str) -> Res {
        self.ok(&format!("for i in $(seq 150); do if {script}; then exit 0; fi; sleep 0.1; done; exit 1")).map(|_| ())
    }

    /// All processes of the sandbox, as this machine sees them.
    pub(crate) fn all(&self) -> Vec<Proc> {
        procs::below(self.session.root())
    }

    /// How many of them have exactly this command line.
    pub(crate) fn count(&self, command: &str) -> usize {
        self.all().iter().filter(|p| p.state != 'Z' && procs::command_line(p) == command).count()
    }

    /// The first process of a machine: `front`, `n0`, …; `sandbox` for the one that holds them all.
    pub(crate) fn machine(&self, host: &str) -> Res<i32> {
        let name = format!("shoal:{host}");
        let found = self.all().into_iter().find(|p| p.comm == name);
        found.map(|p| p.pid).ok_or(format!("no process is called {name}"))
    }

    /// The daemon of a machine.
    pub(crate) fn daemon(&self, host: &str) -> Res<i32> {
        let machine = self.machine(host)?;
        let verb = if host == "front" { " front " } else { " node " };
        let found = procs::below(machine)
            .into_iter()
            .find(|p| p.ppid == machine && (procs::command_line(p) + " ").contains(verb));
        found.map(|p| p.pid).ok_or(format!("no daemon on {host}"))
    }

    /// The part of a node's daemon that has the processes.
    pub(crate) fn agent(&self, host: &str) -> Res<i32> {
        let daemon = self.daemon(host)?;
        let found = self.all().into_iter().find(|p| p.ppid == daemon && p.comm == "shoal:agent");
        found.map(|p| p.pid).ok_or(format!("no agent on {host}"))
    }

    /// A signal to a process of the sandbox.
    pub(crate) fn signal(&self, pid: i32, signal: Signal) -> Res {
        let whom = rustix::process::Pid::from_raw(pid).ok_or("PID 0")?;
        rustix::process::kill_process(whom, signal).doing("kill")
    }

    /// SIGKILL to a process of the sandbox; until that has ended, and its port and its files are free.
    pub(crate) fn kill(&self, pid: i32) -> Res {
        self.signal(pid, Signal::KILL)?;
        wait_for("a killed process ends", || procs::one(pid).is_none_or(|now| now.state == 'Z'))
    }

    /// Runs a command of this machine in the network of a machine of the sandbox.
    pub(crate) fn network(&self, host: &str, words: &[&str]) -> Res {
        let target = self.machine(host)?.to_string();
        outside(&[&["nsenter", "-t", &target, "-n", "--"], words].concat())
    }

    /// Starts a machine's daemon again, after it was killed.
    pub(crate) fn restart(&self, host: &str) -> Res {
        let target = self.machine(host)?.to_string();
        let verb = if host == "front" { "front" } else { "node" };
        let daemon = format!(
            "setsid /run/shoal/bin/shoal {verb} --config /run/shoal/shoal.toml >/run/shoal/again-{host}.log 2>&1 </dev/null &"
        );
        outside(&["nsenter", "-t", &target, "-m", "-p", "-n", "-u", "-i", "--", "bash", "-c", &daemon])
    }

    /// The text of all daemons' logs.
    pub(crate) fn logs(&self) -> String {
        let Ok(front) = self.machine("front") else { return String::new() };
        let base = PathBuf::from(format!("/proc/{front}/root/run/shoal"));
        let mut text = String::new();
        for dir in [base.clone(), base.join("sandbox")] {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().ends_with(".log") {
                    text += &fs::read_to_string(entry.path()).unwrap_or_default();
                }
            }
        }
        text
    }
}

fn shell(script: &str, seconds: u64) -> Job {
    Job { argv: ["bash", "-c", script].map(String::from).to_vec(), deadline_ms: seconds * 1000, ..Job::default() }
}

/// Runs a command on this machine.
pub(crate) fn outside(words: &[&str]) -> Res {
    let done = Command::new(words[0]).args(&words[1..]).output().doing(format!("run {}", words[0]))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr).trim_end())),
    }
}

/// Waits for something that has no event for us, with a deadline.
pub(crate) fn wait_for(what: &str, mut come: impl FnMut() -> bool) -> Res {
    wait_within(PATIENCE, what, &mut come)
}

/// The same within a time, and so many looks: on a machine on which hundreds want to run a single one can take longer.
pub(crate) fn wait_within(time: Duration, what: &str, come: &mut dyn FnMut() -> bool) -> Res {
    const LEAST_LOOKS: u32 = 20;
    let (start, mut looks) = (Instant::now(), 0);
    while !come() {
        looks += 1;
        let waited = start.elapsed();
        if looks >= LEAST_LOOKS && waited >= time {
            return Err(format!("not within {time:?}, at {looks} looks: {what}"));
        }
        // Most looks are at all processes of the machine: who has waited long looks less often.
        std::thread::sleep((waited / 8).clamp(Duration::from_millis(10), Duration::from_millis(100)));
    }
    Ok(())
}

/// Can a process come to the front end? Its standard streams there are those of a single thread, which nobody is lent before Linux 6.9 (PIDFD_THREAD).
pub(crate) fn comes_home() -> bool {
    let of_thread = PidfdFlags::from_bits_retain(OFlags::EXCL.bits());
    pidfd_open(getpid(), of_thread).is_ok()
}

pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, expected: T) -> Res {
    match got == expected {
        true => Ok(()),
        false => Err(format!("{what}\n     got {got:?}\nexpected {expected:?}")),
    }
}

pub(crate) fn holds(what: &str, yes: bool) -> Res {
    yes.then_some(()).ok_or(format!("is to hold: {what}"))
}
