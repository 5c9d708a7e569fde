//! The inner side. The executor (`--executor`) is what a session runs as its command; it starts workers (`--worker`), each
//! a process of its own that runs one job after the other. A worker is a subreaper: whatever a job leaves behind comes to
//! it, is reaped, and is told.

use super::procs;
use super::proto::{receive, send, Job, Order, Outcome, Report};
use super::terminal::{readable, Terminal};
use super::{Doing, Res};
use rustix::process::{self, Pid, PidfdFlags, Signal, WaitOptions};
use std::io::{BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long descendants may take to end by themselves after the program, and then to die when killed.
const GRACE: Duration = Duration::from_secs(2);
const DEATH: Duration = Duration::from_secs(5);
/// What is kept of each stream.
const MOST_OUTPUT: u64 = 1 << 20;

/// `--executor SOCKET WORKERS BURNERS`: until all workers have ended.
pub(crate) fn executor(args: &[String]) -> Res {
    let [socket, workers, burners] = args else { return Err("--executor SOCKET WORKERS BURNERS".into()) };
    let number = |text: &String| text.parse::<u32>().doing(format!("understand {text}"));
    let me = std::env::current_exe().doing("find myself")?;
    for _ in 0..number(burners)? {
        Command::new(&me).arg("--burn").spawn().doing("start a busy loop")?;
    }
    let start = |_| Command::new(&me).args(["--worker", socket]).spawn().doing("start a worker");
    let workers: Res<Vec<Child>> = (0..number(workers)?).map(start).collect();
    for mut worker in workers? {
        worker.wait().doing("wait for a worker")?;
    }
    Ok(())
}

/// `--burn`: a busy loop for as long as its parent lives.
pub(crate) fn burn() -> ! {
    let ended = process::set_parent_process_death_signal(Some(Signal::KILL)).is_err();
    let mut x = u64::from(ended);
    loop {
        x = std::hint::black_box(x.wrapping_mul(3).wrapping_add(1));
    }
}

/// `--leader TERMINAL PROGRAM ARG…`: becomes the program, as leader of a session on the terminal (`-`: none).
pub(crate) fn leader(args: &[String]) -> Res {
    let [terminal, program, rest @ ..] = args else { return Err("--leader TERMINAL PROGRAM ARG…".into()) };
    process::setsid().doing("make a session")?;
    if terminal != "-" {
        let tty = std::fs::File::options().read(true).write(true).open(terminal).doing(terminal)?;
        process::ioctl_tiocsctty(&tty).doing("take the terminal")?;
        let streams = rustix::stdio::dup2_stdin(&tty).and_then(|()| rustix::stdio::dup2_stdout(&tty));
        streams.and_then(|()| rustix::stdio::dup2_stderr(&tty)).doing("put the terminal on the streams")?;
    }
    Err(format!("{program}: {}", Command::new(program).args(rest).exec()))
}

/// `--worker SOCKET`: runs what the runner says until it hangs up.
pub(crate) fn worker(args: &[String]) -> Res {
    let [socket] = args else { return Err("--worker SOCKET".into()) };
    process::set_child_subreaper(Some(process::getpid())).doing("become a subreaper")?;
    let mut stream = UnixStream::connect(socket).doing(format!("connect to {socket}"))?;
    let mut from = BufReader::new(stream.try_clone().doing("share the socket")?);
    while let Some(order) = receive(&mut from)? {
        let Order::Run(job) = order else { continue };
        let mut look = || -> Res {
            send(&mut stream, &Report::Late)?;
            receive::<Order>(&mut from)?.map(|_| ()).ok_or("the runner has gone".into())
        };
        match run(&job, &mut look) {
            Ok(done) => send(&mut stream, &Report::Done(done))?,
            Err(err) => {
                let done = Outcome { status: 127 << 8, err, stuck: true, ..Outcome::default() };
                return send(&mut stream, &Report::Done(done));
            }
        }
    }
    Ok(())
}

/// What runs, and the ends of it that the worker holds.
struct Running {
    pid: Pid,
    alive: OwnedFd,
    terminal: Option<Terminal>,
    out: Option<Receiver<String>>,
    err: Option<Receiver<String>>,
    ended: Receiver<(i32, i32)>,
}

/// `look` returns when the runner has looked at what is there.
fn run(job: &Job, look: &mut impl FnMut() -> Res) -> Res<Outcome> {
    let deadline = Instant::now() + Duration::from_millis(job.deadline_ms);
    let mut running = start(job)?;
    let mut done = Outcome::default();
    if let (Some(terminal), Some(steps)) = (running.terminal.as_mut(), job.dialogue.as_ref()) {
        done.missed = terminal.converse(steps, deadline)?;
        if done.missed.is_none() {
            terminal.drain(deadline)?;
        }
    }
    if !readable(&running.alive, deadline.saturating_duration_since(Instant::now()))? {
        done.late = true;
        look()?;
        kill_below();
    }
    finish(running, job, done, look)
}

fn start(job: &Job) -> Res<Running> {
    let terminal = job.dialogue.as_ref().map(|_| Terminal::open()).transpose()?;
    let me = std::env::current_exe().doing("find myself")?;
    let mut command = Command::new(me);
    command.args(["--leader", terminal.as_ref().map_or("-", |t| &t.name)]).args(&job.argv);
    command.envs(job.env.iter().map(|(name, value)| (name, value)));
    command.stdin(if job.input.is_empty() { Stdio::null() } else { Stdio::piped() });
    if terminal.is_some() {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    } else {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let mut child = command.spawn().doing("start the program")?;
    let pid = Pid::from_child(&child);
    let alive = process::pidfd_open(pid, PidfdFlags::empty()).doing("open the program's pidfd")?;
    if let Some(mut to) = child.stdin.take() {
        let input = job.input.clone();
        // A program that does not read its input ends the pipe; that is its right.
        std::thread::spawn(move || to.write_all(input.as_bytes()));
    }
    let (out, err) = (child.stdout.take().map(collect), child.stderr.take().map(collect));
    Ok(Running { pid, alive, terminal, out, err, ended: reap() })
}

/// Reads a stream to its end in a thread.
fn collect(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (to, from) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut stream = stream.take(MOST_OUTPUT);
        let _ = stream.read_to_end(&mut bytes);
        let _ = to.send(String::from_utf8_lossy(&bytes).into_owned());
        let _ = std::io::copy(&mut stream.into_inner(), &mut std::io::sink());
    });
    from
}

/// Reaps in a thread until no child is left: the receiver gets each PID and status, then ends.
fn reap() -> Receiver<(i32, i32)> {
    let (to, from) = channel();
    std::thread::spawn(move || loop {
        match process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                let _ = to.send((pid.as_raw_nonzero().get(), status.as_raw()));
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    });
    from
}

/// The program has ended: its status, what it wrote, what it left.
fn finish(mut running: Running, job: &Job, mut done: Outcome, look: &mut impl FnMut() -> Res) -> Res<Outcome> {
    let mut all_gone = false;
    let mut until = Instant::now() + GRACE;
    for round in 0..2 {
        while let Some((pid, status)) = next(&running.ended, until, &mut all_gone) {
            if pid == running.pid.as_raw_nonzero().get() {
                done.status = status;
            }
        }
        if all_gone {
            break;
        }
        let left = procs::below(process::getpid().as_raw_nonzero().get());
        let lines = left.iter().map(|p| format!("{} {} {}", p.pid, p.state, procs::command_line(p)));
        if round == 1 {
            return Err(format!("cannot be killed:\n{}", lines.collect::<Vec<_>>().join("\n")));
        }
        if !job.may_leave && !done.late {
            done.left = lines.collect();
            look()?;
        }
        kill_below();
        until = Instant::now() + DEATH;
    }
    if let Some(terminal) = running.terminal.as_mut() {
        done.out = std::mem::take(&mut terminal.heard);
    }
    let text = |from: Option<Receiver<String>>| from.and_then(|f| f.recv_timeout(DEATH).ok());
    if let Some(out) = text(running.out.take()) {
        done.out = out;
    }
    done.err = text(running.err.take()).unwrap_or_default();
    Ok(done)
}

fn next(from: &Receiver<(i32, i32)>, until: Instant, all_gone: &mut bool) -> Option<(i32, i32)> {
    match from.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(one) => Some(one),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => {
            *all_gone = true;
            None
        }
    }
}

/// SIGKILL to all descendants; those forked meanwhile are found in a further round.
fn kill_below() {
    for _ in 0..5 {
        let below = procs::below(process::getpid().as_raw_nonzero().get());
        let living: Vec<Pid> = below.iter().filter(|p| p.state != 'Z').filter_map(|p| Pid::from_raw(p.pid)).collect();
        if living.is_empty() {
            return;
        }
        for pid in living {
            // One that has ended meanwhile is what is wanted.
            let _ = process::kill_process(pid, Signal::KILL);
        }
    }
}
