//! Who ends while it moves, or its parent does: each end is told once, to whoever waits for it by then.

use super::hostile::compiled_of;
use super::moving_faults::{stage, Victim, POINTS};
use super::scene::{comes_home, same, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use rustix::process::Signal;
use std::fs;
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("move_of_what_a_subreaper_gets", move_of_what_a_subreaper_gets),
    ("move_of_what_a_subreaper_has_got", move_of_what_a_subreaper_has_got),
    ("move_of_who_gets_orphans", move_of_who_gets_orphans),
    ("move_of_orphans_that_end", move_of_orphans_that_end),
    ("move_killed_on_its_way_back", move_killed_on_its_way_back),
    ("move_leaves_a_zombie", move_leaves_a_zombie),
    ("move_of_who_ignores_ends", move_of_who_ignores_ends),
];

/// A subreaper of the front end, which does not know what its child has forked, gets that on its way to a node. Whether it has to be asked again, as at the first of these
/// points, or goes with what it had before.
fn move_of_who_gets_orphans(place: &Place) -> Res<End> {
    const ON_ITS_WAY: [&str; 9] = [
        "out may leave",
        "out held",
        "in rebuilt",
        "destination has it",
        "out bound",
        "source has bound it",
        "out told to end",
        "out ended",
        "destination runs it",
    ];
    let (s, faults) = stage(place, "move_of_who_gets_orphans", Victim::FrontDaemon)?;
    let program = compiled_of(place, "real", "subreaper_no_more")?;
    for point in ON_ITS_WAY {
        let at = |fault: String| format!("at {point:?}: {fault}");
        let file = place.fresh("orphans").to_string_lossy().into_owned();
        let going = s.start(&format!("{} 2>{file} </dev/null", program.display()));
        let who = || fs::read_to_string(&file).unwrap_or_default();
        wait_for("it has a grandchild", || who().ends_with('\n')).map_err(at)?;
        let text = who();
        let [subreaper, child, grandchild] = text.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(format!("whose numbers are {text:?}"));
        };
        faults.watch(point)?;
        let moving = s.start(&format!("shoal move {subreaper} 1; shoal where {subreaper}"));
        let held = faults.reached(Duration::from_secs(15)).map_err(at)?;
        s.ok(&format!("kill -USR1 {child}; sleep 0.05")).map_err(at)?;
        drop(held);
        same("where it is", moving.end()?.out.trim(), "n1").map_err(at)?;
        s.ok(&format!("kill -USR1 {grandchild}")).map_err(at)?;
        same("what it has waited for", going.end()?.out.trim(), "3 4").map_err(at)?;
    }
    Ok(End::Passed)
}

/// Its child, where it is itself or where that has gone, ends while the old node has yet to say what it has of it; or as its parent does, which is elsewhere.
fn move_of_orphans_that_end(place: &Place) -> Res<End> {
    const AS_THE_OLD_NODE_SAYS_IT: [&str; 3] = ["out told to end", "out ended", "source has ended it"];
    let (s, faults) = stage(place, "move_of_orphans_that_end", Victim::FrontDaemon)?;
    let program = compiled_of(place, "real", "orphans_that_end")?;
    let file = place.fresh("orphans").to_string_lossy().into_owned();
    let said = || fs::read_to_string(&file).unwrap_or_default();
    // Its child has gone to node 0. With the numbers of that and of the grandchild.
    let start_by = |run: &str, how: &str| {
        drop(fs::remove_file(&file));
        let going = s.start(&format!("{run} {} {how} 2>{file} </dev/null", program.display()));
        wait_for("it has a grandchild", || said().ends_with('\n'))?;
        let text = said();
        let Some((child, grandchild)) = text.trim().split_once(' ').and_then(|(_, both)| both.split_once(' ')) else {
            return Err(format!("whose numbers are {text:?}"));
        };
        s.ok(&format!("shoal move {child} 0"))?;
        Ok((going, child.to_string(), grandchild.to_string()))
    };
    let start = |how| start_by("shoal run -n 1", how);
    for (how, expected) in [("waits", "3"), ("zombie", "3 4")] {
        for point in AS_THE_OLD_NODE_SAYS_IT {
            let at = |fault: String| format!("{how} at {point:?}: {fault}");
            let (going, _, grandchild) = start(how).map_err(at)?;
            faults.watch(point)?;
            let moving = s.start(&format!("shoal move {grandchild} 0"));
            let held = faults.reached(Duration::from_secs(15)).map_err(at)?;
            s.ok(&format!("kill -USR1 {grandchild}; sleep 0.1")).map_err(at)?;
            drop(held);
            same("what it has waited for", going.end()?.out.trim(), expected).map_err(at)?;
            moving.end()?;
        }
    }
    // What it leaves as a zombie on the front end stands where it is itself, and is not taken for one that it has waited for there.
    for round in 0..5 {
        let at = |fault: String| format!("deep, round {round}: {fault}");
        let (going, child, grandchild) = start_by("", "deep").map_err(at)?;
        s.ok(&format!("kill -USR1 {grandchild}; kill -USR1 {child}")).map_err(at)?;
        same("what it has waited for", going.end()?.out.trim(), "3 4").map_err(at)?;
    }
    // Neither node hears of the other meanwhile.
    let front = s.daemon("front")?;
    for round in 0..5 {
        let at = |fault: String| format!("round {round}: {fault}");
        let (going, child, grandchild) = start("apart").map_err(at)?;
        s.ok(&format!("kill -USR1 {child} {grandchild}")).map_err(at)?;
        wait_for("both were told", || said().matches("told").count() == 2).map_err(at)?;
        s.signal(front, Signal::STOP)?;
        std::thread::sleep(Duration::from_millis(1300));
        s.signal(front, Signal::CONT)?;
        same("what it has waited for", going.end()?.out.trim(), "3 4").map_err(at)?;
    }
    Ok(End::Passed)
}

/// A child that has moved away from its parent comes back to it, and is killed meanwhile.
fn move_killed_on_its_way_back(place: &Place) -> Res<End> {
    // Nobody but the process is killed.
    let (s, faults) = stage(place, "move_killed_on_its_way_back", Victim::FrontDaemon)?;
    let file = place.fresh("child").to_string_lossy().into_owned();
    for point in POINTS {
        let parent = s.start(&format!(
            "shoal run -n 0 perl -e 'if (!($c = fork)) {{ exec qw(sleep 1073) }} open F, \">\", \"{file}.new\"; print F $c; close F;
                 rename \"{file}.new\", \"{file}\"; waitpid $c, 0; print $?' </dev/null"
        ));
        wait_for("it has a child", || fs::exists(&file).unwrap_or(false))?;
        let child = fs::read_to_string(&file).doing("read its number")?;
        fs::remove_file(&file).doing("remove what was read")?;
        s.ok(&format!("shoal move {child} 1"))?;
        faults.watch(point)?;
        let moving = s.start(&format!("shoal move {child} 0"));
        let held = faults.reached(Duration::from_secs(15)).map_err(|fault| format!("{point}: {fault}"))?;
        s.ok(&format!("kill -KILL {child}"))?;
        drop(held);
        wait_for(&format!("killed at {point:?}, it has ended for its parent"), || !parent.is_going())?;
        let told = parent.end()?.out;
        same(&format!("killed at {point:?}, what its parent is told"), told.as_str(), "9")?;
        moving.end()?;
        wait_for("nothing is left of it", || s.count("sleep 1073") == 0)?;
    }
    Ok(End::Passed)
}

/// Who leaves the ends of its children to the kernel moves away from one, or back to it, and that is killed meanwhile: its wait never returns it, and ends.
fn move_of_who_ignores_ends(place: &Place) -> Res<End> {
    const AWAY: [&str; 5] = ["out held", "out sent", "out bound", "out told to end", "out ended"];
    const BACK: [&str; 4] = ["destination has a vessel", "in rebuilt", "out bound", "destination runs it"];
    let (s, faults) = stage(place, "move_of_who_ignores_ends", Victim::FrontDaemon)?;
    let file = place.fresh("ignored").to_string_lossy().into_owned();
    let each = |way: &str, point: &'static str, how: &str| {
        let parent = s.start(&format!(
            "shoal run -n 0 perl -MPOSIX -e 'sigaction(SIGCHLD, POSIX::SigAction->new({how}));
                 if (!($c = fork)) {{ exec qw(sleep 1076) }} open F, \">\", \"{file}.new\"; print F \"$$ $c\"; close F;
                 rename \"{file}.new\", \"{file}\"; $r = waitpid -1, 0; print \"$r \", $! == ECHILD' </dev/null"
        ));
        wait_for("it has a child", || fs::exists(&file).unwrap_or(false))?;
        let both = fs::read_to_string(&file).doing("read their numbers")?;
        fs::remove_file(&file).doing("remove what was read")?;
        let (pid, child) = both.split_once(' ').unwrap_or_default();
        if way == "0" {
            s.ok(&format!("shoal move {pid} 1"))?;
        }
        faults.watch(point)?;
        let moving = s.start(&format!("shoal move {pid} {way}"));
        let held = faults.reached(Duration::from_secs(15))?;
        s.ok(&format!("kill -KILL {child}; while kill -0 {child}; do sleep 0.02; test $((i++)) -lt 5 || break; done"))?;
        drop(held);
        let ended = wait_for("it has ended", || !parent.is_going());
        s.sh(&format!("kill -KILL {pid}"))?;
        let told = parent.end()?.out;
        ended?;
        same("what its wait has returned", told.as_str(), "-1 1")?;
        moving.end()?;
        wait_for("nothing is left of them", || s.count("sleep 1076") == 0)
    };
    for how in ["\"IGNORE\"", "\"DEFAULT\", POSIX::SigSet->new, SA_NOCLDWAIT"] {
        let ways = AWAY.map(|point| ("1", point)).into_iter().chain(BACK.map(|point| ("0", point)));
        for (way, point) in ways {
            each(way, point, how).map_err(|fault| format!("{how}, to {way}, at {point:?}: {fault}"))?;
        }
    }
    Ok(End::Passed)
}

/// A process that takes orphans has a child, and that one a child which ends and is never waited for by it. By each argument some of the three move before the second
/// ends: its letters say who, a small one to the first node, a large one to the third; at `k` the third ends, at `h` the second moves
/// to the front end.
const ZOMBIES: &str = r#"
import ctypes, os, signal, subprocess, sys, time

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
SIGNALS = [signal.SIGUSR1, signal.SIGUSR2]
signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def says(file, what):
    with open("new", "w") as new:
        new.write(str(what))
    os.rename("new", file)


def hears(file):
    while not os.path.exists(file):
        time.sleep(0.002)
    return int(open(file).read())


def is_child(way):
    pid = os.fork()
    if pid == 0:
        signal.sigwait(SIGNALS)
        os._exit(7)
    says("grandchild." + way, pid)
    if signal.sigwait(SIGNALS) == signal.SIGUSR2:
        os.kill(pid, signal.SIGUSR1)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        says("ended." + way, pid)
    signal.sigwait([signal.SIGUSR1])
    os._exit(5)


for way in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        is_child(way)
    grandchild = hears("grandchild." + way)
    pids = {"p": os.getpid(), "c": child, "g": grandchild, "h": child}
    for who in way:
        if who == "k":
            os.kill(child, signal.SIGUSR2)
            hears("ended." + way)
        else:
            node = "front" if who == "h" else "0" if who.islower() else "2"
            subprocess.run(["shoal", "move", str(pids[who.lower()]), node], check=True)
    os.kill(child, signal.SIGUSR1)
    told = []
    try:
        while True:
            told.append(os.waitpid(-1, 0))
    except ChildProcessError:
        print(way, sorted(told) == sorted([(child, 5 << 8), (grandchild, 7 << 8)]) or told)
"#;

fn move_leaves_a_zombie(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_leaves_a_zombie", 3)?;
    let program = place.fresh("zombies.py");
    fs::write(&program, ZOMBIES).doing("write a program")?;
    let mut ways =
        vec!["k", "ck", "gk", "cgk", "gck", "kc", "kcP", "gcPk", "cPk", "cPkp", "gcPCk", "kcCP", "kh", "khP", "kch"];
    if !comes_home() {
        ways.retain(|way| !way.contains('h'));
    }
    let told =
        s.ok(&format!("cd $(mktemp -d); shoal run -n 1 python3 {} {} </dev/null", program.display(), ways.join(" ")))?;
    let expected: String = ways.iter().map(|way| format!("{way} True\n")).collect();
    same("who is told of", told.trim(), expected.trim())?;
    Ok(End::Passed)
}

/// Whoever of the three has moved, and though it is one no more as soon as it has waited: what was orphaned before is its child.
fn move_of_what_a_subreaper_gets(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_of_what_a_subreaper_gets", 3)?;
    let program = compiled_of(place, "real", "subreaper_no_more")?;
    let moves = ["g 1", "c 1", "s 1", "g front", "s front", "c 1 g 2", "g 1 c front", "g 1 s 2 c 1"];
    s.prints(
        &format!(
            "cd $(mktemp -d); for moves in {}; do
                rm -f who; shoal run -n 0 {} 2>who & r=$!; until test -s who; do sleep 0.01; done; read s c g <who
                set -- $moves; while test $# -gt 0; do eval pid=\\$$1; shoal move $pid $2; shift 2; done
                kill -USR1 $c; until test \"$(ps -o ppid= -p $g | tr -d ' ')\" = $s; do sleep 0.01; done; sleep 0.05; kill -USR1 $g; wait $r
            done",
            moves.map(|moves| format!("'{moves}'")).join(" "),
            program.display()
        ),
        &["3 4"; 8].join("\n"),
    )?;
    Ok(End::Passed)
}

/// The orphan moves, or its subreaper, when it has been given to that. Where all begin, what moves before the parent ends, and what after.
fn move_of_what_a_subreaper_has_got(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_of_what_a_subreaper_has_got", 3)?;
    let program = compiled_of(place, "real", "subreaper_no_more")?;
    let mut ways = vec![("shoal run -n 1", "s 0", "g 0"), ("shoal run -n 1", "s 0", "g 2 g 0 s 1")];
    if comes_home() {
        ways.extend([("", "s 0", "g 1"), ("", "s 0", "g 1 s 2"), ("", "s 0", "s 1 g 1"), ("", "s 0", "s front")]);
    }
    for (run, before, after) in ways {
        let told = s.ok(&format!(
            "cd $(mktemp -d); {run} {} 2>who </dev/null & r=$!; until test -s who; do sleep 0.01; done; read s c g <who
            moves() {{ while test $# -gt 0; do eval pid=\\$$1; shoal move $pid $2; shift 2; done; }}
            moves {before}
            kill -USR1 $c; until test \"$(ps -o ppid= -p $g | tr -d ' ')\" = $s; do sleep 0.01; done
            moves {after}
            kill -USR1 $g; wait $r",
            program.display()
        ))?;
        same(&format!("{run:?}, {before}, then {after}"), told.trim(), "3 4")?;
    }
    Ok(End::Passed)
}
