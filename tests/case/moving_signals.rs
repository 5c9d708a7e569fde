//! Signals that stop and continue a process and are sent where its parent is, at every step at which it moves away from there or back: each counts once, and none is
//! taken back by one that came before it.

use super::hostile::compiled_of;
use super::moving_faults::{stage, Victim};
use super::scene::{outside, same, wait_for, Going, Sandbox};
use super::{End, Scene};
use crate::lab::faults::Faults;
use crate::lab::place::Place;
use crate::lab::Res;
use std::fs;
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("move_continued_on_its_way", move_continued_on_its_way),
    ("move_stopped_on_its_way", move_stopped_on_its_way),
    ("move_waits_after_a_stop", move_waits_after_a_stop),
    ("move_signalled_by_its_group", move_signalled_by_its_group),
    ("move_of_a_clan", move_of_a_clan),
    ("move_refused_while_it_is_stopped", move_refused_while_it_is_stopped),
];

/// Where its parent stays.
const HOME: &str = "n0";

/// From when the new node is told to when the old one has said that it has left.
const POINTS: [&str; 13] = [
    "destination is told",
    "destination has a vessel",
    "in connected",
    "source is to leave",
    "out held",
    "in rebuilt",
    "destination has it",
    "out bound",
    "source has bound it",
    "in told to go",
    "out told to end",
    "out ended",
    "destination runs it",
];

/// A child that notes each SIGUSR1 in a file; its parent does nothing.
const PROGRAM: &str = "if (!fork) { setpgrp; $SIG{USR1} = sub { open F, q(>>), $ARGV[0]; print F q(x); close F };
        open P, qq(>$ARGV[0].pid); print P $$; close P; sleep 1 while 1 }
    sleep 1 while 1";

struct Stage {
    s: Sandbox,
    faults: Faults,
    file: String,
    child: String,
    going: Going,
}

impl Stage {
    fn new(place: &Place, name: &str) -> Res<Stage> {
        let (s, faults) = stage(place, name, Victim::FrontDaemon)?;
        let file = place.fresh(name).to_string_lossy().into_owned();
        let going = s.start(&format!("shoal run -n 0 perl -e '{PROGRAM}' {file} </dev/null >/dev/null 2>&1 & echo $! >{file}.run; wait $!; echo $?"));
        let pid = || fs::read_to_string(format!("{file}.pid")).unwrap_or_default();
        wait_for("it has a child", || !pid().is_empty())?;
        let child = pid();
        s.until(&format!("kill -0 {child}"))?;
        Ok(Stage { s, faults, file, child, going })
    }

    /// Sends it these where its parent is, in the numbers of that node.
    fn send(&self, signals: &[&str]) -> Res {
        let (agent, child) = (self.s.agent(HOME)?.to_string(), &self.child);
        let kill: Vec<String> = signals.iter().map(|sig| format!("kill -{sig} {child}")).collect();
        outside(&["nsenter", "-t", &agent, "-p", "--", "bash", "-c", &kill.join(" && ")])
    }

    /// Moves it to `node`, and does this when somebody is at the point.
    fn at(&self, point: &'static str, node: u32, does: impl FnOnce() -> Res) -> Res {
        self.faults.watch(point)?;
        let moving = self.s.start(&format!("shoal move {} {node}; shoal where {}", self.child, self.child));
        let held = self.faults.reached(Duration::from_secs(15))?;
        does()?;
        // What comes of it on that node has come before it goes on.
        self.s.ok("sleep 0.05")?;
        drop(held);
        same("where it is", moving.end()?.out.trim(), format!("n{node}").as_str())
    }

    /// It is (not) stopped, on the front end and where its parent is.
    fn is_stopped(&self, yes: bool) -> Res {
        let (agent, child) = (self.s.agent(HOME)?.to_string(), &self.child);
        let state = format!("test $(grep -c '^State:.T ' /proc/{child}/status) = {}", u32::from(yes));
        self.s.until(&state)?;
        wait_for("the same where its parent is", || {
            outside(&["nsenter", "-t", &agent, "-p", "-m", "--", "bash", "-c", &state]).is_ok()
        })
    }

    fn had(&self) -> usize {
        fs::read_to_string(&self.file).map_or(0, |text| text.len())
    }

    /// Everything, at each point and both ways.
    fn each(&self, mut does: impl FnMut(&Stage, &'static str, u32) -> Res) -> Res {
        for point in POINTS {
            for node in [1, 0] {
                does(self, point, node).map_err(|fault| format!("at {point:?}, to n{node}: {fault}"))?;
            }
        }
        Ok(())
    }

    fn end(self) -> Res<End> {
        self.s.ok(&format!("kill -KILL {}; kill $(cat {}.run)", self.child, self.file))?;
        same("its end", self.going.end()?.out.trim(), "143")?;
        Ok(End::Passed)
    }
}

/// One that is stopped is sent SIGUSR1 and SIGCONT.
fn move_continued_on_its_way(place: &Place) -> Res<End> {
    let stage = Stage::new(place, "move_continued_on_its_way")?;
    stage.each(|stage, point, node| {
        let before = stage.had();
        stage.s.ok(&format!("kill -STOP {}", stage.child))?;
        stage.is_stopped(true)?;
        stage.at(point, node, || stage.send(&["USR1", "CONT"]))?;
        wait_for("it has had its signal", || stage.had() > before)?;
        stage.is_stopped(false)?;
        same("signals that it has had", stage.had(), before + 1)
    })?;
    stage.end()
}

/// One that runs is sent SIGSTOP, and then goes on as it should.
fn move_stopped_on_its_way(place: &Place) -> Res<End> {
    let stage = Stage::new(place, "move_stopped_on_its_way")?;
    stage.each(|stage, point, node| {
        let before = stage.had();
        stage.at(point, node, || stage.send(&["STOP"]))?;
        stage.is_stopped(true)?;
        stage.send(&["USR1", "CONT"])?;
        wait_for("it has had its signal", || stage.had() > before)?;
        stage.is_stopped(false)
    })?;
    stage.end()
}

/// What waits for a time and was stopped meanwhile, which the kernel then makes again by itself, waits for the rest of that wherever it is.
fn move_waits_after_a_stop(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_waits_after_a_stop", 2)?;
    let program = compiled_of(place, "real", "waits_long")?;
    s.prints(
        &format!(
            "shoal run -n 0 {} & p=$!; sleep 0.5; kill -STOP $p
            until grep -q '^State:.T' /proc/$p/status; do sleep 0.02; done; kill -CONT $p; sleep 0.2
            for to in 1 0 front 1; do shoal move $p $to || echo stays; done; wait $p",
            program.display()
        ),
        "through",
    )?;
    Ok(End::Passed)
}

/// A signal to a group is the kernel's affair where its members are or stand, and the front end's elsewhere: one that moves meanwhile has each once.
fn move_signalled_by_its_group(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_signalled_by_its_group", 3)?;
    let program = compiled_of(place, "real", "group_counts")?;
    // To where its parent is and away from there; past it; and by way of the front end. Both lines say the same number.
    s.prints(
        &format!(
            "cd $(mktemp -d); for ways in '0 1' '0 2' '0 1 front'; do
                rm -f who; shoal run -n 1 {} >said 2>who & r=$!; until test -s who; do sleep 0.01; done; read p c <who
                for i in $(seq 12); do for to in $ways; do shoal move $c $to || echo stays; done; done
                kill -TERM $p; wait $r; sed 's/,.*//' said | sort -u | wc -l; sed -n 's/^had [0-9]*, //p' said; tail -n +2 who
            done",
            program.display()
        ),
        &["1\n0 failed, status 0"; 3].join("\n"),
    )?;
    Ok(End::Passed)
}

/// Three generations, of which one after the other moves: each reaches each in every way, and they are kin as before.
fn move_of_a_clan(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_of_a_clan", 3)?;
    let program = compiled_of(place, "real", "clan")?;
    // Who is moved where, by the rest of a division: 29 and 31 have all pairs of six and four in 24 steps or a few more. One that has a pidfd just then is moved a little later.
    s.prints(
        &format!(
            "cd $(mktemp -d); shoal run -n 1 {} file </dev/null >said & r=$!; until test -s file; do sleep 0.01; done; read -a all <file
            for i in $(seq 40); do
                p=${{all[i * 29 % 31 % 6]}}; to=$((i * 31 % 29 % 4)); test $to = 3 && to=front
                for try in 1 2 3 4 5; do shoal move $p $to 2>why && break; sleep 0.05; done || cat why
                n=$(wc -l <file); until test $(wc -l <file) -gt $n; do test -s said && break 2; sleep 0.01; done
            done
            kill -TERM ${{all[0]}}; wait $r; echo $?; cat said",
            program.display()
        ),
        "0\nwell",
    )?;
    Ok(End::Passed)
}

/// Its parent, on its node, stops it, has it moved, which cannot be, and continues it: what stood for it where it was to go is stopped yet, which is no new stop.
fn move_refused_while_it_is_stopped(place: &Place) -> Res<End> {
    const ROUNDS: &str = r#"
import os, signal, subprocess, time
r, w = os.pipe()
def fork(group):
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, group)
        if group: os.closerange(r, w + 1)
        while True: signal.pause()
    while os.getpgid(pid) != (group or pid): time.sleep(0.001)
    return pid
child = fork(0)
member = fork(child) # which has its leader with it
time.sleep(0.1)
subprocess.run(["shoal", "move", str(member), "1"], check=True)
for round in range(120):
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    said = subprocess.run(["shoal", "move", str(child), "1"], capture_output=True, text=True)
    assert "cannot be carried" in said.stderr, said
    time.sleep(round % 60 * 0.00015) # it is looked at some milliseconds after that
    os.kill(child, signal.SIGCONT)
    told = os.waitpid(child, os.WUNTRACED | os.WCONTINUED)
    assert os.WIFCONTINUED(told[1]), (round, told)
    time.sleep(0.02)
    more = os.waitpid(child, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
    assert more == (0, 0), (round, more)
os.killpg(child, signal.SIGKILL)
print("well")"#;
    let s = Sandbox::new(place, "move_refused_while_it_is_stopped", 2)?;
    s.prints(&format!("shoal run -n 0 python3 -S -c '{ROUNDS}' </dev/null"), "well")?;
    Ok(End::Passed)
}
