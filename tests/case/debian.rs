//! The Debian package: what is in it, what becomes of a machine that gets it, and the completions of shells.

use super::scene::{same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) const SCENES: &[Scene] = &[
    ("debian_package", debian_package),
    ("debian_installs", debian_installs),
    ("completion_offers_what_there_is", completion_offers_what_there_is),
    ("completion_is_quiet", completion_is_quiet),
];

/// The package that `./x deb` has made of the product.
fn package(place: &Place) -> Res<Option<PathBuf>> {
    let product = place.shoal.as_ref().ok_or("shoal is not built")?;
    let target = product.ancestors().nth(3).ok_or("the product is in no target directory")?.join("deb");
    let Ok(entries) = std::fs::read_dir(&target) else { return Ok(None) };
    let mut paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.find(|path| path.extension().is_some_and(|extension| extension == "deb")))
}

/// A script of tests/debian with the package, which says nothing.
fn script(place: &Place, name: &str) -> Res<End> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("debian").join(name);
    // What makes it takes minutes to build, so it is no part of each run.
    let Some(package) = package(place)? else {
        return Ok(End::Missing(
            "no package in target/deb: ./x deb makes it, and ./x deb --try tries all of it".into(),
        ));
    };
    let done = Command::new(script).arg(package).stdin(Stdio::null()).output().doing("run a script")?;
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    match done.status.success() && said.is_empty() {
        true => Ok(End::Passed),
        false => Err(format!("{}: {said}", done.status)),
    }
}

/// Files, modes, man pages without warnings for all commands and no hidden ones.
fn debian_package(place: &Place) -> Res<End> {
    script(place, "contents")
}

/// Installed, upgraded, removed and purged in a copy of this machine's root.
fn debian_installs(place: &Place) -> Res<End> {
    script(place, "install")
}

fn completions() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/completions").display().to_string()
}

/// Words that bash puts in for the last word of a line.
fn bash(line: &str) -> String {
    format!(
        "bash --norc -c 'source {}/shoal.bash; COMP_WORDS=({line} \"\"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
         [ -z \"$1\" ] || COMP_WORDS[COMP_CWORD]=$1; _shoal; echo \"${{COMPREPLY[@]}}\"' - ",
        completions()
    )
}

/// Nodes and PIDs of the space in bash and fish.
fn completion_offers_what_there_is(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "completion_offers", 3)?;
    let going = s.start("exec shoal run -n 1 sleep 1000");
    s.until("shoal ps | grep -q 'sleep 1000'")?;
    let pid = s.ok("shoal ps | awk '/sleep 1000/ { print $1 }'")?;
    let bash = |line: &str, typed: &str| s.ok(&format!("{}'{typed}'", bash(line)));
    same("nodes of run", bash("shoal run -n", "")?.as_str(), "n0 n1 n2")?;
    same("a list", bash("shoal run -n", "n0,n")?.as_str(), "n0,n1 n0,n2")?;
    same("numbers", bash("shoal run -n", "0-")?.as_str(), "0-0 0-1 0-2")?;
    same("processes", bash("shoal where", "")?.as_str(), pid.as_str())?;
    same("what moves, and where to", bash("shoal move", "")?.as_str(), &format!("{pid} n0 n1 n2 front"))?;
    same("a place on a node", bash("bpcp x", "n2")?.as_str(), "n2:")?;
    same("nodes of a link", bash("bpsh", "n")?.as_str(), "n0 n1 n2")?;
    same("commands", bash("shoal", "node")?.as_str(), "node nodes node-state node-set")?;
    let fish = |line: &str| {
        s.ok(&format!("HOME=/tmp fish --no-config -c 'source {}/shoal.fish; complete -C \"{line}\"' | cut -f1 | sort | tr '\\n' ' '", completions()))
    };
    same("nodes in fish", fish("shoal run -n ")?.as_str(), "n0 n1 n2")?;
    same("processes in fish", fish("shoal where ")?.as_str(), pid.as_str())?;
    s.ok(&format!("zsh -fn {}/_shoal", completions()))?;
    s.ok(&format!("kill {pid}"))?;
    going.end()?;
    Ok(End::Passed)
}

/// Without a daemon, and with one that does not answer, a shell does not wait and nothing is written between what is typed.
fn completion_is_quiet(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "completion_is_quiet", 1)?;
    let ask = |socket: &str| format!("SHOAL_SOCKET={socket} timeout 3 shoal complete 3 -- shoal run -n '' 2>&1");
    s.prints(&ask("/nonexistent"), "")?;
    let mute = "python3 -c 'import socket, time; s = socket.socket(socket.AF_UNIX); s.bind(\"/tmp/mute\"); s.listen(8); time.sleep(60)'";
    s.prints(
        &format!("{mute} & until test -S /tmp/mute; do sleep 0.02; done; {}; kill $!; rm /tmp/mute", ask("/tmp/mute")),
        "",
    )?;
    // The same question where a daemon answers.
    s.ok("shoal complete 3 -- shoal run -n '' | grep -q '^n0.up, '")?;
    Ok(End::Passed)
}
