//! `./x bench ps`: listing what runs on many nodes.

use crate::place::{Place, Program};
use crate::table::{head, print, print_failed, Bar, Line, Spread};
use vocab::Result;

const NODES: usize = 100;
const FORKS: usize = 149;
const ROUNDS: usize = 9;

/// Prints all lines; false when a bar was missed.
///
/// # Errors
/// Where nothing can be measured at all: no compiler, no sandbox.
pub(crate) fn measure() -> Result<bool> {
    let program = Program::compile("space", "-static")?;
    head();
    let mut place = Place::open(NODES)?;
    let total = NODES * (FORKS + 1);
    let start = format!("shoal run -a {} many {FORKS} </dev/null >/dev/null 2>&1 & job=$!", program.path().display());
    // The heading is a line more.
    let come = format!("for i in $(seq 100); do n=$(shoal ps | wc -l); [ $n -gt {total} ] && break; sleep 0.3; done");
    let listed = place.number(&format!("{start}; {come}; echo $n"))?;
    if listed <= total as f64 {
        return Ok(print_failed("all are there", &format!("only {listed}")));
    }
    let mut met = true;
    for (command, bar) in
        [("shoal ps", Bar::Figure(0.3)), ("shoal ps --json", Bar::None), ("shoal ps --tree", Bar::None)]
    {
        let timed = format!("s=$(date +%s%N); {command} >/dev/null; echo $(($(date +%s%N) - s))");
        let took = (0..ROUNDS).map(|_| place.number(&timed).map(|ns| ns / 1e9)).collect::<Result<Vec<f64>>>()?;
        let name = format!("{command}, {total} processes on {NODES} nodes");
        met &= print(&Line { name: &name, figure: Spread::of(took), local: None, unit: "s", bar });
    }
    place.number("kill -INT $job; wait $job; echo 0")?;
    place.close()?;
    Ok(met)
}
