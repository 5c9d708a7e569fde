//! Ordinary users who mean harm: what they do to themselves hurts nobody else.

use super::scene::{holds, same, wait_for, Going, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) const SCENES: &[Scene] = &[
    ("siginfo_that_does_not_answer", siginfo_that_does_not_answer),
    ("arguments_that_do_not_answer", arguments_that_do_not_answer),
    ("polled_list_that_does_not_answer", polled_list_that_does_not_answer),
    ("caller_who_executes_a_setuid_program", caller_who_executes_a_setuid_program),
    ("caller_whose_number_is_anothers", caller_whose_number_is_anothers),
    ("caller_with_capabilities_of_a_namespace", caller_with_capabilities_of_a_namespace),
    ("caller_who_asks_for_more", caller_who_asks_for_more),
    ("stand_in_that_claims_others", stand_in_that_claims_others),
    ("stand_in_that_claims_a_spawn", stand_in_that_claims_a_spawn),
    ("program_whose_exec_does_not_end", program_whose_exec_does_not_end),
    ("program_that_cannot_be_traced", program_that_cannot_be_traced),
];

pub(crate) const DEMANDING: &[Scene] = &[
    ("strangers_keep_nobody_out", strangers_keep_nobody_out),
    ("user_who_fills_the_socket", user_who_fills_the_socket),
    ("user_who_asks_without_end", user_who_asks_without_end),
    ("stand_in_that_executes", stand_in_that_executes),
    ("stand_in_that_lies", stand_in_that_lies),
    ("stand_in_that_never_comes", stand_in_that_never_comes),
    ("storm_of_threads", storm_of_threads),
];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --clear-groups";
const BOB: &str = "setpriv --reuid 61002 --regid 61002 --clear-groups";
/// Longer than a node's daemon may hang before its node is lost.
const LONG_ENOUGH: Duration = Duration::from_secs(7);
/// More than a busy machine takes for a command of another user, and less than the time after which a node is lost.
const SLOW: Duration = Duration::from_secs(4);

/// Compiles a program of this directory.
pub(super) fn compiled(place: &Place, name: &str) -> Res<PathBuf> {
    compiled_of(place, "hostile", name)
}

/// The same of another directory.
pub(super) fn compiled_of(place: &Place, directory: &str, name: &str) -> Res<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("case").join(directory).join(format!("{name}.c"));
    let program = place.fresh(name);
    let done = Command::new("cc").args(["-std=gnu11", "-O1", "-pthread", "-o"]).arg(&program).arg(&source).output();
    let done = done.doing("run cc")?;
    match done.status.success() {
        true => Ok(program),
        false => Err(format!("cc {name}.c: {}", String::from_utf8_lossy(&done.stderr))),
    }
}

/// The program that serves a file system and does not answer, and the device it needs: everywhere but here users may open that.
fn unanswered(place: &Place, s: &Sandbox) -> Res<String> {
    let (program, device) = (compiled(place, "unanswered")?, place.fresh("fuse"));
    s.ok(&format!("mknod -m 666 {} c 10 229", device.display()))?;
    Ok(format!("env FUSE={} {}", device.display(), program.display()))
}

/// For a while another user on that node notices nothing.
pub(super) fn others_go_on(s: &Sandbox, more: &str) -> Res {
    let start = Instant::now();
    while start.elapsed() < LONG_ENOUGH {
        let asked = Instant::now();
        s.prints(&format!("{BOB} shoal run -n 0 sh -c 'sleep 0.01 & wait; echo well'{more}"), "well")?;
        holds("it is not slow", asked.elapsed() < SLOW)?;
        std::thread::sleep(Duration::from_millis(300));
    }
    Ok(())
}

/// The daemon is asked by a number that has become root's since it connected: what is started is the user's all the same.
fn caller_who_executes_a_setuid_program(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "caller_who_executes_a_setuid_program", 2)?;
    let (program, sleep) = (compiled(place, "executes_meanwhile")?, place.fresh("rootsleep"));
    s.ok(&format!("cp /bin/sleep {0}; chmod 4755 {0}", sleep.display()))?;
    for (from, to) in [("", "0"), ("shoal run -n 0 ", "1")] {
        let dir = place.fresh("asked");
        let dir = dir.display();
        s.ok(&format!("mkdir -m 777 {dir}"))?;
        s.ok(&format!("{ANN} {from}{} {dir} {to} {} {dir}/made", program.display(), sleep.display()))?;
        s.prints(&format!("stat -c %u {dir}/made"), "61001")?;
    }
    Ok(End::Passed)
}

/// Whoever makes a user namespace has all capabilities in it, and /proc says so: what such a one starts elsewhere has none.
fn caller_with_capabilities_of_a_namespace(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "caller_with_capabilities_of_a_namespace", 2)?;
    // The program itself has a capability of the file's, and so loses those that are ambient when it is executed.
    let copy = place.fresh("shoal");
    let copy = copy.display();
    s.ok(&format!("cp $(command -v shoal) {copy}"))?;
    let capabilities = "-sys_resource"; // Not everywhere has root that.
    let alone = format!("unshare -Uc --keep-caps setpriv --ambient-caps {capabilities} --inh-caps {capabilities}");
    let sets = "grep -E \"Cap(Inh|Prm|Eff|Amb):.*[1-9a-f]\" /proc/self/status";
    holds("it has some there", !s.ok(&format!("{ANN} {alone} {sets}"))?.is_empty())?;
    for from in ["", "shoal run -n 0 "] {
        s.prints(&format!("{ANN} {from}{alone} {copy} run -n 1 {sets}; echo $?"), "1")?;
    }
    s.prints(&format!("unshare -Ur setpriv --inh-caps +all {copy} run -n 0 echo well"), "well")?;
    Ok(End::Passed)
}

/// The process that has connected has ended, and its number is another user's by the time somebody asks on that connection: nothing is started in that one's
/// place.
fn caller_whose_number_is_anothers(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "caller_whose_number_is_anothers", 2)?;
    let (program, dir) = (compiled(place, "asks_as_another")?, place.fresh("asked"));
    let (program, dir) = (program.display(), dir.display());
    s.ok(&format!("mkdir -m 777 {dir}"))?;
    let script = format!(
        "cursor=/proc/sys/kernel/ns_last_pid
         {ANN} {program} {dir} 0 > {dir}/said & asks=$!; wait $asks
         until [ \"$other\" = $asks ]; do
             kill $other; read last < $cursor; echo $((asks - 1)) > $cursor
             sleep 1043 & other=$!; echo $last > $cursor
         done 2>/dev/null
         touch {dir}/go; until [ -s {dir}/said ]; do sleep 0.01; done
         kill $other; wait $other; echo $?; cat {dir}/said"
    );
    let seen = s.ok(&format!("bash -c '{script}' 2>/dev/null"))?;
    holds(&format!("it is refused: {seen}"), seen.starts_with("143\n") && seen.contains("the caller is gone"))?;
    s.ok(&format!("test ! -e {dir}/made"))?;
    Ok(End::Passed)
}

/// A program gets no higher limit and no better priority than who asks for it has, whatever the message says.
fn caller_who_asks_for_more(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "caller_who_asks_for_more", 2)?;
    let program = compiled(place, "asks_for_more")?;
    for (from, to) in [("", "0"), ("shoal run -n 0 ", "1")] {
        let dir = place.fresh("asked");
        let dir = dir.display();
        s.ok(&format!("mkdir -m 777 {dir}"))?;
        s.ok(&format!("{ANN} {from}{} {dir} {to} {dir}/got", program.display()))?;
        s.prints(&format!("cat {dir}/got"), "100 7")?;
    }
    Ok(End::Passed)
}

/// Connections without end, half a question on each, and descriptors: others are served, and the daemon stays small.
fn user_who_fills_the_socket(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "user_who_fills_the_socket", 2)?;
    let (program, dir) = (compiled(place, "fills_the_socket")?, place.fresh("full"));
    let (program, dir) = (program.display(), dir.display());
    s.ok(&format!("mkdir -m 777 {dir}"))?;
    let on_front = s.start(&format!("{ANN} {program} {dir}/front; echo $?"));
    let on_node = s.start(&format!("{ANN} shoal run -n 0 {program} {dir}/node; echo $?"));
    s.until(&format!("test -e {dir}/front -a -e {dir}/node"))?;
    s.prints(&format!("{BOB} shoal run -n 0 shoal run -n 1 echo well"), "well")?;
    let daemon = "$(pgrep -o -f 'shoal front')";
    for most in [format!("$(ls /proc/{daemon}/fd | wc -l) -lt 3000"), format!("$(ps -o rss= -p {daemon}) -lt 300000")] {
        s.ok(&format!("test {most}"))?;
    }
    s.fails(&format!("{ANN} shoal nodes"), 1)?;
    s.ok(&format!("pkill -KILL -f '{program} {dir}'"))?;
    on_front.end()?;
    on_node.end()?;
    s.prints(&format!("{ANN} shoal nodes | wc -l"), "3")?;
    Ok(End::Passed)
}

/// Questions as fast as they can be said, of which the answers are read or not: others are served.
fn user_who_asks_without_end(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "user_who_asks_without_end", 2)?;
    let asks = r#"
import os, socket, sys, threading
def ask(question, reads):
    while True:
        c = socket.socket(socket.AF_UNIX); c.connect("/run/shoal/shoal.sock")
        if reads: threading.Thread(target=lambda: [None for _ in iter(lambda: c.recv(65536), b"")], daemon=True).start()
        try:
            while True: c.sendall(question * 4000)
        except OSError: c.close()
for question in b"\0\0\0\3\x82\1\x80", b"\0\0\0\3\x82\2\x80":
    for reads in True, False: os.fork() or ask(question, reads)
os.wait()
"#;
    let asking = s.start(&format!("{ANN} /usr/bin/python3 - <<'EOF'{asks}EOF"));
    s.until("test $(pgrep -u 61001 python3 | wc -l) = 5")?;
    others_go_on(&s, "")?;
    holds("it goes on asking", asking.is_going())?;
    s.ok("pkill -KILL -u 61001")?;
    asking.end()?;
    s.prints("shoal nodes | grep -c up", "2")?;
    Ok(End::Passed)
}

/// Others wait for a process that executes a program until it has closed its files, and closing that one waits for the daemon.
fn stand_in_that_executes(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "stand_in_that_executes", 2)?;
    let (program, dir) = (compiled(place, "executes_as_stand_in")?, place.fresh("asks"));
    let (program, dir) = (program.display(), dir.display());
    s.ok(&format!("mkdir -m 777 {dir} {dir}/front {dir}/node"))?;
    let on_front = s.start(&format!("{ANN} {program} {dir}/front 1; echo $?"));
    let on_node = s.start(&format!("{ANN} shoal run -n 0 {program} {dir}/node 1; echo $?"));
    others_go_on(&s, "; shoal ps >/dev/null; ps -ef >/dev/null")?;
    on_front.end()?;
    on_node.end()?;
    wait_for("nothing is left of it", || s.count("sleep 100") == 0)?;
    let asked = Instant::now();
    s.prints("shoal run -n 1 echo well", "well")?;
    holds("nor waits anything for what did not come", asked.elapsed() < SLOW)?;
    s.prints("shoal nodes | grep -c up", "2")?;
    Ok(End::Passed)
}

/// Whatever a user's own program does in place of `shoal run`, on either machine: in the end nothing of it is left, and others noticed nothing.
fn stand_in_that_lies(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "stand_in_that_lies", 2)?;
    let (program, dir) = (compiled(place, "lies_as_stand_in")?, place.fresh("asks"));
    let (program, dir) = (program.display(), dir.display());
    s.ok(&format!("mkdir -m 777 {dir} {dir}/front {dir}/node"))?;
    let seed = std::process::id() % 10_000;
    let daemon = "$(pgrep -o -f 'shoal front')";
    let open = || s.ok(&format!("ls /proc/{daemon}/fd | wc -l"))?.parse::<usize>().doing("count descriptors");
    s.prints(&format!("{ANN} shoal run -n 0 echo well"), "well")?;
    let before = open()?;
    let on_front = s.start(&format!("{ANN} {program} {dir}/front 1 6 {seed}; echo $?"));
    let on_node = s.start(&format!("{ANN} shoal run -n 0 {program} {dir}/node 1 6 {seed}; echo $?"));
    others_go_on(&s, "; shoal ps >/dev/null; ps -ef >/dev/null")?;
    on_front.end()?;
    on_node.end()?;
    // What it has forked after it asked from a node is only on that node.
    s.sh(
        "for on in '' 'shoal run -n 0' 'shoal run -n 1'; do $on pkill -KILL -u 61001; $on pkill -CONT -u 61001; done",
    )?;
    wait_for("nothing is left on the front end", || s.sh("pgrep -u 61001").is_ok_and(|found| found.out.is_empty()))?;
    wait_for("nor on the nodes", || s.count("sleep 100") == 0 && s.count("lies_as_stand_in") == 0)?;
    s.prints("shoal ps --json", "[]")?;
    // Hundreds of times it asked; some processes of the front end are known since as kin.
    wait_for("no descriptor is left", || open().is_ok_and(|now| now <= before + 8))?;
    s.prints("shoal nodes | grep -c up", "2")?;
    s.prints(&format!("{ANN} shoal run -n 0 shoal run -n 1 echo well"), "well")?;
    Ok(End::Passed)
}

/// Told to wait for its children, it says that others have ended: a process of root's, and the program that another node runs for root.
fn stand_in_that_claims_others(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "stand_in_that_claims_others", 2)?;
    let (program, dir) = (compiled(place, "claims_others")?, place.fresh("asks"));
    let (program, dir) = (program.display(), dir.display());
    s.ok(&format!("mkdir -m 777 {dir}"))?;
    let going =
        [s.start("shoal run -n 0 sleep 1000; echo $?"), s.start("shoal run -n 0 shoal run -n 1 sleep 1001; echo $?")];
    let victims =
        ["pgrep -xf '(shoal run -n 0 )?sleep 1000'", "pgrep -xf '(shoal run -n 0 shoal run -n 1 )?sleep 1001'"];
    for victim in victims {
        s.until(&format!("shoal ps | grep -qw \"$({victim})\""))?;
    }
    let [body, stand_in] = victims;
    s.prints(&format!("{ANN} shoal run -n 0 {program} {dir} 1 $({body}) $({stand_in})"), "told to wait")?;
    for (victim, node) in [(body, "n0"), (stand_in, "n1")] {
        s.prints(&format!("shoal where $({victim})"), node)?;
    }
    holds("they go on", going.iter().all(Going::is_going))?;
    s.ok(&format!("kill $({body}) $({stand_in})"))?;
    for one in going {
        same("how they end", one.end()?.out.trim(), "143")?;
    }
    Ok(End::Passed)
}

/// Told to clone a program, it says that it has, and has not: who waits for that program is told that it was not started.
fn stand_in_that_claims_a_spawn(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "stand_in_that_claims_a_spawn", 2)?;
    let (program, dir) = (compiled(place, "claims_a_spawn")?, place.fresh("asks"));
    let (program, dir) = (program.display(), dir.display());
    s.ok(&format!("mkdir -m 777 {dir}"))?;
    let claims = s.start(&format!("{ANN} shoal run -n 0 {program} {dir} 1 0; echo $?"));
    s.until(&format!("test -e {dir}/status"))?;
    s.prints(&format!("cat {dir}/status"), "125")?;
    same("its end", claims.end()?.out.trim(), "0")?;
    s.prints("shoal ps --json", "[]")?;
    Ok(End::Passed)
}

/// A user's programs change all the time what their ghosts cannot show, since nobody holds for them: the output of others waits once, and then no more.
fn stand_in_that_never_comes(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "stand_in_that_never_comes", 1)?;
    let (program, dir) = (compiled(place, "never_comes")?, place.fresh("asks"));
    let (program, dir) = (program.display(), dir.display());
    s.ok(&format!("mkdir -m 777 {dir}"))?;
    let asking = s.start(&format!("{ANN} {program} {dir} 0 100"));
    s.until("shoal ps | grep -q 'sleep 0.04'")?;
    let start = Instant::now();
    let mut late = Duration::ZERO;
    while start.elapsed() < 2 * LONG_ENOUGH {
        let asked = Instant::now();
        s.prints(&format!("{BOB} shoal run -n 0 sh -c 'sleep 0.01 & wait; echo well'"), "well")?;
        late += asked.elapsed().saturating_sub(Duration::from_millis(500));
    }
    holds(&format!("others waited {late:?} for it"), late < Duration::from_secs(5))?;
    holds("it goes on", asking.is_going())?;
    s.ok("pkill -KILL -u 61001")?;
    asking.end()?;
    Ok(End::Passed)
}

/// Threads are made as fast as the machine can while thousands of processes are asked for: no number of others is taken, and nobody is killed for it.
fn storm_of_threads(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "storm_of_threads", 1)?;
    let program = compiled(place, "makes_threads")?;
    let many = s.start("shoal run -n 0 bash -c 'for i in $(seq 2000); do sleep 1000 & done; wait' 2>/dev/null");
    s.until("test $(shoal ps | wc -l) -gt 2000")?;
    let storm = s.start(&format!("{ANN} shoal run -n 0 {} 4 6; echo $?", program.display()));
    while storm.is_going() {
        // A node that has no time to answer is said so.
        s.ok("shoal ps >/dev/null || test $? = 1")?;
    }
    same("its end", storm.end()?.out.trim(), "0")?;
    holds("no number of others was taken", !s.logs().contains("that is not this node's"))?;
    s.ok("shoal run -n 0 pkill -KILL -x sleep")?;
    many.end()?;
    Ok(End::Passed)
}

/// The same for ever, with a file of their own that is never closed.
fn program_whose_exec_does_not_end(place: &Place) -> Res<End> {
    does_not_answer(place, "program_whose_exec_does_not_end", "exec")
}

/// A process of which one thread executes a program that is never read, while another one asks for what is added by tracing it.
fn program_that_cannot_be_traced(place: &Place) -> Res<End> {
    does_not_answer(place, "program_that_cannot_be_traced", "usage 1")
}

fn does_not_answer(place: &Place, name: &str, way: &str) -> Res<End> {
    let s = Sandbox::new(place, name, 2)?;
    let program = unanswered(place, &s)?;
    let log = place.fresh("log");
    let stuck = s.start(&format!("{ANN} shoal run -n 0 {program} {way} > {}; echo $?", log.display()));
    s.until(&format!("grep -q ready {}", log.display()))?;
    others_go_on(&s, "; shoal ps >/dev/null")?;
    holds("it has not ended", stuck.is_going())?;
    s.prints("shoal nodes | grep -c up", "2")?;
    s.ok("pkill -KILL -u 61001 unanswered")?;
    stuck.end()?;
    s.prints("shoal run -n 0 echo well", "well")?;
    Ok(End::Passed)
}

/// rt_sigqueueinfo to another node with its siginfo in a page that never comes.
fn siginfo_that_does_not_answer(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "siginfo_that_does_not_answer", 2)?;
    let program = unanswered(place, &s)?;
    let target = s.start(&format!("{ANN} shoal run -n 1 sleep 1041; echo $?"));
    s.until("shoal ps | grep -q 'sleep 1041$'")?;
    let pid = s.ok("shoal ps | awk '/sleep 1041$/ {print $1}'")?;
    let stuck = s.start(&format!("{ANN} shoal run -n 0 {program} queue {pid}; echo $?"));
    s.until("shoal ps | grep -q 'queue [0-9]'")?;
    others_go_on(&s, "")?;
    holds("both go on", target.is_going() && stuck.is_going())?;
    s.ok(&format!("pkill -KILL -u 61001 unanswered; kill -KILL {pid}"))?;
    stuck.end()?;
    target.end()?;
    s.prints("shoal run -n 0 echo well", "well")?;
    Ok(End::Passed)
}

/// The arguments of a process whose memory's lock is never let go.
fn arguments_that_do_not_answer(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "arguments_that_do_not_answer", 2)?;
    let program = unanswered(place, &s)?;
    let log = place.fresh("log");
    let stuck = s.start(&format!("{ANN} shoal run -n 0 {program} lock > {}; echo $?", log.display()));
    s.until(&format!("grep -q ready {}", log.display()))?;
    let other = s.start(&format!("{BOB} shoal run -n 0 sleep 1042; echo $?"));
    s.until("shoal ps | grep -q ' \\[unanswered[^ ]*\\]$'")?;
    let pid = s.ok("shoal ps | awk '/sleep 1042$/ {print $1}'")?;
    let start = Instant::now();
    while start.elapsed() < LONG_ENOUGH {
        s.ok("shoal ps | grep -q 'sleep 1042$'")?;
        s.prints(&format!("{BOB} shoal run -n 0 echo well"), "well")?;
    }
    holds("both go on", other.is_going() && stuck.is_going())?;
    s.prints("shoal nodes | grep -c up", "2")?;
    s.ok(&format!("pkill -KILL -u 61001 unanswered; kill -KILL {pid}"))?;
    stuck.end()?;
    other.end()?;
    Ok(End::Passed)
}

/// A program that polls its input, in memory whose lock is never let go. Its first process has ended, so its input is read only when it is wanted.
fn polled_list_that_does_not_answer(place: &Place) -> Res<End> {
    const LATER: &str = "sh -c 'exec 3<&0; { read word <&3; echo $word; } &'";
    let s = Sandbox::new(place, "polled_list_that_does_not_answer", 2)?;
    let program = unanswered(place, &s)?;
    let log = place.fresh("log");
    let poll = format!("sh -c 'exec 3<&0; {program} poll <&3 &'");
    // Only what there is to read is offered to who waits for it.
    let word = format!("(until grep -q ready {0}; do sleep 0.1; done; echo word; sleep 60)", log.display());
    std::fs::write(&log, "").doing("write a log")?;
    let stuck = s.start(&format!("{word} | {ANN} shoal run -n 0 {poll} > {}", log.display()));
    s.until(&format!("grep -q ready {}", log.display()))?;
    others_go_on(&s, "")?;
    let start = Instant::now();
    s.prints(&format!("(sleep 0.5; echo well; sleep 0.5) | {BOB} shoal run -n 0 {LATER}"), "well")?;
    holds("input comes in time", start.elapsed() < Duration::from_secs(6))?;
    holds("it goes on", stuck.is_going())?;
    s.prints("shoal nodes | grep -c up", "2")?;
    s.ok("pkill -KILL -u 61001 unanswered; pkill -KILL -f '^sleep 60$'")?;
    stuck.end()?;
    Ok(End::Passed)
}

/// Somebody without the key opens connections to the front end's port all the time, and says nothing.
fn strangers_keep_nobody_out(place: &Place) -> Res<End> {
    const CROWD: &str = "import re, socket, subprocess, sys, time\n\
        import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (8000, 8000))\n\
        port = re.search(r'(\\d+\\.\\d+\\.\\d+\\.\\d+):(\\d+)', open('/run/shoal/shoal.toml').read())\n\
        to, held, end = (port[1], int(port[2])), [], time.time() + 60\n\
        while time.time() < end:\n    \
            one = socket.socket(); one.connect(to); held.append(one)\n    \
            if len(held) == 4000: print('many', flush=True); end = time.time() + 7\n    \
            if len(held) > 4000: held.pop(0).close(); time.sleep(0.0005)";
    let s = Sandbox::new(place, "strangers_keep_nobody_out", 2)?;
    let script = place.fresh("crowd.py");
    std::fs::write(&script, CROWD).doing("write a script")?;
    let crowd = s.start(&format!("python3 {}", script.display()));
    while crowd.is_going() {
        s.prints("shoal run -n 0 echo well", "well")?;
        s.prints("shoal run -n 0 shoal run -n 1 echo well", "well")?;
    }
    let outcome = crowd.end()?;
    holds(&format!("there were many: {}", outcome.text()), outcome.out == "many\n")?;
    s.prints("shoal nodes | grep -c up", "2")?;
    Ok(End::Passed)
}
