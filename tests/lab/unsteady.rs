//! A second look at what failed. Two thousand tests share two processors here, and some of their deadlines are held against other people's work; what
//! fails beside the others is tried again alone. Passing twice then does not make it well: it is named at the end of the run as unsteady, with the
//! evidence of its failure, and a run that finds more than [`MOST`] of them has failed.

use super::{quiet, Res};
use std::sync::Mutex;

/// More unsteady tests than these in one run are failures.
const MOST: usize = 4;
/// So often it must pass alone.
const AGAIN: u32 = 2;

static FOUND: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Whether the test `name`, which failed with `fault`, is unsteady only: `run` passes when nothing runs beside it. Nobody who calls this holds any
/// room. With an error it has failed: the first failure is what is told, since the evidence is about that.
pub(crate) fn look_again(name: &str, fault: String, run: impl Fn() -> Res) -> Res {
    let _alone = quiet::room(quiet::ROOM)?;
    for round in 1..=AGAIN {
        if let Err(again) = run() {
            return Err(format!("{fault}\n(alone, in round {round} of {AGAIN}: {again})"));
        }
    }
    let mut found = FOUND.lock().map_err(|_| fault.clone())?;
    found.push(format!("unsteady: {name} failed, and then passed {AGAIN} times alone: {fault}"));
    match found.len() > MOST {
        true => Err(format!("{fault}\n(passed alone, but more than {MOST} tests of this run are unsteady)")),
        false => Ok(()),
    }
}

/// What was found, for the end of the run.
pub(crate) fn found() -> Vec<String> {
    FOUND.lock().map(|mut found| std::mem::take(&mut *found)).unwrap_or_default()
}
