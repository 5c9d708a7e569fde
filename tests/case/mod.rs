//! Scenes that need a sandbox of their own: they break parts of it, or look at it from several sides at once.
//!
//! A scene is a function; each file of this directory names its own in `SCENES`. Commands run in `bash -c` on the front
//! end. Parts are broken from outside: all processes of the sandbox are below ours.

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
mod moving_signals;
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

/// Every scene.
fn all() -> Vec<Scene> {
    let all = [
        commands::SCENES,
        copies::SCENES,
        daemons::SCENES,
        jobs::SCENES,
        users::SCENES,
        hostile::SCENES,
        bad_input::SCENES,
        capi::SCENES,
        loss::SCENES,
        restart::SCENES,
        restoring::SCENES,
        slow::SCENES,
        real::SCENES,
        checkpoint::SCENES,
        uncarried::SCENES,
        moving::SCENES,
        moving_faults::SCENES,
        moving_home::SCENES,
        moving_hostile::SCENES,
        moving_kin_faults::SCENES,
        moving_signals::SCENES,
        moving_told::SCENES,
        pool::SCENES,
        moving_lazy::SCENES,
        chaos::SCENES,
        residue::SCENES,
    ];
    all.concat()
}

/// The names of all scenes.
pub(crate) fn names() -> impl Iterator<Item = String> {
    all().into_iter().map(|(name, _)| name.to_string())
}

/// All scenes as tests; `skips` may have entries of mode `case`.
pub(crate) fn trials(place: &Arc<Place>, repeat: u32, skips: &[Skip]) -> Vec<Trial> {
    let skip = |name: &str| skips.iter().find(|skip| skip.mode == "case" && skip.program == name).cloned();
    all().into_iter().map(|(name, scene)| trial(name, scene, place.clone(), repeat, skip(name))).collect()
}

fn trial(name: &str, scene: fn(&Place) -> Res<End>, place: Arc<Place>, repeat: u32, skip: Option<Skip>) -> Trial {
    let title = format!("case-{name}");
    Trial::ignorable_test(format!("case::{name}"), move || {
        for round in 1..=repeat {
            scene::take_left();
            match (scene(&place), &skip) {
                (Ok(End::Passed), _) => {}
                (Ok(End::Missing(what)), _) => return Ok(Completion::ignored_with(what)),
                (Err(_), Some(skip)) => {
                    return Ok(Completion::ignored_with(format!("{} ({})", skip.reason, skip.date)))
                }
                (Err(fault), None) => {
                    let kept = evidence::keep(&place.evidence.join(&title), &scene::take_left());
                    return Err(Failed::from(format!("{fault}\n(round {round} of {repeat})\nevidence: {kept}")));
                }
            }
        }
        Ok(Completion::Completed)
    })
}
