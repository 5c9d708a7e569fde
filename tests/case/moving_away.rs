//! Processes of the front end leave it.

use super::moving_faults::{at_point, stage, Fate, How, Victim, DESTINATION, PROGRAM};
use super::residue;
use super::scene::{holds, same, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use std::fs;
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("move_away_native", move_away_native),
    ("move_away_threads", move_away_threads),
    ("move_away_refused", move_away_refused),
    ("move_away_writes_to_one_outside", move_away_writes_to_one_outside),
    ("move_away_ends_front_killed", move_away_ends_front_killed),
    ("move_away_then_restart", move_away_then_restart),
    ("move_away_begins_a_run", move_away_begins_a_run),
    ("move_away_front_killed", |place| each_point_away(place, Victim::FrontDaemon)),
    ("move_away_destination_daemon_killed", |place| each_point_away(place, Victim::Daemon(DESTINATION))),
    ("move_away_destination_node_killed", |place| each_point_away(place, Victim::Machine(DESTINATION))),
    ("move_away_destination_link_cut", |place| each_point_away(place, Victim::Link(DESTINATION))),
];

/// Every point, in the order in which a move from the front end reaches them.
const POINTS_AWAY: [&str; 27] = [
    "front begins",
    "destination is told",
    "destination has a vessel",
    "in listening",
    "destination listens",
    "front knows where",
    "source is told",
    "out looked",
    "out connected",
    "in connected",
    "source asks",
    "front lets it leave",
    "source is to leave",
    "out may leave",
    "out held",
    "out sent",
    "in rebuilt",
    ALL_IS_THERE,
    "out bound",
    "source has bound it",
    "in told to go",
    "destination runs it",
    "out ended",
    "source has ended it",
    "front knows that it has left",
    "front knows that it runs",
    "front has its ghost relay",
];

/// From here on what was here may be bound.
const ALL_IS_THERE: &str = "destination has it";

fn each_point_away(place: &Place, victim: Victim) -> Res<End> {
    let (s, faults) = stage(place, "move_away_faults", victim)?;
    let at = |name: &str| POINTS_AWAY.iter().position(|one| *one == name);
    for point in POINTS_AWAY {
        let early = at(point) < at(ALL_IS_THERE) && point != "out sent";
        let fate = match victim {
            Victim::Link(_) | Victim::FrontDaemon => Fate::Lives,
            _ if early => Fate::Lives,
            _ => Fate::LivesOrLost,
        };
        let how = How { point, program: PROGRAM, before: Some("front"), stopped: false, how: "", to: "1", fate };
        at_point(&s, place, &faults, victim, how).map_err(|fault| format!("{victim:?} at {point:?}: {fault}"))?;
    }
    Ok(End::Passed)
}

/// What is about to move executes `shoal run`, for the node to which it was to go: it stays, and the program runs under its number, which nobody has any more.
fn move_away_begins_a_run(place: &Place) -> Res<End> {
    let (s, faults) = stage(place, "move_away_begins_a_run", Victim::FrontDaemon)?;
    for point in POINTS_AWAY.into_iter().take_while(|point| *point != ALL_IS_THERE) {
        let go = place.fresh("go").to_string_lossy().into_owned();
        faults.watch(point)?;
        let moving = s.start(&format!(
            "perl -e 'select(undef, undef, undef, 0.005) until -e q({go}); exec qw(shoal run -n 1 sh -c), q(hostname; exit 7)' & p=$!
            shoal move $p 1 2>/dev/null; wait $p; echo $?"
        ));
        let held = faults.reached(Duration::from_secs(15))?;
        s.ok(&format!("touch {go}; sleep 0.1"))?;
        drop(held);
        let ended = moving.end()?;
        same(&format!("at {point:?} it runs"), ended.out.trim(), "n1\n7")?;
    }
    Ok(End::Passed)
}

/// It ends where it has gone before a daemon follows, which is then told how, and what it has written.
fn move_away_ends_front_killed(place: &Place) -> Res<End> {
    let (s, faults) = stage(place, "move_away_ends", Victim::FrontDaemon)?;
    for point in ["out ended", "source has ended it", "front knows that it runs", "front has its ghost relay"] {
        s.until("test $(shoal nodes | grep -cw up) = 2")?;
        let file = place.fresh("ends").to_string_lossy().into_owned();
        // Its pipe takes all of that.
        let program = format!(
            "select undef, undef, undef, .01 until -e q({file}.go); print qq($_\\n) for 1..9000; warn qq(end\\n); open F, q(>{file}.end); exit 7"
        );
        let going = s.start(&format!(
            "perl -e '{program}' >{file}.out 2>{file}.err </dev/null & echo $! >{file}.pid; wait $!; echo $?"
        ));
        let number = || fs::read_to_string(format!("{file}.pid")).unwrap_or_default().trim().to_string();
        wait_for("it is there", || !number().is_empty())?;
        faults.watch(point)?;
        let moving = s.start(&format!("shoal move {} 1", number()));
        let held = faults.reached(Duration::from_secs(15))?;
        Victim::FrontDaemon.kill(&s)?;
        drop(held);
        fs::write(format!("{file}.go"), "").doing("let it end")?;
        let ended = || fs::exists(format!("{file}.end")).unwrap_or(false);
        wait_for("it ends", || ended() && s.count(&format!("perl -e {program}")) == 0)?;
        Victim::FrontDaemon.heal(&s)?;
        same(point, going.end()?.out.trim(), "7")?;
        moving.end()?;
        s.ok(&format!("seq 9000 | cmp - {file}.out && grep -qx end {file}.err"))?;
    }
    Ok(End::Passed)
}

/// Whoever follows the daemon that had it leave either relays for it, and it moves on, or says at once why it does not.
fn move_away_then_restart(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_away_then_restart", 2)?;
    s.prints(
        "for after in 0 0 0 0.01 0.01 0.02 0.04 0.3; do
            sleep 1037 </dev/null & p=$!; until grep -qx sleep /proc/$p/comm; do sleep 0.01; done
            shoal move $p 0; sleep $after; shoal fault front kill-daemon; shoal fault front start-daemon
            if said=$(shoal move $p 1 2>&1); then is=n1; else is=n0; fi
            test $is = n1 || [[ $said == *'is relayed, and by whom is not known any more'* ]] || echo \"$after: $said\"
            test $(shoal where $p) = $is; kill $p; wait $p; test $? = 143 || echo $after
            until test $(shoal nodes | grep -cw up) = 2; do sleep 0.05; done
        done",
        "",
    )?;
    Ok(End::Passed)
}

/// Any process of the front end may leave it, and come back.
fn move_away_native(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_away_native", 2)?;
    s.ok("cd $(mktemp -d); seq 100000 >in
        perl -e '$|=1; while (<>) { print; $n++ % 200 or select(undef, undef, undef, 0.003) } exit 7' <in >got & p=$!
        sleep 0.3; shoal move $p 1; test $(shoal where $p) = n1; shoal move $p 0; shoal move $p front; test $(shoal where $p) = front
        wait $p; test $? = 7; cmp in got
        seq 100000 | perl -e '$|=1; while (<>) { print; $n++ % 200 or select(undef, undef, undef, 0.003) } exit 7' >got & p=$!
        sleep 0.3; shoal move $p 1; wait $p; test $? = 7; cmp in got")?;
    let ann = "setpriv --reuid 61001 --regid 61001 --groups 61001,61005";
    s.prints(
        &format!(
            "{ann} perl -e '$SIG{{USR1}}=sub{{$|=1; system(\"hostname; id -u; grep CapPrm /proc/self/status\"); exit 4}}; sleep 1 while 1' & p=$!
            sleep 0.3; {ann} shoal move $p 1; {ann} kill -USR1 $p; wait $p; echo $?
            perl -e 'sleep 1 while 1' & p=$!; sleep 0.2; {ann} shoal move $p 1 2>&1 | grep -o 'another user.s'; kill $p; wait $p; echo $?"
        ),
        "n1\n61001\nCapPrm:\t0000000000000000\n4\nanother user's\n143",
    )?;
    Ok(End::Passed)
}

/// The numbers of its threads are nobody else's as long as it lives, and theirs when it comes back.
fn move_away_threads(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_away_threads", 2)?;
    s.prints(
        "cd $(mktemp -d); cat >threads.py <<'P'
import threading, signal, os, time
end = threading.Event()
threads = [threading.Thread(target=end.wait) for _ in range(40)]
for thread in threads: thread.start()
signal.signal(signal.SIGTERM, lambda *_: end.set())
open('up', 'w')
while not end.is_set(): time.sleep(0.02)
for thread in threads: thread.join()
P
        python3 -S threads.py & p=$!; until test -e up; do sleep 0.01; done
        numbers=$(ls /proc/$p/task | sort -n | tail -n +2); held() { n=0; for number in $numbers; do kill -0 $number 2>/dev/null && n=$((n+1)); done; echo $n; }
        all() { for i in $(seq 300); do test $(held) = 40 && break; sleep 0.01; done; held; }
        for to in 0 1; do shoal move $p $to; all; done
        shoal move $p front; test \"$(ls /proc/$p/task | sort -n | tail -n +2)\" = \"$numbers\" && echo same; shoal move $p 0; all; kill $p; wait $p; echo $?; held",
        "40\n40\nsame\n40\n0\n0",
    )?;
    Ok(End::Passed)
}

/// At the front end it has the pipe itself, which nobody has who can be seen there: whoever reads it is no process of the sandbox.
fn move_away_writes_to_one_outside(place: &Place) -> Res<End> {
    let program = r#"$| = 1; $SIG{TERM} = sub { print "end\n"; exit 3 }; while (1) { print "on\n"; select undef, undef, undef, 0.01 }"#;
    // Nor does anybody else of it have it.
    let script = format!(
        "exec 3>&1 >/dev/null
        shoal run -n 0 perl -e '{program}' </dev/null >&3 3>&- & pid=$!
        exec 3>&-
        until shoal where $pid 2>&1 | grep -q n0; do sleep 0.05; done
        for to in front 1 front 0; do shoal move $pid $to || exit; sleep 0.1; done
        kill $pid; wait $pid; exit $?"
    );
    let done = residue::start(place, &["sh", "-c", &script])?.wait_with_output().doing("wait for the sandbox")?;
    same("what was said", String::from_utf8_lossy(&done.stderr).as_ref(), "")?;
    let out = String::from_utf8_lossy(&done.stdout);
    let last = out.trim_start_matches("on\n");
    same("what it has written at the end, and its exit code", (last, done.status.code()), ("end\n", Some(3)))?;
    Ok(End::Passed)
}

fn move_away_refused(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_away_refused", 1)?;
    let refused = |script: &str, why: &str| -> Res {
        let told = s.ok(&format!("{script}\n sleep 0.3; shoal move $p ${{how:-}} 0 2>&1 && echo moved; kill -CONT $p; kill -9 $p ${{q:-}}; wait $p; true"))?;
        match told.contains(why) && !told.contains("moved") {
            true => Ok(()),
            false => Err(format!("{script}: {told:?} does not say {why:?}")),
        }
    };
    refused("sleep 50 & p=$!; how=--lazy", "--lazy")?;
    refused("perl -e 'fork or exit; sleep 50' & p=$!", "yet to wait for its child")?;
    refused("setpriv --no-new-privs sleep 50 & p=$!", "no_new_privs")?;
    refused("mkfifo /tmp/fifo; sleep 60 <>/tmp/fifo & q=$!; perl -e 'open F, qq(+</dev/ptmx); sleep 50' & p=$!; rm /tmp/fifo", "ptmx")?;
    let told = s.sh("shoal move $(pgrep -x shoal:holder) 0")?;
    holds("it says why", told.err.contains("shoal's own"))?;
    // Whoever asks hears all that is in the way.
    s.prints(
        "sleep 50 & p=$!; shoal move --explain $p 0 >/dev/null && echo could; perl -e 'fork or exit; sleep 50' & q=$!; sleep 0.2; shoal move --explain $q 0 2>&1 | grep -c 'yet to wait'; kill -9 $p $q
         shoal run -n 0 sleep 50 & p=$!; sleep 0.4; shoal move --explain $p front >/dev/null && echo could; kill -9 $p",
        "could\n1\ncould",
    )?;
    Ok(End::Passed)
}
