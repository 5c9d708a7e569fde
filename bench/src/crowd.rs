//! Very many processes on nodes: short programs by a launcher, and children that fork until all are seen.

use crate::place::{parse, Place};
use crate::table::{median, print, print_failed, Bar, Line, Local, Spread};
use vocab::Result;

/// Short programs.
const PROGRAMS: usize = 1000;
/// Children on each node, beside the first.
const EACH: usize = 149;
const RUNS: usize = 3;
/// The most that 15,000 processes may take, as multiples of as many on this machine: until ps shows all, and from the signal until none is there.
const SHOWN: f64 = 2.0;
const GONE: f64 = 2.5;

/// Other ways to run so many programs on the nodes: the name, and what comes before how many and the program.
fn launchers(nodes: usize) -> Vec<(&'static str, String)> {
    let hosts: Vec<String> = (0..nodes).map(|node| format!("n{node}")).collect();
    let (hosts, each) = (hosts.join(","), PROGRAMS.div_ceil(nodes));
    let hydra = format!("mpiexec.hydra -launcher rsh -launcher-exec /run/shoal/bin/shoal-rsh -hosts {hosts} -n");
    let parallel = format!("many() {{ seq $1 | parallel -j {each} -S {hosts} -n 1 \"$2 #\"; }}; many");
    vec![("srun", "srun -O -n".into()), ("mpiexec.hydra over shoal rsh", hydra), ("GNU parallel over ssh", parallel)]
}

/// Milliseconds until `command` has ended; not a number where it fails, or does not end.
fn took(place: &mut Place, command: &str) -> Result<f64> {
    let within = format!("timeout -s KILL 50 bash -c '{command}' >/dev/null 2>&1");
    place.number(&format!("s=$(date +%s%N); {within} && echo $((($(date +%s%N) - s) / 1000)).e-3 || echo NaN"))
}

/// `shoal run -N` beside the fastest of the launchers that are there.
pub(crate) fn programs(place: &mut Place, nodes: usize) -> Result<bool> {
    let name = format!("{PROGRAMS} short programs, shoal run -N");
    let (mut figures, mut others) = (Vec::new(), Vec::new());
    let mut all = launchers(nodes);
    // A launcher that cannot start one program is not there.
    let mut found = Vec::new();
    for (launcher, command) in all.drain(..) {
        if took(place, &format!("{command} 1 true"))?.is_finite() {
            found.push((launcher, command, Vec::new()));
        }
    }
    for _ in 0..RUNS {
        figures.push(took(place, &format!("shoal run -N {PROGRAMS} true"))?);
        for (_, command, others) in &mut found {
            others.push(took(place, &format!("{command} {PROGRAMS} true"))?);
        }
    }
    if figures.iter().any(|took| took.is_nan()) {
        return Ok(print_failed(&name, "shoal run failed"));
    }
    let mut best = "no other launcher was found";
    for (launcher, _, took) in found {
        println!("{:<44} {:>12.1} ms", format!("  {launcher}"), median(took.clone()));
        if took.iter().all(|took| took.is_finite())
            && (others.is_empty() || median(took.clone()) < median(others.clone()))
        {
            (best, others) = (launcher, took);
        }
    }
    println!("  beside: {best}");
    let local = (!others.is_empty()).then(|| Local::pairs(&figures, &others));
    let bar = if local.is_some() { Bar::Ratio(1.0) } else { Bar::None };
    Ok(print(&Line { name: &name, figure: Spread::of(figures), local, unit: "ms", bar }))
}

/// Two figures of `storm.c`.
fn storm(place: &mut Place, command: &str) -> Result<(f64, f64)> {
    // Two lines, whatever becomes of it.
    let shown = place.number(&format!("{{ {{ {command} || echo NaN NaN; }} | tr ' ' '\\n' | head -n 2; }}"))?;
    Ok((shown, parse(&place.line()?)?))
}

/// 15,000 processes on 100 nodes, by vrfork and fork, beside as many here. `program` is storm.c.
pub(crate) fn processes(place: &mut Place, program: &str, nodes: usize) -> Result<bool> {
    let (mut there, mut here) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for _ in 0..RUNS {
        for (at, figures) in [("here", &mut here), ("nodes", &mut there)] {
            let (shown, gone) = storm(place, &format!("{program} {at} {nodes} {EACH}"))?;
            figures.0.push(shown);
            figures.1.push(gone);
        }
    }
    let count = nodes * (EACH + 1);
    let mut met = true;
    for (what, figures, natives, most) in
        [("until ps shows all", there.0, here.0, SHOWN), ("from a kill until all are gone", there.1, here.1, GONE)]
    {
        let name = format!("{count} processes, {what}");
        if figures.iter().any(|took| took.is_nan()) {
            met &= print_failed(&name, "not all were shown, or gone");
            continue;
        }
        let local = Some(Local::pairs(&figures, &natives));
        met &= print(&Line { name: &name, figure: Spread::of(figures), local, unit: "ms", bar: Bar::Ratio(most) });
    }
    Ok(met)
}
