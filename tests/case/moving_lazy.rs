//! Processes that run before their memory has come (`shoal move --lazy`).

use super::moving_faults::{stage, Victim};
use super::scene::{holds, same, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::faults::Faults;
use crate::lab::place::Place;
use crate::lab::{procs, Res};
use crate::modes::slower;
use std::fs;
use std::time::{Duration, Instant};

pub(crate) const SCENES: &[Scene] = &[
    ("move_lazily", move_lazily),
    ("move_lazily_children", move_lazily_children),
    ("move_lazily_not_yet", move_lazily_not_yet),
    ("move_lazily_lost", move_lazily_lost),
    ("move_lazily_mover_killed", move_lazily_mover_killed),
    ("move_lazily_node_lost", move_lazily_node_lost),
    ("move_lazily_new_node_lost", move_lazily_new_node_lost),
];

/// 300 MiB that are all different; looked at when it is told to.
const LARGE: &str = r"$|=1; $x = join(q(), map { pack(q(N), $_) x 256 } 0..299_999); $0 = q(large);
    $SIG{USR1} = sub { substr($x, $_ * 1024, 4) eq pack(q(N), $_) or exit 9 for 0..299_999; print qq(good\n) }; print qq(up\n); sleep 1 while 1";

/// There and back, with a look at all of it.
fn move_lazily(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_lazily", 2)?;
    let script = format!(
        "cd $(mktemp -d); shoal run -n 0 perl -e '{LARGE}' >out </dev/null & p=$!
        until test -s out; do sleep 0.1; done
        for node in 1 0 1; do shoal move --lazy $p $node; shoal where $p; kill -USR1 $p; done
        until test $(wc -l <out) = 4; do sleep 0.1; done
        kill $p; wait $p; echo $?; cat out"
    );
    s.prints(&script, "n1\nn0\nn1\n143\nup\ngood\ngood\ngood")?;
    // What is small goes as ever.
    s.prints(
        "shoal run -n 0 sleep 1081 </dev/null & p=$!; sleep 0.5; shoal move --lazy $p 1; shoal where $p; kill $p",
        "n1",
    )?;
    Ok(End::Passed)
}

/// A child that is forked before the memory is there has all of it as well.
fn move_lazily_children(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_lazily_children", 2)?;
    let program = place.program("carry_ahead").display().to_string();
    for _ in 0..4 {
        s.prints(
            &format!(
                "cd $(mktemp -d); mkfifo in; exec 7<>in
                PHASES=1 AHEAD_FORKS=1 shoal run -n 0 {program} <in >out & p=$!
                until grep -q phase out; do sleep 0.1; done
                shoal move --lazy $p 1; sleep 0.5; shoal where $p; printf xx >&7; wait $p; echo $?; tail -n 1 out"
            ),
            "n1\n0\nok",
        )?;
    }
    Ok(End::Passed)
}

struct Held {
    going: super::scene::Going,
    pid: String,
    out: String,
}

fn large(s: &Sandbox, place: &Place) -> Res<Held> {
    let out = place.fresh("large").to_string_lossy().into_owned();
    let going =
        s.start(&format!("shoal run -n 0 perl -e '{LARGE}' >{out} </dev/null & echo $! >{out}.pid; wait $!; echo $?"));
    wait_for("it is up", || fs::read_to_string(&out).is_ok_and(|text| !text.is_empty()))?;
    let pid = fs::read_to_string(format!("{out}.pid")).map_err(|e| e.to_string())?.trim().to_string();
    Ok(Held { going, pid, out })
}

/// Until all has come it is neither moved again nor written into a file, and who wants that is told so.
fn move_lazily_not_yet(place: &Place) -> Res<End> {
    let (s, faults) = stage(place, "move_lazily_not_yet", Victim::FrontDaemon)?;
    let Held { going, pid, out } = large(&s, place)?;
    faults.watch("out keeps the rest")?;
    let moving = s.start(&format!("shoal move --lazy {pid} 1; echo $?"));
    let held = faults.reached(Duration::from_secs(30))?;
    s.until(&format!("shoal where {pid} | grep -qx n1"))?;
    let line = s.fails(&format!("shoal move {pid} 0"), 1)?;
    holds(&format!("{line:?} says why"), line.contains("on its way already"))?;
    let told = s.ok(&format!("shoal checkpoint --dry-run {pid}; test $? = 1"))?;
    holds(&format!("{told:?} says why"), told.contains("until all has come that was moved lazily"))?;
    s.prints(&format!("shoal ps | awk '$1 == {pid} {{ print $2, $4 == \"t\" }}' | sort"), "n0 1\nn1 0")?;
    let line = s.fails("shoal move --from n0 --all", 1)?;
    holds(&format!("{line:?} says why"), line.contains("on its way already"))?;
    let told = s.ok("shoal move --explain --from n0 --all; test $? = 1")?;
    holds(&format!("{told:?} says why"), told.contains("on its way already"))?;
    // It waits for its memory, and the signal for it.
    s.ok(&format!("kill -USR1 {pid}; sleep 0.3; test $(wc -l <{out}) = 1"))?;
    drop(held);
    same("the move's end", moving.end()?.out.trim(), "0")?;
    wait_for("it has looked", || fs::read_to_string(&out).is_ok_and(|text| text == "up\ngood\n"))?;
    s.prints(&format!("shoal move {pid} 0; shoal where {pid}; kill {pid}"), "n0")?;
    same("its end", going.end()?.out.trim(), "143")?;
    Ok(End::Passed)
}

const LACKS: &str = "not all of its memory had come";

/// It runs on its new node, what does not come any more is gone by `end`, and everybody is told so: its user, and who has moved it.
fn is_lost(s: &Sandbox, place: &Place, faults: &Faults, why: &str, end: impl FnOnce() -> Res) -> Res {
    let Held { going, pid, .. } = large(s, place)?;
    faults.watch("out keeps the rest")?;
    let moving = s.start(&format!("shoal move --lazy {pid} 1"));
    let held = faults.reached(Duration::from_secs(30))?;
    s.until(&format!("shoal where {pid} | grep -qx n1"))?;
    end()?;
    drop(held);
    // Who has called `shoal run` is told that n1 is lost, unless the end of its streams has come before: n1 lives.
    same("its end", going.end()?.out.trim(), "137")?;
    let moved = moving.end()?;
    holds(&format!("{:?} says why", moved.err), moved.code() == Some(1) && moved.err.contains(why))
}

/// The daemon of its old node ends before all has come.
fn move_lazily_lost(place: &Place) -> Res<End> {
    let victim = Victim::Daemon("n0");
    let (s, faults) = stage(place, "move_lazily_lost", victim)?;
    is_lost(&s, place, &faults, LACKS, || victim.kill(&s).and_then(|()| victim.heal(&s)))?;
    Ok(End::Passed)
}

/// The mover there alone ends: the daemon says that the process has left, which is true.
fn move_lazily_mover_killed(place: &Place) -> Res<End> {
    let (s, faults) = stage(place, "move_lazily_mover_killed", Victim::FrontDaemon)?;
    let machine = s.machine("n0")?;
    is_lost(&s, place, &faults, LACKS, || {
        let movers = procs::below(machine).into_iter().filter(|one| one.comm == "shoal:mover");
        movers.map(|one| one.pid).try_for_each(|pid| s.kill(pid))
    })?;
    // What comes afterwards is not taken for what was to come.
    let Held { going, pid, out } = large(&s, place)?;
    s.prints(&format!("shoal move --lazy {pid} 1; shoal where {pid}; kill -USR1 {pid}"), "n1")?;
    wait_for("it has looked", || fs::read_to_string(&out).is_ok_and(|text| text == "up\ngood\n"))?;
    s.ok(&format!("kill {pid}"))?;
    same("its end", going.end()?.out.trim(), "143")?;
    Ok(End::Passed)
}

/// Nothing comes any more of that on which it runs: who has moved it hears that as soon as the front end knows, and the old node gives up what it has kept,
/// though its connection has not timed out.
fn move_lazily_new_node_lost(place: &Place) -> Res<End> {
    let victim = Victim::Link("n1");
    let (s, faults) = stage(place, "move_lazily_new_node_lost", victim)?;
    let began = Instant::now();
    is_lost(&s, place, &faults, "n1: the node is lost", || victim.kill(&s))?;
    s.until("! shoal ps | grep -q n0")?;
    holds(&format!("after {:?}", began.elapsed()), began.elapsed() < Duration::from_secs(15) * slower())?;
    Ok(End::Passed)
}

/// The machine ends, of which no connection tells.
fn move_lazily_node_lost(place: &Place) -> Res<End> {
    let victim = Victim::Machine("n0");
    let (s, faults) = stage(place, "move_lazily_node_lost", victim)?;
    is_lost(&s, place, &faults, LACKS, || victim.kill(&s))?;
    Ok(End::Passed)
}
