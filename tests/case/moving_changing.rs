//! Processes that change just when they are to stand still: the move is tried again, and goes by what they are then.

use super::hostile::compiled;
use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::faults::Faults;
use crate::lab::place::Place;
use crate::lab::session::Plan;
use crate::lab::{Doing, Res};
use std::fs;
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("move_of_what_executes_by_a_thread", move_of_what_executes_by_a_thread),
    ("move_of_what_is_advised_meanwhile", move_of_what_is_advised_meanwhile),
    ("move_of_what_begins_to_trace", move_of_what_begins_to_trace),
    ("move_of_a_parent_of_clones", move_of_a_parent_of_clones),
    ("move_to_a_silent_node", move_to_a_silent_node),
];

const MOVES: u32 = 40;

/// Busy nodes are silent for a moment now and then. One that stays so is lost before the move gives up.
fn move_to_a_silent_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_to_a_silent_node", 2)?;
    let going = s.start("shoal run -n 0 sleep 1049");
    s.until("shoal ps | grep -q 'sleep 1049'")?;
    let pid = s.ok("shoal ps | awk '/sleep 1049$/ {print $1; exit}'")?;
    let is_silent = "shoal nodes | grep -q '^n1 *silent'";
    s.network("sandbox", &["ip", "link", "set", "n1", "nomaster"])?;
    s.until(is_silent)?;
    let explained = s.sh(&format!("shoal move --explain {pid} 1"))?;
    holds(&format!("it is said: {}", explained.out), explained.out.contains("node n1 is silent"))?;
    let moving = s.start(&format!("timeout 20 shoal move {pid} 1"));
    s.until(is_silent)?;
    s.network("sandbox", &["ip", "link", "set", "n1", "master", "shoal"])?;
    let moved = moving.end()?;
    holds(&format!("it has waited: {}", moved.text()), moved.code() == Some(0))?;
    s.prints(&format!("shoal where {pid}"), "n1")?;
    s.network("sandbox", &["ip", "link", "set", "n0", "nomaster"])?;
    s.until("shoal nodes | grep -q '^n0 *silent'")?;
    let told = s.fails(&format!("timeout 20 shoal move {pid} 0"), 1)?;
    holds(&format!("a node that is lost is named: {told}"), told.contains("node n0 is not up"))?;
    s.network("sandbox", &["ip", "link", "set", "n0", "master", "shoal"])?;
    s.ok(&format!("kill -KILL {pid}"))?;
    going.end()?;
    Ok(End::Passed)
}

/// Of the ends of children that it has left behind it is told also where no SIGCHLD tells what stands there for it.
fn move_of_a_parent_of_clones(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_of_a_parent_of_clones", 2)?;
    let (program, said) = (compiled(place, "clones")?, place.fresh("clones.said").display().to_string());
    for to in ["1", "front"] {
        let run =
            format!("shoal run -n 0 {} </dev/null >{said}.{to} & echo $! >{said}.{to}.pid; wait $!", program.display());
        let going = s.start(&run);
        s.until(&format!("grep -q up {said}.{to}"))?;
        let pid = s.ok(&format!("cat {said}.{to}.pid"))?;
        s.ok(&format!("timeout 20 shoal move {pid} {to}"))?;
        s.ok(&format!("kill -USR1 {pid}"))?;
        let ended = s.until(&format!("! kill -0 {pid}"));
        s.sh(&format!("kill -KILL {pid}"))?;
        let outcome = going.end()?;
        ended.map_err(|e| format!("it waits for ever on {to}: {e}"))?;
        holds(&format!("it ends with 42: {}", outcome.text()), outcome.code() == Some(42))?;
    }
    Ok(End::Passed)
}

/// Whoever stops its threads one by one may wait for one that waits for another that stands still already. A move that meets such a moment is tried again; one that is refused at
/// last has changed nothing.
fn move_of_what_executes_by_a_thread(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_of_what_executes_by_a_thread", 2)?;
    let (program, file) = (compiled(place, "executes_by_a_thread")?, place.fresh("executed").display().to_string());
    let run = format!("shoal run -n 0 {} {file} 0 </dev/null & echo $! >{file}.pid; wait $!", program.display());
    let going = s.start(&run);
    s.until(&format!("test -s {file}"))?;
    let pid = s.ok(&format!("cat {file}.pid"))?;
    let mut moved = 0;
    for to in (0..MOVES).map(|round| (round + 1) % 2) {
        let one = s.sh(&format!("timeout 20 shoal move {pid} {to}; echo $?"))?;
        match one.out.trim() {
            "0" => moved += 1,
            // It was elsewhere already, or had no moment that it could be moved in.
            "1" => {}
            other => return Err(format!("a move to node {to} after {moved} that went well: {other}\n{}", one.text())),
        }
    }
    fs::write(format!("{file}.end"), "").doing("end it")?;
    let outcome = going.end()?;
    holds(&format!("it ends with 7: {}", outcome.text()), outcome.code() == Some(7))?;
    holds(&format!("{moved} of {MOVES} moves went well"), moved >= MOVES / 2)?;
    let lines = fs::read_to_string(&file).doing("read what it has written")?;
    let once = lines.lines().enumerate().all(|(number, line)| line == number.to_string());
    holds("each program was executed once, after the one before it", once).map_err(|e| format!("{e}:\n{lines}"))?;
    Ok(End::Passed)
}

/// What is locked, advised or sealed of a mapping as a whole shows only in a look at it that takes long.
fn move_of_what_is_advised_meanwhile(place: &Place) -> Res<End> {
    let socket = place.fresh("faults");
    let faults = Faults::listen(&socket)?;
    let plan = Plan { faults: Some(socket), ..Plan::default() };
    let s = Sandbox::with(place, "move_of_what_is_advised_meanwhile", 2, plan)?;
    let (program, base) = (compiled(place, "advises")?, place.fresh("advised").display().to_string());
    let program = program.display();
    for (what, at, flag) in [("lock", 0, "lo"), ("advise", 1, "dc"), ("seal", 2, "sl")] {
        let said = format!("{base}.{what}");
        let run = format!("shoal run -n 0 {program} {what} {said}.go {said}.done {said}.look </dev/null >{said}");
        let one = s.start(&run);
        s.until(&format!("test -s {said}"))?;
        let pid = s.ok(&format!("cat {said}"))?;
        faults.watch("out may leave")?;
        let moving = s.start(&format!("shoal move {pid} 1"));
        let held = faults.reached(Duration::from_secs(15))?;
        s.ok(&format!("touch {said}.go; until test -e {said}.done; do sleep 0.01; done"))?;
        drop(held);
        let outcome = moving.end()?;
        let is_sealed = what == "seal";
        let expected = if is_sealed { (Some(1), "n0") } else { (Some(0), "n1") };
        holds(&outcome.text(), outcome.code() == expected.0 && outcome.err.contains("sealed") == is_sealed)?;
        s.prints(&format!("shoal where {pid}; touch {said}.look"), expected.1)?;
        holds("it ends well", one.end()?.code() == Some(0))?;
        let flags = fs::read_to_string(&said).doing("read the flags of its mappings")?;
        let its = flags.lines().nth(1 + at).unwrap_or_default();
        holds(&format!("{its:?} says {flag:?}"), its.split(' ').any(|word| word == flag))?;
    }
    Ok(End::Passed)
}

/// What takes its place would not let go on whom it traces. What it begins to trace just before it stands still may be anybody, and by any of its threads.
fn move_of_what_begins_to_trace(place: &Place) -> Res<End> {
    let socket = place.fresh("faults");
    let faults = Faults::listen(&socket)?;
    let plan = Plan { faults: Some(socket), ..Plan::default() };
    let s = Sandbox::with(place, "move_of_what_begins_to_trace", 2, plan)?;
    let (program, base) = (compiled(place, "traces")?, place.fresh("traced").display().to_string());
    let program = program.display();
    let image = place.fresh("traced.image").display().to_string();
    for (number, (who, place, point, command)) in [
        ("first", "shoal run -n 0", "out may leave", "shoal move $p 1"),
        ("other", "shoal run -n 0", "out may leave", "shoal move $p 1"),
        ("first", "shoal run -n 0", "out may leave", "shoal move --lazy $p 1"),
        ("first", "shoal run -n 0", "out may leave", "shoal move $p front"),
        ("other", "", "out may leave", "shoal move $p 1"),
        ("other", "", "dump stops", &format!("shoal checkpoint $p -o {image}")),
    ]
    .into_iter()
    .enumerate()
    {
        let said = format!("{base}.{number}");
        let sleeps = s.start(&format!("{place} sleep 1191 & echo $! >{said}.victim; wait $!; echo $?"));
        s.until(&format!("test -s {said}.victim && shoal run -n 0 true"))?;
        let one = s.start(&format!(
            "{place} {program} {who} $(cat {said}.victim) {said}.go {said}.done </dev/null >{said}; echo $?"
        ));
        s.until(&format!("test -s {said}"))?;
        let before = s.ok(&format!("shoal where $(cat {said})"))?;
        faults.watch(point)?;
        let moving = s.start(&format!("p=$(cat {said}); {command}"));
        let held = faults.reached(Duration::from_secs(15))?;
        s.ok(&format!("touch {said}.go; until test -e {said}.done; do sleep 0.01; done"))?;
        drop(held);
        let outcome = moving.end()?;
        let victim = s.ok(&format!("cat {said}.victim"))?;
        let named = outcome.err.contains("it traces process");
        holds(&format!("{command}: {}", outcome.text()), outcome.code() == Some(1) && named)?;
        s.prints(&format!("shoal where $(cat {said}); touch {said}.done.end"), &before)?;
        same("the end of who traces", one.end()?.out.trim(), "7")?;
        s.ok(&format!("kill {}", victim.trim()))?;
        same("the end of whom it has traced", sleeps.end()?.out.trim(), "143")?;
    }
    Ok(End::Passed)
}
