//! Programs as they are, in five languages and one other width: on a node they do what they do at home.

use super::scene::{same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::proto::Outcome;
use crate::lab::{Doing, Res};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const SCENES: &[Scene] = &[
    ("real_bash", |place| alike(place, "real_bash", "bash", &["bash", "pipes.sh"])),
    ("real_python", |place| alike(place, "real_python", "python3", &["python3", "family.py"])),
    ("real_make", |place| alike(place, "real_make", "make", &["make", "-j8", "-f", "Makefile"])),
    ("real_perl", |place| alike(place, "real_perl", "perl", &["perl", "pipes.pl"])),
    ("real_java", |place| alike(place, "real_java", "java", &["java", JAVA, "Family.java"])),
    ("real_go", real_go),
    ("real_32_bit", real_32_bit),
    ("real_make_over_nodes", real_make_over_nodes),
];

/// The files of its figures under /tmp are named by PIDs, and all machines of all sandboxes share /tmp.
const JAVA: &str = "-XX:-UsePerfData";

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("case/real")
}

fn has(tool: &str) -> bool {
    Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().is_ok_and(|done| done.status.success())
}

fn missing(tool: &str) -> Res<End> {
    Ok(End::Missing(format!("{tool} is not installed")))
}

/// The same output and the same end at home (natively on the front end), on a node, and on a node called from a node.
fn alike(place: &Place, name: &str, tool: &str, words: &[&str]) -> Res<End> {
    if !has(tool) {
        return missing(tool);
    }
    let s = Sandbox::new(place, name, 2)?;
    let command = format!("cd {} && exec", sources().display());
    let run = |before: &str| s.sh(&format!("{command} {before} {}", words.join(" ")));
    let home = run("")?;
    if home.late || !home.left.is_empty() || home.out.is_empty() {
        return Err(format!("it does not even run at home: {}", home.text()));
    }
    let told = |o: &Outcome| (o.status, o.out.clone(), o.left.clone());
    for before in ["shoal run -n 0 --", "shoal run -n 0 -- shoal run -n 1 --"] {
        same(before, told(&run(before)?), told(&home))?;
    }
    Ok(End::Passed)
}

fn real_go(place: &Place) -> Res<End> {
    if !has("go") {
        return missing("go");
    }
    let program = place.program("family-go");
    let mut build = Command::new("go");
    build.arg("build").arg("-o").arg(&program).arg(sources().join("family.go"));
    let done = build.env("GOFLAGS", "-mod=mod").env("GO111MODULE", "off").output().doing("run go")?;
    if !done.status.success() {
        return Err(format!("go build: {}", String::from_utf8_lossy(&done.stderr)));
    }
    alike(place, "real_go", "go", &[&program.display().to_string()])
}

/// Some of the programs of `prog/`, compiled for 32 bits: their system calls have other numbers.
fn real_32_bit(place: &Place) -> Res<End> {
    const PROGRAMS: [&str; 14] = [
        "fork_tree",
        "child_ids",
        "exec_env",
        "wait_killed",
        "wait_stopped",
        "kill_group",
        "kill_own_group",
        "kill_up",
        "kill_errors",
        "sig_rt_order",
        "sig_pidfd",
        "group_setpgid",
        "session_setsid",
        "cred_change",
    ];
    let dir = place.program("32");
    std::fs::create_dir_all(&dir).doing("make a directory")?;
    for program in PROGRAMS {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("prog").join(format!("{program}.c"));
        let mut cc = Command::new("cc");
        cc.args(["-m32", "-std=gnu11", "-O1", "-pthread"]).arg(source).arg("-o").arg(dir.join(program));
        if !cc.output().doing("run cc")?.status.success() {
            return missing("gcc-multilib");
        }
    }
    let s = Sandbox::new(place, "real_32_bit", 2)?;
    for program in PROGRAMS {
        let path = dir.join(program).display().to_string();
        s.prints(&path, "ok")?;
        s.prints(&format!("shoal run -n 0 {path}"), "ok")?;
        s.prints(&format!("CHILD_PREFIX='shoal run -n 1 --' shoal run -n 0 {path}"), "ok")?;
    }
    Ok(End::Passed)
}

/// make on the front end, its recipes on nodes.
fn real_make_over_nodes(place: &Place) -> Res<End> {
    if !has("make") {
        return missing("make");
    }
    let s = Sandbox::new(place, "real_make_over_nodes", 4)?;
    let file = "all: $(shell seq 1 40)\n\t@:\n%:\n\t@shoal run sh -c 'echo $@; hostname >&2'\n";
    let script =
        format!("make -j8 -f - <<'END' 2>/run/hosts | sort -n | md5sum\n{file}END\nsort -u /run/hosts | wc -l");
    let sum = s.ok("seq 1 40 | md5sum")?;
    s.prints(&script, &format!("{sum}\n4"))?;
    Ok(End::Passed)
}
