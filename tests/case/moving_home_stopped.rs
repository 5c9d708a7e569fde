//! Stopped processes come to the front end and leave it, and are stopped all the time: for their parent, too.

use super::moving_faults::{at_point, stage, Fate, How, Victim, PROGRAM};
use super::scene::{holds, outside, same, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{procs, Doing, Res};
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("move_home_stopped", move_home_stopped),
    ("move_home_stopped_continued_on_its_way", continued_on_its_way),
    ("move_home_continued_and_stopped", continued_and_stopped),
    ("move_home_continued_where_it_was", continued_where_it_was),
    ("move_home_stopped_by_its_parent", stopped_by_its_parent),
    ("move_home_stopped_killed_on_its_way", killed_on_its_way),
    ("move_home_stopped_front_killed", front_killed),
    ("move_stopped_called_off", called_off),
    ("move_new_mover_killed", destination_killed),
    ("move_back_mover_killed", mover_back_killed),
];

/// `begin PROGRAM`: starts it on node 0, as a child of what writes down what wait tells of it; `seen WHAT`: that has been told; `is STATE`; `end`.
pub(super) fn waits() -> String {
    let program = include_str!("waits.py");
    format!(
        "cd $(mktemp -d); cat >waits.py <<'P'\n{program}P
        seen() {{ for i in $(seq 300); do grep -q \"$1\" log && return; sleep 0.01; done; echo \"no $1\"; }}
        is() {{ for i in $(seq 1000); do test \"$(awk '/^State/ {{print $2}}' /proc/$p/status)\" = $1 && return; sleep 0.01; done; echo \"not $1\"; }}
        begin() {{ rm -f log log.pid up cont*; python3 -S waits.py log \"$@\" & w=$!; until test -s log.pid && test -e up; do sleep 0.01; done; p=$(cat log.pid); }}
        told() {{ for i in $(seq 1000); do test $(cat log | wc -l) -ge $1 && return; sleep 0.01; done; echo \"told less than $1\"; }}
        end() {{ wait $w; paste -sd ' ' log; }}\n"
    )
}

/// A program that says where it is on SIGUSR1, counts its SIGCONTs, and ends with their number on SIGTERM.
const COUNTS: &str = r#"$|=1; $SIG{USR1}=sub{print "usr1 on ", `hostname`}; $SIG{CONT}=sub{$n++; open U, ">cont$n"}; $SIG{TERM}=sub{exit 10+$n}; open U, ">up"; select(undef, undef, undef, 1) while 1"#;

fn move_home_stopped(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_stopped", 2)?;
    let waits = waits();
    // Stopped it goes anywhere, and its parent hears of each stop once. What it is sent there it has when it goes on.
    s.prints(
        &format!(
            "{waits} begin shoal run -n 0 perl -e '{COUNTS}'
            kill -STOP $p; seen stopped; shoal move $p front; shoal where $p; is T; kill -USR1 $p; kill -CONT $p; until test -e cont1; do sleep 0.01; done; is S
            kill -STOP $p; told 3; shoal move $p 1; shoal where $p; is T; kill -USR1 $p; kill -CONT $p; until test -e cont2; do sleep 0.01; done; is S
            kill -STOP $p; told 5; for to in front 0 front; do shoal move $p $to; is T; done; kill -CONT $p; until test -e cont3; do sleep 0.01; done
            kill -TERM $p; end"
        ),
        "front\nusr1 on front\nn1\nusr1 on n1\nstopped 19 continued stopped 19 continued stopped 19 continued exited 13",
    )?;
    // So does any other process of the front end.
    s.prints(
        &format!(
            "{waits} begin perl -e '{COUNTS}'
            kill -STOP $p; seen stopped; shoal move $p 1; shoal where $p; is T; shoal move $p front; is T; kill -CONT $p; until test -e cont1; do sleep 0.01; done
            kill -TERM $p; end"
        ),
        "n1\nstopped 19 continued exited 11",
    )?;
    // What it has written before comes, though it is stopped where it is to become it.
    s.prints(
        &format!(
            "{waits} begin shoal run -n 0 perl -e 'open U, \">up\"; $|=1; print \"$_\\n\" for 1..9000; kill STOP => $$; print \"after\\n\"; select undef, undef, undef, .2; exit 7' > >(sleep 0.3; cat >got; touch all)
            seen stopped; shoal move $p front; is T; kill -CONT $p; end; until test -e all; do sleep 0.01; done; tail -n 1 got; wc -l <got"
        ),
        "stopped 19 continued exited 7\nafter\n9001",
    )?;
    // Killed it ends wherever it is.
    s.prints(
        &format!(
            "{waits} for way in front 'front 1' 'front 1 front'; do
                begin shoal run -n 0 perl -e '{COUNTS}'; kill -STOP $p; seen stopped
                for to in $way; do shoal move $p $to; done; kill -KILL $p; end
            done"
        ),
        &["stopped 19 killed 9"; 3].join("\n"),
    )?;
    Ok(End::Passed)
}

fn continued_on_its_way(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_stopped_continued_on_its_way", 2)?;
    let waits = waits();
    s.prints(
        &format!(
            "{waits} for i in 00 01 02 03; do
                begin shoal run -n 0 perl -e '{COUNTS}'
                kill -STOP $p; seen stopped; shoal move $p front & m=$!; sleep 0.$i; kill -CONT $p; wait $m; is S; told 2
                kill -STOP $p; told 3; shoal move $p 1 & m=$!; sleep 0.$i; kill -CONT $p; wait $m; until test -e cont2; do sleep 0.01; done
                kill -TERM $p; end
            done"
        ),
        &["stopped 19 continued stopped 19 continued exited 12"; 4].join("\n"),
    )?;
    // And stopped.
    s.prints(
        &format!(
            "{waits} for i in 00 01 02 03; do
                begin shoal run -n 0 perl -e '{COUNTS}'
                shoal move $p front & m=$!; sleep 0.$i; kill -STOP $p; wait $m; is T; told 1; kill -CONT $p; until test -e cont1; do sleep 0.01; done
                shoal move $p 1 & m=$!; sleep 0.$i; kill -STOP $p; wait $m; is T; told 3; kill -CONT $p; until test -e cont2; do sleep 0.01; done
                kill -TERM $p; end
            done"
        ),
        &["stopped 19 continued stopped 19 continued exited 12"; 4].join("\n"),
    )?;
    Ok(End::Passed)
}

/// When nothing of it is on the node any more it is continued where its parent is, and stopped again: the stop came last.
fn continued_and_stopped(place: &Place) -> Res<End> {
    let (s, faults) = stage(place, "move_home_continued_and_stopped", Victim::FrontDaemon)?;
    let waits = waits();
    // With and without a handler for SIGCONT; that one does not run, since a stop takes back a continuation that waits.
    for (program, end) in [(COUNTS, "11"), (r#"$SIG{TERM}=sub{exit 9}; open U, ">up"; sleep 1 while 1"#, "9")] {
        let file = place.fresh("continued_and_stopped").to_string_lossy().into_owned();
        let going = s.start(&format!(
            "{waits} begin shoal run -n 0 perl -e '{program}'; kill -STOP $p; seen stopped; echo \"p=$p; cd $PWD\" >{file}.new; mv {file}.new {file}; end"
        ));
        wait_for("it is stopped", || std::fs::exists(&file).unwrap_or(false))?;
        faults.watch("in rebuilt")?;
        let moving = s.start(&format!(". {file}; shoal move $p front; shoal where $p"));
        let held = faults.reached(Duration::from_secs(15))?;
        s.prints(&format!("{waits} . {file}; kill -CONT $p; told 2; sleep 0.02; kill -STOP $p; sleep 0.02"), "")?;
        drop(held);
        same("where it is", moving.end()?.out.trim(), "front")?;
        s.prints(&format!("{waits} . {file}; is T; told 3; kill -CONT $p; told 4; is S; kill -TERM $p"), "")?;
        let told = format!("stopped 19 continued stopped 19 continued exited {end}");
        same("what its parent was told", going.end()?.out.trim(), told.as_str())?;
    }
    Ok(End::Passed)
}

/// It is continued on its node just before it stands still, when its agent is about to let it leave: its parent, which knew it as stopped, is told, and it runs.
fn continued_where_it_was(place: &Place) -> Res<End> {
    let (s, faults) = stage(place, "move_home_continued_where_it_was", Victim::FrontDaemon)?;
    let (waits, agent) = (waits(), s.agent("n0")?.to_string());
    for program in [COUNTS, r#"$SIG{TERM}=sub{exit 11}; open U, ">up"; sleep 1 while 1"#] {
        let file = place.fresh("continued_where_it_was").to_string_lossy().into_owned();
        let going = s.start(&format!(
            "{waits} begin shoal run -n 0 perl -e '{program}'; kill -STOP $p; seen stopped; echo \"p=$p; cd $PWD\" >{file}.new; mv {file}.new {file}; end"
        ));
        wait_for("it is stopped", || std::fs::exists(&file).unwrap_or(false))?;
        let text = std::fs::read_to_string(&file).doing("read which it is")?;
        let pid = text.trim_start_matches("p=").split(';').next().unwrap_or_default();
        faults.watch("source is to leave")?;
        let moving = s.start(&format!("shoal move {pid} front; shoal where {pid}"));
        let held = faults.reached(Duration::from_secs(15))?;
        outside(&["nsenter", "-t", &agent, "-p", "-m", "--", "bash", "-c", &format!("kill -CONT {pid}")])?;
        drop(held);
        same("where it is", moving.end()?.out.trim(), "front")?;
        s.prints(&format!("{waits} . {file}; told 2; is S; kill -TERM $p"), "")?;
        same("what its parent was told", going.end()?.out.trim(), "stopped 19 continued exited 11")?;
    }
    Ok(End::Passed)
}

/// Stops and continues its child within milliseconds again and again, and says when that is not as it was told last: `STORM FILE` writes the child's PID there.
const STORM: &str = r#"$p = fork; if (!$p) { $SIG{TERM} = sub { exit 7 }; 1 while 1 }
    open F, ">$ARGV[0].new"; print F $p; close F; rename "$ARGV[0].new", $ARGV[0];
    sub stopped { open S, "/proc/$p/stat" or return 0; <S> =~ /^\d+ \(.*?\) T/ }
    sub is { for (1 .. 5000) { return if stopped() == $_[0]; select undef, undef, undef, .002 } print "round $n: not ", $_[0] ? "stopped\n" : "going\n"; kill KILL => $p; exit 1 }
    # On a machine that moves slowly there are more rounds.
    for ($n = 1; $n <= 60 || $n < 3000 && !-e "$ARGV[0].moved"; $n++) {
        for (STOP, CONT, STOP, CONT, STOP) { kill $_, $p; select undef, undef, undef, .0002 + rand .003 }
        is(1); kill CONT => $p; is(0)
    }
    kill TERM => $p; waitpid $p, 0; print "child ", $? >> 8, "\n""#;

fn stopped_by_its_parent(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_stopped_by_its_parent", 2)?;
    s.prints(
        &format!(
            "cd $(mktemp -d); shoal run -n 0 perl -e '{STORM}' child & r=$!; until test -s child; do sleep 0.01; done; p=$(cat child); n=0
            while kill -0 $p 2>/dev/null; do for to in front 1 front 0; do shoal move $p $to 2>/dev/null && n=$((n + 1)); test $n -gt 5 && touch child.moved; done; done; wait $r; test $n -gt 5 || echo $n moves"
        ),
        "child 7",
    )?;
    Ok(End::Passed)
}

/// From when the new place has all of it.
const POINTS: [&str; 8] = [
    "destination has it",
    "out told to end",
    "front knows that it runs",
    "front knows that it has left",
    "destination is to go",
    "in told to go",
    "in has a vessel",
    "in made it",
];

/// At whatever moment it is killed it ends so, and so does the command.
fn killed_on_its_way(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_home_stopped_killed_on_its_way", 1)?;
    let waits = waits();
    s.prints(
        &format!(
            "{waits} for i in 012 016 020 024 028 032 036 040 044 048 052 056; do
                begin shoal run -n 0 perl -e '{COUNTS}'
                kill -STOP $p; seen stopped; shoal move $p front 2>/dev/null & m=$!; sleep 0.$i; kill -KILL $p; end; wait $m
            done"
        ),
        &["stopped 19 killed 9"; 12].join("\n"),
    )?;
    Ok(End::Passed)
}

fn front_killed(place: &Place) -> Res<End> {
    let victim = Victim::FrontDaemon;
    let (s, faults) = stage(place, "move_home_stopped_faults", victim)?;
    for point in POINTS {
        let fate = Fate::Lives;
        let how = How { point, program: PROGRAM, before: None, stopped: true, how: "", to: "front", fate };
        at_point(&s, place, &faults, victim, how).map_err(|fault| format!("{victim:?} at {point:?}: {fault}"))?;
    }
    Ok(End::Passed)
}

/// Ctrl-C of the move of a stopped program, when it stands still and its mover traces it, and when it has just been let go; and a checkpoint of one, which traces it as well.
fn called_off(place: &Place) -> Res<End> {
    let (s, faults) = stage(place, "move_stopped_called_off", Victim::FrontDaemon)?;
    let (file, waits) = (place.fresh("called_off").to_string_lossy().into_owned(), waits());
    let going = s.start(&format!(
        "{waits} begin shoal run -n 0 perl -e '{COUNTS}'; kill -STOP $p; seen stopped; pwd >{file}.dir; echo $p >{file}.new; mv {file}.new {file}; end"
    ));
    wait_for("it is stopped", || std::fs::exists(&file).unwrap_or(false))?;
    for point in ["out held", "out sent", "in rebuilt"] {
        faults.watch(point)?;
        let moving = s.start(&format!(
            "echo $$ >{file}.move; exec shoal move $(cat {file}) $(test $(shoal where $(cat {file})) = n1; echo $?)"
        ));
        let held = faults.reached(Duration::from_secs(15))?;
        s.ok(&format!("kill -INT $(cat {file}.move)"))?;
        same("the move ends by it", moving.end()?.signal(), Some(2))?;
        drop(held);
        // Where it may be at the second point, as all of it is there, and the next move is away from there.
        s.until(&format!("shoal where $(cat {file})"))?;
    }
    s.ok(&format!("shoal checkpoint $(cat {file}) -o {file}.image; sleep 0.1"))?;
    s.prints(&format!("awk '/^State/ {{print $2}}' /proc/$(cat {file})/status"), "T")?;
    s.ok(&format!("kill -CONT $(cat {file})"))?;
    s.until(&format!(
        "test $(awk '/^State/ {{print $2}}' /proc/$(cat {file})/status) = S && test -e $(cat {file}.dir)/cont1"
    ))?;
    s.ok(&format!("kill -TERM $(cat {file})"))?;
    same("what its parent was told", going.end()?.out.trim(), "stopped 19 continued exited 11")?;
    Ok(End::Passed)
}

/// The process is there, the old node knows it, and what has brought it is killed before it may run: it is lost, which `wait` tells at once.
fn destination_killed(place: &Place) -> Res<End> {
    let (s, faults) = stage(place, "move_new_mover_killed", Victim::FrontDaemon)?;
    for point in ["out sent", "out bound"] {
        let file = place.fresh("new_mover").to_string_lossy().into_owned();
        let program = format!("$|=1; print qq(up\\n); open U, q(>{file}.up); sleep 99");
        let going =
            s.start(&format!("shoal run -n 0 perl -e '{program}' </dev/null & echo $! >{file}; wait $!; echo $?"));
        wait_for("it is there", || std::fs::exists(format!("{file}.up")).unwrap_or(false))?;
        faults.watch(point)?;
        let moving = s.start(&format!("shoal move $(cat {file}) 1"));
        let held = faults.reached(Duration::from_secs(15))?;
        let movers = procs::below(s.machine("n1")?).into_iter().filter(|one| one.comm == "shoal:mover");
        movers.map(|one| one.pid).try_for_each(|pid| s.kill(pid))?;
        drop(held);
        moving.end()?;
        // One that was killed before the old node knew of it has stayed there.
        s.ok(&format!("shoal where $(cat {file}) | grep -qx n0 && kill -KILL $(cat {file}) || true"))?;
        wait_for("its end is told", || !going.is_going())?;
        same("its end", going.end()?.out.trim(), "up\n137")?;
    }
    Ok(End::Passed)
}

/// It comes back to where its parent is and it has stood, and what brings it is killed. What the parent is told of it is true.
fn mover_back_killed(place: &Place) -> Res<End> {
    let (s, faults) = stage(place, "move_back_mover_killed", Victim::FrontDaemon)?;
    for (point, lives) in [("in listening", true), ("in connected", false), ("in rebuilt", false)] {
        let file = place.fresh("back").to_string_lossy().into_owned();
        let command = format!("sleep 1151 {}", file.len());
        let going = s.start(&format!(
            "shoal run -n 0 sh -c '{command} & echo $! >{file}.new; mv {file}.new {file}; wait $!; echo $?' </dev/null"
        ));
        wait_for("it is there", || std::fs::exists(&file).unwrap_or(false))?;
        s.ok(&format!("shoal move $(cat {file}) 1"))?;
        faults.watch(point)?;
        let moving = s.start(&format!("shoal move $(cat {file}) 0"));
        let held = faults.reached(Duration::from_secs(15))?;
        let movers = procs::below(s.machine("n0")?).into_iter().filter(|one| one.comm == "shoal:mover");
        movers.map(|one| one.pid).try_for_each(|pid| s.kill(pid))?;
        drop(held);
        moving.end()?;
        match lives {
            true => {
                s.prints(
                    &format!("shoal where $(cat {file}); shoal move $(cat {file}) 0; shoal where $(cat {file})"),
                    "n1\nn0",
                )?;
                holds("its parent has been told nothing", going.is_going())?;
                s.ok(&format!("kill -KILL $(cat {file})"))?;
            }
            false => wait_for("its parent is told", || !going.is_going())?,
        }
        wait_for("nothing is left of it", || s.count(&command) == 0)?;
        same("its end", going.end()?.out.trim(), "137")?;
    }
    Ok(End::Passed)
}
