//! Ordinary users who flood the daemons: a flood slows down its own user, and nobody else.

use super::hostile::{compiled_of, others_go_on};
use super::scene::{holds, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};

pub(crate) const SCENES: &[Scene] = &[
    ("flooder_gets_its_share", flooder_gets_its_share),
    ("flood_of_connections", flood_of_connections),
    ("flood_of_a_node", flood_of_a_node),
    ("flood_of_handshakes", flood_of_handshakes),
];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --clear-groups";
const BOB: &str = "setpriv --reuid 61002 --regid 61002 --clear-groups";
/// `Ask::Delivered` of a program that is not there, which is answered at once (crates/wire).
const DELIVERED: &str = "8205820100";
/// Connections of the flooder.
const MANY: u64 = 1000;
/// Of the flooder's questions at most so many are answered for each command of somebody else. Eight of each of its connections were, in every
/// round of the daemon's loop.
const SHARE: u64 = 4 * MANY;

/// The flooder of `bench floods`.
fn flooder(place: &Place) -> Res<String> {
    Ok(compiled_of(place, "../../bench/prog", "floods")?.display().to_string())
}

/// The questions of a thousand connections are not answered before the one of another user.
fn flooder_gets_its_share(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "flooder_gets_its_share", 2)?;
    let (floods, dir) = (flooder(place)?, place.fresh("counts").display().to_string());
    s.ok(&format!("mkdir -m 777 {dir}"))?;
    let flood = s.start(&format!("COUNTS={dir}/answers {ANN} {floods} asks {MANY} {DELIVERED}"));
    let answers = || s.ok(&format!("cat {dir}/answers"))?.parse::<u64>().doing("read a number");
    s.until(&format!("test -s {dir}/answers"))?;
    const COMMANDS: u64 = 20;
    let before = answers()?;
    s.ok(&format!("for i in $(seq {COMMANDS}); do {BOB} shoal nodes >/dev/null || exit 1; done"))?;
    let each = (answers()? - before) / COMMANDS;
    holds(&format!("{each} questions of the flooder were answered for each command"), each < SHARE)?;
    // Back-pressure, and no end of its connections: it goes on, and is served.
    let before = answers()?;
    s.prints(&format!("{ANN} shoal run -n 0 echo well"), "well")?;
    s.until(&format!("test $(cat {dir}/answers) -gt {before}"))?;
    holds("it goes on asking", flood.is_going())?;
    s.ok("pkill -KILL -u 61001")?;
    flood.end()?;
    Ok(End::Passed)
}

/// Connections that are opened and closed again as fast as that goes, on the front end and on a node.
fn flood_of_connections(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "flood_of_connections", 2)?;
    let floods = flooder(place)?;
    for on in ["", "shoal run -n 0 "] {
        let flood = s.start(&format!("{ANN} {on}{floods} connects 3"));
        let count = if on.is_empty() { "pgrep -u 61001 floods | wc -l" } else { "shoal ps | grep -c floods" };
        s.until(&format!("test $({count}) -ge 3"))?;
        others_go_on(&s, "")?;
        s.prints(&format!("{BOB} shoal run -n 0 shoal run -n 1 echo well"), "well")?;
        s.prints(&format!("{ANN} {on}shoal run -n 1 echo well"), "well")?;
        holds("it goes on", flood.is_going())?;
        s.ok(&format!("{on}pkill -KILL -u 61001 floods"))?;
        flood.end()?;
    }
    s.prints("shoal nodes | grep -c up", "2")?;
    Ok(End::Passed)
}

/// The agent runs before all ordinary threads: questions without end, on many connections, take neither the node nor the machine.
fn flood_of_a_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "flood_of_a_node", 2)?;
    let floods = flooder(place)?;
    // Ask::Delivered, Ask::Ps, Ask::Move (crates/wire).
    for question in [DELIVERED, "820280", "8204820100"] {
        let flood = s.start(&format!("{ANN} shoal run -n 0 {floods} asks 64 {question}"));
        s.until("shoal ps | grep -q floods")?;
        others_go_on(&s, "")?;
        s.prints(&format!("{BOB} shoal run -n 0 shoal run -n 1 echo well"), "well")?;
        holds("it goes on", flood.is_going())?;
        s.ok("shoal run -n 0 pkill -KILL -u 61001 floods")?;
        flood.end()?;
    }
    s.prints("shoal nodes | grep -c up", "2")?;
    holds("no node was lost", !s.logs().contains("lost"))?;
    Ok(End::Passed)
}

/// First messages of handshakes, sealed with no key: nodes stay, and one that starts again is let in.
fn flood_of_handshakes(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "flood_of_handshakes", 2)?;
    let floods = flooder(place)?;
    let address = "$(sed -n 's/.*listen.*\"\\(.*\\):\\([0-9]*\\)\".*/\\1 \\2/p' /run/shoal/shoal.toml)";
    let flood = s.start(&format!("{ANN} {floods} shakes 16 {address}"));
    s.until("test $(pgrep -u 61001 floods | wc -l) = 16")?;
    others_go_on(&s, "")?;
    s.ok("shoal fault n1 kill-daemon; shoal fault n1 start-daemon; until shoal nodes | grep -q '^n1 .*up'; do sleep 0.1; done")?;
    s.prints(&format!("{BOB} shoal run -n 1 echo well"), "well")?;
    holds("it goes on", flood.is_going())?;
    s.ok("pkill -KILL -u 61001 floods")?;
    flood.end()?;
    Ok(End::Passed)
}
