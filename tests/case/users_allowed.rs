//! Who may start programs in the space and on a node, by `allow`; and users whom a node does not know, by `unknown_users`.

use super::machines::on_machine;
use super::scene::{holds, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::session::Plan;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("users_are_let_in_by_lists", users_are_let_in_by_lists),
    ("users_whom_a_node_does_not_know", users_whom_a_node_does_not_know),
];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --clear-groups";
const BOB: &str = "setpriv --reuid 61002 --regid 61002 --clear-groups";
/// In a group of the list, as a further one.
const EVE: &str = "setpriv --reuid 61003 --regid 61003 --groups 61003,61005";
const DORA: &str = "setpriv --reuid 61004 --regid 61004 --clear-groups";
const CARL: &str = "setpriv --reuid 61006 --regid 61006 --clear-groups";
/// In that group by a set-group-ID program alone.
const CARL_SETGID: &str = "setpriv --reuid 61006 --rgid 61006 --egid 61005 --clear-groups";
/// The capability to make a process again under its number, which users lack.
const MAKES_PIDS: &str = "--inh-caps +checkpoint_restore --ambient-caps +checkpoint_restore";

/// Lines of passwd(5) beside those that the machine has.
fn users(s: &Sandbox, host: &str, users: &[(&str, u32)]) -> Res {
    let line = |(name, number): &(&str, u32)| format!("echo '{name}:x:{number}:{number}::/:/bin/sh' >>/run/passwd; ");
    let lines: String = users.iter().map(line).collect();
    let script =
        format!("grep -v ':6100[0-9]:' /etc/passwd >/run/passwd; {lines} mount --bind /run/passwd /etc/passwd");
    match host {
        "front" => s.ok(&script).map(drop),
        node => on_machine(s, node, &script),
    }
}

fn refused(s: &Sandbox, script: &str, words: &[&str]) -> Res {
    let line = s.fails(script, 125)?;
    holds(&format!("$ {script}: {line:?} says {words:?}"), words.iter().all(|word| line.contains(word)))
}

/// The space has a list, and one of its nodes has another.
fn users_are_let_in_by_lists(place: &Place) -> Res<End> {
    let settings = &[
        "front:allow = [\"ann\", \"@61005\", \"bob\", \"carls\"]",
        "front:job_nodes = \"0,2\"",
        "1:allow = [\"ann\"]",
    ];
    let s = Sandbox::with(place, "users_are_let_in_by_lists", 3, Plan { settings, ..Plan::default() })?;
    holds(
        "names that nobody knows are told",
        s.logs().contains("allow names whom this machine's passwd(5) and group(5) do not know: ann"),
    )?;
    users(&s, "front", &[("ann", 61001), ("bob", 61002), ("carl", 61006)])?;
    users(&s, "n0", &[("ann", 61001), ("bob", 61002)])?;
    // The node's ann is another one than the front end's.
    users(&s, "n1", &[("ann", 61009)])?;
    users(&s, "n2", &[("ann", 61001), ("bob", 61002)])?;
    s.until(&format!("{ANN} shoal run -n 0 true"))?;
    for who in [ANN, BOB, EVE, ""] {
        s.prints(&format!("{who} shoal run -n 0 uname -n"), "n0")?;
    }
    const SPACE: &str = "user carl may not start programs there: that is for ann, @61005, bob, carls (allow)";
    for who in [CARL, CARL_SETGID] {
        for to in ["-n 0", "-n 0,2", "-a", "-N 2", ""] {
            refused(&s, &format!("{who} shoal run {to} true"), &[SPACE])?;
        }
    }
    // From a node, where root has become him; also for that very node.
    for to in ["0", "2"] {
        refused(&s, &format!("shoal run -n 0 -- {CARL} shoal run -n {to} true"), &[SPACE])?;
    }
    // A program that root has started for him is his, and does not go where he says.
    let carls = s.start(&format!("shoal run -n 0 -- {CARL} sleep 1311"));
    s.until("shoal ps -n 0 | grep -q 'carl .*sleep 1311'")?;
    let pid = "$(pgrep -fx 'sleep 1311')";
    s.prints(&format!("{CARL} shoal move {pid} 2 2>&1 | grep -c '{SPACE}'"), "1")?;
    s.prints(&format!("{CARL} shoal move --explain {pid} 2 2>&1 | grep -c '{SPACE}'"), "1")?;
    s.ok(&format!("shoal move {pid} 2"))?;
    s.ok(&format!("kill {pid}"))?;
    carls.end()?;
    let image = place.fresh("carls.image").display().to_string();
    let makes = format!(
        "cd /; {CARL} setsid sleep 1312 </dev/null >/dev/null 2>&1 & until p=$(pgrep -u 61006 -x sleep); do sleep 0.05; done
        shoal checkpoint $p --stop -o {image}; chown 61006 {image}; cp $(command -v shoal) {image}.shoal
        {CARL} {MAKES_PIDS} {image}.shoal restore {image} -n 0 </dev/null 2>&1; echo $?"
    );
    let told = s.ok(&makes)?;
    holds(&format!("an image is refused likewise: {told}"), told.contains(SPACE))?;

    // Nor has he jobs.
    s.prints(
        &format!("cd /tmp && {CARL} shoal job submit -- true 2>&1 | grep -c 'user carl may not start programs there'"),
        "1",
    )?;
    s.ok(&format!("cd /tmp && {ANN} shoal job submit -o /dev/null -- true"))?;

    // A node's list: by the front end's names, and by the node's own.
    refused(
        &s,
        &format!("{BOB} shoal run -n 1 true"),
        &["node n1", "user bob may not start programs there: that is for ann (allow)"],
    )?;
    refused(
        &s,
        &format!("{ANN} shoal run -n 1 true"),
        &["n1", "user 61001 may not start programs there: that is for ann (allow)"],
    )?;
    s.prints(&format!("{BOB} shoal run -a uname -n | sort | xargs"), "n0 n2")?;
    let places = format!("for i in $(seq 12); do {BOB} shoal run sh -c 'uname -n; sleep 0.5' & done; wait");
    s.prints(&format!("({places}) | sort -u | xargs"), "n0 n2")?;
    s.prints("shoal run -a uname -n | sort | xargs", "n0 n1 n2")?;
    let anns = s.start(&format!("{ANN} shoal run -n 0 sleep 1313"));
    s.until("shoal ps -n 0 | grep -q 'ann .*sleep 1313'")?;
    let pid = "$(pgrep -fx 'sleep 1313')";
    s.prints(&format!("{ANN} shoal move {pid} 1 2>&1 | grep -c 'user 61001 may not start programs there'"), "1")?;
    s.prints(
        &format!(
            "shoal where {pid}; shoal move {pid} 1; shoal where {pid}; {ANN} shoal move {pid} 0; shoal where {pid}"
        ),
        "n0\nn1\nn0",
    )?;
    s.ok(&format!("kill {pid}"))?;
    anns.end()?;
    for bad in ["a b", "", "@", "x:y"] {
        let told = s.fails(&format!("printf '[node]\\nallow = [\"{bad}\"]\\n' >/tmp/bad.toml; shoal node --front x --key /run/shoal/key --config /tmp/bad.toml"), 1)?;
        holds(&told, told.contains("is neither a user nor a @group"))?;
    }
    Ok(End::Passed)
}

/// A node that warns, and one that refuses.
fn users_whom_a_node_does_not_know(place: &Place) -> Res<End> {
    let settings = &["2:unknown_users = \"refuse\""];
    let s = Sandbox::with(place, "users_whom_a_node_does_not_know", 3, Plan { settings, ..Plan::default() })?;
    users(&s, "front", &[("ann", 61001), ("bob", 61002), ("dora", 61004)])?;
    users(&s, "n0", &[("ann", 61001)])?;
    users(&s, "n2", &[("bob", 61001), ("dora", 61004)])?;
    s.until("shoal run -n 2 grep -q dora /etc/passwd")?;
    s.prints(&format!("{ANN} shoal run -n 0 id -u 2>&1"), "61001")?;
    let twice = format!("for i in 1 2; do {BOB} shoal run -n 0 id -u 2>&1; done | sort");
    s.prints(&twice, "61002\n61002\nshoal: n0 does not know user bob: programs run there as the bare number 61002")?;
    holds("the log says it", s.logs().contains("n0 does not know user bob"))?;
    // Who has a name nowhere is in the log alone.
    s.prints(&format!("{EVE} shoal run -n 0 id -u 2>&1"), "61003")?;
    holds("the log says it", s.logs().contains("n0 does not know user 61003"))?;

    s.prints(&format!("{DORA} shoal run -n 2 id -u 2>&1"), "61004")?;
    s.prints("shoal run -n 2 id -u", "0")?;
    refused(&s, &format!("{ANN} shoal run -n 2 true"), &["user ann (61001) is bob on n2 (unknown_users)"])?;
    refused(&s, &format!("{BOB} shoal run -n 2 true"), &["n2 does not know user bob (unknown_users)"])?;
    refused(&s, &format!("{EVE} shoal run -n 2 true"), &["n2 does not know user 61003", "(unknown_users)"])?;
    refused(
        &s,
        &format!("shoal run -n 0 -- {ANN} shoal run -n 2 true"),
        &["user ann (61001) is bob on n2 (unknown_users)"],
    )?;
    let anns = s.start(&format!("{ANN} shoal run -n 0 sleep 1321"));
    s.until("shoal ps -n 0 | grep -q 'sleep 1321'")?;
    for who in [ANN, ""] {
        s.prints(
            &format!("{who} shoal move $(pgrep -fx 'sleep 1321') 2 2>&1 | grep -c 'ann (61001) is bob on n2'"),
            "1",
        )?;
    }
    s.prints("shoal where $(pgrep -fx 'sleep 1321')", "n0")?;
    s.ok("pkill -fx 'sleep 1321'")?;
    anns.end()?;
    Ok(End::Passed)
}
