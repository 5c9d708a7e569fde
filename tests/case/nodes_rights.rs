//! Who may use a node, and who may change it: owner, group and mode, as the daemons have it.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("nodes_let_in_whom_their_mode_says", nodes_let_in_whom_their_mode_says),
    ("nodes_are_changed_by_their_owners_and_root", nodes_are_changed_by_their_owners_and_root),
    ("nodes_keep_owners_over_a_restart", nodes_keep_owners_over_a_restart),
];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --clear-groups";
const BOB: &str = "setpriv --reuid 61002 --regid 61002 --clear-groups";
/// In the group of node 1, as the further one of two.
const EVE: &str = "setpriv --reuid 61003 --regid 61003 --groups 61003,61005";

/// The capability to make a process again under its number, which users lack.
const MAKES_PIDS: &str = "--inh-caps +checkpoint_restore --ambient-caps +checkpoint_restore";

const REFUSED: &str = "node n1 is not yours to use: owner 61001, group 61005, mode 0110";

/// Of a user's programs only those that may go there do, by whatever way they would.
fn nodes_let_in_whom_their_mode_says(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "nodes_let_in_whom_their_mode_says", 2)?;
    s.prints(&format!("{BOB} shoal run -n 1 uname -n"), "n1")?;
    s.ok("shoal node-set 1 --user 61001 --group 61005 --mode 0110")?;
    for who in [ANN, EVE, ""] {
        s.prints(&format!("{who} shoal run -n 1 uname -n"), "n1")?;
        s.prints(&format!("{who} shoal run -a uname -n | sort | xargs"), "n0 n1")?;
    }
    // By name, to all, to several, and wherever there is room; also from a node.
    let line = s.fails(&format!("{BOB} shoal run -n 1 true"), 125)?;
    holds(&format!("owner, group and mode are named: {line}"), line.ends_with(REFUSED))?;
    let line = s.fails(&format!("{BOB} shoal run -n 0,1 true"), 125)?;
    holds(&format!("of several, too: {line}"), line.ends_with(REFUSED))?;
    let line = s.fails(&format!("{BOB} shoal run -n 0 shoal run -n 1 true"), 125)?;
    holds(&format!("from a node: {line}"), line.contains(REFUSED))?;
    s.prints(&format!("{BOB} shoal run -a uname -n"), "n0")?;
    s.prints(&format!("{BOB} shoal run -N 4 uname -n | sort | uniq -c | xargs"), "4 n0")?;
    s.prints(&format!("for i in 1 2 3 4; do {BOB} shoal run uname -n; done | sort -u"), "n0")?;
    s.prints(&format!("{BOB} shoal run -n 0 shoal run -a uname -n"), "n0")?;
    // A program that is somewhere else, or in a file.
    let image = place.fresh("bobs.image").display().to_string();
    let moves = format!(
        "{BOB} shoal run -n 0 sleep 1061 </dev/null >/dev/null 2>&1 & until p=$(pgrep -u 61002 -x sleep); do sleep 0.05; done
        {BOB} shoal move $p 1 2>&1; echo $?; {BOB} shoal move --explain $p 1 2>&1 | grep -c 'not yours to use'; shoal where $p
        shoal move $p 1; shoal where $p; {BOB} shoal move $p 0; kill $p; wait; true"
    );
    let told = s.ok(&moves)?;
    let lines: Vec<&str> = told.lines().collect();
    holds(&format!("it is said why it stays: {told}"), lines.first().is_some_and(|line| line.ends_with(REFUSED)))?;
    same("and what becomes of it", &lines[1..], &["1", "1", "n0", "n1"][..])?;
    let makes = format!(
        "cd /; {BOB} setsid sleep 1062 </dev/null >/dev/null 2>&1 & until p=$(pgrep -u 61002 -x sleep); do sleep 0.05; done
        shoal checkpoint $p --stop -o {image}; chown 61002 {image}; cp $(command -v shoal) {image}.shoal
        {BOB} {MAKES_PIDS} {image}.shoal restore {image} -n 1 </dev/null 2>&1; echo $?"
    );
    let told = s.ok(&makes)?;
    holds(&format!("an image is refused likewise: {told}"), told.contains(REFUSED))?;
    // Home: the front end has a mode, too.
    s.ok("shoal node-set front --mode 0100")?;
    let home = format!(
        "{BOB} shoal run -n 0 sleep 1063 </dev/null >/dev/null 2>&1 & until p=$(pgrep -u 61002 -x sleep); do sleep 0.05; done
        {BOB} shoal move $p front 2>&1 | grep -c 'not yours to use'; kill $p; wait; true"
    );
    s.prints(&home, "1")?;
    // Where nothing is left for him that is said, and root goes where it likes.
    s.ok("shoal node-set all --mode 0")?;
    let line = s.fails(&format!("{BOB} shoal run true"), 125)?;
    holds(&format!("of all: {line}"), line.contains("no node takes your programs: node n0 is not yours to use"))?;
    s.fails(&format!("{ANN} shoal run -n 1 true"), 125)?;
    s.prints("shoal run -a uname -n | sort | xargs", "n0 n1")?;
    Ok(End::Passed)
}

fn nodes_are_changed_by_their_owners_and_root(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "nodes_are_changed_by_their_owners_and_root", 2)?;
    let row = |node: &str, expected: &str| {
        s.prints(&format!("shoal nodes | awk '$1 == \"{node}\" {{print $9, $10, $11}}'"), expected)
    };
    row("n1", "root root 0111")?;
    s.ok("shoal node-set 1 --user 61001")?;
    for own in ["--mode 0110", "--group 61005", "-a rack=seven -a slot", "-a rack="] {
        s.ok(&format!("{} shoal node-set 1 {own}", EVE.replace("61003 --regid 61003", "61001 --regid 61001")))?;
    }
    row("n1", "61001 61005 0110")?;
    for (who, what) in [
        (ANN, "1 --group 61002"),
        (ANN, "1 --group 0"),
        (ANN, "1 --user 61002"),
        (ANN, "1 --state up"),
        (ANN, "1 -a bproc.rack=1"),
        (ANN, "0 --mode 0111"),
        (ANN, "0,1 --mode 0111"),
        (BOB, "1 --mode 0111"),
        (EVE, "1 --mode 0111"),
        (EVE, "1 -a rack=1"),
        (BOB, "front --mode 0"),
        ("", "1,7 --mode 0111"),
        ("", "1 -a two\\ words=1"),
        ("", "1 -a bproc.addr=1"),
        ("", "1 --state down"),
        ("", "1 --state sixteen_letters_"),
        ("", "1"),
    ] {
        s.fails(&format!("{who} shoal node-set {what}"), 1)?;
    }
    let line = s.fails(&format!("{ANN} bpctl -S 1 -R"), 1)?;
    holds(&format!("the machine is root's: {line}"), line.contains("that is for root"))?;
    // Nothing of that has come about, on any node.
    row("n1", "61001 61005 0110")?;
    row("n0", "root root 0111")?;
    let json = "import json, sys; print(*[(row['node'], row['uid'], row['gid'], row['mode']) for row in json.load(sys.stdin)])";
    s.prints(&format!("shoal nodes --json | python3 -c \"{json}\""), "(0, 0, 0, '0111') (1, 61001, 61005, '0110')")?;
    // From a node it is the same.
    s.ok(&format!("{ANN} shoal run -n 1 shoal node-set 1 --mode 0100"))?;
    s.fails(&format!("{ANN} shoal run -n 1 shoal node-set 0 --mode 0"), 1)?;
    row("n1", "61001 61005 0100")?;
    // 32 attributes and no more, of 64 bytes and no more.
    s.ok("for i in $(seq 32); do shoal node-set 0 -a a$i=$(printf %064d $i) || exit 1; done; ! shoal node-set 0 -a another=1")?;
    s.fails("shoal node-set 0 -a a1=$(printf %065d 1)", 1)?;
    s.ok("shoal node-set 0 -a a7 && shoal node-set 0 -a another=1")?;
    Ok(End::Passed)
}

fn nodes_keep_owners_over_a_restart(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "nodes_keep_owners_over_a_restart", 2)?;
    let is = "shoal nodes | awk 'NR > 1 {print $1, $2, $9, $10, $11}'";
    s.ok("shoal node-set 1 --user 61001 --group 61005 --mode 0110 -a rack=7; shoal node-state 0 drained")?;
    let before = s.ok(is)?;
    same("before", before.as_str(), "n0 drained root root 0111\nn1 up 61001 61005 0110")?;
    let restart = "shoal fault front kill-daemon && shoal fault front start-daemon";
    s.ok(restart)?;
    s.until(&format!("test \"$({is})\" = '{before}'"))?;
    s.fails(&format!("{BOB} shoal run -n 1 true"), 125)?;
    s.fails(&format!("{ANN} shoal run -n 0 true"), 125)?;
    s.prints(&format!("{ANN} shoal run -n 1 uname -n"), "n1")?;
    // A node that starts afresh is what it was: a word of the site's stays, too.
    s.ok("shoal fault n0 kill-daemon && shoal fault n0 start-daemon; shoal fault n1 kill-daemon && shoal fault n1 start-daemon")?;
    s.until(&format!("test \"$({is})\" = '{before}'"))?;
    // A file that is cut off: another one counts, the newer one in the run directory, or the one before it.
    let (file, quick) = ("/run/shoal/state/nodes", "/run/shoal/roster");
    let cut = |file: &str| format!("head -c 60 {file} >{file}.cut && mv {file}.cut {file}");
    let stopped = |what: &str| format!("shoal fault front kill-daemon && {what} && shoal fault front start-daemon");
    s.ok(&format!(
        "shoal node-set 1 -a slot=9; until grep -q slot {file}; do sleep 0.05; done; {}",
        stopped(&cut(file))
    ))?;
    s.until(&format!("test \"$({is})\" = '{before}' && grep -q slot {quick}"))?;
    s.ok(&format!("test -e {file}.damaged && rm {file}.damaged"))?;
    // Two changes on the disk, so that one is there before the last.
    for what in ["a", "b"] {
        s.ok(&format!("shoal node-set 1 -a {what}=1; until grep -q '1 {what} ' {file}; do sleep 0.05; done"))?;
    }
    s.ok(&stopped(&format!("{} && {}", cut(file), cut(quick))))?;
    s.until(&format!("test \"$({is})\" = '{before}'"))?;
    s.ok(&format!("test -e {file}.damaged"))?;
    holds("it is told of", s.logs().contains("is damaged"))?;
    // A node that is no more takes with it what was said of it.
    s.ok("shoal node-set 1 --user 61001; shoal fault n1 kill-daemon")?;
    s.until("shoal nodes | grep -q '^n1 *down'")?;
    s.ok("shoal nodes --forget 1 && shoal fault n1 start-daemon")?;
    s.until("shoal nodes | grep -q '^n1 *up.*root *root *0111'")?;
    // Where nothing is left of it, nobody gets in who might not have been let in.
    s.ok(&format!(
        "shoal fault front kill-daemon; for f in {file} {file}.before {quick}; do echo x >$f; done; shoal fault front start-daemon"
    ))?;
    s.until(&format!("test \"$({is})\" = \"$(printf 'n0 up root root 0100\\nn1 up root root 0100')\""))?;
    s.fails(&format!("{ANN} shoal run -n 1 true"), 125)?;
    s.ok("shoal node-set all --mode 0111")?;
    s.prints(&format!("{ANN} shoal run -n 1 uname -n"), "n1")?;
    Ok(End::Passed)
}
