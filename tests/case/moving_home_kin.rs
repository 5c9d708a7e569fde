//! A child of a program comes to the front end while its parent stays elsewhere, and whatever else the two do: they are parent and child all the time.

use super::moving_faults::{stage, Victim, SOURCE};
use super::scene::{holds, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use std::fs;
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("move_home_child", move_home_child),
    ("move_home_child_and_parent", move_home_child_and_parent),
    ("move_home_child_and_parent_places", move_home_child_and_parent_places),
    ("move_home_child_of_a_user", move_home_child_of_a_user),
    ("move_home_child_writes_in_order", move_home_child_writes_in_order),
    ("move_home_child_refused", move_home_child_refused),
    ("move_away_with_children", move_away_with_children),
    ("move_home_child_front_restarts", move_home_child_front_restarts),
    ("move_home_child_front_killed", |place| each_point(place, Victim::FrontDaemon, &POINTS)),
    ("move_home_child_source_link_cut", |place| each_point(place, Victim::Link(SOURCE), &POINTS[1..4])),
];

/// `begin HOW`: the family, of which $p is the parent and $c the child; `tell SIGNAL WHAT`: the parent is sent it, and that is written then; `end`: what was written, and that nothing is left.
fn family() -> String {
    let program = include_str!("family.py");
    format!(
        "cd $(mktemp -d); chmod 777 .; cat >family.py <<'P'\n{program}P
        begin() {{ rm -f child up got; \"$@\" python3 -S family.py </dev/null >got & p=$!; until test -s child -a -e up; do sleep 0.01; done; c=$(cat child); until shoal where $c >where 2>&1; do sleep 0.01; done; }}
        lines() {{ cat got | wc -l; }}
        tell() {{ n=$(($(lines) + ${{3:-1}})); kill -$1 ${{2:-$p}}; for i in $(seq 500); do test $(lines) -ge $n && return; sleep 0.01; done; echo \"nothing comes of $1\"; }}
        end() {{ wait $p; echo $?; cat got; for i in $(seq 300); do ps -eo pid | grep -qw $c || return 0; sleep 0.01; done; echo \"$c is left\"; }}\n"
    )
}

fn move_home_child(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_child", 2)?;
    let family = family();
    // Its parent sees it, waits for it and signals it, wherever that is, and it sees its parent.
    s.prints(
        &format!(
            "{family} begin shoal run -n 0; shoal move $c front; shoal where $c; test $(ps -o ppid= -p $c) = $p || echo other; test $(readlink /proc/$c/fd/1) = $PWD/got || echo no file
            tell USR1; tell INT; until grep -q '^State.*T' /proc/$c/status; do sleep 0.01; done; echo T; shoal move $p 1; tell HUP; tell USR1; tell TERM '' 2; end"
        ),
        "front\nT\n9\nchild on front with its parent\nstopped 19 for n0\ncontinued for n1\nchild on front with its parent\nchild ends on front\nexited 5 for n1",
    )?;
    // Stopped and continued from the front end, and moved while it is stopped.
    s.prints(
        &format!(
            "{family} begin shoal run -n 0; tell STOP $c; shoal move $c front; tell CONT $c; tell STOP $c; shoal move $c 1; tell CONT $c; shoal move $c front; tell USR1 $c; tell KILL $c; end"
        ),
        "9\nstopped 19 for n0\ncontinued for n0\nstopped 19 for n0\ncontinued for n0\nchild on front with its parent\nkilled 9 for n0",
    )?;
    // Its parent ends before it.
    s.prints(
        &format!(
            "{family} begin shoal run -n 0; shoal move $c front; kill -KILL $p; until test $(ps -o ppid= -p $c) != $p; do sleep 0.01; done; tell USR1 $c; tell TERM $c; end"
        ),
        "137\nchild on front alone\nchild ends on front",
    )?;
    Ok(End::Passed)
}

fn move_home_child_and_parent(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_child_and_parent", 2)?;
    let family = family();
    // Both come, and the parent leaves its child there.
    s.prints(
        &format!(
            "{family} begin shoal run -n 0; shoal move $c front; shoal move $p front; tell USR1; tell INT; tell HUP; shoal move $p 1; tell USR1; tell INT; tell HUP; shoal move $c 1; tell USR1; tell QUIT; end"
        ),
        "9\nchild on front with its parent\nstopped 19 for front\ncontinued for front\nchild on front with its parent\nstopped 19 for n1\ncontinued for n1\nchild on n1 with its parent\nkilled 9 for n1",
    )?;
    // Everywhere, in turn.
    s.prints(
        &format!(
            "{family} begin shoal run -n 0; for to in front 1 front 0 front; do shoal move $c $to; shoal move $p $to; tell USR1; done; tell TERM '' 2; end"
        ),
        "9\nchild on front with its parent\nchild on n1 with its parent\nchild on front with its parent\nchild on n0 with its parent\nchild on front with its parent\nchild ends on front\nexited 5 for front",
    )?;
    Ok(End::Passed)
}

/// Each has its working directory and umask, though what stands for them has one of both in common.
fn move_home_child_and_parent_places(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_child_and_parent_places", 1)?;
    let how = "d=$(mktemp -d); cd /usr; shoal run -n 0 sh -c 'exec </dev/null >/dev/null 2>&1; umask 027; (umask 0; cd /tmp; exec sleep 1091) & echo $! >'$d'/c; exec sleep 1090' & p=$!
        until test -s $d/c && c=$(cat $d/c) && test \"$(readlink /proc/$c/cwd)\" = /tmp; do sleep 0.01; done";
    let what = "for q in $p $c; do awk '/^Umask/ {print $2}' /proc/$q/status; readlink /proc/$q/cwd; done; kill -KILL $c $p; wait $p || true";
    for moves in
        ["shoal move $p front; shoal move $c front", "shoal move $c front; shoal move $p front; shoal move $p 0"]
    {
        s.prints(&format!("{how}; {moves}; {what}"), "0027\n/usr\n0000\n/tmp")?;
    }
    Ok(End::Passed)
}

fn move_home_child_of_a_user(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_child_of_a_user", 1)?;
    let family = family();
    let ann = "setpriv --reuid 61001 --regid 61001 --groups 61001,61005";
    let bob = "setpriv --reuid 61002 --regid 61002 --clear-groups";
    s.prints(
        &format!(
            "{family} begin {ann} shoal run -n 0; {bob} shoal move $c front 2>&1 | grep -o 'another user.s'; {ann} shoal move $c front; until grep -q ^CapPrm /proc/$c/status; do sleep 0.01; done
            grep -E '^(Uid|Groups|CapPrm)' /proc/$c/status; {bob} kill -USR1 $c 2>/dev/null || echo no; tell USR1; tell TERM '' 2; end"
        ),
        "another user's\nUid:\t61001\t61001\t61001\t61001\nGroups:\t61001 61005 \nCapPrm:\t0000000000000000\nno\n9\nchild on front with its parent\nchild ends on front\nexited 5 for n0",
    )?;
    Ok(End::Passed)
}

/// What it writes where it was comes before what it writes here, also where its reader is slow; and it does all its work once.
fn move_home_child_writes_in_order(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_child_writes_in_order", 2)?;
    s.ok("cd $(mktemp -d)
        writes='$|=1; $c = fork; if (!$c) { open F, q(>new); print F $$; close F; rename qw(new child); for $i (1..30000) { print qq($i\\n); select undef, undef, undef, .002 if $i % 100 == 0 } exit 7 } waitpid $c, 0; exit $? >> 8'
        (sleep 0.3; while read line; do echo $line; done; touch all) < <(shoal run -n 0 perl -e \"$writes\" </dev/null; echo $? >status) >got &
        until test -s child; do sleep 0.01; done; c=$(cat child); for to in front 1 front; do shoal move $c $to; done
        until test -e all; do sleep 0.02; done; test $(cat status) = 7; seq 30000 | cmp - got")?;
    Ok(End::Passed)
}

fn move_home_child_refused(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_child_refused", 2)?;
    let refused = |script: &str, why: &str| -> Res {
        let told = s.ok(&format!(
            "cd $(mktemp -d); {script}; for i in $(seq 300); do q=$(pgrep -P $p) && break; sleep 0.01; done; sleep 0.1; shoal move $q front 2>&1 && echo moved; kill -9 $q $p; wait $p; true"
        ))?;
        match told.contains(why) && !told.contains("moved") {
            true => Ok(()),
            false => Err(format!("{script}: {told:?} does not say {why:?}")),
        }
    };
    refused("sleep 1 | shoal run -n 0 sh -c 'sleep 50 <&0; true' & p=$!", "standard input")?;
    refused("shoal run -n 0 sh -c 'sleep 50 | cat' </dev/null & p=$!", "is open in process")?;
    refused("setpriv --no-new-privs shoal run -n 0 sh -c 'sleep 50; true' </dev/null & p=$!", "no_new_privs")?;
    // Who relays for it now is another than who relayed for both before it came home.
    refused(
        "shoal run -n 0 sh -c 'sleep 50; true' </dev/null & p=$!; until q=$(pgrep -P $p); do sleep 0.01; done; sleep 0.1
            shoal move $p 1; shoal move $q 1; shoal move $p front; shoal move $p 0",
        "is relayed, and by whom is not known",
    )?;
    Ok(End::Passed)
}

/// A process of the front end leaves its children there, as what is started there, too.
fn move_away_with_children(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_away_with_children", 2)?;
    let family = family();
    s.prints(
        &format!("{family} begin env; shoal move $p 0; tell USR1; tell INT; tell HUP; shoal move $p 1; tell USR1; tell INT; shoal move $p front; tell HUP; tell TERM '' 2; end"),
        "9\nchild on front with its parent\nstopped 19 for n0\ncontinued for n0\nchild on front with its parent\nstopped 19 for n1\ncontinued for front\nchild ends on front\nexited 5 for front",
    )?;
    // One moves itself, by a child that stays.
    s.prints(
        "cd $(mktemp -d); cat >script <<'END'
sleep 0.6 & a=$!
shoal move $$ 1; hostname; wait $a; echo $?; sh -c 'exit 4'; echo $?
END
        bash script </dev/null & wait $!; echo $?",
        "n1\n0\n4\n0",
    )?;
    Ok(End::Passed)
}

/// While its parent is elsewhere.
fn move_home_child_front_restarts(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_child_front_restarts", 2)?;
    let family = family();
    s.prints(
        &format!(
            "{family} begin shoal run -n 0; shoal move $c front; shoal fault front kill-daemon; shoal fault front start-daemon; until test $(shoal nodes | grep -cw up) = 2; do sleep 0.02; done
            tell USR1; tell INT; tell HUP; tell TERM '' 2; end"
        ),
        "9\nchild on front with its parent\nstopped 19 for n0\ncontinued for n0\nchild ends on front\nexited 5 for n0",
    )?;
    Ok(End::Passed)
}

/// Of the way of one that comes home.
const POINTS: [&str; 10] = [
    "destination is told",
    "in rebuilt",
    "destination has it",
    "out told to end",
    "front knows that it runs",
    "front knows that it has left",
    "destination is to go",
    "in told to go",
    "in has a vessel",
    "in made it",
];

/// It is once, wherever that is, and its parent's.
fn each_point(place: &Place, victim: Victim, points: &[&'static str]) -> Res<End> {
    let (s, faults) = stage(place, "move_home_child_faults", victim)?;
    let family = family();
    for point in points {
        let pids = place.fresh("pids").to_string_lossy().into_owned();
        let going = s.start(&format!("{family} begin shoal run -n 0; echo $c >{pids}.new; mv {pids}.new {pids}; end"));
        wait_for("there is a child", || fs::exists(&pids).unwrap_or(false))?;
        let child = fs::read_to_string(&pids).doing("read its number")?.trim().to_string();
        faults.watch(point)?;
        let moving = s.start(&format!("shoal move {child} front"));
        let held = faults.reached(Duration::from_secs(15))?;
        victim.kill(&s)?;
        drop(held);
        victim.heal(&s)?;
        moving.end()?;
        s.until("test $(shoal nodes | grep -cw up) = 2")?;
        s.ok(&format!("kill -USR1 {child}; sleep 0.1; kill -TERM {child}"))?;
        let told = going.end()?.out;
        let fits = |place: &str| {
            told.trim() == format!("9\nchild on {place} with its parent\nchild ends on {place}\nexited 5 for n0")
        };
        holds(&format!("{victim:?} at {point:?}: {told:?} is what it writes"), fits("front") || fits("n0"))?;
    }
    Ok(End::Passed)
}
