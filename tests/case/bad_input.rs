//! What is wrong is told in one line or dropped; nothing hangs, nothing leaks.

use super::scene::{holds, outside, same, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use std::fs;

pub(crate) const SCENES: &[Scene] = &[
    ("bad_commands", bad_commands),
    ("bad_key", bad_key),
    ("bad_bytes_on_the_port", bad_bytes_on_the_port),
    ("bad_frames_of_a_peer", bad_frames_of_a_peer),
    ("bad_settings_of_leases", bad_settings_of_leases),
    ("leases_by_default", leases_by_default),
    ("full_lease", full_lease),
    ("full_lease_of_one_node", full_lease_of_one_node),
    ("tiny_leases_follow_each_other", tiny_leases_follow_each_other),
    ("full_disk", full_disk),
];

pub(crate) const DEMANDING: &[Scene] =
    &[("bad_bytes_on_the_socket", bad_bytes_on_the_socket), ("bad_rounds_leak_nothing", bad_rounds_leak_nothing)];

/// Says `bytes` (a Python expression) to the front end's port, and keeps the connection if `stay` says so.
fn to_port(bytes: &str) -> String {
    format!(
        "import socket\nc = socket.create_connection((\"10.77.0.1\", 7706)); c.settimeout(20)\n\
         try:\n c.sendall({bytes})\n while c.recv(65536): pass\nexcept (ConnectionError, BrokenPipeError): pass\n\
         except socket.timeout: print(\"hung\")\nprint(\"dropped\")"
    )
}

/// The same to every unix socket of the daemons, `stay` seconds long.
fn to_sockets(bytes: &str) -> String {
    format!(
        "import glob, os, socket, stat\n\
         for f in glob.glob(\"/run/shoal/**\", recursive=True):\n\
         \x20if not stat.S_ISSOCK(os.lstat(f).st_mode): continue\n\
         \x20try:\n\
         \x20 c = socket.socket(socket.AF_UNIX); c.settimeout(20); c.connect(f); c.sendall({bytes})\n\
         \x20 while c.recv(65536): pass\n\
         \x20except (ConnectionError, BrokenPipeError): pass\n\
         \x20except socket.timeout: print(\"hung\", f)\n\
         print(\"dropped\")"
    )
}

fn python(program: &str) -> String {
    format!("python3 -c '{program}'")
}

fn bad_commands(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bad_commands", 2)?;
    let told = |script: &str, code: i32, word: &str| -> Res {
        let line = s.fails(script, code)?;
        holds(&format!("{script}: {line:?} says {word:?}"), line.contains(word))
    };
    told("shoal run -n 7 true", 125, "unknown node n7")?;
    told("shoal run -n 0-9 true", 125, "unknown node n2")?;
    // Here and when it is said on a node: what, where and why.
    for on in ["", "shoal run -n 1 -- "] {
        told(&format!("{on}shoal run -n 7 true"), 125, "unknown node n7")?;
        told(&format!("{on}shoal run -n 0 /no/such/program"), 127, "execute /no/such/program: No such file")?;
        told(&format!("{on}shoal run -n 0 no-such-program"), 127, "execute no-such-program: No such file")?;
        told(&format!("{on}shoal run -n 0 /etc/passwd"), 126, "n0: execute /etc/passwd: Permission denied")?;
        told(&format!("{on}shoal run -n 0 /"), 126, "n0: execute /: Permission denied")?;
    }
    told("mkdir /run/gone; cd /run/gone; shoal run -n 0 true", 125, "n0: enter the directory /run/gone: No such file")?;
    told("shoal run -N 70000 true", 125, "cannot start 70000 copies: 1 to 65536 are possible")?;
    told(
        "shoal run -n 0 \"$(printf 'no\\nsuch\\033[31mname')\"",
        127,
        "execute no\\nsuch\\u{1b}[31mname: No such file",
    )?;
    let bad = |line: &str| line.starts_with("such") || line.contains('\u{1b}');
    holds("a name makes no line of a log, and acts on no terminal", !s.logs().lines().any(bad))?;
    holds("the log tells of it in one line", s.logs().contains("execute no\\nsuch\\u{1b}[31mname"))?;
    told("shoal run -n 0 ''", 127, "execute \"\": No such file")?;
    told("shoal ps -n 0,7", 1, "unknown node n7")?;
    told("shoal move --from 7 --all", 1, "unknown node n7")?;
    told("shoal move --from 0 --all 7", 1, "unknown node n7")?;
    for (wrong, word) in [("-n x true", "-n"), ("-n 3-1 true", "3-1"), ("", "<PROGRAM>"), ("-N 0 true", "--count")] {
        told(&format!("shoal run {wrong}"), 125, word)?;
    }
    told("shoal nonsense", 2, "nonsense")?;
    told("shoal sandbox -n 1 --bogus", 2, "--bogus")?;
    for (wrong, meant) in [("node --front front:x", "HOST:PORT"), ("front --listen localhost", "ADDRESS:PORT")] {
        let outcome = s.sh(&format!("shoal {wrong}"))?;
        holds(&format!("{wrong}: {}", outcome.text()), outcome.code() == Some(2) && outcome.err.contains(meant))?;
    }
    s.kill(s.daemon("n1")?)?;
    s.until("shoal nodes | grep -q down || shoal nodes | grep -q lost")?;
    told("shoal run -n 1 true", 125, "node n1 is down")?;
    s.prints("shoal run -n 0 echo well", "well")?;
    Ok(End::Passed)
}

/// A node with the key of another cluster: both sides say so, nothing else happens.
fn bad_key(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bad_key", 1)?;
    s.ok("shoal key /run/other.key")?;
    let node = "shoal node --key /run/other.key --front 10.77.0.1:7706 --run-dir /run/other";
    let going = s.start(&format!("timeout 5 {node}; true"));
    wait_for("the front end refuses it", || s.logs().contains("refused: handshake: the peer has another key"))?;
    s.prints("shoal nodes | tail -n +2 | wc -l", "1")?;
    s.prints("shoal run -n 0 echo well", "well")?;
    let outcome = going.end()?;
    holds(
        &format!("it knows why: {}", outcome.text()),
        outcome.err.contains("most likely because its key is another"),
    )?;
    Ok(End::Passed)
}

fn bad_bytes_on_the_port(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bad_bytes_on_the_port", 2)?;
    let going = s.start("shoal run -n 0 sleep 1010; echo $?");
    s.until("shoal ps | grep -q 'sleep 1010'")?;
    for bytes in [
        "b\"GET / HTTP/1.0\\r\\n\\r\\n\" * 100",
        "bytes(65536)",
        "b\"\\xff\" * 65536",
        "b\"C\" + b\"\\x40\\x00\\x00\\x00\" + bytes(1000)",
        "b\"C\" + b\"\\x00\\x00\\x00\\x40\" + bytes(1000)",
        "b\"C\" + bytes(65536)",
        "b\"S\" + bytes(16) + bytes(65536)",
        "__import__(\"os\").urandom(1 << 20)",
        "b\"C\" + __import__(\"os\").urandom(1 << 20)",
    ] {
        let lines = s.logs().lines().count();
        s.prints(&python(&to_port(bytes)), "dropped")?;
        // Of a peer with another key there is one line a minute.
        let again = bytes.starts_with("b\"C\"") && s.logs().contains("the peer has another key");
        wait_for(&format!("a line in the log about {bytes}"), || again || s.logs().lines().count() > lines)?;
    }
    // Half a message and then nothing: it is dropped in time, and meanwhile everything goes on.
    let half: Vec<_> = ["b\"C\"", "b\"\"", "b\"S1234\""].map(|b| s.start(&python(&to_port(b)))).into();
    s.prints("shoal run -n 0 echo well", "well")?;
    s.prints("shoal nodes | grep -c up", "2")?;
    for one in half {
        let outcome = one.end()?;
        holds(&format!("half a message is dropped: {}", outcome.text()), outcome.out == "dropped\n")?;
    }
    holds("the program lives", going.is_going())?;
    s.ok("pkill -KILL -f '^(shoal run -n 0 )?sleep 1010'")?;
    going.end().map(|_| End::Passed)
}

/// Who has the key and says what is no message: the link is dropped with a line in the log, and nothing was made ready for a gigabyte that never comes.
fn bad_frames_of_a_peer(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bad_frames_of_a_peer", 2)?;
    let me = std::env::current_exe().doing("find this program")?;
    let daemon = "$(pgrep -o -f 'shoal front')";
    let peak = || s.ok(&format!("awk '/VmPeak/ {{print $2}}' /proc/{daemon}/status"))?.parse::<u64>().doing("a number");
    s.prints("shoal run -n 0 echo well", "well")?;
    let before = peak()?;
    for (bytes, word) in [
        ("40000000", "a frame says it has 1073741824 bytes"),
        ("4000000082018100", "a frame says it has 1073741824 bytes"),
        ("ffffffff", "a frame says it has 4294967295 bytes"),
        ("00800001", "a frame says it has 8388609 bytes"),
        // An unknown message; an array of 2^60 elements; a text of 2^31 bytes; arrays within arrays.
        ("0000000482186380", "cannot be read"),
        ("0000000a82009b1000000000000000", "cannot be read"),
        ("000000058200ba80000000", "cannot be read"),
        ("00000010ffffffffffffffffffffffffffffffff", "cannot be read"),
    ] {
        let known = s.logs().lines().filter(|line| line.contains(word)).count();
        s.prints(&format!("{} --peer 10.77.0.1:7706 $(cat /run/shoal/key) {bytes}", me.display()), "dropped")?;
        let told = || s.logs().lines().filter(|line| line.contains(word)).count() > known;
        wait_for(&format!("a line in the log about {bytes}: {word}"), told)?;
    }
    let grown = peak()?.saturating_sub(before);
    holds(&format!("it takes {grown} KiB more"), grown < 256 * 1024)?;
    s.prints("shoal run -n 0 shoal run -n 1 echo well", "well")?;
    s.prints("shoal nodes | grep -c up", "2")?;
    Ok(End::Passed)
}

fn bad_bytes_on_the_socket(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bad_bytes_on_the_socket", 2)?;
    for bytes in [
        "b\"\\xff\" * 65536",
        "b\"\\x40\\x00\\x00\\x00\" + bytes(1000)",
        "b\"\\x00\\x00\\x00\\x40\" + bytes(1000)",
        "bytes(4)",
        "__import__(\"os\").urandom(1 << 20)",
    ] {
        let lines = s.logs().lines().count();
        s.prints(&python(&to_sockets(bytes)), "dropped")?;
        wait_for(&format!("a line in the log about {bytes}"), || s.logs().lines().count() > lines)?;
    }
    // A local client may stay as long as it likes; nobody else notices.
    let half = s.start(&python("import glob, socket, stat, os, time\nl = []\nfor f in glob.glob(\"/run/shoal/**\", recursive=True):\n if stat.S_ISSOCK(os.lstat(f).st_mode):\n  c = socket.socket(socket.AF_UNIX); c.connect(f); c.send(b\"\\0\\0\"); l.append(c)\nprint(len(l), flush=True); time.sleep(8)"));
    for _ in 0..20 {
        s.prints("shoal run -n 0 echo well", "well")?;
    }
    let outcome = half.end()?;
    holds(&format!("there is a socket: {}", outcome.text()), outcome.out.trim() != "0")?;
    Ok(End::Passed)
}

/// Descriptors, resident KiB of a process. An agent keeps the status of at most 32 processes open of which it has asked (`kern::pending`): those do not count.
fn weight(pid: i32) -> (usize, u64) {
    let counts = |fd: &fs::DirEntry| fs::read_link(fd.path()).is_ok_and(|to| !to.ends_with("status"));
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |all| all.flatten().filter(counts).count());
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().split(' ').next()?.parse().ok());
    (fds, rss.unwrap_or(0))
}

/// Growth of memory that is none: what an allocator keeps of its pages.
const SLACK_KB: u64 = 2048;
/// The same of the process that serves /proc, which has many threads (2.1 to 2.4 MB after 1000 rounds, and no more after 3000).
const SLACK_OF_PROCFS_KB: u64 = 4096;

/// Forks processes that wait until there has been no number for half a second; ends them when it is told to.
const FILL: &str = r#"
import os, signal, sys, time
made, failed = [], 0
while failed < 10:
    try: pid = os.fork()
    except BlockingIOError: failed += 1; time.sleep(0.05); continue
    if pid == 0: signal.pause()
    made.append(pid); failed = 0
print("full", flush=True)
sys.stdin.readline()
for pid in made: os.kill(pid, 9)
print(all(os.waitpid(pid, 0)[1] == 9 for pid in made))
"#;

/// 1000 rounds of everything that is wrong, on the front end and on a node, with what is right between them; node n2 is down, the numbers of n3
/// are all in use, and somebody with another key dials in all the while. Daemons and whatever else runs by then are counted: processes, their
/// descriptors, their memory.
fn bad_rounds_leak_nothing(place: &Place) -> Res<End> {
    let s = with_leases(place, "bad_rounds_leak_nothing", 4, 12)?;
    for node in 1..4 {
        s.ok(&format!("shoal fault n{node} start-daemon"))?;
    }
    s.until("test $(shoal nodes | grep -cw up) = 4")?;
    s.ok("mkfifo /run/tell; shoal key /run/other.key; shoal fault n2 kill-daemon")?;
    // What a lost node had leased is for others.
    s.until("shoal nodes | grep n2 | grep -qw down")?;
    let fills = s.start(&format!("exec 3<>/run/tell; shoal run -n 3 -- python3 -c '{FILL}' <&3 | tee /run/said"));
    s.until("grep -q full /run/said")?;
    // Its fence has a descriptor from then on.
    wait_for("the full node says so", || s.logs().contains("every number is used"))?;
    let program = include_str!("bad_rounds.py");
    let rounds = |on: &str, count: u32| s.prints(&format!("{on}python3 - {count} <<'EOF'\n{program}\nEOF"), "end");
    // What is made once and kept is made now.
    rounds("", 95)?;
    rounds("shoal run -n 0 -- ", 95)?;
    s.ok("ps -e")?;
    let pids = || -> Vec<i32> {
        let mut pids: Vec<i32> = s.all().iter().filter(|p| p.state != 'Z').map(|p| p.pid).collect();
        pids.sort_unstable();
        pids
    };
    let daemons = [s.daemon("front")?, s.daemon("n0")?, s.daemon("n1")?];
    let (before, heavy) = (pids(), |all: &[i32]| all.iter().map(|pid| weight(*pid)).collect::<Vec<_>>());
    holds("the daemons are among them", daemons.iter().all(|pid| before.contains(pid)))?;
    let was = heavy(&before);
    // Each time anew: one that is refused dials ever less.
    let stranger = "shoal node --key /run/other.key --front 10.77.0.1:7706 --run-dir /run/other";
    let stranger = s.start(&format!("until test -e /run/enough; do timeout -k 1 1 {stranger}; done"));
    for _ in 0..2 {
        rounds("", 300)?;
        rounds("shoal run -n 0 -- ", 200)?;
    }
    s.ok("touch /run/enough")?;
    let refused = stranger.end()?.err.matches("because its key is another").count();
    holds(&format!("the stranger is refused again and again: {refused} times"), refused >= 3)?;
    // Some of those that were there before were about to end.
    wait_for("no other processes than before", || pids().iter().all(|pid| before.contains(pid)))
        .map_err(|e| format!("{e}: before {before:?}, now {:?}", pids()))?;
    let now = || heavy(&before);
    // Who goes ahead of those who read /proc keeps the directories of what is there open for half a minute.
    let named = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned();
    let more = || -> Vec<String> {
        let all = before.iter().zip(&was).zip(now());
        let more = all.filter(|((pid, was), now)| now.0 > was.0 && named(**pid) != "shoal:ahead");
        more.map(|((pid, was), now)| format!("{pid} ({}): {} before, {} now", named(*pid), was.0, now.0)).collect()
    };
    wait_for("no more descriptors than before", || more().is_empty()).map_err(|e| format!("{e}: {:?}", more()))?;
    for ((pid, was), now) in before.iter().zip(&was).zip(now()) {
        let name = named(*pid);
        let what = format!("memory of {pid} ({name}): before {was:?}, after 1000 rounds {now:?}");
        let slack = if name == "shoal:procfs" { SLACK_OF_PROCFS_KB } else { SLACK_KB };
        holds(&what, now.1 <= was.1 + slack)?;
    }
    s.ok("echo > /run/tell")?;
    same("what was on the full node", fills.end()?.out.trim(), "full\nTrue")?;
    Ok(End::Passed)
}

fn bad_settings_of_leases(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "bad_settings_of_leases", 1)?;
    for setting in ["lease_size = 255", "front_top = 4194304", "front_top = 1000", "max_nodes = 0", "max_nodes = 4097"]
    {
        let front =
            "shoal front --key /run/shoal/key --listen 10.77.0.1:7707 --run-dir /run/other --config /run/other.toml";
        let line = s.fails(&format!("printf '[front]\\n{setting}\\n' > /run/other.toml; {front}"), 1)?;
        holds(&format!("{setting}: {line}"), line.contains(setting.split(' ').next().unwrap_or("?")))?;
    }
    Ok(End::Passed)
}

/// A sandbox with so many leases of 256 numbers each, and so many nodes, of which only the first is in service.
fn with_leases(place: &Place, name: &str, nodes: u32, leases: i32) -> Res<Sandbox> {
    let s = Sandbox::new(place, name, nodes)?;
    for node in 0..nodes {
        s.ok(&format!("shoal fault n{node} kill-daemon"))?;
    }
    s.ok("shoal fault front kill-daemon")?;
    let top = 4_194_304 - 256 * leases;
    s.ok(&format!("printf 'lease_size = 256\\nfront_top = {top}\\n' >> /run/shoal/shoal.toml"))?;
    s.ok("shoal fault front start-daemon; shoal fault n0 start-daemon")?;
    s.until("shoal nodes | grep -qw up")?;
    Ok(s)
}

/// Forks up to 600 processes that wait, says how many there are and what the last fork said, ends them when it is told to and
/// forks another one.
const BOMB: &str = r#"
import errno, os, signal, sys
made, why = [], "none"
while len(made) < 600:
    try: pid = os.fork()
    except OSError as e: why = errno.errorcode[e.errno]; break
    if pid == 0: signal.pause()
    made.append(pid)
print(len(made) > 100, len(made) == 600, why, flush=True)
sys.stdin.readline()
for pid in made: os.kill(pid, 9)
ends = [os.waitpid(pid, 0)[1] for pid in made]
print(all(end == 9 for end in ends), flush=True)
while True:
    try: pid = os.fork()
    except BlockingIOError: continue
    if pid == 0: os._exit(7)
    print(os.waitpid(pid, 0)[1] >> 8)
    break
"#;

/// Two nodes have the first two of them.
fn leases_by_default(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "leases_by_default", 2)?;
    let logs = s.logs();
    for first in [1_048_576, 1_048_576 + 16_384] {
        holds(&format!("a lease begins at {first}"), logs.contains(&format!("first={first}\n")))?;
    }
    Ok(End::Passed)
}

/// No other lease is to be had: forks fail as at any limit, and work again when processes have ended.
fn full_lease(place: &Place) -> Res<End> {
    let s = with_leases(place, "full_lease", 1, 1)?;
    let other = s.start("timeout 3 shoal node --key /run/shoal/key --front 10.77.0.1:7706 --run-dir /run/other");
    wait_for("another node is refused", || s.logs().contains("no range of PIDs is left for node n1 "))?;
    holds("it goes on trying", other.is_going())?;
    s.ok("mkfifo /run/tell")?;
    let bomb = s.start(&format!("exec 3<>/run/tell; shoal run -n 0 -- python3 -c '{BOMB}' <&3 | tee /run/said"));
    s.until("grep -q EAGAIN /run/said")?;
    wait_for("both logs tell", || {
        let logs = s.logs();
        logs.contains("leases: every number is used; forks fail until one is free")
            && logs.contains("no range of PIDs is left for it: forks there fail when its own are used up")
    })?;
    s.prints("shoal nodes | grep -cw up", "1")?;
    s.prints("shoal run -n 0 echo well", "well")?;
    s.ok("echo > /run/tell")?;
    same("what it saw", bomb.end()?.out.trim(), "True False EAGAIN\nTrue\n7")?;
    wait_for("the log tells the end", || s.logs().contains("leases: numbers are free again"))?;
    s.prints("shoal run -n 0 sh -c '(exit 3); echo $?'", "3")?;
    s.until("test -z \"$(shoal ps | tail -n +2)\"; ! ps -e | grep -q defunct")?;
    Ok(End::Passed)
}

/// A node that asks for all there are leaves one to a node that comes later.
fn full_lease_of_one_node(place: &Place) -> Res<End> {
    let s = with_leases(place, "full_lease_of_one_node", 2, 4)?;
    s.ok("mkfifo /run/tell")?;
    let bomb = s.start(&format!("exec 3<>/run/tell; shoal run -n 0 -- python3 -c '{BOMB}' <&3 | tee /run/said"));
    s.until("test -s /run/said")?;
    s.ok("shoal fault n1 start-daemon")?;
    s.until("test $(shoal nodes | grep -cw up) = 2")?;
    s.prints("shoal run -n 1 sh -c '(exit 3); echo $?'", "3")?;
    s.ok("echo > /run/tell")?;
    same("what the first one saw", bomb.end()?.out.trim(), "True False EAGAIN\nTrue\n7")?;
    Ok(End::Passed)
}

/// The next lease comes in time.
fn tiny_leases_follow_each_other(place: &Place) -> Res<End> {
    let s = with_leases(place, "tiny_leases_follow_each_other", 1, 32)?;
    // From the question to the end of the lease it is 64 forks: a machine that is busy for as long lets some of them fail.
    let patient = BOMB.replace("; break", "; continue");
    let seen = s.ok(&format!("echo | shoal run -n 0 -- python3 -c '{patient}'"))?;
    let all = ["none", "EAGAIN"].map(|why| format!("True True {why}\nTrue\n7"));
    holds(&format!("all forks come in the end: {seen}"), all.contains(&seen))?;
    s.prints("shoal run -n 0 sh -c 'for i in $(seq 1500); do (exit 3); done; echo $?'", "3")?;
    holds("no number of others was taken", !s.logs().contains("that is not this node's"))?;
    Ok(End::Passed)
}

/// Nothing can be written where the daemons keep their files, nor into their logs: programs run, also over a restart of the front end's
/// daemon, and commands that cannot print what they have to say end as they would have.
fn full_disk(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "full_disk", 2)?;
    let fill = "u=$(df --output=used -k /run | tail -1) && mount -o remount,size=$((u))k /run && ! echo x >/run/x";
    for host in ["front", "n0", "n1"] {
        let machine = s.machine(host)?.to_string();
        outside(&["nsenter", "-t", &machine, "-m", "-p", "--", "bash", "-c", fill])?;
    }
    let going = s.start("shoal run -n 1 sleep 1105; echo $?");
    wait_for("it is there", || s.count("sleep 1105") == 1)?;
    for host in ["front", "n0"] {
        s.kill(s.daemon(host)?)?;
        let verb = if host == "front" { "front" } else { "node" };
        let again = format!(
            "setsid /run/shoal/bin/shoal {verb} --config /run/shoal/shoal.toml >/dev/full 2>/dev/full </dev/null &"
        );
        let machine = s.machine(host)?.to_string();
        outside(&["nsenter", "-t", &machine, "-m", "-p", "-n", "-u", "-i", "--", "bash", "-c", &again])?;
    }
    s.until("test $(shoal nodes | grep -cw up) = 2")?;
    s.prints("shoal run -a -p echo well | sort | xargs", "n0: well n1: well")?;
    // More than one lease.
    s.prints("shoal run -n 0 -- bash -c 'for i in $(seq 4000); do (:); done; echo forked'", "forked")?;
    s.prints("shoal run -n 7 true 2>/dev/full; echo $?", "125")?;
    s.prints("shoal run -n 0 no-such-program 2>/dev/full; echo $?", "127")?;
    s.prints("shoal nonsense 2>/dev/full; echo $?", "2")?;
    same("of the table", s.fails("shoal nodes >/dev/full", 1)?.contains("No space left"), true)?;
    let no_key = "mkdir /dev/shm/full; mount -t tmpfs -o size=4k full /dev/shm/full; cd /dev/shm/full; head -c 4096 /dev/zero >x; \
                  shoal key key";
    holds("a key", s.fails(no_key, 1)?.contains("No space left"))?;
    s.prints("cd /dev/shm/full; rm x; shoal key key; wc -c <key", "65")?;
    s.ok("pkill -TERM -f 'sleep 1105$'")?;
    same("its end", going.end()?.out.trim(), "143")?;
    Ok(End::Passed)
}
