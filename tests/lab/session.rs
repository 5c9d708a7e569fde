//! A session: workers that run jobs, on this machine or on the front end of a sandbox of their own.

use super::evidence;
use super::place::Place;
use super::proto::{receive, send, Job, Order, Outcome, Report};
use super::quiet;
use super::terminal::readable;
use super::{Doing, Res};
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long a sandbox may take to come up and to go.
const COMING: Duration = Duration::from_secs(40);
const GOING: Duration = Duration::from_secs(15);

/// What kind of session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Nodes of the sandbox; `None`: no sandbox.
    pub(crate) nodes: Option<u32>,
    pub(crate) workers: usize,
    /// Busy loops beside it all.
    pub(crate) burners: usize,
    /// So often the sandbox moves a process at random.
    pub(crate) chaos: Option<&'static str>,
    /// What the clocks of its nodes show (`shoal sandbox --clocks`); by default what is the product's default.
    pub(crate) clocks: Option<&'static str>,
    /// Its nodes have nothing of their own (`shoal sandbox --bare`).
    pub(crate) bare: bool,
    /// Lines of its nodes' configuration (`shoal sandbox --node-setting`).
    pub(crate) settings: &'static [&'static str],
    /// What its daemons log (SHOAL_LOG); by default what is the product's default.
    pub(crate) log: Option<&'static str>,
    /// After which silence a node is lost; by default the product's.
    pub(crate) lost_after: Option<Duration>,
    /// The socket at which the daemons' fault points are told.
    pub(crate) faults: Option<PathBuf>,
}

/// A running session.
pub(crate) struct Session {
    name: String,
    child: Mutex<Child>,
    root: i32,
    idle: Mutex<Vec<Worker>>,
    freed: Condvar,
    log: PathBuf,
    evidence: PathBuf,
    broken: AtomicBool,
    /// Dropped after the session has ended, being a field.
    _held: quiet::Held,
}

/// The connection to one worker.
struct Worker {
    to: UnixStream,
    from: BufReader<UnixStream>,
}

impl Session {
    /// Starts it and waits for all its workers.
    pub(crate) fn start(place: &Place, name: &str, plan: &Plan) -> Res<Session> {
        let _held = quiet::together()?;
        let (socket, log) = (place.fresh("socket"), place.fresh("log"));
        let listener = UnixListener::bind(&socket).doing(format!("listen on {}", socket.display()))?;
        let mut child = command(place, plan, &socket, &log)?.spawn().doing(format!("start session {name}"))?;
        let root = child.id() as i32;
        let idle = match accept(&listener, plan.workers, &mut child) {
            Ok(workers) => workers,
            Err(fault) => {
                evidence::collect(root, &place.evidence.join(format!("{name}-start")));
                end(&mut child, Duration::ZERO);
                return Err(format!("session {name}: {fault}\n{}", tail(&log)));
            }
        };
        let (idle, child) = (Mutex::new(idle), Mutex::new(child));
        let (freed, broken) = (Condvar::new(), AtomicBool::new(false));
        let (name, evidence) = (name.to_string(), place.evidence.clone());
        Ok(Session { name, child, root, idle, freed, log, evidence, broken, _held })
    }

    /// The PID, as this runner sees it, below which everything of the session is.
    pub(crate) fn root(&self) -> i32 {
        self.root
    }

    /// Whether it is better not to give it further jobs.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Runs one job to its end. `title` names the evidence that is kept when it is late or leaves processes.
    pub(crate) fn run(&self, title: &str, job: Job) -> Res<Outcome> {
        let mut worker = self.take()?;
        let done = self.converse(&mut worker, title, job);
        match &done {
            Ok(outcome) if !outcome.late && !outcome.stuck => self.give(worker),
            // What it left may disturb others: no further jobs here.
            Ok(_) | Err(_) => self.broken.store(true, Ordering::Relaxed),
        }
        done.map_err(|fault| format!("{fault}\n{}", tail(&self.log)))
    }

    fn converse(&self, worker: &mut Worker, title: &str, job: Job) -> Res<Outcome> {
        let patience = Duration::from_millis(job.deadline_ms) + Duration::from_secs(30);
        worker.to.set_read_timeout(Some(patience)).doing("set the time limit")?;
        send(&mut worker.to, &Order::Run(job))?;
        let mut kept = None;
        loop {
            match receive(&mut worker.from).inspect_err(|_| self.keep(title, &mut kept))? {
                Some(Report::Done(mut outcome)) => {
                    if outcome.stuck {
                        self.keep(title, &mut kept);
                    }
                    if let Some(dir) = kept {
                        outcome.err += &format!("\nevidence: {}", dir.display());
                    }
                    return Ok(outcome);
                }
                Some(Report::Late) => {
                    self.keep(title, &mut kept);
                    send(&mut worker.to, &Order::Kill)?;
                }
                None => return Err(format!("session {}: a worker has gone", self.name)),
            }
        }
    }

    fn keep(&self, title: &str, kept: &mut Option<PathBuf>) {
        let stamp = std::time::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs());
        let dir = self.evidence.join(format!("{}-{stamp}", title.replace([':', '/', ' '], "-")));
        evidence::collect(self.root, &dir);
        eprintln!("{title}: late, or something is left; evidence in {}", dir.display());
        *kept = Some(dir);
    }

    fn take(&self) -> Res<Worker> {
        let mut idle = self.idle.lock().doing("take a worker")?;
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            if let Some(worker) = idle.pop() {
                return Ok(worker);
            }
            if self.is_broken() || Instant::now() >= deadline {
                return Err(format!("session {}: no worker is free", self.name));
            }
            idle = self.freed.wait_timeout(idle, Duration::from_secs(1)).doing("wait for a worker")?.0;
        }
    }

    fn give(&self, worker: Worker) {
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(worker);
        }
        self.freed.notify_one();
    }

    /// Hangs up and waits; its exit status, when it ended by itself in time.
    pub(crate) fn close(&self) -> Option<i32> {
        if let Ok(mut idle) = self.idle.lock() {
            idle.clear();
        }
        let mut child = self.child.lock().ok()?;
        end(&mut child, GOING)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.close().is_none() {
            eprintln!("session {}: it did not end by itself\n{}", self.name, tail(&self.log));
        }
    }
}

fn command(place: &Place, plan: &Plan, socket: &Path, log: &Path) -> Res<Command> {
    let me = std::env::current_exe().doing("find myself")?;
    let mut command = match plan.nodes {
        None => Command::new(&me),
        Some(nodes) => {
            let shoal = place.shoal.as_ref().ok_or("there is no shoal: build it first, or set SHOAL")?;
            let mut command = Command::new(shoal);
            command.args(["sandbox", "-n", &nodes.to_string()]);
            if let Some(every) = plan.chaos {
                command.args(["--chaos", every]);
            }
            if plan.bare {
                command.arg("--bare");
            }
            command.args(plan.settings.iter().flat_map(|line| ["--node-setting", line]));
            if let Some(clocks) = plan.clocks {
                command.args(["--clocks", clocks]);
            }
            if let Some(time) = plan.lost_after {
                command.args(["--lost-after", &time.as_secs_f64().to_string()]);
            }
            if let Some(log) = plan.log {
                command.env("SHOAL_LOG", log);
            }
            if let Some(socket) = &plan.faults {
                command.env("SHOAL_FAULTS", socket);
            }
            command.arg("--").arg(&me);
            command
        }
    };
    command.arg("--executor").arg(socket).args([plan.workers.to_string(), plan.burners.to_string()]);
    let file = File::create(log).doing(format!("make {}", log.display()))?;
    let again = file.try_clone().doing("share the log")?;
    command.stdin(Stdio::null()).stdout(file).stderr(again).env("PATH", path());
    Ok(command)
}

/// The machine's own directories before all others: scenes begin programs as users who cannot read what root has installed at home.
fn path() -> String {
    const OWN: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    std::env::var("PATH").map_or(OWN.into(), |rest| format!("{OWN}:{rest}"))
}

fn accept(listener: &UnixListener, workers: usize, child: &mut Child) -> Res<Vec<Worker>> {
    let deadline = Instant::now() + COMING;
    let mut found = Vec::new();
    while found.len() < workers {
        if readable(listener, Duration::from_millis(200))? {
            let (to, _) = listener.accept().doing("accept a worker")?;
            let from = BufReader::new(to.try_clone().doing("share the socket")?);
            found.push(Worker { to, from });
        } else if let Some(status) = child.try_wait().doing("ask for the session")? {
            return Err(format!("it ended before it began ({status})"));
        } else if Instant::now() >= deadline {
            return Err(format!("it is not there after {COMING:?}"));
        }
    }
    Ok(found)
}

/// Waits for the end, in the end by force; the exit status when it needed none.
fn end(child: &mut Child, patience: Duration) -> Option<i32> {
    let pid = rustix::process::Pid::from_child(child);
    let gone = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
    let in_time = match gone {
        Ok(fd) => readable(fd, patience).unwrap_or(false),
        Err(_) => true, // it has been waited for already
    };
    if !in_time {
        let _ = child.kill();
    }
    let status = child.wait().ok()?;
    in_time.then(|| status.code().unwrap_or(-1))
}

/// The last lines of the session's own output.
fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
