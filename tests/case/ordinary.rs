//! Programs and their callers see in ordinary use what they see on one machine.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("sent_sigchld", sent_sigchld),
    ("sent_sigchld_to_copies", sent_sigchld_to_copies),
    ("long_lines", long_lines),
    ("small_stack", small_stack),
    ("terminal_of_a_leader", terminal_of_a_leader),
    ("terminal_whose_input_is_over", terminal_whose_input_is_over),
    ("number_used_again_at_once", number_used_again_at_once),
];

/// Prints the code of each SIGCHLD that it gets, in order; SIGUSR1 and SIGUSR2 let it have a child here and on the other node.
const COUNTS: &str = "
import os, signal as s
s.pthread_sigmask(s.SIG_BLOCK, [s.SIGCHLD, s.SIGTERM, s.SIGUSR1, s.SIGUSR2])
codes = []
while True:
    with open(\"DIR/new\", \"w\") as file: print(*codes, file=file)
    os.rename(\"DIR/new\", \"DIR/codes\")
    info = s.sigwaitinfo([s.SIGCHLD, s.SIGTERM, s.SIGUSR1, s.SIGUSR2])
    if info.si_signo == s.SIGUSR1: os.fork() or os._exit(0)
    if info.si_signo == s.SIGUSR2: os.spawnvp(os.P_NOWAIT, \"shoal\", [\"shoal\", \"run\", \"-n\", \"1\", \"true\"])
    if info.si_signo == s.SIGCHLD: codes.append(info.si_code)
    if info.si_signo == s.SIGTERM: break
";

/// By kill, sigqueue and tgkill, from the front end and from another node; that of the kernel for a child comes once beside them.
fn sent_sigchld(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "sent_sigchld", 2)?;
    let dir = place.fresh("codes").display().to_string();
    let program = COUNTS.replace("DIR", &dir);
    s.ok(&format!("mkdir {dir}"))?;
    let going = s.start(&format!("exec shoal run -n 0 python3 -c '{program}'"));
    s.until(&format!("test -e {dir}/codes"))?;
    let pid = s.ok("shoal ps --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0][\"pid\"])'")?;
    let mut codes = String::new();
    for (sends, code) in [
        ("kill -CHLD PID", "0"),
        ("/bin/kill -q 5 -s CHLD PID", "-1"),
        ("perl -e 'syscall(234, PID, PID, 17)'", "0"),
        ("shoal run -n 1 bash -c 'kill -CHLD PID'", "0"),
        ("shoal run -n 1 perl -e 'syscall(234, PID, PID, 17)'", "0"),
        ("shoal run -n 1 /bin/kill -q 5 -s CHLD PID", "-1"),
        ("kill -USR1 PID", "1"),
        ("kill -USR2 PID", "1"),
        ("kill -CHLD PID", "0"),
    ] {
        s.ok(&sends.replace("PID", pid.trim()))?;
        codes = format!("{codes} {code}");
        s.until(&format!("test \"$(cat {dir}/codes)\" = '{}'", codes.trim()))?;
    }
    s.ok(&format!("kill -TERM {}", pid.trim()))?;
    same("how it ended", going.end()?.code(), Some(0))?;
    s.prints(&format!("cat {dir}/codes"), codes.trim())?;
    Ok(End::Passed)
}

/// Every copy gets the signal, wherever `shoal run` was called.
fn sent_sigchld_to_copies(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "sent_sigchld_to_copies", 2)?;
    let dir = place.fresh("copies").display().to_string();
    s.ok(&format!("mkdir {dir}"))?;
    for (n, caller) in ["", "shoal run -n 0 -- "].into_iter().enumerate() {
        s.prints(
            &format!(
                "{caller}shoal run -n 0-1 perl -MSys::Hostname -e '
                     $SIG{{CHLD}} = sub {{ print \"got\\n\"; exit 3 }}; open F, \">{dir}/{n}\" . hostname; close F; sleep 1 while 1' & p=$!
                 until [ -e {dir}/{n}n0 ] && [ -e {dir}/{n}n1 ]; do sleep 0.02; done; kill -CHLD $p; wait $p; echo $?"
            ),
            "got\ngot\n3",
        )?;
    }
    Ok(End::Passed)
}

/// A line is whole however long it is, of one copy and of several.
fn long_lines(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "long_lines", 2)?;
    let line = "head -c 3000000 /dev/zero | tr '\\0' a; echo; echo end";
    let lengths = "awk '{print length($0)}' | sort -n | xargs";
    for (run, expected) in [
        ("shoal run -n 0", "3 3000000"),
        ("shoal run -n 0 -p", "7 3000004"),
        ("shoal run -n 0-1", "3 3 3000000 3000000"),
        ("shoal run -n 0-1 -p", "7 7 3000004 3000004"),
        ("shoal run -n 0 shoal run -n 0-1 -p", "7 7 3000004 3000004"),
    ] {
        s.prints(&format!("{run} sh -c \"{line}\" | {lengths}"), expected)?;
    }
    Ok(End::Passed)
}

/// The commands need no more than the limit leaves, and a program has that limit.
fn small_stack(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "small_stack", 2)?;
    for run in ["shoal run", "shoal run -n 0-1", "shoal run -n 1 shoal run -n 0"] {
        s.prints(&format!("(ulimit -s 64; {run} sh -c 'ulimit -s') | sort -u"), "64")?;
    }
    s.ok("(ulimit -s 64; shoal nodes && shoal ps && shoal run --help) >/dev/null")?;
    Ok(End::Passed)
}

/// The leader of a session or group that has, or had, a child on a node executes `shoal run -t` for that node.
fn terminal_of_a_leader(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "terminal_of_a_leader", 2)?;
    let leads = "test $(ps -o sid= -p $$) = $$ && tty >/dev/null && echo well";
    let exec = format!("exec shoal run -n 1 -t sh -c '{leads}' </dev/null");
    let dir = place.fresh("leads").display().to_string();
    s.ok(&format!("mkdir {dir}; echo \"{}\" >{dir}/run; chmod 755 {dir}/run", exec.replace('$', "\\$")))?;
    let had = "shoal run -n 1 true";
    let has = format!(
        "shoal run -n 1 sh -c 'echo >{dir}/there; exec sleep 1049' >/dev/null 2>&1 & until [ -e {dir}/there ]; do sleep 0.02; done"
    );
    let over = "pkill -x sleep; while pkill -0 -x sleep; do sleep 0.02; done";
    for before in [had, &has] {
        let before = before.replace('\'', "\"");
        s.prints(&format!("setsid -w bash -c '{before}; . {dir}/run' | tr -d '\\r'; {over}"), "well")?;
        s.ok(&format!("rm -f {dir}/there"))?;
    }
    s.prints(&format!("set -m; ({had}; . {dir}/run) & wait $!"), "well")?;
    // Another process is in the group that the leader would have to leave behind.
    let said = s.sh(&format!("set -m; ({has}; . {dir}/run) & wait $!; echo $? >{dir}/status; {over}"))?.err;
    holds(&format!("it says why not: {said}"), said.contains("it leads the group of"))?;
    s.prints(&format!("cat {dir}/status"), "125")?;
    Ok(End::Passed)
}

/// Has children one after the other, every second one with the number of the one before: by the cursor of its PID namespace, or as clone3 was told.
const AGAIN: &str = r#"
    $0 = "again and again";
    sub last_is { open F, ">/proc/sys/kernel/ns_last_pid"; print F $_[0]; close F }
    for $i (1 .. 300) {
        exit 3 if !($p = fork); waitpid $p, 0; $? == 3 << 8 or die "the first: $?";
        $tid = pack "l", $p;
        if ($i % 2) { last_is $p - 1; $q = fork }
        else { $q = syscall 435, pack("Q11", 0, 0, 0, 0, 17, 0, 0, 0, unpack("J", pack "p", $tid), 1, 0), 88 }
        $same += $p == $q if $q;
        if (!$q) { exit 4 if $i < 300; $SIG{USR1} = sub { exit 5 }; open F, ">DIR/there"; print F $$; close F; sleep 1 while 1 }
        waitpid $q, 0; $? == ($i < 300 ? 4 : 5) << 8 or die "the second: $?";
    }
    print "$same\n"
"#;

/// The parent waits for both as always, the second one is seen and reached, and nothing is left of either.
fn number_used_again_at_once(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "number_used_again_at_once", 1)?;
    let dir = place.fresh("again").display().to_string();
    s.ok(&format!("mkdir {dir}"))?;
    let going = s.start(&format!("exec shoal run -n 0 perl -e '{}'", AGAIN.replace("DIR", &dir)));
    s.until(&format!("test -s {dir}/there && kill -USR1 $(cat {dir}/there)"))?;
    let end = going.end()?;
    same("how it ended", (end.code(), end.out.trim()), (Some(0), "300"))?;
    s.until("test $(ps -e -o args | grep -c '^again') = 0")?;
    Ok(End::Passed)
}

/// The end comes to whoever reads, when they read: also behind half a line, to a shell that edits lines, and to each of several.
fn terminal_whose_input_is_over(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "terminal_whose_input_is_over", 2)?;
    s.prints("printf half | shoal run -n 0 -t sh -c 'cat; cat; echo; echo over' | tail -n 1 | tr -d '\\r'", "over")?;
    for nodes in ["0", "0-1"] {
        s.ok(&format!(
            "for i in 1 2 3; do timeout -s KILL 20 shoal run -n {nodes} -t bash --norc </dev/null || exit; done"
        ))?;
    }
    s.ok("echo 'sleep 0.1; exit 3' | timeout -s KILL 20 shoal run -n 0-1 -t bash --norc; test $? = 3")?;
    Ok(End::Passed)
}
