//! The Python module: the interpreter on nodes with all that it has.

use super::capi::libraries;
use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;
use std::path::Path;

pub(crate) const SCENES: &[Scene] = &[
    ("python_forks_onto_nodes", python_forks_onto_nodes),
    ("python_tells_of_failures", python_tells_of_failures),
    ("python_with_numpy", python_with_numpy),
];

const NODES: u32 = 3;
/// Debian's, which every user may execute.
const PYTHON: &str = "/usr/bin/python3";

/// A sandbox, and the command that runs a program of `python/` there.
fn begin(place: &Place, name: &str) -> Res<(Sandbox, impl Fn(&str) -> String)> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = libraries(place)?.join("lib/libshoal.so.0").display().to_string();
    let (module, programs) = (tests.join("../python"), tests.join("case/python"));
    let (module, programs) = (module.display().to_string(), programs.display().to_string());
    let command = move |words: &str| {
        format!("env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={module} SHOAL_LIBRARY={library} {PYTHON} {programs}/{words}")
    };
    Ok((Sandbox::new(place, name, NODES)?, command))
}

fn python_forks_onto_nodes(place: &Place) -> Res<End> {
    let (s, python) = begin(place, "python_forks_onto_nodes")?;
    s.prints(&python("forks.py"), "ok")?;
    s.prints(&format!("setpriv --reuid 61001 --regid 61001 --clear-groups {}", python("forks.py")), "ok")?;
    // From a node what has streams of its own does not go, and that is said.
    let refused = s.sh(&format!("shoal run -n 0 {}", python("forks.py")))?;
    holds(&format!("it is refused by name: {}", refused.text()), refused.err.contains("is open in process"))?;
    s.until("test $(shoal ps --json | grep -c pid) = 0")?;
    Ok(End::Passed)
}

/// A worker that dies, a node that is lost, Ctrl-C: each is told as what it is, and nothing is left.
fn python_tells_of_failures(place: &Place) -> Res<End> {
    let (s, python) = begin(place, "python_tells_of_failures")?;
    s.prints(&python("failures.py"), "ok")?;
    let lost = s.start(&format!("{} 2>&1", python("waits.py 2")));
    s.until("shoal ps | grep -q ' n2 '")?;
    s.kill(s.machine("n2")?)?;
    let told = lost.end()?;
    holds(
        &format!("what was said: {}", told.text()),
        told.out.contains("NodeLost") && told.out.contains("node 2 is down"),
    )?;
    let stopped = s.start(&format!("timeout -s INT 3 {} 2>&1", python("waits.py 0 1")));
    let told = stopped.end()?;
    same("its last word", told.out.trim_end().lines().last(), Some("KeyboardInterrupt"))?;
    s.until("test $(shoal ps --json | grep -c pid) = 0")?;
    Ok(End::Passed)
}

fn python_with_numpy(place: &Place) -> Res<End> {
    if !Path::new("/usr/lib/python3/dist-packages/numpy").exists() {
        return Ok(End::Missing("python3-numpy".to_string()));
    }
    let (s, python) = begin(place, "python_with_numpy")?;
    s.prints(&python("with_numpy.py"), "ok")?;
    Ok(End::Passed)
}
