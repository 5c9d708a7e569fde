//! Programs that were written for BProc, with its library and header.

use super::capi::{built, libraries};
use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::session::Plan;
use crate::lab::{Doing, Res};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

pub(crate) const SCENES: &[Scene] = &[
    ("bproc_nodes", bproc_nodes),
    ("bproc_forks", bproc_forks),
    ("bproc_forks_of_a_user", bproc_forks_of_a_user),
    ("bproc_vrfork_of_one_image", bproc_vrfork_of_one_image),
    ("bproc_vrfork_past_a_node_that_hangs", bproc_vrfork_past_a_node_that_hangs),
    ("bproc_execs", bproc_execs),
    ("bproc_dumps", bproc_dumps),
    ("bproc_execdump", bproc_execdump),
    ("bproc_faults", bproc_faults),
    ("bproc_links", bproc_links),
    ("bproc_of_a_setuid_program", bproc_of_a_setuid_program),
];

/// Nodes of each scene.
const NODES: u32 = 3;

/// With which library a program is linked, and in which language.
#[derive(Clone, Copy)]
enum Link {
    Static,
    Shared,
    Plus,
}

/// A program of `bproc/`.
fn program(place: &Place, name: &str, link: Link) -> Res<String> {
    let libraries = libraries(place)?;
    let lib = libraries.join("lib");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("case/bproc").join(name);
    let mut cc = Command::new(if matches!(link, Link::Plus) { "c++" } else { "cc" });
    if matches!(link, Link::Plus) {
        cc.args(["-x", "c++", "-fpermissive", "-w"]);
    } else {
        cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror"]);
    }
    cc.args(["-O1", "-g", "-pthread", "-I"]).arg(libraries.join("include")).arg(source).args(["-x", "none"]);
    match link {
        Link::Static => cc.arg(lib.join("libbproc.a")),
        Link::Shared | Link::Plus => cc.arg("-L").arg(&lib).arg("-lbproc").arg(format!("-Wl,-rpath,{}", lib.display())),
    };
    built(place, cc)
}

/// The same, linked as most are.
pub(crate) fn shared(place: &Place, name: &str) -> Res<String> {
    program(place, name, Link::Shared)
}

fn bproc_nodes(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bproc_nodes", NODES)?;
    for link in [Link::Static, Link::Shared] {
        s.prints(&format!("{} {NODES}", program(place, "nodes.c", link)?), "ok")?;
    }
    Ok(End::Passed)
}

/// Each child says where it is, on the standard output of its parent.
fn forks(s: &Sandbox, place: &Place, prefix: &str) -> Res<()> {
    for link in [Link::Static, Link::Shared, Link::Plus] {
        let (program, file) = (program(place, "forks.c", link)?, place.fresh("file"));
        // The child makes it anew by its own rights.
        std::fs::write(&file, "").doing("make a file")?;
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).doing("let anybody write a file")?;
        let (said, file) = (place.fresh("said").display().to_string(), file.display().to_string());
        s.prints(&format!("{prefix} {program} {NODES} {file} >{said}; tail -n 1 {said}"), "ok")?;
        let all = std::fs::read_to_string(&said).doing("read what was said")?;
        for node in 0..NODES {
            holds(
                &format!("{all:?} has what the child on node {node} said"),
                all.contains(&format!("child on node {node}\n")),
            )?;
        }
        same("the file", std::fs::read_to_string(&file).doing("read the file")?.as_str(), "in a file\n")?;
    }
    s.until("test $(shoal ps --json | grep -c pid) = 0")?;
    Ok(())
}

fn bproc_forks(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bproc_forks", NODES)?;
    forks(&s, place, "")?;
    Ok(End::Passed)
}

fn bproc_forks_of_a_user(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bproc_forks_of_a_user", NODES)?;
    forks(&s, place, "setpriv --reuid 61001 --regid 61001 --clear-groups")?;
    Ok(End::Passed)
}

/// What `tree.c` says when all of its children but the first are copies, and each child has said which it is.
fn all_are_there(said: &str, children: usize, copies: usize) -> Res<()> {
    let mut there: Vec<usize> = said.lines().filter_map(|line| line.strip_suffix(" is there")?.parse().ok()).collect();
    there.sort_unstable();
    same(&format!("children of {said:?}"), there, (0..children).collect())?;
    holds(&format!("{said:?} has {copies} copies"), said.contains(&format!("of one image: {copies}\n")))?;
    holds(&format!("{said:?} ends well"), said.ends_with("ok"))
}

/// One is written and the others are copies of it: root's and another user's, of little and of more memory, beside a thread that works, from a node, and on nodes that have no files.
fn bproc_vrfork_of_one_image(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bproc_vrfork_of_one_image", NODES)?;
    let (all, user) = (2 * NODES as usize, "setpriv --reuid 61001 --regid 61001 --clear-groups");
    for (link, before, words) in [
        (Link::Shared, "", "0"),
        (Link::Static, "", "20 held"),
        (Link::Shared, "", "1 ignored"),
        (Link::Shared, "ulimit -n 20;", "1"),
        (Link::Shared, user, "1"),
        (Link::Plus, user, "20 held"),
    ] {
        let said =
            s.ok(&format!("{before} timeout 60 {} {NODES} {words} </dev/null 2>&1", program(place, "tree.c", link)?))?;
        all_are_there(&said, all, all - 1)?;
    }
    s.until("test $(shoal ps --json | grep -c pid) = 0")?;
    s.until("! pgrep -f '[c]opy-origin'")?;
    let bare = Sandbox::with(place, "bproc_vrfork_of_one_image_bare", NODES, Plan { bare: true, ..Plan::default() })?;
    let shared = program(place, "tree.c", Link::Shared)?;
    let said = bare.ok(&format!("d=$(mktemp -d /var/tmp/tree.XXXXXX); cp {shared} $d/tree; cd $d; timeout 60 ./tree {NODES} 1 </dev/null; rm -r $d"))?;
    all_are_there(&said, all, all - 1)?;
    Ok(End::Passed)
}

/// A node that says nothing costs its own places only, and those behind it in the tree have the image from others.
fn bproc_vrfork_past_a_node_that_hangs(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bproc_vrfork_past_a_node_that_hangs", NODES)?;
    let program = program(place, "tree.c", Link::Shared)?;
    s.network(&format!("n{}", NODES - 1), &["ip", "link", "set", "eth0", "down"])?;
    let said = s.ok(&format!("timeout 60 {program} {NODES} 20 down </dev/null"))?;
    holds(&format!("{said:?} ends well"), said.ends_with("ok"))?;
    same("children", said.matches(" is there").count(), 2 * (NODES as usize - 1))?;
    s.until("! pgrep -f '[c]opy-origin'")?;
    Ok(End::Passed)
}

/// A program with more rights than its caller does not start what its caller calls shoal.
fn bproc_of_a_setuid_program(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bproc_of_a_setuid_program", NODES)?;
    let (program, dir) = (program(place, "tree.c", Link::Static)?, place.fresh("setuid").display().to_string());
    s.ok(&format!(
        "mkdir -m 777 {dir}; cp {program} {dir}/tree; chmod 4755 {dir}/tree
        printf '#!/bin/sh\\nid >>{dir}/became\\n' >{dir}/shoal; chmod 755 {dir}/shoal"
    ))?;
    let user = "setpriv --reuid 61001 --regid 61001 --clear-groups";
    for says in ["SHOAL_PROGRAM={dir}/shoal", "PATH={dir}:/usr/bin:/bin"] {
        let says = says.replace("{dir}", &dir);
        s.sh(&format!("{user} env {says} timeout 60 {dir}/tree {NODES} 0 </dev/null"))?;
        s.ok(&format!("{user} env {says} sh -c 'test -u {dir}/tree' && test ! -e {dir}/became"))?;
    }
    Ok(End::Passed)
}

fn bproc_execs(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bproc_execs", NODES)?;
    let (program, folder) = (program(place, "execs.c", Link::Shared)?, place.fresh("folder"));
    std::fs::create_dir(&folder).doing("make a folder")?;
    let said = place.fresh("said").display().to_string();
    s.prints(&format!("{program} {NODES} {} >{said} 2>&1; tail -n 1 {said}", folder.display()), "ok")?;
    let lines = |path: &Path| std::fs::read_to_string(path).doing("read what was said");
    for (path, each) in [(Path::new(&said), 2), (&folder.join("bproc.out"), 1)] {
        let all = lines(path)?;
        let marked = all.lines().filter(|line| line.starts_with("the-name marked ")).count();
        same(&format!("marked lines of {all:?}"), marked, if each == 2 { NODES as usize + 2 } else { NODES as usize })?;
        holds("each node has said its name", (0..NODES).all(|node| all.contains(&format!(" on n{node}\n"))))?;
    }
    Ok(End::Passed)
}

/// It goes on where it was, and again from what it has written.
fn bproc_dumps(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bproc_dumps", 1)?;
    let (program, image) = (program(place, "dumps.c", Link::Shared)?, place.fresh("image").display().to_string());
    s.prints(&format!("{program} {image} </dev/null"), "0 42")?;
    s.prints(&format!("{program} undump {image} </dev/null; echo $?"), "1 42\n6")?;
    s.prints(&format!("echo nothing >{image}; {program} undump {image} </dev/null 2>&1 | wc -l"), "1")?;
    Ok(End::Passed)
}

/// What is written has not begun: it does all that it does each time that it is made anew, on the front end and on a node.
fn bproc_execdump(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bproc_execdump", 1)?;
    let (program, image) = (program(place, "dumps.c", Link::Shared)?, place.fresh("image").display().to_string());
    for on in ["", "shoal run -n 0 "] {
        s.prints(&format!("{on}timeout 20 {program} exec {image} </dev/null; echo $?"), "0")?;
        for _ in 0..2 {
            s.prints(&format!("{on}timeout 20 {program} undump {image} </dev/null; echo $?"), "begun word y\n5")?;
        }
    }
    s.until("! pgrep -f '[e]cho begun'")?;
    Ok(End::Passed)
}

/// The program says itself what has gone wrong, and no call of it may hang.
fn bproc_faults(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bproc_faults", NODES)?;
    s.prints(
        &format!("timeout -s KILL 150 {} {NODES} </dev/null 2>/dev/null", program(place, "faults.c", Link::Static)?),
        "ok",
    )?;
    s.until("test $(shoal ps --json | grep -c pid) = 0")?;
    Ok(End::Passed)
}

/// What a program links with is small, and has no names but those of the calls.
fn bproc_links(place: &Place) -> Res<End> {
    const MOST: u64 = 2 << 20;
    let lib = libraries(place)?.join("lib");
    for (file, options) in
        [("libbproc.so.4", "-D"), ("libbproc.a", "-g"), ("libshoal.so.0", "-D"), ("libshoal.a", "-g")]
    {
        let path = lib.join(file);
        let length = std::fs::metadata(&path).doing("look at a library")?.len();
        holds(&format!("{file} has {length} bytes"), length < MOST)?;
        let done = Command::new("nm").args([options, "--defined-only"]).arg(&path).output().doing("run nm")?;
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        let names: Vec<&str> = said.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
        let is_call = |name: &&str| ["bproc_", "_bproc_", "shoal_"].iter().any(|prefix| name.starts_with(prefix));
        same(&format!("names of {file} that are no calls"), names.iter().filter(|name| !is_call(name)).count(), 0)?;
        let header = include_str!("../../crates/capi/include/sys/bproc.h");
        let declared = header.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for call in declared.filter(|word| {
            word.starts_with("bproc_") && header.contains(&format!(" {word}(")) || header.contains(&format!("*{word}("))
        }) {
            holds(&format!("{file} has {call}"), names.contains(&call))?;
        }
    }
    Ok(End::Passed)
}
