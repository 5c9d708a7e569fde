//! Programs as they are, moved from node to node again and again while they run (`shoal sandbox --chaos`).

use super::scene::Sandbox;
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::session::Plan;
use crate::lab::{Doing, Res};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const SCENES: &[Scene] = &[
    ("chaos_python", chaos_python),
    ("chaos_sqlite", chaos_sqlite),
    ("chaos_gcc", chaos_gcc),
    ("chaos_go", chaos_go),
    ("chaos_shell", chaos_shell),
    ("chaos_orphans", chaos_orphans),
];

/// How long the programs run, in seconds, and the fewest moves in that time that count as such a test.
const SECONDS: u32 = 4;
const MOVES: u32 = 8;
const MOST_RUNS: u32 = 4;

fn sandbox(place: &Place, name: &str) -> Res<Sandbox> {
    Sandbox::with(place, name, 3, Plan { chaos: Some("50ms"), ..Plan::default() })
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("case/real").join(name)
}

/// How often something was moved.
fn moves(s: &Sandbox) -> Res<u32> {
    s.ok("grep -c 'has moved' /run/shoal/sandbox/chaos.log || true")?.trim().parse().doing("read a number")
}

/// Runs it until so much was moved; a busy machine moves less in the time for which it runs.
fn moved(s: &Sandbox, least: u32, run: impl Fn() -> Res) -> Res<End> {
    for _ in 0..MOST_RUNS {
        run()?;
        if moves(s)? >= least {
            return Ok(End::Passed);
        }
    }
    Err(format!("it was moved {} times only: {}", moves(s)?, s.ok("tail /run/shoal/sandbox/chaos.log")?))
}

fn chaos_python(place: &Place) -> Res<End> {
    let s = sandbox(place, "chaos_python")?;
    let script = format!("shoal run python3 {} {SECONDS}", source("chaos_python.py").display());
    moved(&s, MOVES, || s.prints(&script, "well"))
}

/// One on each node: they differ in what they fork there.
fn chaos_orphans(place: &Place) -> Res<End> {
    let s = sandbox(place, "chaos_orphans")?;
    let script = format!("shoal run -n 0-2 python3 {} {}", source("chaos_orphans.py").display(), 3 * SECONDS);
    moved(&s, MOVES, || s.prints(&script, "well\nwell\nwell"))
}

fn chaos_sqlite(place: &Place) -> Res<End> {
    let s = sandbox(place, "chaos_sqlite")?;
    moved(&s, MOVES, || {
        let database = place.fresh("database");
        let script =
            format!("shoal run python3 {} {} {SECONDS}", source("chaos_sqlite.py").display(), database.display());
        let done = s.prints(&script, "well");
        let removed = std::fs::remove_file(&database).doing("remove the database");
        done.and(removed)
    })
}

/// The compiler's own processes come and go quickly, and have no pipe in common, which would keep them where they are; what they make is the same as at home, byte for byte.
fn chaos_gcc(place: &Place) -> Res<End> {
    let s = sandbox(place, "chaos_gcc")?;
    let (there, home) = (place.fresh("there"), place.fresh("home"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("prog/chld_info.c");
    let compile = |to: &Path| format!("gcc -O2 -c {} -o {}", file.display(), to.display());
    s.ok(&compile(&home))?;
    let again = format!(
        "for i in 1 2 3 4 5 6 7 8; do shoal run sh -c 'exec {} </dev/null >/dev/null 2>&1' && cmp {} {} && echo same; done | uniq -c | xargs",
        compile(&there),
        there.display(),
        home.display()
    );
    let done = moved(&s, 1, || s.prints(&again, "8 same"));
    for file in [&there, &home] {
        std::fs::remove_file(file).doing("remove an object file")?;
    }
    done
}

fn chaos_go(place: &Place) -> Res<End> {
    let program = place.program("chaos-go");
    let mut build = Command::new("go");
    build.arg("build").arg("-o").arg(&program).arg(source("chaos.go"));
    match build.env("GOFLAGS", "-mod=mod").env("GO111MODULE", "off").output() {
        Err(_) => return Ok(End::Missing("go is not installed".into())),
        Ok(done) if !done.status.success() => {
            return Err(format!("go build: {}", String::from_utf8_lossy(&done.stderr)))
        }
        Ok(_) => {}
    }
    let s = sandbox(place, "chaos_go")?;
    let script = format!("shoal run {} {SECONDS}", program.display());
    moved(&s, MOVES, || s.prints(&script, "well"))
}

/// A shell and its children, each moved by itself: it waits for all of them, and for what they say.
fn chaos_shell(place: &Place) -> Res<End> {
    let s = sandbox(place, "chaos_shell")?;
    let script = "n=0; for i in $(seq 300); do sleep 0.2 </dev/null >/dev/null 2>&1 & all=\"$all $!\"; (exit $((i % 7))); n=$((n + $?)); done; \
                  k=0; for job in $all; do wait $job && k=$((k + 1)); done; echo $n $k";
    moved(&s, MOVES, || s.prints(&format!("shoal run bash -c '{script}'"), "903 300"))
}
