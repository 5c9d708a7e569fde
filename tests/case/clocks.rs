//! Clocks that count from the start of a machine, between machines that were started at other times.

use super::checkpoint::{run, shoal, start, told, until_it_is};
use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::session::Plan;
use crate::lab::{Doing, Res};
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) const SCENES: &[Scene] = &[
    ("clocks_go_home", clocks_go_home),
    ("clocks_are_its_own_again", clocks_are_its_own_again),
    ("clocks_without_the_right", clocks_without_the_right),
];

/// Looks at CLOCK_MONOTONIC, CLOCK_BOOTTIME and CLOCK_MONOTONIC_COARSE all the time until it is signalled, and sleeps until a time that was set before.
const WATCHES: &str = r#"
import signal, sys, threading, time
clocks = [1, 7, 6]
over = []
signal.signal(signal.SIGTERM, lambda *_: over.append(1))
first = latest = [time.clock_gettime_ns(clock) for clock in clocks]
real = time.time_ns()
ends = []
lock = threading.Lock(); lock.acquire()
def waits():
    # The wait is for a time of CLOCK_MONOTONIC (sem_clockwait(3)).
    begun = time.clock_gettime_ns(1)
    lock.acquire(timeout=2)
    ends.append((time.clock_gettime_ns(1) - begun) / 1e9)
thread = threading.Thread(target=waits); thread.start()
print("up", flush=True)
while not over:
    now = [time.clock_gettime_ns(clock) for clock in clocks]
    for clock, before, after in zip(clocks, latest, now):
        if after < before:
            sys.exit(f"clock {clock} went back by {before - after} ns")
    latest = now
thread.join()
if not 1.99 <= ends[0] <= 6:
    sys.exit(f"a wait for 2 s took {ends[0]} s")
gone, really = (time.clock_gettime_ns(1) - first[0]) / 1e9, (time.time_ns() - real) / 1e9
if not really - 0.3 <= gone <= really + 0.3:
    sys.exit(f"it has counted {gone} s, it were {really} s")
"#;

/// The machines do not tell each other by which number they differ: it is measured.
fn foreign(place: &Place, name: &str) -> Res<Sandbox> {
    Sandbox::with(place, name, 2, Plan { clocks: Some("foreign"), ..Plan::default() })
}

/// Away, to the front end, and from there to nodes again.
fn clocks_go_home(place: &Place) -> Res<End> {
    let s = foreign(place, "clocks_go_home")?;
    s.ok(&format!(
        "cd $(mktemp -d); cat >p.py <<'P'\n{WATCHES}\nP
        python=$(python3 -c 'import sys; print(sys.executable)')
        shoal run -n 0 $python -S p.py >out & p=$!
        until grep -q up out; do sleep 0.05; done
        for n in 1 0 1 front 1 0 front 0; do
            for i in $(seq 100); do shoal move $p $n 2>error && break; sleep 0.02; done
            case $(shoal where $p) in $n|n$n) ;; *) false;; esac || {{ cat error; exit 1; }}
        done
        kill $p; wait $p"
    ))?;
    Ok(End::Passed)
}

/// On a busy machine the difference may be mistaken by so much that a process stays ahead of the clock that it had.
const TRIES: usize = 4;

/// Where the clock is that a process had at first, it has that and no namespace of its own; elsewhere it has, and so has its child.
fn clocks_are_its_own_again(place: &Place) -> Res<End> {
    let s = foreign(place, "clocks_are_its_own_again")?;
    let mut done = (0..TRIES).map(|_| to_and_fro(&s));
    done.find(Res::is_ok).unwrap_or_else(|| to_and_fro(&s))?;
    Ok(End::Passed)
}

fn to_and_fro(s: &Sandbox) -> Res {
    let perl = "perl -e '$|=1; sub at { print readlink(\"/proc/self/ns/time\"), \"\\n\" }
        $SIG{USR1} = sub { at(); my $child = fork; if (!$child) { at(); exit } waitpid $child, 0; print \".\\n\" };
        at(); sleep 1 while 1'";
    s.ok(&format!(
        "set -e; cd $(mktemp -d)
        of() {{ shoal run -n $1 readlink /proc/self/ns/time; }}
        shoal run -n 0 {perl} >out & p=$!
        trap 'kill $p; wait $p' EXIT
        answers() {{ grep -c '^[.]' out; }}
        ask() {{ before=$(answers); kill -USR1 $p; until test $(answers) -gt $before; do sleep 0.02; done; tail -3 out | head -2 | uniq; }}
        until test -s out; do sleep 0.02; done
        test $(cat out) = $(of 0); test $(of 0) != $(of 1)
        shoal move $p 1; away=$(ask); test $(echo \"$away\" | wc -l) = 1; test $away != $(of 0); test $away != $(of 1)
        shoal move $p 0; test $(ask) = $(of 0)
        shoal move $p 1; test $(ask) != $(of 1)
        shoal move $p front; test $(ask) != $(readlink /proc/self/ns/time)
        shoal move $p 0; test $(ask) = $(of 0)
        trap - EXIT; kill $p"
    ))
    .map(drop)
}

/// Who may make no time namespace restores what need not go back, and hears why if it would.
fn clocks_without_the_right(place: &Place) -> Res<End> {
    if !Path::new("/proc/self/ns/time").exists() {
        return Ok(End::Missing("time namespaces".into()));
    }
    let (image, log) = (place.fresh("clocks.image"), place.fresh("clocks.out"));
    let out = std::fs::File::create(&log).doing("make a file")?;
    std::os::unix::fs::chown(&log, Some(1000), Some(1000)).doing("give a file away")?;
    let user = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"];
    let mut child = start(&[&user[..], &["sleep", "1"]].concat(), &out)?;
    let pid = child.id().to_string();
    until_it_is(&pid, "sleep")?;
    let done = run(place, &["checkpoint", &pid, "--stop", "-o", &image.display().to_string()])?;
    same("what it says", told(&done), String::new())?;
    child.wait().doing("wait for the program")?;
    std::os::unix::fs::chown(&image, Some(1000), Some(1000)).doing("give a file away")?;
    let restored = |ahead: &str| {
        let mut command = Command::new("unshare");
        command.args(["--time", "--fork", "--monotonic", ahead, "--boottime", ahead]).args(user);
        command.args(["--inh-caps=+checkpoint_restore", "--ambient-caps=+checkpoint_restore"]);
        command.arg(shoal(place)?).arg("restore").arg(&image).env("SHOAL_BOOT", "another").stdin(Stdio::null());
        command.output().doing("run shoal restore")
    };
    let done = restored("-100")?;
    same("the status where they would go back", done.status.code(), Some(1))?;
    let said = told(&done);
    let why = "s: make a time namespace: Operation not permitted";
    holds(&format!("it says why: {said}"), said.contains("its clocks would go back by") && said.contains(why))?;
    same("the status where they go on", restored("100")?.status.code(), Some(0))?;
    Ok(End::Passed)
}
