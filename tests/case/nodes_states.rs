//! States of nodes: what root says, what the start-up script makes of it, and what a node takes in which state.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};

pub(crate) const SCENES: &[Scene] = &[
    ("nodes_are_drained", nodes_are_drained),
    ("nodes_come_up_by_their_script", nodes_come_up_by_their_script),
    ("nodes_do_what_they_are_configured_for", nodes_do_what_they_are_configured_for),
];

const BOB: &str = "setpriv --reuid 61002 --regid 61002 --clear-groups";

/// A node that is not up takes no new program, what runs there goes on, and can be moved away.
fn nodes_are_drained(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "nodes_are_drained", 2)?;
    let program = s.start(&format!("{BOB} shoal run -n 0 sleep 1064; echo $?"));
    s.until("pgrep -u 61002 -x sleep")?;
    s.ok("shoal node-state 0 drained")?;
    s.prints("shoal nodes | awk 'NR > 1 {print $1, $2}' | xargs", "n0 drained n1 up")?;
    let line = s.fails(&format!("{BOB} shoal run -n 0 true"), 125)?;
    holds(&format!("the state is named: {line}"), line.ends_with("node n0 is drained"))?;
    for who in [BOB, ""] {
        s.prints(&format!("for i in 1 2 3; do {who} shoal run uname -n; done | sort -u"), "n1")?;
        s.prints(&format!("{who} shoal run -a uname -n; {who} shoal run -N 3 uname -n | sort -u"), "n1\nn1")?;
    }
    s.prints("shoal run -n 0 uname -n", "n0")?;
    holds("what runs there goes on", program.is_going())?;
    s.ok("shoal move --from 0 --all")?;
    s.prints("shoal where $(pgrep -u 61002 -x sleep)", "n1")?;
    let line = s.fails(&format!("{BOB} shoal move $(pgrep -u 61002 -x sleep) 0"), 1)?;
    holds(&format!("nor does anything move there: {line}"), line.ends_with("node n0 is drained"))?;
    s.ok("shoal node-state 0 up")?;
    s.ok(&format!("{BOB} shoal move $(pgrep -u 61002 -x sleep) 0"))?;
    s.ok("pkill -u 61002 -x sleep")?;
    same("its end", program.end()?.out.trim(), "143")?;
    // All are drained: that is said, not that none is up.
    s.ok("shoal node-state all reserved")?;
    let line = s.fails(&format!("{BOB} shoal run -a true"), 125)?;
    holds(&format!("why none: {line}"), line.ends_with("no node takes your programs: node n0 is reserved"))?;
    s.ok("shoal node-state !up up; shoal run -a true")?;
    // That it is cut off is not a word of anybody's, and the word is there again after it.
    s.ok("shoal node-state 0 reserved; shoal fault n0 kill-daemon")?;
    s.until("shoal nodes | grep -q '^n0 *down'")?;
    s.prints("bpstat -s 0", "0\tdown")?;
    Ok(End::Passed)
}

/// A node is `boot` until its script has ended, and `error` when that fails; a restart of the daemon runs it again.
fn nodes_come_up_by_their_script(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "nodes_come_up_by_their_script", 2)?;
    let (script, go) = (place.fresh("node_up"), place.fresh("go"));
    let (path, go) = (script.display(), go.display());
    let text = format!("#!/bin/sh\necho preparing $1 $SHOAL_NODE\necho trouble >&2\nuntil test -e {go}.$1; do sleep 0.05; done\nexit $(cat {go}.$1)\n");
    std::fs::write(&script, text).doing("write a script")?;
    s.ok(&format!("chmod 755 {path}; echo 'node_up = \"{path}\"' >>/run/shoal/shoal.toml"))?;
    let restart = "shoal fault front kill-daemon && shoal fault front start-daemon";
    let is = |states: &str| {
        s.until(&format!("test \"$(shoal nodes | awk 'NR > 1 {{print $1, $2}}' | xargs)\" = '{states}'"))
    };
    // Nodes that were there before are up.
    s.ok(restart)?;
    is("n0 up n1 up")?;
    s.ok("for n in n0 n1; do shoal fault $n kill-daemon && shoal fault $n start-daemon || exit 1; done")?;
    is("n0 boot n1 boot")?;
    let line = s.fails(&format!("{BOB} shoal run -n 0 true"), 125)?;
    holds(&format!("it is said: {line}"), line.ends_with("node n0 is boot"))?;
    s.fails(&format!("{BOB} shoal run true"), 125)?;
    s.prints("shoal run -n 0 uname -n", "n0")?;
    s.until("grep -q trouble /run/shoal/log/node_up.0")?;
    s.prints("cat /run/shoal/log/node_up.0; stat -c %a /run/shoal/log/node_up.0", "preparing 0 0\ntrouble\n600")?;
    s.ok(&format!("echo 0 >{go}.0"))?;
    is("n0 up n1 boot")?;
    s.prints(&format!("{BOB} shoal run uname -n"), "n0")?;
    // A daemon that follows does not know how the script of the one before ends.
    s.ok(&format!("rm {go}.0; {restart}"))?;
    is("n0 up n1 boot")?;
    s.ok(&format!("echo 3 >{go}.1"))?;
    is("n0 up n1 error")?;
    s.ok(restart)?;
    is("n0 up n1 error")?;
    s.fails(&format!("{BOB} shoal run -n 1 true"), 125)?;
    // Root says what it is; a script that ends later says nothing.
    s.ok(&format!("rm {go}.1; shoal fault n1 kill-daemon && shoal fault n1 start-daemon"))?;
    is("n0 up n1 boot")?;
    s.ok("shoal node-state 1 up")?;
    s.ok(&format!("echo 3 >{go}.1; until ! pgrep -f 'node_up[^ ]* 1$'; do sleep 0.05; done"))?;
    is("n0 up n1 up")?;
    // A script that cannot be run has failed.
    s.ok(&format!("chmod 644 {path}; shoal fault n1 kill-daemon && shoal fault n1 start-daemon"))?;
    is("n0 up n1 error")?;
    Ok(End::Passed)
}

/// Power and root of a node, which are its own configuration's to allow.
fn nodes_do_what_they_are_configured_for(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "nodes_do_what_they_are_configured_for", 2)?;
    for (words, name) in [("-R", "reboot"), ("-H", "halt"), ("-P", "power_off"), ("-s reboot", "reboot")] {
        let line = s.fails(&format!("bpctl -S 0 {words}"), 1)?;
        holds(
            &format!("a sandbox has no command for {name}: {line}"),
            line.contains(&format!("{name}: this node has no command")),
        )?;
    }
    let said = place.fresh("said").display().to_string();
    let set = format!("sed -i 's|^reboot = .*|reboot = \"echo reboots >{said}\"|' /run/shoal/shoal.toml");
    s.ok(&format!("shoal run -n 1 -- {set} && shoal fault n1 kill-daemon && shoal fault n1 start-daemon"))?;
    s.until("shoal nodes | grep -q '^n1 *up'")?;
    s.ok("bpctl -S 1 -R")?;
    s.until(&format!("grep -q reboots {said}"))?;
    s.fails("bpctl -S 0,1 -R", 1)?;
    // The root of programs.
    let root = place.fresh("root").display().to_string();
    s.ok(&format!("mkdir {root} && cp $(command -v shoal) {root}/shoal"))?;
    s.ok(&format!("bpctl -S 1 -r {root}"))?;
    for who in [BOB, ""] {
        s.prints(&format!("cd /; {who} shoal run -n 1 /shoal --version | wc -l"), "1")?;
        s.fails(&format!("cd /; {who} shoal run -n 1 /bin/true"), 127)?;
    }
    s.prints("shoal run -n 0 uname -n", "n0")?;
    let line = s.fails("bpctl -S 1 -r /nonexistent", 1)?;
    holds(&format!("only a directory: {line}"), line.contains("/nonexistent is no directory"))?;
    s.ok("bpctl -S 1 -r / && shoal run -n 1 /bin/true")?;
    s.fails("bpctl -M -r /tmp", 1)?;
    Ok(End::Passed)
}
