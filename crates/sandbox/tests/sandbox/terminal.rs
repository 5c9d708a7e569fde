//! The sandbox on a terminal. `script` makes the terminal; what is typed goes to it through a pipe.

use crate::call::{kill, Call, PATIENCE};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::Instant;
use vocab::Sig;

/// A terminal session under way.
struct Session {
    call: Call,
    input: ChildStdin,
    output: ChildStdout,
    seen: String,
}

impl Session {
    /// Runs `line` (with `$ME` for this program) in a shell on a terminal.
    fn start(line: &str) -> Session {
        let me = std::env::current_exe().expect("this program");
        let line = line.replace("$ME", &me.display().to_string());
        let mut call = Call::start_with(0, &[], |command| {
            let mut script = std::process::Command::new("script");
            script.args(["-q", "-e", "-c", &line, "/dev/null"]).env("SHELL", "/bin/bash");
            let tag = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
            script.envs(tag.collect::<Vec<_>>());
            script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
            *command = script;
        });
        let input = call.child.stdin.take().expect("a pipe");
        let output = call.child.stdout.take().expect("a pipe");
        Session { call, input, output, seen: String::new() }
    }

    fn type_in(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).expect("the terminal takes it");
    }

    /// Reads until `wanted` has come; what came is behind us then.
    fn expect(&mut self, wanted: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen.find(wanted) {
                self.seen.drain(..at + wanted.len());
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now()).as_millis() as i32;
            let came = kern::poll::poll(&[(self.output.as_fd(), kern::poll::Ready::READ)], left).expect("poll");
            assert!(came[0] != Default::default(), "waited for {wanted:?}, saw {:?}", self.seen);
            let mut bytes = [0u8; 4096];
            let n = self.output.read(&mut bytes).expect("the terminal can be read");
            assert!(n > 0, "waited for {wanted:?}, saw {:?}", self.seen);
            self.seen += &String::from_utf8_lossy(&bytes[..n]);
        }
    }
}

const PROMPT: &str = "[shoal front end]";

pub(crate) fn a_shell_has_job_control() {
    let mut session = Session::start("stty rows 30 cols 90; exec $ME sandbox 2");
    session.expect("2 nodes (n0 to n1)");
    session.expect(PROMPT);
    session.type_in("stty size; tty\n");
    session.expect("30 90\r\n");
    session.expect("/dev/pts/");
    session.expect(PROMPT);
    session.type_in("sleep 1000\n");
    wait_for_foreground(&session.call, "sleep");
    session.type_in("\x03");
    session.expect(PROMPT);
    session.type_in("echo status-$?\n");
    session.expect("status-130\r\n");
    session.type_in("sleep 1000\n");
    wait_for_foreground(&session.call, "sleep");
    session.type_in("\x1a");
    session.expect("Stopped");
    session.type_in("kill %1; fg; echo status-$?\n");
    session.expect("status-143\r\n");
    session.type_in("exit 5\n");
    assert_eq!(session.call.end().status.code(), Some(5));
}

/// Until a process of that name is there and has exec'd.
fn wait_for_foreground(call: &Call, name: &str) {
    call.part(name);
}

pub(crate) fn a_killed_caller_leaves_it_as_it_was() {
    let line = "stty -a >/dev/null; before=$(stty -g); sh -c 'echo pid-$$-; exec $ME sandbox 1 sh -c \"echo ready; read x\"'; \
                sleep 0.5; [ \"$before\" = \"$(stty -g)\" ] && echo same; stty sane";
    let mut session = Session::start(line);
    session.expect("pid-");
    session.expect("ready");
    let pid = session.seen_pid();
    kill(pid, Sig::KILL);
    session.expect("same");
    session.call.end();
}

impl Session {
    /// The caller of the sandbox: the parent of the janitor.
    fn seen_pid(&self) -> vocab::Pid {
        let janitor = self.call.part("shoal:janitor");
        let status = std::fs::read_to_string(format!("/proc/{}/status", janitor.0)).expect("it lives");
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("it has a parent");
        vocab::Pid(parent.trim().parse().expect("a number"))
    }
}

pub(crate) fn redirected_output_is_no_terminal() {
    let line = "$ME sandbox 1 sh -c '[ -t 1 ] || echo pipe; [ -t 0 ] && echo typed-$(cat)' | cat; echo status-$?";
    let mut session = Session::start(line);
    session.expect("pipe\r\n");
    session.type_in("here\n\x04");
    session.expect("typed-here");
    session.expect("status-0");
    session.call.end();
}
