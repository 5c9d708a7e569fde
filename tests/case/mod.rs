//! Scenes that need a sandbox of their own: they break parts of it, or look at it from several sides at once.
//!
//! A scene is a function; each file of this directory names its own in `SCENES`, and in `DEMANDING` those that measure time or load the machine
//! ([`quiet`]). Commands run in `bash -c` on the front end. Parts are broken from outside: all processes of the sandbox are below ours.

mod bad_input;
mod capi;
mod chaos;
mod checkpoint;
mod commands;
mod copies;
mod daemons;
mod hostile;
mod jobs;
mod loss;
mod moving;
mod moving_faults;
mod moving_home;
mod moving_hostile;
mod moving_kin_faults;
mod moving_lazy;
mod moving_told;
mod pool;
mod real;
mod residue;
mod restart;
mod restoring;
mod scene;
mod slow;
mod uncarried;
mod users;

use crate::lab::evidence;
use crate::lab::place::Place;
use crate::lab::quiet;
use crate::lab::skip::Skip;
use crate::lab::Res;
use libtest_mimic::{Completion, Failed, Trial};
use std::sync::Arc;

/// How a scene went.
pub(crate) enum End {
    Passed,
    /// What it needs is not on this machine.
    Missing(String),
}

pub(crate) type Scene = (&'static str, fn(&Place) -> Res<End>);

/// Those that run two at a time, the longest first.
const DEMANDING: &[&[Scene]] = &[
    moving_hostile::SCENES,
    loss::SCENES,
    chaos::SCENES,
    slow::SCENES,
    moving_told::SCENES,
    moving_lazy::SCENES,
    restoring::SCENES,
    moving::DEMANDING,
    hostile::DEMANDING,
    bad_input::DEMANDING,
    checkpoint::DEMANDING,
    jobs::DEMANDING,
    restart::DEMANDING,
];

/// All others: first those that take longest, so that nobody waits for one of them in the end, and last those that must be alone.
const OTHERS: &[&[Scene]] = &[
    moving_kin_faults::SCENES,
    moving_home::SCENES,
    moving_faults::SCENES,
    moving::SCENES,
    hostile::SCENES,
    bad_input::SCENES,
    restart::SCENES,
    daemons::SCENES,
    checkpoint::SCENES,
    copies::SCENES,
    jobs::SCENES,
    commands::SCENES,
    users::SCENES,
    capi::SCENES,
    real::SCENES,
    uncarried::SCENES,
    pool::SCENES,
    residue::SCENES,
];

/// How many others follow each demanding one, so that those that wait fill the time of those that do not.
const BETWEEN: usize = 2;

/// Every scene, and how much room it takes.
fn all() -> Vec<(Scene, usize)> {
    let mut others = OTHERS.concat().into_iter().map(|scene| (scene, 1));
    let mut all = Vec::new();
    for scene in DEMANDING.concat() {
        all.push((scene, quiet::DEMANDING));
        all.extend(others.by_ref().take(BETWEEN));
    }
    all.extend(others);
    all
}

/// The names of all scenes.
pub(crate) fn names() -> impl Iterator<Item = String> {
    all().into_iter().map(|((name, _), _)| name.to_string())
}

/// All scenes as tests; `skips` may have entries of mode `case`.
pub(crate) fn trials(place: &Arc<Place>, repeat: u32, skips: &[Skip]) -> Vec<Trial> {
    let skip = |name: &str| skips.iter().find(|skip| skip.mode == "case" && skip.program == name).cloned();
    let of_all = all().into_iter().map(|((name, scene), room)| {
        let (place, skip) = (place.clone(), skip(name));
        Trial::ignorable_test(format!("case::{name}"), move || {
            let _room = quiet::room(room)?;
            tried(name, scene, &place, repeat, skip.as_ref())
        })
    });
    of_all.collect()
}

fn tried(
    name: &str,
    scene: fn(&Place) -> Res<End>,
    place: &Place,
    repeat: u32,
    skip: Option<&Skip>,
) -> Result<Completion, Failed> {
    for round in 1..=repeat {
        scene::take_left();
        match (scene(place), skip) {
            (Ok(End::Passed), _) => {}
            (Ok(End::Missing(what)), _) => return Ok(Completion::ignored_with(what)),
            (Err(_), Some(skip)) => return Ok(Completion::ignored_with(format!("{} ({})", skip.reason, skip.date))),
            (Err(fault), None) => {
                let kept = evidence::keep(&place.evidence.join(format!("case-{name}")), &scene::take_left());
                return Err(Failed::from(format!("{fault}\n(round {round} of {repeat})\nevidence: {kept}")));
            }
        }
    }
    Ok(Completion::Completed)
}
