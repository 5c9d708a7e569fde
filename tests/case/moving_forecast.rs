//! A process that becomes another between when it was foreseen what it will have and when it stands still: what it has then counts.

use super::moving_faults::{stage, Victim};
use super::scene::{same, wait_for};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing as _, Res};
use std::fs;
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[("move_changes_on_its_way", move_changes_on_its_way)];

/// Its old node's mover has looked at it, and has been let go on.
const POINT: &str = "out may leave";
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/case/real/changes.py");

fn move_changes_on_its_way(place: &Place) -> Res<End> {
    let (s, faults) = stage(place, "move_changes_on_its_way", Victim::FrontDaemon)?;
    let file = place.fresh("move_changes_on_its_way").to_string_lossy().into_owned();
    let going = s.start(&format!(
        "shoal run -n 0 python3 {PROGRAM} {file} 0 </dev/null & echo $! >{file}.pid; wait $!; echo $?"
    ));
    let told = |what: &str| fs::read_to_string(format!("{file}.{what}")).unwrap_or_default();
    let wishes = |text: String| fs::write(format!("{file}.wish"), text).doing("write a wish");
    wait_for("it has begun", || told("done") == "0")?;
    let pid = told("pid").trim().to_owned();
    let (mut done, mut logs) = (0, vec![file.clone()]);
    for node in [1, 0, 1] {
        for (wish, how, node) in [
            ("executes", "", node),
            ("renames", "", 1 - node),
            ("maps", "", node),
            ("executes", "--lazy", 1 - node),
            ("executes", "", node),
        ] {
            faults.watch(POINT)?;
            let moving = s.start(&format!("shoal move {how} {pid} {node}; shoal where {pid}"));
            let held = faults.reached(Duration::from_secs(15))?;
            if wish == "renames" {
                logs.push(format!("{file}.{done}"));
            }
            done += 1;
            wishes(format!("{done} {wish}"))?;
            wait_for("it has become another", || told("done") == done.to_string())?;
            drop(held);
            same("where it is", moving.end()?.out.trim(), format!("n{node}").as_str())?;
        }
    }
    wishes(format!("{} ends", done + 1))?;
    same("its end", going.end()?.out.trim(), "0")?;
    for log in &logs {
        let text = fs::read_to_string(log).unwrap_or_default();
        same(log, text.as_str(), if *log == file { "begins\nends\n" } else { "begins\n" })?;
    }
    Ok(End::Passed)
}
