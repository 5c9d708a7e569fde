//! Nodes by the names that they call themselves.

use super::scene::Sandbox;
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::session::Plan;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] =
    &[("nodes_have_names", nodes_have_names), ("nodes_names_are_unique", nodes_names_are_unique)];

/// Each option that takes nodes takes names.
fn nodes_have_names(place: &Place) -> Res<End> {
    let settings = &["0:name = \"lab-0\"", "1:name = \"notebook\"", "2:name = \"lab2.example\""];
    let s = Sandbox::with(place, "nodes_have_names", 4, Plan { settings, ..Plan::default() })?;
    // The fourth is called as its host, n3, which is its number and no name.
    s.prints("shoal nodes | awk 'NR > 1 {print $1, $NF}' | xargs", "n0 lab-0 n1 notebook n2 lab2.example n3 -")?;
    s.prints(
        "shoal nodes --json | grep -o '\"name\":\"[^\"]*\"' | xargs",
        "name:lab-0 name:notebook name:lab2.example name:",
    )?;
    s.prints("shoal run -n lab-0 hostname", "n0")?;
    s.prints("shoal run -n notebook,3,lab2.example -p hostname | sort | xargs", "n1: n1 n2: n2 n3: n3")?;
    s.prints("shoal run -n lab-0 -- shoal run -n notebook hostname", "n1")?;
    s.prints("bpsh -p lab-0,n3 hostname | sort | xargs", "0: n0 3: n3")?;
    s.prints("shoal rsh notebook hostname", "n1")?;
    s.prints("echo text >/tmp/x; bpcp /tmp/x lab2.example:/run/x && bpcp lab2.example:/run/x lab-0:/run/y && shoal run -n 0 cat /run/y", "text")?;
    s.prints("bpstat -t lab-0,notebook", "2")?;
    s.prints("shoal mon sample -n notebook load >/dev/null && echo yes", "yes")?;

    // Processes by where they are and where they go.
    let sleeps = s.start("shoal run -n lab-0 sleep 1301");
    s.until("shoal ps -n lab-0 | grep -q 'sleep 1301'")?;
    s.ok("shoal move $(pgrep -fx 'sleep 1301') notebook")?;
    s.prints("shoal where $(pgrep -fx 'sleep 1301')", "n1")?;
    s.ok("shoal move --from notebook --all lab2.example && shoal ps -n lab2.example | grep -q 'sleep 1301'")?;
    s.ok("shoal drain lab2.example --to lab-0 && shoal ps -n lab-0 | grep -q 'sleep 1301'")?;
    s.prints("bpstat -s lab2.example | xargs", "2 drained")?;
    s.ok("shoal uncordon lab2.example && shoal cordon notebook && shoal node-set lab-0 --mode 0100")?;
    s.prints("shoal nodes | awk '$1 == \"n0\" {print $(NF-1)}'", "0100")?;
    s.ok("shoal uncordon notebook; pkill -fx 'sleep 1301'")?;
    sleeps.end()?;

    // A name that nobody has.
    for (script, code) in [
        ("shoal run -n lab9 true", 125),
        ("shoal run -n 0,lab9 true", 125),
        ("shoal ps -n lab9", 1),
        ("shoal move 1 lab9", 1),
        ("shoal cordon lab-0,lab9", 1),
        ("shoal node-set lab9 --mode 0100", 1),
        ("shoal drain lab9", 1),
    ] {
        let line = s.fails(script, if code == 1 && script.contains("-n ") { 2 } else { code })?;
        super::scene::holds(&format!("$ {script}: {line}"), line.contains("no node is called lab9"))?;
    }
    s.prints("shoal nodes | awk '$1 == \"n0\" {print $2}'", "up")?;

    // A node that is down is called as before, also by a daemon that has never seen it.
    s.kill(s.daemon("n1")?)?;
    s.until("shoal nodes | grep -w notebook | grep -qw down")?;
    s.kill(s.daemon("front")?)?;
    s.restart("front")?;
    s.until("shoal nodes 2>/dev/null | grep -qw lab-0")?;
    s.prints("bpstat -s notebook | xargs", "1 down")?;
    s.prints("shoal run -n lab2.example hostname", "n2")?;
    Ok(End::Passed)
}

/// One name of two nodes, and words that are no names.
fn nodes_names_are_unique(place: &Place) -> Res<End> {
    let settings = &["0:name = \"twin\"", "1:name = \"twin\"", "2:name = \"other\""];
    let s = Sandbox::with(place, "nodes_names_are_unique", 3, Plan { settings, ..Plan::default() })?;
    for (script, code) in
        [("shoal run -n twin true", 125), ("shoal cordon twin", 1), ("shoal move 1 twin", 1), ("bpsh twin true", 125)]
    {
        let line = s.fails(script, code)?;
        super::scene::holds(
            &format!("$ {script}: {line}"),
            line.contains("2 nodes are called twin (n0 and n1 among them)"),
        )?;
    }
    s.prints("shoal run -n 1,other -p hostname | sort | xargs", "n1: n1 n2: n2")?;
    // A state that is called as a node is neither.
    s.ok("shoal node-state 0 other")?;
    let line = s.fails("shoal cordon other", 1)?;
    super::scene::holds(&line, line.contains("other is the name of node n2, and a state"))?;
    for bad in ["n7", "3-4", "all", "a b", "-x"] {
        let told = s.fails(&format!("printf '[node]\\nname = \"{bad}\"\\n' >/tmp/bad.toml; shoal node --front x --key /run/shoal/key --config /tmp/bad.toml"), 1)?;
        super::scene::holds(&told, told.contains("is no name of a node"))?;
    }
    Ok(End::Passed)
}
