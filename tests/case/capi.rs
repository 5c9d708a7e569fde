//! The library for C programs, in a program that is linked with it.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const SCENES: &[Scene] = &[("move_by_a_call", move_by_a_call), ("c_programs_hear_why", c_programs_hear_why)];

/// As strict as compilers are.
const STRICT: &str = r#"#include <shoal.h>
#include <errno.h>
#include <stdio.h>
int main(void)
{
    int itself, other;
    if (shoal_error()[0] != 0 || shoal_move(0, -1) != -1 || errno != EINVAL)
        return 1;
    itself = shoal_move(0, 0);
    printf("%d %d %s\n", itself, errno == ESRCH, shoal_error());
    other = shoal_move(1, 0);
    printf("%d %d %s\n", other, errno == ESRCH, shoal_error());
    return 0;
}
"#;

/// Where `./x library` has put the libraries, beside the product.
pub(super) fn libraries(place: &Place) -> Res<PathBuf> {
    let product = place.shoal.as_ref().ok_or("shoal is not built")?;
    let target = product.ancestors().nth(3).ok_or("the product is in no target directory")?;
    let found = target.join("library/dist");
    match found.join("lib/libshoal.a").exists() {
        true => Ok(found),
        false => Err(format!("{} has no libraries: ./x library", found.display())),
    }
}

/// A program of the scenes with the library.
fn linked(place: &Place, source: &Path, standard: &[&str]) -> Res<String> {
    let libraries = libraries(place)?;
    let mut cc = Command::new("cc");
    cc.args(standard).args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]);
    cc.arg(libraries.join("include")).arg(source).arg(libraries.join("lib/libshoal.a"));
    built(place, cc)
}

/// The program that the compiler makes.
pub(super) fn built(place: &Place, mut cc: Command) -> Res<String> {
    let program = place.fresh("linked");
    let done = cc.arg("-o").arg(&program).output().doing("run a compiler")?;
    match done.status.success() {
        true => Ok(program.display().to_string()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}

/// It moves itself over all nodes twice, and finds its memory, thread, signals, children and descriptors as they were; also an ordinary user's.
fn move_by_a_call(place: &Place) -> Res<End> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("case/real/moves_itself.c");
    let program = linked(place, &source, &["-std=gnu11"])?;
    let s = Sandbox::new(place, "move_by_a_call", 3)?;
    s.prints(&format!("shoal run -n 0 {program} n0 n1 n2"), "ok")?;
    s.prints(&format!("setpriv --reuid 61001 --regid 61001 --clear-groups shoal run -n 0 {program} n0 n1 n2"), "ok")?;
    // A child of another process, in a session of its own.
    let said = place.fresh("said").display().to_string();
    let child = format!("setsid -w {program} n0 n1 n2 </dev/null >{said} 2>&1; cat {said}");
    s.prints(&format!("shoal run -n 0 -- sh -c '{child}'"), "ok")?;
    s.until("test $(shoal ps --json | grep -c move) = 0")?;
    // Of other scenes there may be some for a moment.
    s.until("! ls -A /tmp | grep -q '^.shoal-'")?;
    Ok(End::Passed)
}

/// Where there is no daemon and nobody to ask.
fn c_programs_hear_why(place: &Place) -> Res<End> {
    let source = place.fresh("strict").with_extension("c");
    std::fs::write(&source, STRICT).doing("write a program")?;
    let program = linked(place, &source, &["-std=c99", "-pedantic"])?;
    let mut run = Command::new(program);
    run.env("SHOAL_PROGRAM", "/nonexistent").env("SHOAL_SOCKET", "/nonexistent/socket");
    let done = run.output().doing("run the program")?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    same("its status", done.status.code(), Some(0))?;
    holds(&format!("{said:?} names the program"), said.starts_with("-1 1 the program shoal, which neither"))?;
    holds(&format!("{said:?} names the daemon"), said.contains("\n-1 1 no shoal daemon runs on this machine"))?;
    Ok(End::Passed)
}
