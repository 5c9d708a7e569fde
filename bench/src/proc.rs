//! `./x bench proc`: the measures of /proc on the front end.

use crate::numbers::Numbers;
use crate::place::{shoal, Place, Program};
use crate::table::{head, print, print_failed, Bar, Line, Local, Spread};
use std::path::Path;
use vocab::Result;

/// Bodies on each of so many nodes, if nothing else is said.
pub(crate) const NODES: usize = 100;
pub(crate) const EACH: usize = 150;
const PAIRS: usize = 9;
const ROUNDS: usize = 5;
/// After which all that was known is old, in seconds.
const STALE: f64 = 1.2;

/// Prints all lines; false when a bar was missed.
///
/// # Errors
/// Where nothing can be measured at all: no compiler, no sandbox.
pub(crate) fn measure(nodes: usize, each: usize) -> Result<bool> {
    shoal()?;
    let program = Program::compile("proc", "-static")?;
    head();
    let mut met = entries(&program.path())?;
    met &= lists(&program.path(), nodes, each)?;
    Ok(met)
}

/// The lines of one entry.
///
/// # Errors
/// As [`measure`].
pub(crate) fn measure_entries() -> Result<bool> {
    shoal()?;
    let program = Program::compile("proc", "-static")?;
    head();
    entries(&program.path())
}

/// The lines of all entries.
///
/// # Errors
/// As [`measure`].
pub(crate) fn measure_lists(nodes: usize, each: usize) -> Result<bool> {
    shoal()?;
    let program = Program::compile("proc", "-static")?;
    head();
    lists(&program.path(), nodes, each)
}

/// Begins a `sleep` on a node and one here, `$g` and `$n`.
fn begin_one(place: &mut Place) -> Result<()> {
    place.say("mkdir -p /run/native; mount -t proc proc /run/native; shoal run -n 1 sleep 600 & sleep 600 & n=$!")?;
    let there = "until g=$(ps -C sleep -o pid= -o args= | awk '/sleep 600/ && $1 != n {print $1}' n=$n) && [ -n \"$g\" ] && grep -q BProc /proc/$g/status; do :; done; echo 0";
    place.number(there).map(drop)
}

fn end_one(mut place: Place) -> Result<()> {
    place.say("kill $g $n; wait")?;
    place.close()
}

/// Microseconds of the one and the other, measured in turn.
fn pair(place: &mut Place, name: &str, (ours, native): (&str, &str), bar: Bar) -> bool {
    let (mut figures, mut locals) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        match (place.number(ours), place.number(native)) {
            (Ok(one), Ok(other)) => {
                figures.push(one / 1e3);
                locals.push(other / 1e3);
            }
            (Err(fault), _) | (_, Err(fault)) => return print_failed(name, &fault.to_string()),
        }
    }
    let local = Some(Local::pairs(&figures, &locals));
    print(&Line { name, figure: Spread::of(figures), local, unit: "us", bar })
}

/// One entry.
fn entries(program: &Path) -> Result<bool> {
    let program = program.display();
    let read = |path: &str| format!("{program} read {path} 2000");
    let link = |of: &str| format!("{program} link /proc/{of}/cwd 300");
    let asked = |of: &str| format!("{program} read /proc/{of}/fdinfo/0 300");
    let mut place = Place::open(2)?;
    begin_one(&mut place)?;
    let local = (&*read("/proc/$n/stat"), &*read("/run/native/$n/stat"));
    let mut met = pair(&mut place, "a local entry, beside a procfs without ghosts", local, Bar::Ratio(1.05));
    for file in ["stat", "status", "cmdline"] {
        let name = format!("a ghost's {file}, fresh");
        let both = (&*read(&format!("/proc/$g/{file}")), &*read(&format!("/proc/$n/{file}")));
        met &= pair(&mut place, &name, both, Bar::Ratio(1.0));
    }
    let links = (&*link("$g"), &*link("$n"));
    met &= pair(&mut place, "a ghost's cwd, from its node", links, Bar::Figure(150.0));
    met &= pair(&mut place, "a ghost's fdinfo/0, from its node", (&asked("$g"), &asked("$n")), Bar::None);
    end_one(place)?;
    let mut place = Place::open_on_one_processor(2)?;
    begin_one(&mut place)?;
    met &= pair(&mut place, "  its cwd, with all machines on one processor", links, Bar::None);
    end_one(place)?;
    Ok(met)
}

/// All of them.
fn lists(program: &Path, nodes: usize, each: usize) -> Result<bool> {
    let (total, program) = (nodes * each, program.display());
    let count = format!("until [ $(ls /proc | grep -c '^[0-9]') -ge {total} ]; do sleep 0.2; done; echo 0");
    let ps = format!("{program} time ps -e");
    // Each is a process on its node and one here.
    let _numbers = Numbers::room(2 * total)?;
    let mut beside = Place::open(1)?;
    beside.say(&format!("{program} many {} & ", total - 1))?;
    beside.number(&count)?;
    let native = rounds(&mut beside, &ps, 0.0)?;
    beside.close()?;

    let mut place = Place::open(nodes)?;
    // Found before there are ghosts, at which nobody is to have looked.
    place.say("for p in /proc/[0-9]*/comm; do read c <$p && [ $c = shoal:ahead ] && ahead=${p%comm}; done")?;
    place.say(&format!("shoal run -a {program} many {} >/dev/null 2>&1 & ", each - 1))?;
    place.number(&count)?;
    // Bound are those that have been told of, a moment after they stand.
    place.number(&format!(
        "until [ $(grep -c shoal-proc /proc/self/mountinfo) -ge {total} ]; do sleep 0.2; done; echo 0"
    ))?;
    // And the kernel has learnt what is in their directories, which stay open.
    place.number(&format!("until [ $(ls ${{ahead}}fd | wc -l) -ge {total} ]; do sleep 0.2; done; echo 0"))?;
    let line = |name: &str, all: Vec<f64>, most: f64| {
        let local = (all.len() == native.len()).then(|| Local::pairs(&all, &native));
        let figure = Spread::of(all);
        print(&Line { name: &format!("{name}, {total} on {nodes}"), figure, local, unit: "s", bar: Bar::Figure(most) })
    };
    let mut met = line("ps -e, cold", vec![place.number(&ps)? / 1e9], 1.8);
    // What the one before has shown counts for a second after it: each round has one of its own.
    met &= line("ps -e, fresh", rounds(&mut place, &format!("ps -e >/dev/null; {ps}"), STALE)?, 0.5);
    met &= line("ps -e, all of it old", rounds(&mut place, &ps, STALE)?, 1.8);
    met &= line("shoal ps", rounds(&mut place, &format!("{program} time shoal ps"), 0.0)?, 0.3);
    place.say("shoal fault n0 stop-daemon >/dev/null 2>&1")?;
    // Before it is lost.
    let silent = [STALE, 0.0].map(|pause| place.number(&format!("sleep {pause}; {ps}")).map(|ns| ns / 1e9));
    met &= line("ps -e, old, and a node is silent", silent.into_iter().collect::<Result<_>>()?, 1.9);
    place.close()?;
    Ok(met)
}

/// Seconds.
fn rounds(place: &mut Place, command: &str, pause: f64) -> Result<Vec<f64>> {
    let one = |_| place.number(&format!("sleep {pause}; {command}")).map(|ns| ns / 1e9);
    (0..ROUNDS).map(one).collect()
}
