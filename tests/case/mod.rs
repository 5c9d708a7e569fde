//! Scenes that need a sandbox of their own: they break parts of it, or look at it from several sides at once.
//!
//! A scene is a function; each file of this directory names its own in `SCENES`, and in `DEMANDING` those that load the machine
//! ([`quiet`]). Commands run in `bash -c` on the front end. Parts are broken from outside: all processes of the sandbox are below ours.

mod bad_input;
mod bproc;
mod bproc_commands;
mod capi;
mod chaos;
mod checkpoint;
mod checkpoint_changing;
mod checkpoint_dry;
mod clocks;
mod commands;
mod copies;
mod daemons;
mod debian;
mod doctor;
mod drain;
mod floods;
mod gates;
mod help;
mod hostile;
mod jobs;
mod jobs_batch;
mod joining;
mod launchers;
mod locks;
mod logs;
mod loss;
mod machines;
mod masters;
mod mon;
mod moving;
mod moving_away;
mod moving_changing;
mod moving_ends;
mod moving_faults;
mod moving_forecast;
mod moving_home;
mod moving_home_kin;
mod moving_home_stopped;
mod moving_hostile;
mod moving_kin_faults;
mod moving_lazy;
mod moving_signals;
mod moving_terminal;
mod moving_told;
mod moving_watched;
mod moving_without_room;
mod node_proc;
mod node_view;
mod nodes_files;
mod nodes_names;
mod nodes_rights;
mod nodes_states;
mod ordinary;
mod pool;
mod proc;
mod proc_guarded;
mod python;
mod real;
mod residue;
mod restart;
mod restored_as;
mod restoring;
mod restoring_threads;
mod rights;
mod rights_images;
mod rights_numbers;
mod rsh;
mod run_options;
mod scene;
mod shell;
mod slow;
mod slurm;
mod spread;
mod uncarried;
mod users;
mod users_allowed;
mod view;
mod view_ahead;
mod view_caches;
mod view_mounts;
mod view_spaces;
mod view_store;
mod watching;

use crate::lab::evidence;
use crate::lab::place::Place;
use crate::lab::quiet;
use crate::lab::skip::Skip;
use crate::lab::unsteady;
use crate::lab::watchdog;
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

/// Those that run two at a time, and before the others: they keep the machine so busy that beside them a node may seem lost which is to be lost after a
/// second only.
const DEMANDING: &[&[Scene]] = &[
    hostile::DEMANDING,
    floods::SCENES,
    moving_hostile::SCENES,
    chaos::SCENES,
    bad_input::DEMANDING,
    restart::DEMANDING,
    jobs::DEMANDING,
    checkpoint::DEMANDING,
    moving::DEMANDING,
    moving_told::SCENES,
    moving_lazy::SCENES,
    restoring::SCENES,
    restoring_threads::SCENES,
];

/// All others: first those that are held against a time, then those that take longest, so that nobody waits for one of them in the end, and last those
/// that must be alone.
const OTHERS: &[&[Scene]] = &[
    loss::SCENES,
    slow::SCENES,
    moving_kin_faults::SCENES,
    moving_home::SCENES,
    moving_away::SCENES,
    moving_home_stopped::SCENES,
    moving_home_kin::SCENES,
    moving_forecast::SCENES,
    moving_signals::SCENES,
    moving_changing::SCENES,
    moving_ends::SCENES,
    clocks::SCENES,
    moving_faults::SCENES,
    moving_without_room::SCENES,
    moving_watched::SCENES,
    moving_terminal::SCENES,
    moving::SCENES,
    hostile::SCENES,
    rights_numbers::SCENES,
    bad_input::SCENES,
    restart::SCENES,
    daemons::SCENES,
    users_allowed::SCENES,
    logs::SCENES,
    nodes_names::SCENES,
    joining::SCENES,
    machines::SCENES,
    masters::SCENES,
    gates::SCENES,
    checkpoint::SCENES,
    checkpoint_changing::SCENES,
    checkpoint_dry::SCENES,
    copies::SCENES,
    debian::SCENES,
    doctor::SCENES,
    drain::SCENES,
    jobs::SCENES,
    commands::SCENES,
    help::SCENES,
    run_options::SCENES,
    nodes_rights::SCENES,
    nodes_states::SCENES,
    nodes_files::SCENES,
    jobs_batch::SCENES,
    rsh::SCENES,
    bproc_commands::SCENES,
    spread::SCENES,
    launchers::SCENES,
    view::SCENES,
    view_ahead::SCENES,
    view_caches::SCENES,
    view_mounts::SCENES,
    view_store::SCENES,
    view_spaces::SCENES,
    slurm::SCENES,
    mon::SCENES,
    locks::SCENES,
    rights::SCENES,
    rights_images::SCENES,
    users::SCENES,
    watching::SCENES,
    bproc::SCENES,
    capi::SCENES,
    real::SCENES,
    uncarried::SCENES,
    restored_as::SCENES,
    pool::SCENES,
    proc::SCENES,
    proc_guarded::SCENES,
    python::SCENES,
    node_proc::SCENES,
    node_view::SCENES,
    ordinary::SCENES,
    shell::SCENES,
    residue::SCENES,
];

/// Those that set what is the whole machine's, so that nothing else may run meanwhile.
const ALONE: &[&[Scene]] = &[rights_numbers::ALONE];

/// Every scene, and how much room it takes.
fn all() -> impl Iterator<Item = (Scene, usize)> {
    let of = |lists: &'static [&'static [Scene]], room| lists.concat().into_iter().map(move |scene| (scene, room));
    of(DEMANDING, quiet::DEMANDING).chain(of(OTHERS, 1)).chain(of(ALONE, quiet::ROOM))
}

/// The names of all scenes.
pub(crate) fn names() -> impl Iterator<Item = String> {
    all().map(|((name, _), _)| name.to_string())
}

/// All scenes as tests; `skips` may have entries of mode `case`.
pub(crate) fn trials(place: &Arc<Place>, repeat: u32, skips: &[Skip]) -> Vec<Trial> {
    let skip = |name: &str| skips.iter().find(|skip| skip.mode == "case" && skip.program == name).cloned();
    let of_all = all().map(|((name, scene), room)| {
        let (place, skip) = (place.clone(), skip(name));
        Trial::ignorable_test(format!("case::{name}"), move || {
            let held = quiet::room(room)?;
            let done = (1..=repeat).find_map(|round| match tried(name, scene, &place) {
                Ok(End::Passed) => None,
                Err(fault) => Some(Err(format!("{fault}\n(round {round} of {repeat})"))),
                missing => Some(missing),
            });
            drop(held);
            judged(name, scene, &place, done.unwrap_or(Ok(End::Passed)), repeat, skip.as_ref())
        })
    });
    of_all.collect()
}

/// Runs a scene once; a failure names the evidence that is kept of it.
fn tried(name: &str, scene: fn(&Place) -> Res<End>, place: &Place) -> Res<End> {
    scene::take_left();
    let _in_time = watchdog::watch(&format!("case::{name}"), &place.evidence);
    scene(place).map_err(|fault| {
        let kept = evidence::keep(&place.evidence.join(format!("case-{name}")), &scene::take_left());
        format!("{fault}\nevidence: {kept}")
    })
}

/// An entry in skip.toml turns a failure into an ignored test; any other failure is looked at again, unless it is what repeating was to find.
fn judged(
    name: &str,
    scene: fn(&Place) -> Res<End>,
    place: &Place,
    done: Res<End>,
    repeat: u32,
    skip: Option<&Skip>,
) -> Result<Completion, Failed> {
    match (done, skip) {
        (Ok(End::Passed), _) => Ok(Completion::Completed),
        (Ok(End::Missing(what)), _) => Ok(Completion::ignored_with(what)),
        (Err(_), Some(skip)) => Ok(Completion::ignored_with(format!("{} ({})", skip.reason, skip.date))),
        (Err(fault), None) if repeat > 1 => Err(fault.into()),
        (Err(fault), None) => {
            let again = || tried(&format!("{name}-again"), scene, place).map(|_| ());
            unsteady::look_again(&format!("case::{name}"), fault, again)?;
            Ok(Completion::Completed)
        }
    }
}
