//! Numbers that mean another program by the time at which a daemon acts on them: a process that executes a set-user-ID program keeps its number.

use super::hostile::compiled;
use super::scene::{holds, Sandbox};
use super::{End, Scene};
use crate::lab::faults::Faults;
use crate::lab::place::Place;
use crate::lab::session::Plan;
use crate::lab::Res;
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[("usage_of_what_became_roots", usage_of_what_became_roots)];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --clear-groups";
/// Longer than a node's daemon is held at a fault point here.
const LOST_AFTER: Duration = Duration::from_secs(20);

/// A thread waits for a child elsewhere and has come back from its call; before the daemon adds what the child has used, another thread of the process
/// executes a set-user-ID program: nothing is written into that.
fn usage_of_what_became_roots(place: &Place) -> Res<End> {
    let socket = place.fresh("faults");
    let faults = Faults::listen(&socket)?;
    let plan = Plan { faults: Some(socket), lost_after: Some(LOST_AFTER), ..Plan::default() };
    let s = Sandbox::with(place, "usage_of_what_became_roots", 2, plan)?;
    let (program, copy) = (compiled(place, "usage_of_another")?, place.fresh("rootcopy"));
    let (program, copy) = (program.display(), copy.display());
    s.ok(&format!("cp {program} {copy}; chmod 4755 {copy}"))?;
    for point in ["usage is there", "usage is written"] {
        let dir = place.fresh("usage");
        let dir = dir.display();
        s.ok(&format!("mkdir -m 777 {dir}"))?;
        faults.watch(point)?;
        let going = s.start(&format!("{ANN} shoal run -n 0 {program} {dir} 1 {copy}"));
        let held = faults.reached(Duration::from_secs(20))?;
        s.ok(&format!("touch {dir}/go"))?;
        s.until(&format!("test -s {dir}/up"))?;
        s.prints(&format!("cat {dir}/up"), "0")?;
        drop(held);
        // The daemon goes on, and so does the stand-in that writes for it.
        s.prints("shoal run -n 0 sh -c 'sleep 0.3; echo well'", "well")?;
        s.ok(&format!("touch {dir}/look"))?;
        s.until(&format!("test -s {dir}/found"))?;
        let found = s.ok(&format!("cat {dir}/found"))?;
        holds(&format!("at the point {point:?} the memory of root's program is whole: {found}"), found == "whole")?;
        holds("it ends well", going.end()?.code() == Some(0))?;
    }
    Ok(End::Passed)
}
