//! `./x bench space`: the measures of one process space.

use crate::cpu;
use crate::place::{parse, shoal, Place, Program};
use crate::table::{head, median, print, print_failed, Bar, Line, Local, Spread};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vocab::{Fault, Result};

/// Pairs of a local run and one on a node.
const PAIRS: usize = 9;
const NODES: usize = 100;
const FORKS: usize = 149;
/// Of so many the median counts. The first one has memory from the machine below that nobody has used for long, where there is such a machine.
const STORMS: usize = 5;
/// After which the space has nothing more to do about processes that were started.
const CALM: Duration = Duration::from_secs(3);
/// Over which idle processes are watched.
const IDLE: Duration = Duration::from_secs(10);

/// Prints all lines; false when a bar was missed.
///
/// # Errors
/// Where nothing can be measured at all: no compiler, no sandbox.
pub(crate) fn measure() -> Result<bool> {
    let program = Program::compile("space", "-static")?;
    head();
    let mut met = few(&program.path())?;
    met &= opening(4, 1.5)?;
    met &= opening(NODES, 8.0)?;
    met &= many(&program.path())?;
    Ok(met)
}

fn few(program: &Path) -> Result<bool> {
    let mut place = Place::open(2)?;
    let program = program.display();
    let mut met = true;
    for (name, mode, count) in [
        ("fork, exit, wait on a node", "fork", 400),
        ("fork, exec, exit, wait on a node", "exec", 200),
        ("thread creation on a node", "thread", 1500),
    ] {
        let pinned = format!("{program} pinned {mode} {count}");
        met &= pairs(&mut place, name, &pinned, Beside::Machine, Bar::Ratio(1.10));
        pairs(&mut place, "  the same, against bare Linux outside", &pinned, Beside::Bare, Bar::None);
        let free = format!("{program} {mode} {count}");
        pairs(&mut place, "  the same, on any processor", &free, Beside::Machine, Bar::None);
    }
    let ping = format!("{program} pinned ping 1500 {program} answer");
    // The second command runs both under numbers of the node's lease; in the first one of them has its number from the front end.
    let forked = format!("sh -c '{ping}; exit $?'");
    met &= pairs(&mut place, "kill and answer on one node", &ping, Beside::Machine, Bar::Ratio(1.5));
    met &= pairs(&mut place, "  the same, both forked there", &forked, Beside::Machine, Bar::Ratio(1.5));
    met &= round_trips(&mut place, &program.to_string());
    met &= commands(&mut place);
    place.close()?;
    Ok(met)
}

/// What a program on a node is compared with.
#[derive(Clone, Copy)]
enum Beside {
    /// The program outside of any sandbox.
    Bare,
    /// The program on the sandbox's front end: on the same machine as the node, and of no space. See docs/decisions/native-is-the-same-machine.md.
    Machine,
}

fn pairs(place: &mut Place, name: &str, command: &str, beside: Beside, bar: Bar) -> bool {
    let on_node = format!("shoal run -n 0 {command}");
    in_turn(name, PAIRS, bar, |first| {
        let local = |place: &mut Place| match beside {
            Beside::Bare => bare_number(command),
            Beside::Machine => place.number(command),
        };
        if first {
            let local = local(place)?;
            return Ok((place.number(&on_node)?, local));
        }
        Ok((place.number(&on_node)?, local(place)?))
    })
}

/// Measures pairs (ours, local; nanoseconds), now the one first and now the other, and prints them.
fn in_turn(name: &str, pairs: usize, bar: Bar, mut one: impl FnMut(bool) -> Result<(f64, f64)>) -> bool {
    let (mut ours, mut locals) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        match one(pair % 2 == 0) {
            Ok((our, local)) => {
                ours.push(our / 1e3);
                locals.push(local / 1e3);
            }
            Err(fault) => return print_failed(name, &fault.to_string()),
        }
    }
    let local = Some(Local::pairs(&ours, &locals));
    print(&Line { name, figure: Spread::of(ours), local, unit: "us", bar })
}

/// Outside of any sandbox.
fn bare_number(command: &str) -> Result<f64> {
    let words: Vec<&str> = command.split(' ').collect();
    let out = Command::new(words[0]).args(&words[1..]).output().map_err(|e| Fault::io(&e, command.to_owned()))?;
    parse(&String::from_utf8_lossy(&out.stdout))
}

fn round_trips(place: &mut Place, program: &str) -> bool {
    let name = "signal front end to body and back";
    let met = match Place::open_on_one_processor(2) {
        Ok(mut one) => {
            let pinned = format!("{program} pinned ping 300 {program} answer");
            let met = round_trip(&mut one, program, name, &pinned, Bar::Figure(150.0));
            met & one.close().map_or_else(|fault| print_failed(name, &fault.to_string()), |()| true)
        }
        Err(fault) => print_failed(name, &fault.to_string()),
    };
    let free = format!("{program} ping 300 {program} answer");
    round_trip(place, program, "  the same, on any processor", &free, Bar::None);
    let name = "  the same, and no processor asleep";
    match Awake::keep(program) {
        Ok(_awake) => round_trip(place, program, name, &free, Bar::None),
        Err(fault) => print_failed(name, &fault.to_string()),
    };
    met
}

fn round_trip(place: &mut Place, program: &str, name: &str, local: &str, bar: Bar) -> bool {
    let there = format!("{program} ping 300 shoal run -n 0 {program} answer");
    in_turn(name, PAIRS, bar, |_| Ok((place.number(&there)?, bare_number(local)?)))
}

/// Processes of the idle class that leave no processor idle, one for each, until this is dropped.
struct Awake(Vec<Child>);

impl Awake {
    fn keep(program: &str) -> Result<Awake> {
        let mut awake = Awake(Vec::new());
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let child = Command::new(program).arg("spin").spawn().map_err(|e| Fault::io(&e, "start a busy loop"))?;
            awake.0.push(child);
        }
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn commands(place: &mut Place) -> bool {
    let name = "shoal run -n 0 true, the whole command";
    let Ok(own) = std::env::current_exe() else { return print_failed(name, "where is this program?") };
    let local = median((0..200).map(|_| timed("true", &[]).unwrap_or(f64::NAN)).collect());
    match place.number(&format!("{} inside run 200", own.display())) {
        Ok(ns) => {
            let (figure, local) = (ns / 1e6, local * 1e3);
            let local = Some(Local::pairs(&[figure], &[local]));
            print(&Line { name, figure: Spread::one(figure), local, unit: "ms", bar: Bar::Figure(6.0) })
        }
        Err(fault) => print_failed(name, &fault.to_string()),
    }
}

/// Seconds that a command takes.
fn timed(command: &str, arguments: &[&str]) -> Result<f64> {
    let start = Instant::now();
    let status = Command::new(command).args(arguments).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(start.elapsed().as_secs_f64()),
        Ok(status) => Err(Fault::refused(format!("{command}: {status}"))),
        Err(e) => Err(Fault::io(&e, command.to_owned())),
    }
}

fn opening(nodes: usize, bar: f64) -> Result<bool> {
    let name = format!("shoal sandbox -n {nodes} -- true");
    let shoal = shoal()?;
    let took = timed(&shoal.display().to_string(), &["sandbox", "-n", &nodes.to_string(), "--", "true"])?;
    Ok(print(&Line { name: &name, figure: Spread::one(took), local: None, unit: "s", bar: Bar::Figure(bar) }))
}

fn many(program: &Path) -> Result<bool> {
    let mut place = Place::open(NODES)?;
    place.number("echo 0")?; // it is up
    let empty = idle(&place)?;
    let own = std::env::current_exe().map_err(|e| Fault::io(&e, "find this program"))?;
    let storm = format!("{} inside storm {NODES} {FORKS} {}", own.display(), program.display());
    let total = NODES * (FORKS + 1);
    let (mut shown, mut weight, mut gone, mut full) = (Vec::new(), Vec::new(), Vec::new(), f64::NAN);
    let mut met = true;
    for round in 1..=STORMS {
        place.say(&storm)?;
        shown.push(parse(&place.line()?)? / 1e3);
        weight.push(parse(&place.line()?)? / 1024.0);
        let listed = parse(&place.line()?)?;
        if listed < total as f64 {
            met &= print_failed("all are in ps -e", &format!("only {listed}"));
        }
        std::thread::sleep(CALM);
        if round == STORMS {
            full = idle(&place)?;
        }
        place.say("")?;
        gone.push(parse(&place.line()?)? / 1e3);
    }
    place.close()?;
    met &= figures(&format!("{total} processes, until all are seen"), shown, "s", 2.0);
    met &= figures("memory for each of them on the front end", weight, "KB", 30.0);
    let name = format!("idle: {full:.1} % of a processor, empty {empty:.1} %; theirs");
    met &= figures(&name, vec![(full - empty).max(0.0)], "%", 1.0);
    met &= figures("Ctrl-C, until all are gone", gone, "s", 2.0);
    Ok(met)
}

fn figures(name: &str, all: Vec<f64>, unit: &'static str, bar: f64) -> bool {
    if all.iter().any(|figure| figure.is_nan()) {
        return print_failed(name, &format!("not every round came to an end: {all:?}"));
    }
    print(&Line { name, figure: Spread::of(all), local: None, unit, bar: Bar::Figure(bar) })
}

/// Percent of a processor that the space takes while nothing happens.
fn idle(place: &Place) -> Result<f64> {
    // Looking at 30,000 processes takes a second: what counts is from the one look to the other.
    let start = Instant::now();
    let before = cpu::look(place.pid())?;
    std::thread::sleep(IDLE);
    let span = start.elapsed().as_secs_f64();
    Ok((cpu::look(place.pid())? - before) / span / 10.0)
}
