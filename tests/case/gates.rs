//! What passes a program's gate unasked is right all the same (docs/semantics.md, "Signals").

use super::scene::{outside, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use rustix::process::Signal;
use std::fs;

pub(crate) const SCENES: &[Scene] = &[
    ("kill_on_a_node_asks_nobody", kill_on_a_node_asks_nobody),
    ("kill_of_a_number_that_comes_again", kill_of_a_number_that_comes_again),
    ("kill_of_a_number_that_came_behind_ones_back", kill_of_a_number_that_came_behind_ones_back),
    ("no_descriptors_for_another_gate", no_descriptors_for_another_gate),
    ("kill_of_a_parent_that_has_left", kill_of_a_parent_that_has_left),
];

/// Nobody could answer: the agent stands still. First with the lease that the node began with, then after many forks with a later one.
fn kill_on_a_node_asks_nobody(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "kill_on_a_node_asks_nobody", 1)?;
    for forks in [0, 20_000] {
        let dir = place.fresh("asked");
        let dir = dir.display();
        s.ok(&format!("mkdir {dir}; shoal run -n 0 perl -e 'for (1..{forks}) {{ fork // die or exit; wait }}'"))?;
        // The program kills itself, its child and that child's child; they kill it and each other.
        let program = s.start(&format!(
            "exec shoal run -n 0 perl -e '
                $SIG{{USR1}} = sub {{ $got++ }};
                sub until_there {{ select undef, undef, undef, 0.01 until -e $_[0] }}
                pipe R, W; $top = $$;
                if (!($child = fork)) {{
                    if (!($below = fork)) {{
                        until_there \"{dir}/go\"; kill(USR1 => $top) == 1 or die; kill(0 => getppid) == 1 or die; exit 4
                    }}
                    until_there \"{dir}/go\"; kill(USR1 => $top) == 1 or die; kill(0 => $below) == 1 or die; wait; exit 5
                }}
                open F, \">{dir}/there\"; close F; until_there \"{dir}/go\";
                kill(0 => $child) == 1 or die; kill(USR1 => $$) == 1 or die;
                wait; $? == 5 << 8 or die; $got > 0 or die; open F, \">{dir}/done\"; exit 6'"
        ));
        s.until(&format!("test -e {dir}/there"))?;
        let agent = s.agent("n0")?;
        s.signal(agent, Signal::STOP)?;
        let done = s.until(&format!("touch {dir}/go; test -e {dir}/done"));
        s.signal(agent, Signal::CONT)?;
        done?;
        same("how it ended", program.end()?.code(), Some(6))?;
    }
    Ok(End::Passed)
}

/// What a program has left behind knows its number still; the next one with that number is on another node.
fn kill_of_a_number_that_comes_again(place: &Place) -> Res<End> {
    number_again(place, "kill_of_a_number_that_comes_again", false)
}

/// That one starts while the front end cannot tell the first node of it.
fn kill_of_a_number_that_came_behind_ones_back(place: &Place) -> Res<End> {
    number_again(place, "kill_of_a_number_that_came_behind_ones_back", true)
}

fn number_again(place: &Place, name: &str, cut: bool) -> Res<End> {
    let s = Sandbox::new(place, name, 2)?;
    let dir = place.fresh("again");
    let dir = dir.display();
    s.ok(&format!("mkdir {dir}"))?;
    let until = |file: &str| format!("select undef, undef, undef, 0.02 until -e \"{dir}/{file}\"");
    let (go, over) = (until("go"), until("over"));
    let first = s.start(&format!(
        "shoal run -n 0 perl -MPOSIX -e '
             $top = $$; open F, \">{dir}/number\"; print F $top; close F; exit if fork;
             setsid; open STDOUT, \">/dev/null\"; open STDERR, \">/dev/null\";
             {go}; open F, \">{dir}/said\"; print F kill USR1 => $top; close F; {over}'
         touch {dir}/parted; until test -e {dir}/over && test $(shoal ps | wc -l) = 1; do sleep 0.1; done"
    ));
    s.until(&format!("test -e {dir}/parted"))?;
    if cut {
        s.network("n0", &["ip", "link", "set", "eth0", "down"])?;
        s.network("front", &["ss", "-K", "dst 10.77.1.1"])?;
        s.until("shoal nodes | grep -q '^n0 *silent'")?;
    }
    let again = s.start(&format!(
        "number=$(cat {dir}/number); cursor=/proc/sys/kernel/ns_last_pid
         until [ \"$other\" = $number ]; do
             kill $other; read last < $cursor; echo $((number - 1)) > $cursor
             shoal run -n 1 perl -e '$SIG{{USR1}} = sub {{ exit 7 }}; open F, \">{dir}/there\"; close F; sleep 1 while 1' & other=$!
             echo $last > $cursor
         done 2>/dev/null
         wait $other; echo $?"
    ));
    s.until(&format!("test -e {dir}/there"))?;
    if cut {
        s.network("n0", &["ip", "link", "set", "eth0", "up"])?;
        s.until("shoal nodes | grep -q '^n0 *up'")?;
    }
    // Its stand-in there is told of just behind its start.
    s.until("test $(shoal ps | wc -l) -ge 2")?;
    s.ok(&format!("touch {dir}/go"))?;
    same("it was reached", again.end()?.out.trim(), "7")?;
    s.prints(&format!("cat {dir}/said"), "1")?;
    s.ok(&format!("touch {dir}/over"))?;
    same("the first one", first.end()?.code(), Some(0))?;
    Ok(End::Passed)
}

/// What begins has its gate, the rest is told why not, and nobody waits for ever; later there is room again.
fn no_descriptors_for_another_gate(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "no_descriptors_for_another_gate", 1)?;
    let agent = s.agent("n0")?;
    let few = fs::read_dir(format!("/proc/{agent}/fd")).doing("count descriptors")?.count() + 100;
    outside(&["prlimit", "--pid", &agent.to_string(), &format!("--nofile={few}:{few}")])?;
    let dir = place.fresh("few");
    let dir = dir.display();
    let told = "Too many open files";
    s.ok(&format!("mkdir {dir}"))?;
    s.ok(&format!(
        "for i in $(seq 60); do
             (shoal run -n 0 sh -c 'kill -0 $$ && kill -0 $PPID && sleep 3' 2>{dir}/$i; echo $? >>{dir}/ends) &
         done; wait"
    ))?;
    s.prints(&format!("sort -nu {dir}/ends | xargs"), "0 125")?;
    s.prints(&format!("cat {dir}/[0-9]* | grep -vc '{told}'; true"), "0")?;
    s.ok(&format!("test $(cat {dir}/[0-9]* | grep -c '{told}') = $(grep -c 125 {dir}/ends)"))?;
    s.prints("shoal run -n 0 sh -c 'kill -0 $$ && echo well'", "well")?;
    // What lives on keeps its descriptor.
    let one_more = "timeout 20 shoal run -n 0 sh -c 'setsid sleep 1044 </dev/null >/dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do :; done; kill -0 $$'";
    s.prints(
        &format!(
            "for i in $(seq 200); do line=$({one_more} 2>&1) || {{ code=$?; break; }}; done; echo $code \"${{line##*: }}\"
             while pkill -x sleep; do sleep 0.1; done; until shoal run -n 0 true; do sleep 0.1; done"
        ),
        &format!("125 {told} (os error 24)"),
    )?;
    Ok(End::Passed)
}

/// It leaves alone, its child's child and what that has made stay, and kill it.
fn kill_of_a_parent_that_has_left(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "kill_of_a_parent_that_has_left", 2)?;
    let dir = place.fresh("left");
    let dir = dir.display();
    s.ok(&format!("mkdir {dir}"))?;
    // The one between has ended, so nobody has it as parent; and it is in no group of its.
    s.prints(
        &format!(
            "shoal run -n 0 perl -e '
                $SIG{{USR1}} = sub {{ exit 8 }}; $top = $$;
                if (!fork) {{
                    exit if fork; setpgrp; select undef, undef, undef, 0.02 until -e \"{dir}/go\";
                    $killed = kill USR1 => $top; open F, \">{dir}/said\"; print F \"$killed\\n\"; exit
                }}
                wait; sleep 1 while 1' & p=$!
             until [ \"$(shoal ps | wc -l)\" = 3 ]; do sleep 0.02; done
             shoal move $p 1; shoal where $p; touch {dir}/go; wait $p; echo $?"
        ),
        "n1\n8",
    )?;
    s.until(&format!("test \"$(cat {dir}/said)\" = 1"))?;
    // It stands there for life then, in the group and session that it had: their leader stays with it, and is there for what comes next.
    s.prints(
        "shoal run -n 0 perl -e 'wait if fork or exit; sleep 1 while 1' & p=$!
         until test -n \"$(shoal ps | grep -w $p)\"; do sleep 0.02; done; sleep 0.3
         shoal move $p 1; sleep 2.5; shoal run -n 0 echo well; kill $p; wait $p; echo $?",
        "well\n143",
    )?;
    Ok(End::Passed)
}
