//! Several copies of a program, called on the front end and on a node: input and output that somebody does not take.

use super::scene::{holds, same, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use std::path::PathBuf;

pub(crate) const SCENES: &[Scene] = &[
    ("copies_that_do_not_read", copies_that_do_not_read),
    ("copies_whose_output_is_not_read", copies_whose_output_is_not_read),
    ("run_whose_output_is_not_read", run_whose_output_is_not_read),
    ("copies_and_other_children", copies_and_other_children),
    ("copies_signalled_early", copies_signalled_early),
    ("nested_signalled_early", nested_signalled_early),
];

/// A directory of this scene's own, which all machines of its sandbox see.
struct Files(PathBuf);

impl Files {
    fn new(scene: &str) -> Res<Files> {
        let path = std::env::temp_dir().join(format!("shoal-tests.{}.{scene}", std::process::id()));
        std::fs::create_dir_all(&path).doing("make a directory")?;
        Ok(Files(path))
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a script; its path.
    fn script(&self, text: &str) -> Res<String> {
        let path = self.path("script");
        std::fs::write(&path, text).doing("write a script")?;
        Ok(path)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where `shoal run` is called: before the shell that calls it.
const CALLERS: [&str; 2] = ["", "shoal run -n 0 --"];

/// A copy that reads nothing holds back the input of the others once it is a buffer behind, and no longer than it takes input.
fn copies_that_do_not_read(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "copies_that_do_not_read", 3)?;
    let files = Files::new("copies_that_do_not_read")?;
    let copies = |n1: &str| {
        files.script(&format!(
            "head -c 10000000 /dev/zero | \
             shoal run -n 0-2 -p -- sh -c 'test $(hostname) = n1 && {n1}; head -c 200000 | wc -c; wc -c'"
        ))
    };
    let all = "n0: 200000 n0: 9800000 n2: 200000 n2: 9800000";
    for caller in CALLERS {
        let (script, written) = (copies("exec sleep 1101")?, files.path("written"));
        let going = s.start(&format!("{caller} bash {script} >{written}; echo $?; sort {written} | xargs"));
        s.until(&format!("test \"$(sort {written} | xargs)\" = 'n0: 200000 n2: 200000'"))?;
        holds("one copy sleeps", s.count("sleep 1101") == 1)?;
        s.ok("pkill -TERM -x sleep")?;
        same("all of it, and the worst status", going.end()?.out.trim(), format!("143\n{all}").as_str())?;
        let script = copies("exec 0<&- && exec sleep 2")?;
        s.prints(&format!("{caller} bash {script} | sort | xargs"), all)?;
    }
    Ok(End::Passed)
}

/// Signals to copies whose output nobody takes.
fn copies_whose_output_is_not_read(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "copies_whose_output_is_not_read", 3)?;
    for caller in CALLERS {
        unread(&s, caller, "shoal run -n 1-2 yes", 2)?;
    }
    Ok(End::Passed)
}

/// The same of one program.
fn run_whose_output_is_not_read(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "run_whose_output_is_not_read", 2)?;
    for caller in CALLERS {
        unread(&s, caller, "shoal run -n 1 yes", 1)?;
    }
    Ok(End::Passed)
}

/// Children from before their parent executed `shoal run` do not count as copies, and get no signal that is for these.
fn copies_and_other_children(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "copies_and_other_children", 3)?;
    let files = Files::new("copies_and_other_children")?;
    for caller in CALLERS {
        let other = "shoal run -n 2 -- sh -c 'sleep 1; exit 9' &\nsh -c 'sleep 1; exit 8' &";
        let script = files.script(&format!("{other}\nexec shoal run -n 0-1 -- sh -c 'sleep 2; exit 3'"))?;
        s.prints(&format!("{caller} bash {script}; echo $?"), "3")?;
        let pid = files.path("pid");
        let script =
            files.script(&format!("echo $$ >{pid}\nshoal run -n 2 sleep 1103 &\nexec shoal run -n 0-1 sleep 1104"))?;
        let going = s.start(&format!(
            "{caller} bash {script}; echo $?; other=$(shoal ps | awk '/sleep 1103$/ {{print $1}}'); kill $other && echo lives"
        ));
        wait_for("all are there", || s.count("sleep 1103") == 1 && s.count("sleep 1104") == 2)?;
        s.ok(&format!("kill -TERM $(cat {pid})"))?;
        same(
            "the status of the copies, and that the other child was not signalled",
            going.end()?.out.trim(),
            "143\nlives",
        )?;
        wait_for("nothing is left", || s.count("sleep 1103") == 0)?;
    }
    Ok(End::Passed)
}

/// `run` writes for ever, and nobody reads. The first SIGINT ends the program, the next one `shoal run`, as the program has ended.
fn unread(s: &Sandbox, caller: &str, run: &str, copies: usize) -> Res {
    let files = Files::new(&format!("unread-{copies}"))?;
    let pid = files.path("pid");
    let script = files
        .script(&format!("{{ sh -c 'echo $$ >{pid}; exec {run}'; echo $? >&2; pkill -x sleep; }} | sleep 1102"))?;
    let going = s.start(&format!("{caller} bash {script} 2>&1"));
    wait_for("the copies write", || s.count("yes") == copies && s.count("sleep 1102") == 1)?;
    s.ok(&format!("kill -INT $(cat {pid})"))?;
    wait_for("no copy is left", || s.count("yes") == 0)?;
    holds("what they wrote still waits for its reader", s.count("sleep 1102") == 1)?;
    s.ok(&format!("sleep 1.2; {caller} kill -INT $(cat {pid})"))?;
    wait_for("the call has ended", || !going.is_going())?;
    let outcome = going.end()?;
    same("its status, before what bash says of the reader", outcome.out.lines().next(), Some("130"))
}

/// Calls `shoal run` for three nodes and signals it at some moment of its first milliseconds, again and again; the same by an alarm that it has from before.
const SIGNALS_EARLY: &str = r#"
import os, random, signal, subprocess, sys, time
run = ["shoal", "run", "-n", "1-3", "sleep", "1107"]
def end(call, sig, when):
    try: status = call.wait(timeout=10)
    except subprocess.TimeoutExpired: sys.exit(f"signal {sig} after {when}: it goes on")
    if status != -sig: sys.exit(f"signal {sig} after {when}: {status}")
for i in range(60):
    sig = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)[i % 3]
    call, when = subprocess.Popen(run), random.random() * 0.004
    time.sleep(when); call.send_signal(sig)
    end(call, sig, when)
for when in (0.001, 0.002, 0.003, 0.3):
    alarm = lambda: signal.setitimer(signal.ITIMER_REAL, when)
    end(subprocess.Popen(run, preexec_fn=alarm), signal.SIGALRM, when)
print("end")
"#;

/// Copies that are still to come have what came before them.
fn copies_signalled_early(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "copies_signalled_early", 4)?;
    let files = Files::new("copies_signalled_early")?;
    let script = files.script(SIGNALS_EARLY)?;
    for caller in CALLERS {
        // Copies may end a moment after the process that stood for them.
        let gone = format!("until ! pgrep -f '^(shoal run -n 0 -- )?python3 {script}' >&2; do sleep 0.05; done");
        s.prints(&format!("{caller} python3 {script}; {gone}"), "end")?;
        wait_for("no copy is left", || s.count("sleep 1107") == 0)?;
    }
    Ok(End::Passed)
}

/// A `shoal run` on a node, signalled while what it asked for is being started on another one.
const NESTED_EARLY: &str = r#"
import random, signal, subprocess, sys, time
for i in range(120):
    sig = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)[i % 3]
    call = subprocess.Popen(["shoal", "run", "-n", "0", "shoal", "run", "-n", "1", "sleep", "1108"])
    when = 0.0005 + random.random() * 0.004
    time.sleep(when); call.send_signal(sig)
    status = call.wait(timeout=30)
    if status != -sig: sys.exit(f"signal {sig} after {when}: {status}")
print("end")
"#;

/// Natively there is one process at each moment, which ends by the signal.
fn nested_signalled_early(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "nested_signalled_early", 2)?;
    let files = Files::new("nested_signalled_early")?;
    let script = files.script(NESTED_EARLY)?;
    s.prints(&format!("python3 {script}"), "end")?;
    wait_for("no program is left", || s.count("sleep 1108") == 0)?;
    Ok(End::Passed)
}
