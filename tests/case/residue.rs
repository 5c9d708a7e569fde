//! A sandbox leaves nothing behind, however it ends.

use super::scene::{holds, same, wait_for};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{procs, quiet};
use crate::lab::{Doing, Res};
use rustix::io::Errno;
use rustix::process::{kill_process, Pid, Signal};
use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};

pub(crate) const SCENES: &[Scene] = &[
    ("sandbox_status", sandbox_status),
    ("sandbox_ends_clean", |place| ends(place, None, None)),
    ("sandbox_killed_clean", |place| ends(place, Some(""), None)),
    ("sandbox_interrupted_clean", |place| ends(place, Some(""), Some(Signal::TERM))),
    ("sandbox_cluster_killed_clean", |place| ends(place, Some("shoal:sandbox"), None)),
    ("sandbox_front_killed_clean", |place| ends(place, Some("shoal:front"), None)),
    ("sandbox_daemons_killed_clean", |place| ends(place, Some("shoal"), None)),
    ("sandbox_parts_killed_clean", parts_killed),
];

/// Everything else of which it consists, by name: the janitor, the machines' inits, the holder, the agents and what helps them, relays, stand-ins and bodies.
const PARTS: &[&str] = &[
    "shoal:janitor",
    "shoal:n0",
    "shoal:holder",
    "shoal:agent",
    "shoal:nursery",
    "shoal:usage",
    "shoal:lookers",
    "sleep",
    "sh",
];

fn parts_killed(place: &Place) -> Res<End> {
    for part in PARTS {
        ends(place, Some(part), None).map_err(|e| format!("{part}: {e}"))?;
    }
    Ok(End::Passed)
}

/// What a sandbox may change on the machine, as text.
fn machine() -> Res<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for line in fs::read_to_string("/proc/self/mountinfo").doing("read the mounts")?.lines() {
        found.insert(format!("mount {line}"));
    }
    for dir in ["/sys/class/net", "/sys/fs/fuse/connections", "/run", "/tmp"] {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !dir.starts_with("/tmp") || name.contains("shoal") && !name.starts_with("shoal-tests.") {
                found.insert(format!("{dir}/{name}"));
            }
        }
    }
    let groups =
        Command::new("find").args(["/sys/fs/cgroup", "-name", "shoal-sandbox.*"]).output().doing("run find")?;
    found.extend(String::from_utf8_lossy(&groups.stdout).lines().map(String::from));
    Ok(found)
}

/// A sandbox of which somebody outside of it reads the output.
pub(super) fn start(place: &Place, command: &[&str]) -> Res<Child> {
    let shoal = place.shoal.as_ref().ok_or("there is no shoal: build it first, or set SHOAL")?;
    let mut sandbox = Command::new(shoal);
    sandbox.args(["sandbox", "-n", "2", "--"]).args(command);
    sandbox.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().doing("start a sandbox")
}

fn sandbox_status(place: &Place) -> Res<End> {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255)] {
        let done = start(place, &["sh", "-c", script])?.wait_with_output().doing("wait for the sandbox")?;
        same(script, done.status.code(), Some(code))?;
    }
    let done = start(place, &["sh", "-c", "echo out; echo err >&2"])?.wait_with_output().doing("wait")?;
    same("output", (&done.stdout[..], &done.stderr[..]), (&b"out\n"[..], &b"err\n"[..]))?;
    let done = start(place, &["/no/such/program"])?.wait_with_output().doing("wait")?;
    same("no such program", done.status.code(), Some(127))?;
    Ok(End::Passed)
}

/// Ends a sandbox with programs in it by `signal` (SIGKILL) to its parts called `victim` (empty: the command itself;
/// `None`: its command ends by itself), and looks for what is left.
fn ends(place: &Place, victim: Option<&str>, signal: Option<Signal>) -> Res<End> {
    let _alone = quiet::alone()?;
    let before = machine()?;
    let script = "shoal run -n 0 sleep 1030 & shoal run -n 1 sh -c 'sleep 1030 & sleep 1030' & exec sleep 1031";
    let mut child = start(place, &["sh", "-c", script])?;
    let root = child.id() as i32;
    wait_for("the programs run", || {
        let lines: Vec<String> = procs::below(root).iter().map(procs::command_line).collect();
        let count = |command: &str| lines.iter().filter(|line| *line == command).count();
        (count("sleep 1030"), count("sleep 1031")) == (3, 1)
    })?;
    let all = procs::below(root);
    let command = all.iter().find(|p| procs::command_line(p) == "sleep 1031").ok_or("the command is there")?.pid;
    let targets: Vec<i32> = match victim {
        None => vec![command],
        Some("") => vec![root],
        Some(name) => all.iter().filter(|p| p.comm == name).map(|p| p.pid).collect(),
    };
    holds(&format!("there is a {victim:?}"), !targets.is_empty())?;
    for pid in targets {
        let pid = Pid::from_raw(pid).ok_or("PID 0")?;
        match kill_process(pid, signal.unwrap_or(Signal::KILL)) {
            // It has died of another one's end.
            Err(Errno::SRCH) => {}
            killed => killed.doing("kill")?,
        }
    }
    if victim.is_some_and(|name| name == "shoal" || PARTS.contains(&name)) {
        // Without these the sandbox goes on until its command ends, which is one of some of them.
        let _ = kill_process(Pid::from_raw(command).ok_or("PID 0")?, Signal::KILL);
    }
    wait_for("the sandbox ends", || matches!(child.try_wait(), Ok(Some(_))))?;
    let gone = |p: &procs::Proc| procs::one(p.pid).is_none_or(|now| now.comm != p.comm);
    wait_for("all its processes are gone", || all.iter().all(gone))?;
    // Others may run sandboxes meanwhile: their groups have other numbers.
    let own = format!("shoal-sandbox.{root}.");
    let is_left =
        |thing: &&String| !before.contains(*thing) && (!thing.contains("shoal-sandbox.") || thing.contains(&own));
    let left = || machine().map(|now| now.iter().filter(is_left).cloned().collect::<Vec<String>>());
    wait_for("nothing else is left", || left().is_ok_and(|left| left.is_empty()))
        .map_err(|e| format!("{e}: {:?}", left().unwrap_or_default()))?;
    Ok(End::Passed)
}
