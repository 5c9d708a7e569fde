//! Locks on files, of processes that move: nobody else has one in between, whatever becomes of the move.

use super::hostile::compiled;
use super::scene::{holds, same, Going, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::session::Plan;
use crate::lab::{Doing, Res};
use std::path::Path;

pub(crate) const SCENES: &[Scene] = &[
    ("move_of_an_exclusive_lock", move_of_an_exclusive_lock),
    ("move_of_a_shared_lock", move_of_a_shared_lock),
    ("move_of_a_shared_lock_to_another_file", move_of_a_shared_lock_to_another_file),
    ("move_between_two_locks", move_between_two_locks),
    ("move_of_sqlite_writers", move_of_sqlite_writers),
];

const KINDS: [&str; 3] = ["whole", "process", "file"];

/// A holder on the first node, somebody who wants the lock all the time, and one who waits for it.
struct Locked {
    program: String,
    at: String,
    pid: String,
    going: Going,
    prober: Going,
}

impl Locked {
    fn begin(s: &Sandbox, place: &Place, kind: &str, how: &str) -> Res<Locked> {
        let (program, at) =
            (compiled(place, "locks")?.display().to_string(), place.fresh("lock").display().to_string());
        let going = s.start(&format!(
            "shoal run -n 0 {program} hold {kind} {at} {how} </dev/null >{at}.held & echo $! >{at}.pid; wait $!"
        ));
        s.until(&format!("grep -q held {at}.held"))?;
        let pid = s.ok(&format!("cat {at}.pid"))?;
        let prober = s.start(&format!("echo $$ >{at}.probe; exec {program} probe {kind} {at} >{at}.free"));
        s.until(&format!("test -s {at}.probe"))?;
        Ok(Locked { program, at, pid, going, prober })
    }

    /// How often the lock was free until now; nobody asks any more.
    fn was_free(&self, s: &Sandbox) -> Res<u32> {
        let at = &self.at;
        s.ok(&format!("kill -TERM $(cat {at}.probe)"))?;
        s.until(&format!("test -s {at}.free"))?;
        s.ok(&format!("cat {at}.free"))?.parse().doing("read a number")
    }

    fn end(self, s: &Sandbox) -> Res {
        s.ok(&format!("kill -TERM {}", self.pid))?;
        self.prober.end()?;
        let ended = self.going.end()?;
        holds(&format!("the holder ends well: {}", ended.text()), ended.code() == Some(0))
    }
}

/// The holder stays, whoever moves it is told why, and a waiter gets the lock when the holder lets it go.
fn move_of_an_exclusive_lock(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_of_an_exclusive_lock", 2)?;
    for (kind, call) in KINDS.into_iter().zip(["flock(2)", "F_SETLK", "F_OFD_SETLK"]) {
        let locked = Locked::begin(&s, place, kind, "ex")?;
        let Locked { program, at, pid, .. } = &locked;
        let waits = s.start(&format!("echo $$ >{at}.second; exec {program} hold {kind} {at} ex >{at}.next"));
        let told = s.sh(&format!("shoal move --explain {pid} 1"))?;
        holds(&format!("{kind}: it is foreseen: {}", told.text()), told.text().contains("has an exclusive lock"))?;
        for to in ["1", "front", "--lazy 1"] {
            let told = s.fails(&format!("timeout 30 shoal move {pid} {to}"), 1)?;
            holds(&format!("{kind}: {told}"), told.contains(&format!("{at}) has an exclusive lock ({call})")))?;
        }
        s.prints(&format!("shoal where {pid}"), "n0")?;
        same(&format!("{kind}: times that it was free"), locked.was_free(&s)?, 0)?;
        s.ok(&format!("test ! -s {at}.next; kill -USR1 {pid}"))?;
        s.until(&format!("grep -q held {at}.next"))?;
        s.ok(&format!("kill -TERM $(cat {at}.second)"))?;
        waits.end()?;
        locked.end(&s)?;
    }
    Ok(End::Passed)
}

/// Two may have it: the new node has before the old one lets it go.
fn move_of_a_shared_lock(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_of_a_shared_lock", 2)?;
    for kind in KINDS {
        let locked = Locked::begin(&s, place, kind, "sh")?;
        let Locked { at, pid, program, .. } = &locked;
        for to in ["1", "0", "front", "1", "front", "0", "1"] {
            s.ok(&format!("timeout 30 shoal move {pid} {to}")).map_err(|fault| format!("{kind} to {to}: {fault}"))?;
        }
        same(&format!("{kind}: times that it was free"), locked.was_free(&s)?, 0)?;
        s.ok(&format!("kill -USR1 {pid}"))?;
        s.until(&format!("grep -q free {at}.held || ! kill -0 {pid}"))?;
        // Nothing of it has stayed behind.
        s.ok(&format!("timeout 5 {program} count {kind} {at} 1"))?;
        locked.end(&s)?;
    }
    Ok(End::Passed)
}

/// Where the name leads to a file of another file system nobody would be kept from what it has locked.
fn move_of_a_shared_lock_to_another_file(place: &Place) -> Res<End> {
    let s = Sandbox::with(
        place,
        "move_of_a_shared_lock_to_another_file",
        2,
        Plan { clocks: Some("foreign"), ..Plan::default() },
    )?;
    let locked = Locked::begin(&s, place, "whole", "sh")?;
    for to in ["1", "front"] {
        let told = s.fails(&format!("timeout 30 shoal move {} {to}", locked.pid), 1)?;
        holds(&format!("it says so: {told}"), told.contains("another file system"))?;
    }
    same("times that it was free", locked.was_free(&s)?, 0)?;
    locked.end(&s)?;
    Ok(End::Passed)
}

/// A process that has a lock for moments only is moved between two of them, and no count is lost.
fn move_between_two_locks(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_between_two_locks", 2)?;
    let program = compiled(place, "locks")?.display().to_string();
    for kind in KINDS {
        let at = place.fresh("count").display().to_string();
        let count = |node: u32| {
            s.start(&format!(
                "shoal run -n {node} {program} count {kind} {at} 3000 </dev/null & echo $! >{at}.{node}; wait $!"
            ))
        };
        let both = [count(0), count(1)];
        s.until(&format!("test -s {at}.0 && test -s {at}.1 && test -s {at}"))?;
        let moved = s.ok(&format!(
            "p=$(cat {at}.0) q=$(cat {at}.1) k=0; for i in 1 2 3; do \
             shoal move $p $((i % 2)) && k=$((k + 1)); shoal move $q $(((i + 1) % 2)) && k=$((k + 1)); done 2>{at}.why; echo $k"
        ))?;
        for one in both {
            let ended = one.end()?;
            holds(&format!("{kind}: {}", ended.text()), ended.code() == Some(0))?;
        }
        s.prints(&format!("cat {at}"), "6000").map_err(|fault| format!("{kind}: {fault}"))?;
        let why = s.ok(&format!("cat {at}.why"))?;
        // On a machine that is slow to move they may have counted to the end before that.
        let late = why
            .lines()
            .filter(|line| line.ends_with("is no process of the space") || line.ends_with("the process has ended"));
        let (late, least) = (late.count() as u32, 3);
        holds(
            &format!("{kind}: most of 6 moves come about: {moved}; {why}"),
            moved.parse::<u32>().is_ok_and(|moved| moved >= 1 && moved + late >= least),
        )?;
    }
    Ok(End::Passed)
}

fn move_of_sqlite_writers(place: &Place) -> Res<End> {
    let s = Sandbox::with(place, "move_of_sqlite_writers", 3, Plan { chaos: Some("50ms"), ..Plan::default() })?;
    let writer = Path::new(env!("CARGO_MANIFEST_DIR")).join("case/real/sqlite_writers.py").display().to_string();
    for mode in ["delete", "wal"] {
        let base = place.fresh("base").display().to_string();
        s.ok(&format!(
            "python3 -c \"import sqlite3; sqlite3.connect('{base}').execute('pragma journal_mode={mode}')\""
        ))?;
        s.ok(&format!("python3 {writer} {base}"))?;
        let script = format!("shoal run -n 0-2 python3 {writer} {base} 150 </dev/null");
        let ended = s.start(&script).end()?;
        holds(&format!("{mode}: {}", ended.text()), ended.code() == Some(0))?;
        s.prints(&format!("python3 {writer} {base}"), "ok 450").map_err(|fault| format!("{mode}: {fault}"))?;
    }
    let moved: u32 =
        s.ok("grep -c 'has moved' /run/shoal/sandbox/chaos.log || true")?.trim().parse().doing("read a number")?;
    holds(&format!("they were moved: {moved}"), moved >= 4)?;
    Ok(End::Passed)
}
