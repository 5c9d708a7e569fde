//! `shoal rsh`, as launchers call it, and what becomes of its command when somebody ends.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("rsh_runs_commands", rsh_runs_commands),
    ("rsh_names_hosts", rsh_names_hosts),
    ("rsh_ends_with_its_caller", rsh_ends_with_its_caller),
    ("rsh_leaves_the_background", rsh_leaves_the_background),
    ("names_of_machines", names_of_machines),
];

/// One of the machines to call it on: the front end, and a node.
const CALLERS: [&str; 2] = ["", "shoal run -n 2 -- "];

fn rsh_runs_commands(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "rsh_runs_commands", 3)?;
    for caller in CALLERS {
        s.prints(&format!("{caller}shoal rsh n1 'uname -n; echo $((1+1))'"), "n1\n2")?;
        s.prints(&format!("{caller}rsh -x -o A=b n1 -l root -n echo 'a  b;' echo c"), "a b\nc")?;
        s.prints(&format!("{caller}shoal-rsh n1 exit 7 || echo $?"), "7")?;
        s.prints(&format!("{caller}shoal rsh n1 'kill -9 $$'; echo $?"), "137")?;
        s.prints(&format!("cd /usr/lib && {caller}shoal rsh n1 pwd"), "/usr/lib")?;
        s.prints(&format!("A_WORD='x y' {caller}shoal rsh n1 'echo $A_WORD'"), "x y")?;
        s.prints(&format!("seq 100000 | {caller}shoal rsh n1 'cat' | md5sum"), &s.ok("seq 100000 | md5sum")?)?;
        s.prints(&format!("echo typed | {caller}shoal rsh -n n1 cat"), "")?;
        s.prints(&format!("{caller}shoal rsh n1 'echo out; echo err >&2' 2>/dev/null"), "out")?;
        // A session of its own, without a terminal.
        s.prints(&format!("{caller}shoal rsh n1 'test $(ps -o sid= $$) = $$ && echo leads'"), "leads")?;
    }
    s.prints("mkdir /run/only && cd /run/only && HOME=/usr shoal rsh n1 pwd", "/usr")?;
    s.prints("cd /run/only && HOME=/none shoal rsh n1 pwd", "/")?;
    let user = "setpriv --reuid 61001 --regid 61001 --clear-groups";
    s.prints(&format!("{user} shoal rsh n1 id -u"), "61001")?;
    let refused = s.fails(&format!("{user} shoal rsh -l root n1 id -u"), 125)?;
    holds(&refused, refused.contains("only root may name another user"))?;
    s.prints("shoal rsh -l nobody n1 id -un", "nobody")?;
    s.fails("shoal rsh n9 true", 125)?;
    s.fails("shoal rsh n1", 125)?;
    Ok(End::Passed)
}

fn rsh_names_hosts(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "rsh_names_hosts", 2)?;
    for host in ["n1", "1", "root@n1", "10.77.1.2"] {
        s.prints(&format!("shoal rsh {host} uname -n"), "n1")?;
    }
    s.prints("shoal rsh front uname -n", "front")?;
    s.prints("shoal run -n 1 shoal rsh n1 uname -n", "n1")?;
    let unknown = s.fails("shoal rsh nobody uname -n", 125)?;
    holds(&unknown, unknown.contains("\"nobody\" is no node"))?;
    let home = s.fails("shoal run -n 1 shoal rsh front uname -n", 125)?;
    holds(&home, home.contains("on nodes only"))?;
    Ok(End::Passed)
}

/// Processes of all sorts: in the command's group, in a group and session of their own, orphans, deaf ones.
const FAMILY: &str = "sleep 1201 & setsid sleep 1202 & (setsid sh -c \"trap \\\"\\\" TERM HUP INT; sleep 1203; sleep 1204\" &) ; sleep 1205";

/// Whoever is killed, nothing of the command is left: the caller, `shoal rsh`, or either of the two that hold its session.
fn rsh_ends_with_its_caller(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "rsh_ends_with_its_caller", 3)?;
    let gone = "for i in $(seq 20); do if test \"$(shoal ps --json)\" = '[]'; then exit 0; fi; sleep 0.1; done; shoal ps; exit 1";
    for caller in CALLERS {
        for node in ["n1", "n2"] {
            for whom in ["caller", "rsh", "outer", "inner"] {
                let what = format!("{caller}on {node}: {whom}");
                let going = s.start(&format!("{caller}sh -c 'shoal rsh {node} '\\''{FAMILY}'\\''; echo still there'"));
                s.until("test $(shoal ps | grep -c 'i  sleep 120[1235]$') = 4")?;
                let victim = match whom {
                    "caller" => "ps -eo pid,args | awk '/[s]till there/ {print $1; exit}'",
                    // The one below the caller.
                    "rsh" | "outer" => "shoal ps | awk '/[s]hoal session|exe session/ {print $1; exit}'",
                    _ => "shoal ps | awk '/[s]hoal session|exe session/ {last = $1} END {print last}'",
                };
                s.ok(&format!("kill -9 $({victim}) && {{ {gone}; }}")).map_err(|why| format!("{what}\n{why}"))?;
                going.end()?;
                let left: usize = (1201..=1205).map(|n| s.count(&format!("sleep {n}"))).sum();
                same(&what, left, 0)?;
            }
        }
    }
    // A signal that ends is for all of it.
    for signal in ["TERM", "HUP", "INT"] {
        let going = s.start(&format!("shoal rsh n1 '{FAMILY}'"));
        s.until("test $(shoal ps | grep -c 'i  sleep 120[1235]$') = 4")?;
        s.ok(&format!(
            "kill -{signal} $(shoal ps | awk '/[s]hoal session|exe session/ {{print $1; exit}}') && {{ {gone}; }}"
        ))?;
        going.end()?;
    }
    Ok(End::Passed)
}

/// As with rsh, what a command that ends has put into the background lives on.
fn rsh_leaves_the_background(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "rsh_leaves_the_background", 2)?;
    s.prints(
        "shoal rsh n1 'sleep 1211 >/dev/null 2>&1 </dev/null & echo begun'; sleep 1; \
         kill $(shoal ps | awk '/i  sleep 1211$/ {print $1}') && echo killed",
        "begun\nkilled",
    )?;
    // Also if the caller ends with it, as PVM's does.
    s.prints(
        "sh -c 'shoal rsh n1 \"sleep 1212 >/dev/null 2>&1 </dev/null & sleep 0.3\" & sleep 0.2'; sleep 1; \
         kill $(shoal ps | awk '/i  sleep 1212$/ {print $1}') && echo killed",
        "killed",
    )?;
    Ok(End::Passed)
}

/// Every machine of a sandbox knows the others by name.
fn names_of_machines(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "names_of_machines", 12)?;
    for caller in ["", "shoal run -n 0 ", "shoal run -n 11 "] {
        s.prints(
            &format!("{caller}getent hosts n3 n11 front | awk '{{print $1, $2}}' | xargs"),
            "10.77.1.4 n3 10.77.1.12 n11 10.77.0.1 front",
        )?;
    }
    Ok(End::Passed)
}
