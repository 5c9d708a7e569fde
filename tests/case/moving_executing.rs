//! A process that executes programs all the time, by threads that become its first one.

use super::hostile::compiled;
use super::scene::{holds, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use std::fs;

pub(crate) const SCENES: &[Scene] = &[("move_of_what_executes_by_a_thread", move_of_what_executes_by_a_thread)];

const MOVES: u32 = 40;

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
