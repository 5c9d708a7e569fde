//! The shape of the code, as STYLE has it: layers, no circles, unsafe only where it may be, files and functions of a
//! size that can be read, oddities with their proof.

mod source;

use source::{Crate, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Layers from low to high; a crate depends on lower layers only.
const LAYERS: &[&[&str]] = &[
    &["vocab"],
    &["kern", "wire", "image", "space", "policy"],
    &["link", "local", "journal", "puppet", "ghost", "sandbox", "sample"],
    &["ckpt", "client", "procfs", "spread"],
    &["mover", "bpfs", "jobs", "store", "join"],
    &["view"],
    &["agent", "front", "monitor"],
    &["cli", "capi"],
];

/// Where unsafe code may be.
const UNSAFE: &[&str] = &["kern", "capi"];
const LONGEST_FILE: usize = 500;
const LONGEST_FUNCTION: usize = 80;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

fn crates() -> Vec<Crate> {
    let crates = source::crates(&root().join("crates"));
    assert!(crates.len() > 10, "the crates were not found");
    crates
}

fn none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|names| names.contains(&name))
}

#[test]
fn dependencies_point_down() {
    let mut complaints = Vec::new();
    for one in crates() {
        let Some(own) = layer(&one.name) else {
            complaints.push(format!("crate {} is in no layer: put it into LAYERS", one.name));
            continue;
        };
        let up = one.dependencies.iter().filter(|dependency| layer(dependency).is_some_and(|theirs| theirs >= own));
        complaints.extend(up.map(|up| format!("{} depends on {up}, which is not below it", one.name)));
    }
    none(complaints);
}

#[test]
fn modules_of_a_crate_form_no_circle() {
    let mut complaints = Vec::new();
    for one in crates() {
        let modules: BTreeSet<&str> = one.files.iter().map(|file| file.module.as_str()).collect();
        let edges: BTreeMap<&str, BTreeSet<&str>> =
            one.files.iter().map(|file| (file.module.as_str(), uses(file, &modules))).collect();
        if let Some(circle) = circle(&edges) {
            complaints.push(format!("{}: {}", one.name, circle.join(" -> ")));
        }
    }
    none(complaints);
}

/// The modules that a file names in its paths. A module and its own submodules are one family: naming each other
/// makes no circle. So are a type and the files that only add methods to it: a file with an `impl T` block for a type
/// of another module does not depend on that module, it is a part of it (docs/shape.md).
fn uses<'a>(file: &Source, modules: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let kin = |a: &str, b: &str| a.is_empty() || a == b || b.starts_with(&format!("{a}::"));
    let extends: BTreeSet<&str> = file.extends().iter().filter_map(|path| deepest(path, modules)).collect();
    let named = file.paths().into_iter().filter_map(|path| deepest(&path, modules));
    let named = named.filter(|other| !extends.contains(other));
    named.filter(|other| !kin(other, &file.module) && !kin(&file.module, other)).collect()
}

/// `a::b::Type` is in module `a::b` if there is such a file, else in `a`.
fn deepest<'a>(path: &str, modules: &BTreeSet<&'a str>) -> Option<&'a str> {
    let mut path = path;
    loop {
        if let Some(module) = modules.get(path) {
            return Some(module);
        }
        path = path.rsplit_once("::").map_or("", |(outer, _)| outer);
        if path.is_empty() {
            return None;
        }
    }
}

fn circle<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Option<Vec<&'a str>> {
    let mut done = BTreeSet::new();
    edges.keys().find_map(|start| visit(start, edges, &mut Vec::new(), &mut done))
}

fn visit<'a>(
    at: &'a str,
    edges: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    way: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Option<Vec<&'a str>> {
    if let Some(start) = way.iter().position(|earlier| *earlier == at) {
        return Some(way[start..].iter().copied().chain([at]).collect());
    }
    if !done.insert(at) {
        return None;
    }
    way.push(at);
    let found = edges[at].iter().find_map(|next| visit(next, edges, way, done));
    way.pop();
    found
}

#[test]
fn unsafe_code_is_where_it_may_be_and_says_why_it_is_sound() {
    let mut complaints = Vec::new();
    for one in crates() {
        let may = UNSAFE.contains(&one.name.as_str());
        for file in &one.files {
            let is_root = matches!(file.path.file_name().and_then(|name| name.to_str()), Some("lib.rs" | "main.rs"));
            if !may && is_root && file.module.is_empty() && !file.text.contains("#![forbid(unsafe_code)]") {
                complaints.push(format!("{}: no #![forbid(unsafe_code)]", file.path.display()));
            }
            let lines = file.unsafe_lines();
            let bad = lines.into_iter().filter(|line| !may || !file.says_safety(*line));
            complaints.extend(bad.map(|line| {
                let why = if may { "unsafe without a SAFETY line" } else { "unsafe outside kern and capi" };
                format!("{}:{}: {why}", file.path.display(), line + 1)
            }));
        }
    }
    none(complaints);
}

#[test]
fn files_and_functions_can_be_read() {
    let mut complaints = Vec::new();
    for file in crates().into_iter().flat_map(|one| one.files) {
        let lines = file.product.lines().count();
        if lines > LONGEST_FILE {
            complaints
                .push(format!("{}: {lines} lines without its tests, {LONGEST_FILE} is the most", file.path.display()));
        }
        for (name, line, length) in file.functions().into_iter().filter(|(_, _, length)| *length > LONGEST_FUNCTION) {
            complaints.push(format!(
                "{}:{line}: fn {name} has {length} lines, {LONGEST_FUNCTION} is the most",
                file.path.display()
            ));
        }
    }
    none(complaints);
}

#[test]
fn every_oddity_has_its_program() {
    let mut complaints = Vec::new();
    for file in crates().into_iter().flat_map(|one| one.files) {
        for (line, program) in file.oddities() {
            let there = program.as_deref().is_some_and(|program| root().join(program).is_file());
            if !there {
                let program = program.unwrap_or_else(|| "prog: tests/prog/….c".into());
                complaints.push(format!("{}:{line}: an ODDITY without its program ({program})", file.path.display()));
            }
        }
    }
    none(complaints);
}

/// A child that one unit test forks has a copy of the descriptors of all others, which may wait for an end of file.
#[test]
fn tests_of_one_program_run_one_after_the_other() {
    let settings = std::fs::read_to_string(root().join(".cargo/config.toml")).expect("the settings of cargo");
    assert!(settings.contains("[env]\nRUST_TEST_THREADS = \"1\"\n"), "{settings}");
}

#[test]
fn nothing_is_left_for_later() {
    let mut complaints = Vec::new();
    for file in crates().into_iter().flat_map(|one| one.files) {
        for word in ["todo!(", "unimplemented!(", ".unwrap()", "thread::sleep("] {
            let code = file.code();
            let found = code.lines().enumerate().filter(|(_, line)| line.contains(word));
            complaints.extend(found.map(|(line, _)| format!("{}:{}: {word}", file.path.display(), line + 1)));
        }
    }
    none(complaints);
}

/// A daemon's threads serve everybody. What they may ask of somebody's process never waits for that one (kern, ODDITY stat-waits-for-exec).
#[test]
fn daemons_read_the_stat_of_nobody_who_lives() {
    const DAEMONS: &[&str] = &["link", "ghost", "agent", "front"];
    /// A process made for one move, which may wait for what it moves; and a daemon that reads of itself.
    const MAY: &[&str] = &["agent/src/mover/", "front/src/pulse.rs"];
    let mut complaints = Vec::new();
    for one in crates().iter().filter(|one| DAEMONS.contains(&one.name.as_str())) {
        for file in &one.files {
            let path = file.path.display().to_string();
            let asks = file.text.lines().enumerate().filter(|(_, line)| line.contains("proc.stat("));
            let bad = asks.filter(|_| !MAY.iter().any(|may| path.contains(may)));
            complaints.extend(bad.map(|(line, _)| format!("{path}:{}: use stat_of_ended or status", line + 1)));
        }
    }
    none(complaints);
}
