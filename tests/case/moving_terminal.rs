//! Programs that `shoal run -t` has started move, and take their terminals along. What is typed and seen is a matter of Python: `moving_terminal.py`.

use super::hostile::compiled_of;
use super::moving_faults::{at_point, stage, How, Victim, AT_TERMINAL, DESTINATION, POINTS, SOURCE};
use super::scene::Sandbox;
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::session::Plan;
use crate::lab::{Doing, Res};

pub(crate) const SCENES: &[Scene] = &[
    ("move_terminal_raw", |place| plays(place, "raw")),
    ("move_terminal_lines", |place| plays(place, "lines")),
    ("move_terminal_repl", |place| plays(place, "repl")),
    ("move_terminal_output", |place| plays(place, "output")),
    ("move_terminal_copies", |place| plays(place, "copies")),
    ("move_terminal_window", |place| plays(place, "window")),
    ("move_terminal_keys", |place| plays(place, "keys")),
    ("move_terminal_stops", |place| plays(place, "stops")),
    ("move_terminal_held", |place| plays(place, "held")),
    ("move_terminal_shell", |place| plays(place, "shell")),
    ("move_terminal_refused", |place| plays(place, "refused")),
    ("move_terminal_hangup", |place| plays(place, "hangup")),
    ("move_terminal_ends", |place| plays(place, "ends")),
    ("move_terminal_several", |place| plays(place, "several")),
    ("move_terminal_nested", |place| plays(place, "nested")),
    ("move_terminal_state", move_terminal_state),
    ("move_terminal_busy", move_terminal_busy),
    ("move_terminal_of_a_user", move_terminal_of_a_user),
    ("move_terminal_chaos", move_terminal_chaos),
    ("move_terminal_front_killed", |place| each_point(place, Victim::FrontDaemon)),
    ("move_terminal_source_daemon_killed", |place| each_point(place, Victim::Daemon(SOURCE))),
    ("move_terminal_source_node_killed", |place| each_point(place, Victim::Machine(SOURCE))),
    ("move_terminal_source_link_cut", |place| each_point(place, Victim::Link(SOURCE))),
    ("move_terminal_destination_daemon_killed", |place| each_point(place, Victim::Daemon(DESTINATION))),
    ("move_terminal_destination_node_killed", |place| each_point(place, Victim::Machine(DESTINATION))),
    ("move_terminal_destination_link_cut", |place| each_point(place, Victim::Link(DESTINATION))),
];

/// The first point at which something of a terminal has been done.
const HELD: &str = "source is to leave";

/// Points that are reached for a terminal only.
const ITS_OWN: [&str; 2] = ["out took what was typed", "in typed it anew"];

/// A shell command that does what this says at a terminal.
pub(super) fn driver(place: &Place, what: &str) -> Res<String> {
    let path = place.fresh("driver");
    std::fs::write(&path, include_str!("moving_terminal.py")).doing("write the driver of a terminal")?;
    Ok(format!("python3 {} {what}", path.display()))
}

fn plays(place: &Place, name: &str) -> Res<End> {
    let s = Sandbox::new(place, &format!("move_terminal_{name}"), 3)?;
    s.prints(&driver(place, name)?, "passed")?;
    Ok(End::Passed)
}

/// All that its program can see of a terminal is as it was.
fn move_terminal_state(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_terminal_state", 3)?;
    let program = compiled_of(place, "real", "terminal")?;
    s.prints(&driver(place, &format!("state {}", program.display()))?, "passed")?;
    Ok(End::Passed)
}

/// While all processors are busy.
fn move_terminal_busy(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_terminal_busy", 3)?;
    for name in ["raw", "lines", "copies", "keys", "window"] {
        s.prints(&driver(place, &format!("load {name}"))?, "passed").map_err(|fault| format!("{name}: {fault}"))?;
    }
    Ok(End::Passed)
}

/// The terminal is its user's on every node, by its name too.
fn move_terminal_of_a_user(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_terminal_of_a_user", 3)?;
    let ann = "setpriv --reuid 61001 --regid 61001 --groups 61001,61005 env HOME=/tmp";
    let program = compiled_of(place, "real", "terminal")?;
    for what in ["raw".to_string(), "shell".into(), format!("state {}", program.display())] {
        s.prints(&format!("{ann} {}", driver(place, &what)?), "passed").map_err(|fault| format!("{what}: {fault}"))?;
    }
    Ok(End::Passed)
}

/// Moved at random, all the time.
fn move_terminal_chaos(place: &Place) -> Res<End> {
    let plan = Plan { chaos: Some("50ms"), ..Plan::default() };
    let s = Sandbox::with(place, "move_terminal_chaos", 3, plan)?;
    for _ in 0..3 {
        s.prints(&driver(place, "chaos")?, "passed")?;
    }
    s.ok("test $(grep -c 'has moved' /run/shoal/sandbox/chaos.log) -ge 8")?;
    Ok(End::Passed)
}

/// At each point from where its terminal is held: half a line has been typed.
fn each_point(place: &Place, victim: Victim) -> Res<End> {
    let (s, faults) = stage(place, "move_terminal_faults", victim)?;
    for point in POINTS.into_iter().skip_while(|point| *point != HELD).chain(ITS_OWN) {
        let how = How {
            point,
            program: AT_TERMINAL,
            before: None,
            stopped: false,
            how: "",
            to: "1",
            fate: victim.fate(point, SOURCE),
        };
        at_point(&s, place, &faults, victim, how).map_err(|fault| format!("{victim:?} at {point:?}: {fault}"))?;
    }
    Ok(End::Passed)
}
