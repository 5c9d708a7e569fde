//! Terminals: one for the program, and ours with its job control.

use crate::daemon::Daemon;
use crate::kept::{Kept, Start};
use crate::{shoal_run, trial, FLAGS};
use agent::streams::Streams;
use kern::poll::{poll, Ready};
use kern::pty::{self, Modes};
use kern::sys;
use libtest_mimic::Trial;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) fn add(trials: &mut Vec<Trial>) {
    trials.push(trial("a_terminal_for_the_program", own_terminal));
    trials.push(trial("a_background_job_that_reads_is_stopped", background_read));
    trials.push(trial("a_background_job_that_does_not_read_runs", background_sleep));
}

/// A terminal with a session of its own in it.
struct Screen {
    master: OwnedFd,
    child: Kept,
    seen: String,
}

impl Screen {
    /// Starts `command` (made for `setsid`) as the leader of the terminal's session.
    fn start(mut command: Command, rows: u16, columns: u16) -> Screen {
        let (master, slave) = pty::open().expect("a terminal");
        pty::furnish(&slave, None, rows, columns).expect("furnished");
        let copy = || Stdio::from(slave.try_clone().expect("dup"));
        let child = command.stdin(copy()).stdout(copy()).stderr(copy()).start();
        Screen { master, child, seen: String::new() }
    }

    fn type_in(&self, text: &str) {
        sys::write(self.master.as_fd(), text.as_bytes()).expect("typed");
    }

    /// Waits until `text` has been shown behind what was waited for before; what was shown until then.
    fn expect(&mut self, text: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(at) = self.seen.find(text) {
                return self.seen.drain(..at + text.len()).collect();
            }
            assert!(Instant::now() < deadline, "{text:?} does not come, only {:?}", self.seen);
            self.look(100);
        }
    }

    fn look(&mut self, timeout_ms: i32) {
        if poll(&[(self.master.as_fd(), Ready::READ)], timeout_ms).expect("poll")[0] != Ready::default() {
            let mut buffer = [0; 4096];
            if let Ok(n) = sys::read(self.master.as_fd(), &mut buffer) {
                self.seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
            }
        }
    }

    fn modes(&self) -> Modes {
        Modes::of(self.master.as_fd()).expect("modes")
    }
}

/// `setsid` that makes its standard input the controlling terminal of what it starts.
fn in_session(command: &Command) -> Command {
    let mut session = Command::new("setsid");
    session.args(["-c", "-w"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        session.env(name, value.expect("set"));
    }
    session
}

fn own_terminal() {
    let streams = Arc::new(Streams::start().expect("streams"));
    let daemon = Daemon::new(streams.clone());
    let script = "tty; stty size; read line; echo \"got:$line\"; sleep 0.3; stty size; exit 4";
    let mut screen = Screen::start(in_session(&shoal_run(&daemon, "t", &["sh", "-c", script])), 30, 100);
    let before = screen.modes();
    let node = std::thread::spawn(move || daemon.serve());
    screen.expect("/dev/pts/");
    screen.expect("30 100\r\n");
    assert_eq!(screen.modes(), before.raw());
    pty::set_window(screen.master.as_fd(), 41, 99).expect("window");
    screen.type_in("hello\r");
    screen.expect("got:hello\r\n");
    screen.expect("41 99\r\n");
    assert_eq!(screen.child.wait().expect("its end").code(), Some(4));
    assert_eq!(screen.modes(), before);
    node.join().expect("the node");
    drop(streams);
}

/// An interactive bash, and in it `run` for a `shoal run` with the given daemon.
fn shell(daemon: &Daemon) -> Screen {
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-i"]).env("PS1", "$ ").env("SHOAL_SOCKET", &daemon.path);
    bash.env("RUN", std::env::current_exe().expect("own path")).env("LC_ALL", "C");
    let screen = Screen::start(in_session(&bash), 24, 200);
    screen.type_in(&format!("bind 'set enable-bracketed-paste off'; run() {{ {FLAGS}= \"$RUN\" \"$@\"; }}\n"));
    screen
}

fn background_read() {
    let streams = Arc::new(Streams::start().expect("streams"));
    let daemon = Daemon::new(streams.clone());
    let mut screen = shell(&daemon);
    screen.type_in(&format!("{FLAGS}= $RUN cat & echo 'beg''un'\n"));
    let node = std::thread::spawn(move || daemon.serve());
    screen.expect("begun");
    // It is stopped when the cat on the node reads, not before; bash says so at the next prompt.
    let deadline = Instant::now() + Duration::from_secs(10);
    for n in 1.. {
        screen.type_in(&format!("jobs; echo mark$(({n}+0)).\n"));
        if screen.expect(&format!("mark{n}.\r\n")).contains("Stopped") {
            break;
        }
        assert!(Instant::now() < deadline, "it is not stopped");
    }
    screen.type_in("fg\n");
    screen.expect("fg\r\n");
    screen.expect("cat\r\n");
    screen.type_in("a line\n");
    screen.expect("a line\r\na line\r\n");
    screen.type_in("\u{4}");
    screen.expect("$ ");
    screen.type_in("echo status $?; exit\n");
    screen.expect("status 0\r\n");
    node.join().expect("the node");
    screen.child.wait().expect("its end");
    drop(streams);
}

fn background_sleep() {
    let streams = Arc::new(Streams::start().expect("streams"));
    let daemon = Daemon::new(streams.clone());
    let mut screen = shell(&daemon);
    screen.type_in(&format!("{FLAGS}= $RUN sh -c 'sleep 0.5; echo ran; exit 7' & wait $!; echo status $?; exit\n"));
    let node = std::thread::spawn(move || daemon.serve());
    screen.expect("ran\r\n");
    screen.expect("status 7\r\n");
    node.join().expect("the node");
    screen.child.wait().expect("its end");
    drop(streams);
}
