//! Moves of kin for which a node has no room from some step on: its daemon and movers can make no process, or the daemon can open no file. Whatever becomes of the move, parent and child live, and
//! are parent and child.

use super::moving_faults::{stage_at, DESTINATION, SOURCE};
use super::moving_kin_faults::{ends, Family, Way, Who, POINTS};
use super::scene::{holds, same, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::faults::Faults;
use crate::lab::place::Place;
use crate::lab::procs;
use crate::lab::{Doing, Res};
use rustix::process::{getrlimit, prlimit, Pid, Resource, Rlimit};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("move_kin_source_without_processes", |place| each_point(place, Wanting::Processes, SOURCE)),
    ("move_kin_destination_without_processes", |place| each_point(place, Wanting::Processes, DESTINATION)),
    ("move_kin_source_without_descriptors", |place| each_point(place, Wanting::Descriptors, SOURCE)),
    ("move_kin_destination_without_descriptors", |place| each_point(place, Wanting::Descriptors, DESTINATION)),
];

/// A resource of which there is no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanting {
    /// fork(2) says EAGAIN: pids.max of a control group.
    Processes,
    /// EMFILE in the daemon, which has most of all: RLIMIT_NOFILE, as where fs.nr_open is lowered. A mover is root's, and has few.
    Descriptors,
}

/// Given back when this is dropped.
enum Taken {
    Processes { group: PathBuf, all: PathBuf },
    Descriptors(Pid, Rlimit),
}

/// Where the limit on processes has its groups: a hierarchy of its own, or the one of all controllers.
fn groups() -> Option<PathBuf> {
    let all = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].map(PathBuf::from);
    all.into_iter().find(|at| at.join("cgroup.procs").exists())
}

impl Wanting {
    fn take(self, s: &Sandbox, place: &Place, node: &str) -> Res<Taken> {
        let agent = s.agent(node)?;
        match self {
            Wanting::Processes => {
                let movers = procs::below(agent).into_iter().filter(|one| one.comm == "shoal:mover");
                let all = groups().ok_or("no control groups")?;
                let name = place.fresh("room").file_name().unwrap_or_default().to_string_lossy().into_owned();
                let group = all.join(format!("shoal-tests.{}.{name}", std::process::id()));
                fs::create_dir(&group).doing("make a control group")?;
                let taken = Taken::Processes { group: group.clone(), all };
                for pid in movers.map(|one| one.pid).chain([agent]) {
                    fs::write(group.join("cgroup.procs"), pid.to_string()).doing("put a daemon into it")?;
                }
                fs::write(group.join("pids.max"), "1").doing("take its room away")?;
                Ok(taken)
            }
            Wanting::Descriptors => {
                let agent = Pid::from_raw(agent).ok_or("PID 0")?;
                let few = Rlimit { current: Some(3), maximum: getrlimit(Resource::Nofile).maximum };
                let before = prlimit(Some(agent), Resource::Nofile, few).doing("lower the daemon's limit")?;
                Ok(Taken::Descriptors(agent, before))
            }
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        match self {
            Taken::Processes { group, all } => {
                let within = |at: &Path| fs::read_to_string(at.join("cgroup.procs")).unwrap_or_default();
                // The daemon may make another process meanwhile.
                let _says_so = wait_for("a control group is empty", || {
                    within(group).lines().for_each(|pid| drop(fs::write(all.join("cgroup.procs"), pid)));
                    fs::remove_dir(&*group).is_ok()
                });
            }
            Taken::Descriptors(agent, before) => {
                let _ended = prlimit(Some(*agent), Resource::Nofile, *before);
            }
        }
    }
}

/// Removes the groups that a killed run has left.
fn clear(all: &Path) {
    for group in fs::read_dir(all).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = group.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of = name.strip_prefix("shoal-tests.").and_then(|rest| rest.split('.').next()?.parse().ok());
        if of.is_some_and(|pid| procs::one(pid).is_none()) {
            let _in_use = fs::remove_dir(&group);
        }
    }
}

fn each_point(place: &Place, wanting: Wanting, node: &'static str) -> Res<End> {
    if wanting == Wanting::Processes {
        match groups() {
            Some(all) => clear(&all),
            None => return Ok(End::Missing("control groups with a limit on processes".into())),
        }
    }
    let (s, faults) = stage_at(place, &format!("move_kin_{wanting:?}_{node}"), Duration::from_secs(3))?;
    for (who, way) in
        [(Who::Parent, Way::Away), (Who::Child, Way::Away), (Who::Parent, Way::Home), (Who::Child, Way::Home)]
    {
        for point in POINTS {
            at_point(&s, place, &faults, (wanting, node), (who, way), point)
                .map_err(|fault| format!("{wanting:?} of {node}, {who:?} {way:?} at {point:?}: {fault}"))?;
        }
    }
    Ok(End::Passed)
}

fn at_point(
    s: &Sandbox,
    place: &Place,
    faults: &Faults,
    (wanting, node): (Wanting, &str),
    (who, way): (Who, Way),
    point: &'static str,
) -> Res {
    let family = Family::start(s, place)?;
    let pid = family.pid(who);
    if way == Way::Home {
        s.until(&format!("shoal move {pid} 1"))?;
    }
    faults.watch(point)?;
    let to = if way == Way::Home { 0 } else { 1 };
    let moving = s.start(&format!("timeout 20 shoal move {pid} {to}"));
    let held = faults.reached(Duration::from_secs(15))?;
    let taken = wanting.take(s, place, node)?;
    drop(held);
    let moved = moving.end()?;
    drop(taken);
    holds(&format!("it is moved, or not: {}", moved.text()), matches!(moved.code(), Some(0 | 1)))?;
    for one in [Who::Parent, Who::Child] {
        wait_for("one of each lives", || family.there(s, one) == 1)
            .map_err(|fault| format!("{one:?}: {fault}; {}", moved.text()))?;
    }
    family.counts_on("child")?;
    same("the parent's end", ends(s, family)?.as_str(), "5")
}
