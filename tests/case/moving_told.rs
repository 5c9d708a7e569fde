//! What is said of a move before it and on its way, and moves that are called off.

use super::moving_faults::{stage, Victim};
use super::scene::{holds, same, wait_for, Going, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;
use std::fs;
use std::time::Duration;

pub(crate) const SCENES: &[Scene] = &[
    ("move_explained", move_explained),
    ("move_progress", move_progress),
    ("move_called_off_busy", move_called_off_busy),
    ("move_called_off_still", move_called_off_still),
    ("restart_then_asked_where", restart_then_asked_where),
    ("move_stopped_back_to_its_parent", move_stopped_back_to_its_parent),
];

/// Nothing moves, how it would go is said, and just that is in the way which a move names.
fn move_explained(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_explained", 2)?;
    let script = "shoal run -n 0 sleep 1071 </dev/null & small=$!
        shoal run -n 0 perl -e '$x = \"x\" x 30_000_000; $0 = \"wide\"; sleep 1 while 1' & large=$!
        until test $(shoal ps | grep -c 'sleep 1071$\\|wide$') = 2; do sleep 0.1; done
        shoal move --explain $small $large 1; echo $?
        shoal where $small; shoal where $large
        shoal move --explain --from 0 --all | grep -c 'would go from node n0 to node n1$'
        shoal move --explain $small 0; echo $?
        kill $small $large";
    let told = s.ok(script)?;
    let lines: Vec<&str> = told.lines().collect();
    let says = |at: usize, words: &[&str]| {
        let line = lines.get(at).copied().unwrap_or_default();
        holds(&format!("{line:?} says {words:?}"), words.iter().all(|word| line.contains(word)))
    };
    says(0, &["would go from node n0 to node n1"])?;
    says(1, &["by stop-and-copy", "only 0 bytes are in large private mappings"])?;
    says(2, &["KiB would travel", "MiB are resident"])?;
    says(3, &["zero pages", "MiB of files' pages would not travel"])?;
    says(5, &["by pre-copy", "MiB are in large private mappings", "stands still for"])?;
    same("status, and where they are", lines.get(8..12), Some(&["0", "n0", "n0", "2"][..]))?;
    says(12, &["is on node n0"])?;
    same("status", lines.get(13..), Some(&["0"][..]))?;
    // Each thing that it says is in the way is among those that the move names, and the other way round.
    s.ok("cd $(mktemp -d); shoal run -n 0 perl -e 'use Socket; socket($s, PF_INET, SOCK_STREAM, 0); pipe(A, B); $SIG{TRAP} = q(IGNORE);
            fork or sleep 1000; $0 = q(obstinate); sleep 1 while 1' & p=$!
        until shoal ps | grep -q 'obstinate$'; do sleep 0.1; done
        shoal move --explain $p 1 >/run/told; test $? = 1 || exit 7
        shoal move $p 1 2>/run/refused && exit 8
        sed -n '/cannot go/,/otherwise/p' /run/told | sed '1d;$d;s/^  //' >/run/each
        test $(wc -l </run/each) -ge 3 || { cat /run/told; exit 9; }
        while read -r line; do grep -qF \"$line\" /run/refused || { echo \"$line\"; cat /run/refused; exit 10; }; done </run/each
        test $(sed 's/.*cannot be carried: //' /run/refused | tr ';' '\\n' | wc -l) = $(wc -l </run/each) || { cat /run/refused /run/each; exit 11; }
        shoal move --explain $p 7 | grep -qx '  node n7 is not up' || exit 12
        kill $p $(shoal ps | awk '/obstinate|SOCK_STREAM/ {print $1}'); wait; true")?;
    let line = s.fails("shoal move --explain 1 1", 1)?;
    holds(&format!("{line:?} says why"), line.contains("the front end's own"))?;
    let others = "setpriv --reuid 61001 --regid 61001 --clear-groups shoal run -n 0 sleep 1072 & p=$!
        until shoal ps | grep -q 'sleep 1072$'; do sleep 0.1; done
        setpriv --reuid 61002 --regid 61002 --clear-groups shoal move --explain $p 1 2>&1 | grep -o 'another user.s'; kill $p";
    s.prints(others, "another user's")?;
    Ok(End::Passed)
}

/// Memory that takes longer than a second, written again and again; it counts into the file of its argument.
const BUSY: &str = r"$x = q(x) x 600_000_000; $0 = q(busy); open F, q(>>), $ARGV[0];
    for ($n = 1;; $n++) { substr($x, ($n * 409600 + $_ * 4096) % 600_000_000, 1) = q(y) for 1..50; syswrite F, qq($n\n) if $n % 20 == 0; select undef, undef, undef, .0005 }";

fn busy(s: &Sandbox, place: &Place) -> Res<(String, String, Going)> {
    let file = place.fresh("busy").to_string_lossy().into_owned();
    let going = s.start(&format!(
        "shoal run -n 0 perl -e '{BUSY}' {file} </dev/null >/dev/null & echo $! >{file}.pid; wait $!; echo $?"
    ));
    wait_for("it counts", || fs::read_to_string(&file).is_ok_and(|text| !text.is_empty()))?;
    let pid = fs::read_to_string(format!("{file}.pid")).map_err(|e| e.to_string())?.trim().to_string();
    Ok((pid, file, going))
}

/// It runs on where it was.
fn runs_on(s: &Sandbox, pid: &str, file: &str) -> Res {
    s.prints(&format!("shoal where {pid}"), "n0")?;
    let lines = || fs::read_to_string(file).map_or(0, |text| text.lines().count());
    let before = lines();
    wait_for("it counts on", || lines() > before + 20)
}

fn move_progress(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_progress", 2)?;
    let (pid, _, going) = busy(&s, place)?;
    // A terminal of its own.
    let seen =
        s.ok(&format!("script -qec 'shoal move {pid} 1; echo st $?' /dev/null </dev/null; shoal where {pid}"))?;
    let line = seen.split('\r').find(|part| part.contains(" sent of ")).unwrap_or_default().to_string();
    // Nothing is shown in the first second: which round it is by then is the machine's speed.
    let words = [format!("\u{1b}[K{pid}: "), "iB sent of ".into(), "iB/s, round ".into()];
    holds(&format!("{line:?} says {words:?}"), words.iter().all(|word| line.contains(word)))?;
    holds("one line only", seen.lines().filter(|line| line.contains(" sent")).count() == 1)?;
    holds(&format!("{seen:?} ends with it cleared"), seen.contains("\r\u{1b}[Kst 0\r\n") && seen.ends_with("n1"))?;
    // Nothing for who is no terminal.
    s.prints(&format!("shoal move {pid} 0 2>&1; echo $?; shoal where {pid}; kill {pid}"), "0\nn0")?;
    same("its end", going.end()?.out.trim(), "143")?;
    Ok(End::Passed)
}

/// Ctrl-C while the memory of one that writes goes, from the front end and from a node.
fn move_called_off_busy(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_called_off_busy", 2)?;
    let (pid, file, going) = busy(&s, place)?;
    for after in ["0.05", "0.3", "0.7"] {
        s.prints(&format!("timeout -s INT {after} shoal move {pid} 1; echo $?"), "124")?;
        runs_on(&s, &pid, &file)?;
    }
    s.prints(&format!("shoal run -n 1 timeout -s INT 0.4 shoal move {pid} 1; echo $?"), "124")?;
    s.until("shoal ps | awk '/busy$/ {print $2}' | grep -qx n0")?;
    runs_on(&s, &pid, &file)?;
    wait_for("nothing is left of it elsewhere", || s.count("shoal vessel") == 0 && s.count("busy") == 1)?;
    s.prints(&format!("shoal move {pid} 1; shoal where {pid}; kill {pid}"), "n1")?;
    same("its end", going.end()?.out.trim(), "143")?;
    Ok(End::Passed)
}

/// Ctrl-C when it stands still already, and is not bound yet.
fn move_called_off_still(place: &Place) -> Res<End> {
    let (s, faults) = stage(place, "move_called_off_still", Victim::FrontDaemon)?;
    let (pid, file, going) = busy(&s, place)?;
    for point in ["source asks", "out may leave", "out held", "in rebuilt"] {
        faults.watch(point)?;
        let moving = s.start(&format!("shoal move {pid} 1 & echo $! >{file}.move; wait $!; echo $?"));
        let held = faults.reached(Duration::from_secs(60))?;
        s.ok(&format!("kill -TERM $(cat {file}.move)"))?;
        same("its end", moving.end()?.out.trim(), "143")?;
        // The old node has heard of it before it goes on.
        s.ok("sleep 0.3")?;
        drop(held);
        runs_on(&s, &pid, &file).map_err(|fault| format!("at {point:?}: {fault}"))?;
    }
    s.prints(&format!("shoal move {pid} 1; shoal where {pid}; kill {pid}"), "n1")?;
    same("its end", going.end()?.out.trim(), "143")?;
    Ok(End::Passed)
}

/// A stopped child comes to where its parent is, by whichever way: that is told of each stop once, and of each going on, also when that comes on the way.
fn move_stopped_back_to_its_parent(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_stopped_back_to_its_parent", 2)?;
    let family = include_str!("family.py");
    let begin = format!(
        "cd $(mktemp -d); cat >family.py <<'P'\n{family}P
        told() {{ for i in $(seq 1000); do test $(wc -l <got) -ge $1 && return; sleep 0.01; done; echo \"told less than $1\"; }}
        shoal run -n 0 python3 -S family.py </dev/null >got & p=$!; until test -s child -a -e up; do sleep 0.01; done; c=$(cat child)
        until shoal where $c >/run/where 2>&1; do sleep 0.01; done; n=0\n"
    );
    s.prints(
        &format!(
            "{begin} for way in 'c 1 c 0' 'p 1 c 1' 'c 0 p 0' 'p 1 p 0' 'c 1 c 0 c 1 c 0'; do
                kill -STOP $c; told $((n += 1)); set -- $way
                while test $# -gt 0; do test $1 = c && q=$c || q=$p; shoal move $q $2; shift 2; done
                kill -CONT $c; told $((n += 1))
            done
            kill -TERM $c; wait $p; grep -v '^child' got | sed 's/ for.*//' | paste -sd ' '; grep -c ' for n1' got"
        ),
        &format!("{}exited 5\n2", "stopped 19 continued ".repeat(5)),
    )?;
    s.prints(
        &format!(
            "{begin} for by in 'kill' 'shoal run -n 0 kill' 'shoal run -n 1 kill'; do for i in 00 01 02 03; do
                shoal move $c 1; kill -STOP $c; told $((n += 1)); shoal move $c 0 & m=$!; sleep 0.$i; $by -CONT $c; wait $m; told $((n += 1))
            done; done
            kill -TERM $c; wait $p; grep -v '^child' got | sed 's/ for.*//' | paste -sd ' '"
        ),
        &format!("{}exited 5", "stopped 19 continued ".repeat(12)),
    )?;
    Ok(End::Passed)
}

/// Who asks where a process is, or moves one, whose node has not come back yet, waits for that, and is told what is true.
fn restart_then_asked_where(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "restart_then_asked_where", 2)?;
    // Not the child of what runs on the node: streams that are relayed would keep it there after a restart.
    let parent = s.start("exec shoal run -n 0 sh -c 'sleep 1036 </dev/null >/dev/null 2>&1 & wait'");
    s.until("pgrep -xf 'sleep 1036'")?;
    let pid = s.ok("pgrep -xf 'sleep 1036'")?;
    let pid = pid.trim();
    s.ok("shoal fault front kill-daemon")?;
    s.ok("shoal fault n0 link-down")?;
    s.ok("shoal fault front start-daemon")?;
    let asked = s.start(&format!("shoal where {pid}"));
    let moved = s.start(&format!("shoal move {pid} n1"));
    s.until("shoal nodes | grep -qw '^n1 *up'")?;
    std::thread::sleep(Duration::from_millis(300));
    holds("both wait", asked.is_going() && moved.is_going())?;
    s.ok("shoal fault n0 link-up")?;
    let asked = asked.end()?;
    same(&asked.text(), asked.out.trim(), "n0")?;
    let moved = moved.end()?;
    same(&moved.text(), moved.code(), Some(0))?;
    s.prints(&format!("shoal where {pid}"), "n1")?;
    s.ok("shoal fault front kill-daemon")?;
    s.ok("shoal fault n1 link-down")?;
    s.ok("shoal fault front start-daemon")?;
    let line = s.fails(&format!("shoal move {pid} n0"), 1)?;
    same(&line, line.contains("is no process of the space"), true)?;
    s.until(&format!("! kill -0 {pid} 2>/dev/null"))?;
    same("its parent, which waits for it", parent.end()?.code(), Some(0))?;
    Ok(End::Passed)
}
