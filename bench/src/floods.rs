//! `./x bench floods`: how long a user waits while another one floods the daemons.

use crate::place::{Place, Program};
use crate::table::{head, print, print_failed, Bar, Line, Local, Spread};
use vocab::Result;

const PAIRS: usize = 15;
/// The most that a command may take under a flood, as a multiple of what it takes without.
const BAR: f64 = 3.0;
const ANN: &str = "setpriv --reuid 61001 --regid 61001 --clear-groups";
const BOB: &str = "setpriv --reuid 61002 --regid 61002 --clear-groups";
/// The front end's port, as two words.
const PORT: &str = "$(sed -n 's/.*listen.*\"\\(.*\\):\\([0-9]*\\)\".*/\\1 \\2/p' /run/shoal/shoal.toml)";

/// The commands that are measured under each flood.
const COMMANDS: [(&str, &str); 2] =
    [("from the front end", "shoal run -n 0 true"), ("from a node", "shoal run -n 0 shoal run -n 1 true")];

/// The name of a flood, where it runs, and the words for `bench/prog/floods.c`; `{}` of it is PORT.
const FLOODS: [(&str, Where, &str); 21] = [
    ("a busy loop (no flood)", Where::Front, "spins 1"),
    ("two busy loops (no flood)", Where::Front, "spins 2"),
    ("Delivered, 1 connection", Where::Front, "asks 1 8205820100"),
    ("Delivered, 64 connections", Where::Front, "asks 64 8205820100"),
    ("Delivered, 1024 connections", Where::Front, "asks 1024 8205820100"),
    ("Nodes, answers not read", Where::Front, "unread 64 820180"),
    ("Ps, 16 connections", Where::Front, "asks 16 820280"),
    ("Where, 64 connections", Where::Front, "asks 64 82038101"),
    ("Explain, 64 connections", Where::Front, "asks 64 8206820100"),
    ("Move, 64 connections", Where::Front, "asks 64 8204820100"),
    ("connections", Where::Front, "connects 2"),
    ("half frames, 2000 connections", Where::Front, "halves 2000"),
    ("large frames", Where::Front, "large 8"),
    ("handshakes without the key", Where::Front, "shakes 4 {}"),
    ("silent peers", Where::Front, "silent 2 {}"),
    ("channels of nobody", Where::Front, "channels 2 {}"),
    ("Delivered on a node", Where::Node, "asks 64 8205820100"),
    ("Ps on a node", Where::Node, "asks 16 820280"),
    ("Move on a node", Where::Node, "asks 64 8204820100"),
    ("connections on a node", Where::Node, "connects 2"),
    ("handshakes from a node", Where::Node, "shakes 4 {}"),
];

/// Floods that need a process of the flooder's on node 1.
const ABOUT: [(&str, Where, &str); 2] = [
    ("kill through the gate", Where::Node, "kills 2 $p"),
    (
        "/proc of a ghost",
        Where::Front,
        "reads 2 /proc/$p/status /proc/$p/stat /proc/$p/cmdline /proc/$p/maps /proc/$p/io",
    ),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Front,
    Node,
}

/// Prints two lines for each flood whose name has `which` in it; false when a bar was missed.
///
/// # Errors
/// Where nothing can be measured at all: no compiler, no sandbox.
pub(crate) fn measure(which: &str) -> Result<bool> {
    let program = Program::compile("floods", "-static")?;
    head();
    let mut place = Place::open(2)?;
    let floods = program.path().display().to_string();
    place.say(&format!("{ANN} shoal run -n 1 sleep 100000 </dev/null >/dev/null 2>&1 &"))?;
    let ghost = place.number("until p=$(pgrep -f '^sleep 100000'); do sleep 0.05; done; echo $p")?;
    let mut met = true;
    for (name, at, words) in FLOODS.into_iter().chain(ABOUT).filter(|(name, _, _)| name.contains(which)) {
        let words = words.replace("{}", PORT).replace("$p", &ghost.to_string());
        let there = if at == Where::Node { "shoal run -n 0 " } else { "" };
        met &= flood(&mut place, name, &format!("{ANN} {there}{floods} {words}"))?;
    }
    place.close()?;
    Ok(met)
}

/// Measures both commands without and with this flood in turn.
fn flood(place: &mut Place, name: &str, command: &str) -> Result<bool> {
    let (mut idle, mut flooded) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let end = "shoal run -n 0 pkill -KILL -u 61001 floods; pkill -KILL -u 61001 floods; while pgrep -u 61001 floods >/dev/null; do sleep 0.05; done; sleep 0.2";
    for _ in 0..PAIRS {
        for (times, (_, what)) in idle.iter_mut().zip(COMMANDS) {
            times.push(time(place, what)?);
        }
        place.say(&format!("{command} </dev/null >/dev/null 2>&1 &"))?;
        if place.number("sleep 0.4; echo $(pgrep -u 61001 floods | wc -l)")? < 1.0 {
            return Ok(print_failed(name, "the flooder does not run"));
        }
        for (times, (_, what)) in flooded.iter_mut().zip(COMMANDS) {
            times.push(time(place, what)?);
        }
        place.number(&format!("{{ {end}; }} >/dev/null 2>&1; wait $! 2>/dev/null; echo 0"))?;
    }
    let mut met = true;
    let bar = if name.ends_with("(no flood)") { Bar::None } else { Bar::Ratio(BAR) };
    for (i, (place, _)) in COMMANDS.into_iter().enumerate() {
        let name = if i == 0 { name.to_string() } else { format!("  {place}") };
        if flooded[i].iter().any(|took| took.is_nan()) {
            met &= print_failed(&name, "the command failed, or took 20 s");
            continue;
        }
        let local = Local::pairs(&flooded[i], &idle[i]);
        met &=
            print(&Line { name: &name, figure: Spread::of(flooded[i].clone()), local: Some(local), unit: "ms", bar });
    }
    Ok(met)
}

/// How long another user's command takes, in milliseconds; not a number when it fails.
fn time(place: &mut Place, what: &str) -> Result<f64> {
    let timed =
        format!("s=$(date +%s%N); timeout 20 {BOB} {what} >/dev/null 2>&1 && echo $(($(date +%s%N) - s)) || echo NaN");
    Ok(place.number(&timed)? / 1e6)
}
