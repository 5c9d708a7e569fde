//! The commands as a user types them.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use serde_json::Value;

pub(crate) const SCENES: &[Scene] = &[
    ("run_is_the_program", run_is_the_program),
    ("run_finds_nodes", run_finds_nodes),
    ("run_many", run_many),
    ("run_many_ends", run_many_ends),
    ("run_on_a_node", run_on_a_node),
    ("run_names", run_names),
    ("sandbox_on_a_node", sandbox_on_a_node),
    ("traced_from_the_front_end", traced_from_the_front_end),
    ("run_streams", run_streams),
    ("run_over_ipv6", run_over_ipv6),
    ("socket_elsewhere", socket_elsewhere),
    ("nodes_ps_where", nodes_ps_where),
    ("all_descendants_show", all_descendants_show),
    ("ps_of_a_silent_node", ps_of_a_silent_node),
    ("ps_of_silent_nodes", ps_of_silent_nodes),
    ("check_tells_what_is_lost", check_tells_what_is_lost),
    ("kill_group_of_natives", kill_group_of_natives),
    ("move_takes_names_of_nodes", move_takes_names_of_nodes),
];

/// PID, status, directory and arguments.
fn run_is_the_program(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "run_is_the_program", 2)?;
    s.prints("shoal run -n 1 hostname", "n1")?;
    s.prints("shoal run -n 0 -- sh -c 'exit 7'; echo $?", "7")?;
    s.prints("shoal run -n 0 -- sh -c 'kill -9 $$'; echo $?", "137")?;
    s.prints("shoal run -n 0 -- sh -c 'kill -TERM $$'; echo $?", "143")?;
    s.prints("cd /usr/lib; shoal run -n 0 pwd", "/usr/lib")?;
    s.prints("shoal run -n 0 printf '<%s>' a 'b c' '' -n", "<a><b c><><-n>")?;
    s.prints("A='x  y' shoal run -n 0 sh -c 'echo \"$A\"'", "x  y")?;
    s.prints("sh -c 'echo $$; exec shoal run -n 0 sh -c \"echo \\$\\$\"' | uniq | wc -l", "1")?;
    s.prints("sh -c 'echo $$; shoal run -n 0 sh -c \"echo \\$PPID\"; :' | uniq | wc -l", "1")?;
    Ok(End::Passed)
}

/// Where it runs when nothing, a number or all is said. Programs that run count before the load does, which is the same machine's for all
/// nodes here, each with the figure of another moment.
fn run_finds_nodes(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "run_finds_nodes", 4)?;
    let finds = |script: &str, nodes: &str| -> Res {
        // A node whose beat is overdue gets nothing unless it is named.
        s.until("test $(shoal nodes | grep -cw up) = 4")?;
        s.prints(&format!("{script} | sort | uniq -c | awk '{{print $2, $1}}' | tr '\\n' ' '"), nodes)
    };
    finds("(for i in 1 2 3 4; do shoal run sh -c 'hostname; sleep 1' & done; wait)", "n0 1 n1 1 n2 1 n3 1")?;
    s.prints("shoal run -N 3 hostname | sort -u | wc -l", "3")?;
    finds("shoal run -N 8 hostname", "n0 2 n1 2 n2 2 n3 2")?;
    finds("shoal run -a hostname", "n0 1 n1 1 n2 1 n3 1")?;
    finds("shoal run -n 0-1,3 hostname", "n0 1 n1 1 n3 1")?;
    Ok(End::Passed)
}

/// Several nodes at once: the relay is the parent, lines can be told apart.
fn run_many(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "run_many", 4)?;
    let lines =
        s.ok("shoal run -a -p -- sh -c 'for i in $(seq 100); do echo line $i; done' | sort | uniq -c | wc -l")?;
    same("400 lines, none torn, each with its node", lines.as_str(), "400")?;
    s.prints("shoal run -a -- sh -c 'echo $PPID' | sort -u | wc -l", "1")?;
    s.prints("shoal run -n 0-3 -- sh -c 'echo $$' | sort -u | wc -l", "4")?;
    s.prints("echo text | shoal run -a cat | sort | uniq -c | awk '{print $1, $2}'", "4 text")?;
    // More channels at a moment than 128, which wait to be accepted.
    s.prints("for i in 1 2 3; do timeout 60 shoal run -N 1000 echo x | wc -l; done", "1000\n1000\n1000")?;
    Ok(End::Passed)
}

/// The status of several: the highest code; a signal to the relay reaches all.
fn run_many_ends(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "run_many_ends", 3)?;
    s.prints("shoal run -a true; echo $?", "0")?;
    s.prints("shoal run -a -- sh -c 'test $(hostname) != n1'; echo $?", "1")?;
    for (of_n1, worst) in [("exit 4", "5"), ("exit 200", "200"), ("kill -USR1 $$", "138")] {
        let each = format!("case $(hostname) in n0) exit 5;; n1) {of_n1};; esac");
        s.prints(&format!("shoal run -a -- sh -c '{each}'; echo $?"), worst)?;
    }
    let going = s.start("shoal run -a sleep 1001 & pid=$!; wait $pid; echo $?");
    super::scene::wait_for("three bodies", || s.count("sleep 1001") >= 3)?;
    s.ok("pkill -TERM -f '^shoal run -a sleep 1001'")?;
    let outcome = going.end()?;
    same("the parent of all", outcome.out.trim(), "143")?;
    super::scene::wait_for("no body left", || s.count("sleep 1001") == 0)?;
    Ok(End::Passed)
}

/// `shoal run` within what `shoal run` started.
/// By its name everybody is found on the front end: the program, what it forks, what it calls itself, copies.
fn run_names(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "run_names", 2)?;
    let called =
        "called() { for i in $(seq 100); do test \"$(ps -e -o comm= | grep -cx $1)\" = $2 && return; sleep 0.05; done
        ps -e -o pid,ppid,comm; exit 1; }";
    s.ok(&format!("{called}; shoal run -n 0 sleep 1033 & p=$!; called sleep 1; pgrep -x sleep | grep -qx $p; pkill -x sleep; ! wait $p"))?;
    s.ok(&format!(
        "{called}; shoal run -n 0 perl -e 'fork; fork; sleep 1034' & p=$!; called perl 4; pkill -x perl; ! wait $p"
    ))?;
    s.ok(&format!(
        "{called}; shoal run -n 0 perl -e '$0 = \"renamed\"; sleep 1035' & p=$!; called renamed 1; kill $p; ! wait $p"
    ))?;
    s.ok(&format!(
        "{called}; shoal run -n 0-1 sleep 1036 & p=$!; called sleep 2; test $(cat /proc/$p/comm) = shoal || exit 1; pkill -x sleep; ! wait $p"
    ))?;
    Ok(End::Passed)
}

fn sandbox_on_a_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "sandbox_on_a_node", 1)?;
    let said = s.fails("shoal run -n 0 shoal sandbox -n 1 -- true", 1)?;
    holds(&format!("it is refused: {said}"), said.contains("n0: open a sandbox"))?;
    Ok(End::Passed)
}

/// A debugger that attaches itself (PTRACE_ATTACH) to what stands for a process elsewhere and lets it go again stops nobody.
fn traced_from_the_front_end(place: &Place) -> Res<End> {
    const DEBUGGER: &str = "python3 -c 'import ctypes, os, sys; c = ctypes.CDLL(None); p = int(sys.argv[1]); \
                            print(c.ptrace(16, p, 0, 0), os.WIFSTOPPED(os.waitpid(p, 0)[1]), c.ptrace(17, p, 0, 0))'";
    let s = Sandbox::new(place, "traced_from_the_front_end", 1)?;
    let ticks = s.start("exec shoal run -n 0 -- sh -c 'while :; do echo tick; sleep 0.1; done'");
    s.until("shoal ps | grep -q 'echo tick'")?;
    let pid = s.ok("shoal ps | awk '/echo tick/ {print $1; exit}'")?;
    for _ in 0..5 {
        s.prints(&format!("{DEBUGGER} {pid}"), "0 True 0")?;
    }
    let holds_it = "import ctypes, os, sys; c = ctypes.CDLL(None); c.prctl(15, b\"shoal:mover\"); c.ptrace(0x4206, int(sys.argv[1]), 0, 0); print(os.getpid(), flush=True); input()";
    s.ok(&format!(
        "coproc python3 -c '{holds_it}' {pid}; read tracer <&${{COPROC[0]}}; said=$(shoal move {pid} front 2>&1) && exit 1; echo \"$said\"; \
         echo \"$said\" | grep -q \"is traced by process $tracer$\" || exit 1; echo >&${{COPROC[1]}}; wait $COPROC_PID"
    ))?;
    let state = |of: &str| s.until(&format!("shoal ps | grep -qE '^ *{pid} .* {of} '"));
    // What is said of a stop takes its way by the node.
    s.ok("shoal run -n 0 true")?;
    state("S")?;
    s.ok(&format!("kill -STOP {pid}"))?;
    state("T")?;
    s.ok(&format!("kill -CONT {pid}; kill {pid}"))?;
    same("its end", ticks.end()?.signal(), Some(15))?;
    Ok(End::Passed)
}

fn run_on_a_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "run_on_a_node", 3)?;
    s.prints("shoal run -n 0 shoal run -n 1 hostname", "n1")?;
    s.prints("shoal run -n 0 shoal run -n 1 shoal run -n 2 hostname", "n2")?;
    s.prints("shoal run -n 0 shoal run -n 0 hostname", "n0")?;
    s.prints("shoal run -n 0 -- sh -c 'shoal run -n 1 sh -c \"exit 9\"; echo $?'", "9")?;
    s.prints("echo abc | shoal run -n 0 shoal run -n 1 tr a-z A-Z", "ABC")?;
    s.prints("shoal run -n 0 -- sh -c 'shoal run -n 1 seq 5 | shoal run -n 2 tail -1'", "5")?;
    s.prints("shoal run -n 0 -- sh -c 'shoal run -n 1 -- sh -c \"shoal run -n 0 hostname; true\"'", "n0")?;
    for home in [
        "shoal run -n 0 shoal run -n 1 shoal run -n 0 true",
        "shoal run -n 0 -- sh -c 'shoal run -n 1 shoal run -n 0 true'",
    ] {
        let line = s.fails(home, 125)?;
        holds(&line, line.contains("it is a shoal run on this node itself"))?;
    }
    s.prints("shoal run -n 0 -- sh -c 'shoal run -n 0-2 hostname' | sort | xargs", "n0 n1 n2")?;
    s.prints("shoal run -n 0 -- sh -c 'shoal run -a -p echo x' | sort | xargs", "n0: x n1: x n2: x")?;
    s.prints("shoal run -n 0 -- sh -c 'shoal run -N 2 true; echo x | shoal run -n 0,1 cat' | xargs", "x x")?;
    s.prints(
        "shoal run -n 0 -- sh -c 'shoal run -n 0,1 -- sh -c \"test \\$(hostname) = n0 || exit 9\"'; echo $?",
        "9",
    )?;
    s.prints("shoal run -n 0 -- sh -c 'shoal run -n 1,2 -- sh -c \"kill -TERM \\$\\$\"'; echo $?", "143")?;
    Ok(End::Passed)
}

/// Bytes, end of file and the broken pipe.
fn run_streams(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "run_streams", 2)?;
    s.prints("head -c 50000000 /dev/zero | shoal run -n 0 wc -c", "50000000")?;
    s.prints("shoal run -n 0 head -c 50000000 /dev/zero | wc -c", "50000000")?;
    s.prints("shoal run -n 0 yes | head -3 | tr '\\n' ' '", "y y y")?;
    s.prints("yes | shoal run -n 0 head -3 | tr '\\n' ' '", "y y y")?;
    s.prints("shoal run -n 0 sh -c 'echo out; echo err >&2' 2>/dev/null", "out")?;
    s.prints("shoal run -n 0 sh -c 'echo out; echo err >&2' 2>&1 >/dev/null", "err")?;
    s.prints("shoal run -n 0 cat < /dev/null | wc -c", "0")?;
    s.prints("shoal run -n 0 yes | head -1; echo ${PIPESTATUS[0]}", "y\n141")?;
    // What lives on without our streams does not keep them open.
    for (where_to, count) in [("-n 0", 1), ("-n 0-1", 2), ("-t -n 0", 1), ("-n 0 shoal run -n 1", 1)] {
        let daemon = "sh -c 'setsid sleep 1024 >/dev/null 2>&1 </dev/null & until ps -o comm= -p $! | grep -q sleep; do :; done; echo started'";
        let first = format!(
            "timeout -s KILL 10 shoal run {where_to} {daemon} 2>&1 | cat | head -1 | tr -d '\\r'; \
             until test $(shoal ps | grep -c ' sleep 102[4]$') = {count}; do :; done; \
             kill $(shoal ps | awk '/ sleep 102[4]$/ {{print $1}}'); until ! shoal ps | grep -q 'sleep 102[4]'; do :; done"
        );
        s.prints(&first, "started")?;
    }
    let full = s.sh("shoal run -n 0 -- sh -c 'echo x; exit 4' >/dev/full")?;
    let told = "shoal: write what the program has written to standard output: No space left on device (os error 28)\n";
    same("a full disk", (full.code(), full.err.as_str()), (Some(4), told))?;
    let unread = s.sh("shoal run -n 0 -- sh -c 'cat; exit 4' </")?;
    let told = "shoal: read standard input for the program, which sees its end: Is a directory (os error 21)\n";
    same("input that cannot be read", (unread.code(), unread.err.as_str()), (Some(4), told))?;
    // Input that nobody has read or ended is no reason to leave a process behind.
    for terminal in ["", "-t"] {
        let unread = format!("f=$(mktemp -u); mkfifo $f; exec 9<>$f; rm $f; shoal run -n 0 {terminal} echo well <&9");
        s.prints(&unread, "well")?;
    }
    let sum = "f=$(mktemp); head -c 20000000 /dev/urandom > $f; a=$(md5sum < $f); \
               b=$(shoal run -n 0 cat < $f | shoal run -n 1 cat | md5sum); rm $f; \
               test \"$a\" = \"$b\" && echo same";
    s.prints(sum, "same")?;
    Ok(End::Passed)
}

/// The daemon's socket under another name.
fn socket_elsewhere(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "socket_elsewhere", 1)?;
    s.ok("mv /run/shoal/shoal.sock /run/moved.sock")?;
    for (command, code) in [("nodes", 1), ("ps", 1), ("where 1", 1), ("run -n 0 true", 125)] {
        let line = s.fails(&format!("shoal {command}"), code)?;
        holds(&format!("{command}: {line}"), line.contains("no shoal daemon runs on this machine"))?;
    }
    let line = s.fails("SHOAL_SOCKET= shoal nodes", 1)?;
    holds(&format!("an empty one is as none: {line}"), line.contains("/run/shoal/shoal.sock"))?;
    let moved = "export SHOAL_SOCKET=/run/moved.sock;";
    s.prints(&format!("{moved} shoal run -n 0 hostname"), "n0")?;
    s.prints(&format!("{moved} shoal nodes | grep -cw up"), "1")?;
    s.prints(&format!("{moved} shoal run -n 0 sleep 1109 & {moved} until shoal ps | grep -q 'sleep 1109'; do sleep 0.1; done; shoal where $! | grep -ow n0; kill $!"), "n0")?;
    Ok(End::Passed)
}

/// Control links and channels, also those between nodes.
fn run_over_ipv6(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "run_over_ipv6", 2)?;
    let hosts = [("front", "fd77::1"), ("n0", "fd77::10"), ("n1", "fd77::11")];
    for (host, address) in hosts {
        let up = "echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6 && ip -6 addr add $0/64 dev eth0 nodad";
        s.network(host, &["sh", "-c", up, address])?;
    }
    for (host, _) in hosts {
        let machine = s.machine(host)?;
        let file = format!("/proc/{machine}/root/run/shoal/shoal.toml");
        let text = std::fs::read_to_string(&file).doing("read a configuration")?;
        let text = text.replace("0.0.0.0:7706", "[::]:7706").replace("10.77.0.1:7706", "[fd77::1]");
        holds(&text, text.contains("[::]:7706") || text.contains("\"[fd77::1]\""))?;
        std::fs::write(&file, text).doing("write a configuration")?;
        s.kill(s.daemon(host)?)?;
        s.restart(host)?;
    }
    s.until("test \"$(shoal nodes | awk '/up/ {print $3}' | xargs)\" = 'fd77::10 fd77::11'")?;
    s.prints("echo abc | shoal run -n 0 shoal run -n 1 tr a-z A-Z", "ABC")?;
    s.prints("shoal run -a hostname | sort | xargs", "n0 n1")?;
    Ok(End::Passed)
}

fn nodes_ps_where(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "nodes_ps_where", 3)?;
    let nodes: Value = serde_json::from_str(&s.ok("shoal nodes --json")?).doing("read nodes --json")?;
    same("nodes", nodes.as_array().map(Vec::len), Some(3))?;
    holds("all are up", nodes.as_array().is_some_and(|list| list.iter().all(|n| n["state"] == "up")))?;
    holds("nodes has a heading and 3 lines", s.ok("shoal nodes")?.lines().count() == 4)?;
    let going = s.start("shoal run -n 2 sleep 1002 & echo $!; wait $!");
    s.until("shoal ps | grep -q 'sleep 1002'")?;
    let list: Value = serde_json::from_str(&s.ok("shoal ps --json")?).doing("read ps --json")?;
    let row = list.as_array().into_iter().flatten().find(|row| row["command"] == "sleep 1002");
    let row = row.ok_or("ps --json has no sleep")?;
    same("its node", row["node"].as_i64(), Some(2))?;
    let pid = row["pid"].as_i64().ok_or("a PID is a number")?;
    let place: Value = serde_json::from_str(&s.ok(&format!("shoal where --json {pid}"))?).doing("read where --json")?;
    same("where", place["node"].as_i64(), Some(2))?;
    s.prints(&format!("shoal run -n 0 kill -TERM {pid}; echo $?"), "0")?;
    let outcome = going.end()?;
    same("PID and status", (outcome.out.trim(), outcome.code()), (pid.to_string().as_str(), Some(143)))?;
    s.fails("shoal where 4194303", 1)?;
    // One of the front end's own, asked for there and on a node; it may leave.
    let own = s.ok("sleep 1002 & p=$!; shoal where $p; shoal run -n 1 shoal where --json $p; shoal move $p 1 2>&1; shoal where $p; kill $p; wait $p; shoal where $p 2>&1 | sed s/$p/PID/g")?;
    let lines: Vec<&str> = own.lines().collect();
    holds(&format!("where it is: {own}"), lines.len() == 4 && lines[0] == "front" && lines[1].contains("\"node\":-1"))?;
    same("where it has gone", lines[2], "n1")?;
    same("of one that has gone", lines[3], "shoal: PID is no process of the space")?;
    // A process that runs on another node than before is counted there only.
    s.ok("shoal run -n 1 shoal run -n 0 true; shoal run -n 1 sh -c 'shoal run -n 0 true; true'")?;
    s.until("test \"$(shoal nodes | awk 'NR > 1 {print $4}' | tr '\n' ' ')\" = '0 0 0 '")?;
    Ok(End::Passed)
}

/// What a program on a node forks is in the front end's ps, at the right place of the tree.
fn all_descendants_show(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "all_descendants_show", 2)?;
    let going = s.start("shoal run -n 0 -- sh -c 'sleep 1003 & sleep 1003 & (exec sleep 1003) & wait'; echo $?");
    s.until("test $(ps -eo comm | grep -c '^sleep$') = 3")?;
    let tree = s.ok("ps -eo pid,ppid,comm | awk '$3 == \"sleep\" {print $2}' | sort -u | wc -l")?;
    same("one parent for the three", tree.as_str(), "1")?;
    s.ok("pkill -x -KILL sleep")?;
    let outcome = going.end()?;
    same("the shell ends by itself", outcome.out.trim(), "0")?;
    super::scene::wait_for("no body is left", || s.count("sleep 1003") == 0)?;
    Ok(End::Passed)
}

/// What runs on a node that does not answer is not known, and that is said.
fn ps_of_a_silent_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "ps_of_a_silent_node", 2)?;
    let going = s.start("shoal run -n 0,1 sleep 1045");
    s.until("test $(shoal ps | grep -c 'sleep 1045') = 2")?;
    s.network("sandbox", &["ip", "link", "set", "n0", "nomaster"])?;
    // Nobody knows yet that it says nothing, and nobody waits for it longer than a moment; a busy machine has some more.
    let timed = "python3 -c 'import subprocess, time; t = time.monotonic(); subprocess.call([\"shoal\", \"ps\"]); print(time.monotonic() - t < 0.5)' 2>/dev/null | tail -1";
    s.prints(timed, "True")?;
    for script in ["shoal ps", "shoal ps --json"] {
        let listed = s.sh(script)?;
        let told = "shoal: n0 does not answer: of what runs there only the last that is known is shown\n";
        same(script, (listed.code(), listed.err.as_str()), (Some(1), told))?;
        same("what n1 has, and what n0 had", listed.out.matches("sleep 1045").count(), 2)?;
    }
    s.prints("shoal ps 2>/dev/null | awk '/sleep 1045/ {print $2}' | sort | xargs", "n0? n1")?;
    let marked = "python3 -c 'import json, sys; print(*sorted((row[\"node\"], row[\"last_known\"]) for row in json.load(sys.stdin)))'";
    s.prints(&format!("shoal ps --json 2>/dev/null | {marked}"), "(0, True) (1, False)")?;
    s.network("sandbox", &["ip", "link", "set", "n0", "master", "shoal"])?;
    s.until("shoal ps >/dev/null 2>&1")?;
    let pids = s.ok("shoal ps | awk 'NR > 1 {print $1}'")?;
    same("in order", pids.as_str(), s.ok("shoal ps | awk 'NR > 1 {print $1}' | sort -n")?.as_str())?;
    s.ok("pkill -KILL -f '^(shoal run -n 0,1 )?sleep 1045'")?;
    going.end()?;
    Ok(End::Passed)
}

/// However many they are, that is one line.
fn ps_of_silent_nodes(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "ps_of_silent_nodes", 5)?;
    for node in ["n0", "n1", "n2", "n4"] {
        s.network("sandbox", &["ip", "link", "set", node, "nomaster"])?;
    }
    let told = s.fails("shoal ps", 1)?;
    let line =
        "shoal: 4 of 5 nodes do not answer in time: n0-2,n4; of what runs there only the last that is known is shown";
    same("what is said of them", told.as_str(), line)?;
    Ok(End::Passed)
}

/// As root, as root without a capability that is only wished, and as a user, who lacks what is needed.
fn check_tells_what_is_lost(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "check_tells_what_is_lost", 1)?;
    s.prints("shoal check | grep -c '^yes     needed root:'", "1")?;
    let less = "setpriv --bounding-set -sys_resource --inh-caps -sys_resource shoal check";
    let lost =
        "        lost without it: a process whose hard limits leave no room for its own checkpoint or move is refused";
    s.prints(&format!("{less} | grep -A2 '^no      wished CAP_SYS_RESOURCE:' | tail -1"), lost.trim_end())?;
    s.prints(&format!("{less} >/dev/null; a=$?; shoal check >/dev/null; echo $((a == $?))"), "1")?;
    s.prints(&format!("{less} | tail -1 | grep -c 'shoal does without: .*CAP_SYS_RESOURCE'"), "1")?;
    let user = "setpriv --reuid 1234 --regid 1234 --clear-groups shoal check";
    s.prints(
        &format!("{user} >/run/user.check; echo $?; tail -1 /run/user.check | grep -c '^needed and missing: root, '"),
        "1\n1",
    )?;
    Ok(End::Passed)
}

/// A group of the front end of which the space knows nobody, or its leader only, signalled from a node.
fn kill_group_of_natives(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "kill_group_of_natives", 1)?;
    let native =
        "setsid sh -c 'sleep 1046 & sleep 1046 & wait' & until pg=$(pgrep -o -f '^sh -c sleep 1046'); do :; done;";
    let kill = |sig: &str| format!("python3 -c \"import os, signal; os.killpg($pg, {sig})\" 2>/dev/null; echo $?");
    let ann = "setpriv --reuid 61001 --regid 61001 --clear-groups";
    s.prints(
        &format!(
            "{native} until test $(pgrep -g $pg sleep | wc -l) = 2; do :; done; {ann} shoal run -n 0 {}; shoal run -n 0 {}; \
             pgrep -g $pg | wc -l; shoal run -n 0 {}; wait; pgrep -g $pg | wc -l; shoal run -n 0 {}",
            kill("9"),
            kill("0"),
            kill("signal.SIGTERM"),
            kill("0"),
        ),
        "1\n0\n3\n0\n0\n1",
    )?;
    // The leader stands on the node as the program's parent: it gets each signal once.
    let count = r#"
import os, signal, subprocess
sig = signal.SIGRTMIN + 3
os.setpgid(0, 0)
other = subprocess.Popen(["sleep", "1046"])
signal.pthread_sigmask(signal.SIG_BLOCK, [sig])
program = f"import os, signal; signal.signal({sig:d}, signal.SIG_IGN); os.killpg(0, {sig:d})"
print(subprocess.run(["shoal", "run", "-n", "0", "python3", "-c", program]).returncode)
while (got := signal.sigtimedwait([sig], 1)): print(got.si_signo == sig)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [sig])
print(other.wait() == -sig)
"#;
    s.prints(&format!("python3 - <<'EOF'{count}EOF"), "0\nTrue\nTrue")?;
    Ok(End::Passed)
}

/// A node is called as it is printed, or by its number; what is neither is refused before anything moves.
fn move_takes_names_of_nodes(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "move_takes_names_of_nodes", 2)?;
    let script = r#"shoal run -n n0 sleep 1001 & p=$!
        is() { shoal ps | awk -v p=$p '$1 == p { printf "%s ", $2 }'; }
        until is | grep -q n0; do sleep 0.1; done
        shoal move $p n1; is; shoal move $p 0; is
        for words in "$p n1x" "n1 $p" "x 1" "$p -1"; do shoal move $words 2>/dev/null && echo moved; done; is
        shoal move --from n0 --all n1; is; kill $p"#;
    s.prints(script, "n1 n0 n0 n1")?;
    Ok(End::Passed)
}
