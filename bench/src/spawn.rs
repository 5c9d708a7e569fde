//! `./x bench spawn`: many processes on many nodes, by BProc's calls and by commands.

use crate::crowd;
use crate::place::{Place, Program};
use crate::table::{head, print, print_failed, Bar, Line, Local, Spread};
use vocab::Result;

const NODES: usize = 100;
const PAIRS: usize = 5;
/// What a `shoal run -n 0 true` takes on the machine for which the bars in seconds were set, in milliseconds.
const ONE: f64 = 3.3;

/// What is measured, beside a `shoal run -n 0 true` of the same pair: its name, the command that prints milliseconds, and the most in milliseconds on that machine.
const LINES: [(&str, &str, f64); 4] = [
    ("vexecmove of /bin/true", "{} vexecmove 100", 500.0),
    ("vrfork, 5 MB", "{} vrfork 100 5", 2000.0),
    ("vrfork, small", "{} vrfork 100 0", 2000.0),
    (
        "bpsh -a hostname",
        "s=$(date +%s%N); bpsh -a hostname >/dev/null && echo $((($(date +%s%N) - s) / 1000)).e-3",
        50.0 * ONE,
    ),
];

/// False when a bar was missed.
///
/// # Errors
/// Where nothing can be measured at all: no compiler, no libraries, no sandbox.
pub(crate) fn measure() -> Result<bool> {
    let program = Program::compile_with_library("spawn")?;
    let path = program.path().display().to_string();
    head();
    let mut place = Place::open(NODES)?;
    let mut met = true;
    for (name, command, most) in LINES {
        let (mut figures, mut ones) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            ones.push(place.number("s=$(date +%s%N); shoal run -n 0 true && echo $(($(date +%s%N) - s))")? / 1e6);
            figures.push(place.number(&format!("{} || echo NaN", command.replace("{}", &path)))?);
        }
        if figures.iter().any(|took| took.is_nan()) {
            met &= print_failed(name, "the command failed");
            continue;
        }
        let local = Local::pairs(&figures, &ones);
        let line =
            Line { name, figure: Spread::of(figures), local: Some(local), unit: "ms", bar: Bar::Ratio(most / ONE) };
        met &= print(&line);
    }
    for (name, elsewhere, here) in
        [("vrfork beside fork", "vrfork 100 0", "fork 100 0"), ("vexecmove beside spawn", "vexecmove 100", "spawn 100")]
    {
        let (mut figures, mut natives) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            natives.push(place.number(&format!("{path} {here}"))?);
            figures.push(place.number(&format!("{path} {elsewhere} || echo NaN"))?);
        }
        let local = Local::pairs(&figures, &natives);
        print(&Line { name, figure: Spread::of(figures), local: Some(local), unit: "ms", bar: Bar::None });
    }
    place.close()?;
    let programs = programs(NODES)?;
    Ok(processes(NODES)? && programs && python()? && met)
}

/// The workers of one machine, and as many nodes.
const WORKERS: usize = 2;

/// Calls of a function in Python by processes that a fork has made: on nodes by `shoal.map`, here by multiprocessing.
///
/// # Errors
/// As of [`measure`].
pub(crate) fn python() -> Result<bool> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let program = format!(
        "PYTHONPATH={root}/python SHOAL_LIBRARY={root}/target/library/dist/lib/libshoal.so.0 python3 {root}/bench/prog/map.py"
    );
    let mut place = Place::open(WORKERS)?;
    let (mut there, mut here) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        here.push(place.number(&format!("{program} here {WORKERS} {CALLS} || echo NaN"))?);
        there.push(place.number(&format!("{program} nodes {WORKERS} {CALLS} || echo NaN"))?);
    }
    place.close()?;
    let name = format!("{CALLS} calls, shoal.map on {WORKERS} nodes");
    if there.iter().any(|took| took.is_nan()) {
        return Ok(print_failed(&name, "the program failed"));
    }
    let local = Some(Local::pairs(&there, &here));
    Ok(print(&Line { name: &name, figure: Spread::of(there), local, unit: "ms", bar: Bar::None }))
}

/// Calls of about 20 ms of a processor.
const CALLS: usize = 200;

/// Short programs by this and by other launchers alone.
///
/// # Errors
/// As of [`measure`].
pub(crate) fn programs(nodes: usize) -> Result<bool> {
    let mut place = Place::open(nodes)?;
    let met = crowd::programs(&mut place, nodes)?;
    place.close().map(|()| met)
}

/// Children that fork alone.
///
/// # Errors
/// As of [`measure`].
pub(crate) fn processes(nodes: usize) -> Result<bool> {
    let program = Program::compile_with_library("storm")?;
    let mut place = Place::open(nodes)?;
    let met = crowd::processes(&mut place, &program.path().display().to_string(), nodes)?;
    place.close().map(|()| met)
}
