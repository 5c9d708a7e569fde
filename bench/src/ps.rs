//! `./x bench ps`: listing what runs on many nodes.

use crate::place::{Place, Program};
use crate::table::{head, median, print, print_failed, Bar, Line, Spread};
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
    let (mut met, mut alive) = (true, Vec::new());
    for (command, bar) in
        [("shoal ps", Bar::Figure(0.3)), ("shoal ps --json", Bar::None), ("shoal ps --tree", Bar::None)]
    {
        let took = time(&mut place, command)?;
        if alive.is_empty() {
            alive.clone_from(&took);
        }
        let name = format!("{command}, {total} processes on {NODES} nodes");
        met &= print(&Line { name: &name, figure: Spread::of(took), local: None, unit: "s", bar });
    }
    // It is known to be silent for some seconds, before it is lost.
    place.say("shoal fault n0 stop-daemon >/dev/null 2>&1")?;
    place.number("until shoal nodes | grep -q '^n0 .*silent'; do sleep 0.05; done; echo 0")?;
    let took = time(&mut place, "shoal ps 2>/dev/null")?;
    let usual = median(alive);
    let more = Spread::of(took.into_iter().map(|took| took - usual).collect());
    let name = "  more while the daemon of one of them is stopped";
    met &= print(&Line { name, figure: more, local: None, unit: "s", bar: Bar::Figure(0.1) });
    place.close()?;
    Ok(met)
}

/// How long a command takes, in seconds.
fn time(place: &mut Place, command: &str) -> Result<Vec<f64>> {
    let timed = format!("s=$(date +%s%N); {command} >/dev/null; echo $(($(date +%s%N) - s))");
    (0..ROUNDS).map(|_| place.number(&timed).map(|ns| ns / 1e9)).collect()
}
