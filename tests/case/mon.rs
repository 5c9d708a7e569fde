//! `shoal mon`: the monitors of the machines.

use super::scene::{holds, same, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use rustix::process::Signal;
use serde_json::Value;

pub(crate) const SCENES: &[Scene] = &[
    ("mon_of_every_node", mon_of_every_node),
    ("mon_of_the_silent", mon_of_the_silent),
    ("mon_trace", mon_trace),
    ("mon_strangers", mon_strangers),
    ("mon_ends_with_its_daemon", mon_ends_with_its_daemon),
];

/// A concentrator of three nodes, and what asks it.
const GATHER: &str = "shoal mon concentrate --from n0=10.77.1.1 n1=10.77.1.2 n2=10.77.1.3 --socket /run/gather & c=$!
    trap 'kill $c' EXIT
    for i in $(seq 100); do test -S /run/gather && break; sleep 0.05; done
    g='shoal mon sample --from /run/gather --within 5s'";

/// A concentrator of one monitor, which is called so.
const ALONE: &str = "shoal mon serve --socket /run/alone & m=$!
    for i in $(seq 100); do test -S /run/alone && break; sleep 0.05; done
    shoal mon concentrate --from alone=/run/alone --socket /run/gather2 & c=$!
    trap 'kill -CONT $m; kill $m $c' EXIT
    for i in $(seq 100); do test -S /run/gather2 && break; sleep 0.05; done
    g='shoal mon sample --from /run/gather2 --within 5s'";

/// A line to a Unix socket, and the line that comes back.
const ASK: &str = "ask() { python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile(\"rw\")
for q in sys.argv[2:]:
    f.write(q + \"\\n\"); f.flush(); print(f.readline(), end=\"\")' \"$@\"; }";

/// The monitor of a machine.
fn monitor(s: &Sandbox, host: &str) -> Res<i32> {
    let daemon = s.daemon(host)?;
    let found = s.all().into_iter().find(|p| p.ppid == daemon && p.comm == "shoal:mon" && p.state != 'Z');
    found.map(|p| p.pid).ok_or(format!("no monitor on {host}"))
}

/// Samples of all, of some, of some numbers, in both forms, from a node too.
fn mon_of_every_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "mon_of_every_node", 3)?;
    s.until("test $(shoal mon sample load.load1 | grep -c '^n[012] load.load1 [0-9]*[.][0-9][0-9]$') = 3")?;
    s.prints(
        "shoal mon sample -n 0,2 memory.MemTotal | awk '{print $1, $2}'",
        "n0 memory.MemTotal\nn2 memory.MemTotal",
    )?;
    s.prints(
        "shoal mon sample -n 1 memory.MemTotal | cut -d' ' -f3",
        &s.ok("awk '/^MemTotal/ {print $2}' /proc/meminfo")?,
    )?;
    s.prints(
        "shoal mon sample -n 1 memory.None 'cpu.*.us*' | sed 's/[.][0-9a].*[.]/ /; s/ [0-9]*$//' | sort -u",
        "n1 cpu user",
    )?;
    let all: Value = serde_json::from_str(&s.ok("shoal mon sample --json")?).doing("read the JSON")?;
    same("all have answered", all["silent"].as_array().map(Vec::len), Some(0))?;
    let samples = all["samples"].as_array().ok_or("no array of samples")?;
    same("three samples", samples.len(), 3)?;
    for sample in samples {
        for group in ["load", "uptime", "cpu", "stat", "memory", "vmstat", "net"] {
            holds(&format!("{group} is in {sample}"), sample[group].is_object())?;
        }
        holds("a full sample has a kilobyte", sample.to_string().len() >= 1024)?;
        let eth0 = &sample["net"]["eth0"]["rx_bytes"];
        holds(&format!("the node's own network: {eth0}"), eth0.as_u64().is_some_and(|bytes| bytes > 0))?;
    }
    s.prints("shoal run -n 1 shoal mon sample --here uptime.up | cut -d' ' -f1,2", "n1 uptime.up")?;
    s.prints("shoal run -n 1 shoal mon sample load.load1 | cut -d' ' -f1 | tr '\\n' ' '", "n0 n1 n2")?;
    s.ok("shoal mon sample --words -n 0 load | grep -q '^(samples (sample (node n0) (time [0-9]*) (load (load1 [0-9.]*) .*)))$'")?;
    s.ok(&format!(
        "{ASK}; ask /run/shoal/mon '#' '(schema load.load1)' | tail -1 | grep -qx '(schema (node front) (load (load1 gauge decimal)))'"
    ))?;
    let empty: u32 = s.ok("shoal mon sample -n 1 space | cut -d' ' -f3")?.parse().doing("read a count")?;
    s.ok(&format!(
        "for i in 1 2 3 4 5; do shoal run -n 1 sleep 1077 & done
        for i in $(seq 100); do test $(shoal mon sample -n 1 space | cut -d' ' -f3) -ge {} && break; sleep 0.1; done; r=$((i == 100)); kill $(jobs -p); exit $r",
        empty + 5
    ))?;
    // Of what has not changed nothing is said again.
    s.ok(&format!(
        "{ASK}; ask /run/shoal/mon '(changed memory.MemTotal stat.ctxt)' '(changed memory.MemTotal stat.ctxt)' >/tmp/$$
        sed -n 1p /tmp/$$ | grep -q MemTotal && sed -n 2p /tmp/$$ | grep ctxt | grep -vq MemTotal; r=$?; rm /tmp/$$; exit $r"
    ))?;
    holds("a name of nothing", s.fails("shoal mon sample load.load1 memroy", 1)?.contains("memroy is no number"))?;
    holds("in JSON too", s.fails("shoal mon sample --json memroy", 1)?.contains("memroy is no number"))?;
    holds("names, not numbers of nodes", s.fails("shoal mon sample -n 7", 1)?.contains("unknown node n7"))?;
    Ok(End::Passed)
}

/// One that is stopped and one that is killed are marked, and the others are there.
fn mon_of_the_silent(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "mon_of_the_silent", 3)?;
    s.until("test $(shoal mon sample load.load1 | grep -c load1) = 3")?;
    let (stopped, killed) = (monitor(&s, "n1")?, monitor(&s, "n2")?);
    s.signal(stopped, Signal::STOP)?;
    s.prints(
        "shoal mon sample load.load1 | sed 's/ [0-9.]*$//'",
        "n1 is silent: no answer within 100 ms\nn0 load.load1\nn2 load.load1",
    )?;
    // In all rounds of a concentrator it is marked.
    let said = s.ok(&format!(
        "{GATHER}; for i in $(seq 20); do $g load.load1; done | cut -c1-18 | sed 's/ [0-9.]*$//' | sort | uniq -c"
    ))?;
    let words: Vec<&str> = said.split_whitespace().collect();
    same("20 rounds", words.join(" ").as_str(), "20 n0 load.load1 20 n1 is silent: no a 20 n2 load.load1")?;
    // It is there again when it answers again, also where all are silent.
    s.ok(&format!(
        "{}; $g load.load1 >/dev/null; kill -STOP $m; for i in 1 2 3; do $g load.load1 >/dev/null; done; kill -CONT $m
        for i in $(seq 50); do $g load.load1 | grep -q '^alone load.load1' && exit 0; sleep 0.1; done; $g load.load1; exit 1",
        ALONE
    ))?;
    s.fails("shoal mon concentrate --from x=10.77.1.1 /run/gather3 --socket /run/gather3", 1)?;
    s.signal(stopped, Signal::CONT)?;
    s.kill(killed)?;
    s.until("shoal mon sample load.load1 | grep -q '^n1 load.load1'")?;
    s.prints("shoal mon sample load.load1 | grep -v load1", "n2 is silent: no monitor listens at 10.77.1.3:7708 (mon_listen = \"0.0.0.0\" in the configuration file of that machine has it listen there)")?;
    // The node has lost nothing by it.
    s.prints("shoal run -n 2 hostname", "n2")?;
    Ok(End::Passed)
}

/// Recorded, printed, served and exported again; cut off, and gone on with.
fn mon_trace(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "mon_trace", 2)?;
    s.until("test $(shoal mon sample load.load1 | grep -c load1) = 2")?;
    let dir = s.ok("mktemp -d")?;
    s.ok(&format!("cd {dir}; shoal mon record t --every 50 --for 0.42"))?;
    let lines = |script: &str| -> Res<usize> { Ok(s.ok(&format!("cd {dir}; {script}"))?.lines().count()) };
    let count = lines("shoal mon export t --json")?;
    holds(&format!("about nine rounds of two nodes: {count}"), (8..=18).contains(&count) && count % 2 == 0)?;
    same("lines of the table", lines("shoal mon export t --csv")?, count + 1)?;
    s.prints(
        &format!("cd {dir}; shoal mon export t memory.MemTotal uptime.up | sed 's/[0-9][0-9]*/N/g' | sort -u"),
        "N.N,nN,,N.N,N\ntime,node,silent,uptime.up,memory.MemTotal",
    )?;
    s.prints(
        &format!("cd {dir}; for form in json words; do shoal mon export t --$form load.load1 | sed 's/[0-9][0-9]*/N/g' | sort -u; done"),
        "{\"node\":\"nN\",\"time\":N,\"load\":{\"loadN\":N.N}}\n(sample (node nN) (time N) (load (loadN N.N)))",
    )?;
    // Who means no number is told so, not left with a trace of nothing; who gets no answer fails too.
    for (more, why) in [("load.load1 load.lod1", "load.lod1 is no number"), ("--from 127.0.0.1:1 load", "")] {
        let said = s.fails(&format!("cd {dir}; shoal mon record u --every 50 --for 0.2 {more}"), 1)?;
        holds(&format!("{more}: {said}"), said.contains(why))?;
        s.ok(&format!("rm {dir}/u"))?;
    }
    // The same numbers come out of a replay, printed and served.
    s.ok(&format!("cd {dir}; shoal mon export t --words >words; shoal mon replay t --speed 50 | cmp - words"))?;
    s.ok(&format!(
        "cd {dir}; shoal mon replay t --speed 1000 --socket r & p=$!; trap 'kill $p' EXIT
        for i in $(seq 100); do test -S r && break; sleep 0.05; done
        last=$(grep 'node n1' words | tail -1)
        for i in $(seq 100); do shoal mon sample --from {dir}/r --words >now; grep -qF \"$last\" now && exit 0; sleep 0.05; done; exit 1"
    ))?;
    // What was cut off is left out, and what is recorded then stands behind the rest.
    s.ok(&format!("cd {dir}; truncate -s -5 t; shoal mon export t --json >less 2>why; grep -q 'was cut off' why"))?;
    same("one sample less", lines("cat less")?, count - 1)?;
    s.ok(&format!("cd {dir}; shoal mon record t --every 50 --for 0.08 load"))?;
    holds("more samples", lines("shoal mon export t --json")? > count)?;
    // Two at a time would write over each other.
    s.ok(&format!(
        "cd {dir}; shoal mon record t --every 50 --for 5 & p=$!; sleep 0.3
        ! shoal mon record t --for 0.1 2>why; grep -q 'another process does that' why; r=$?; kill $p; wait $p; shoal mon export t --json >/dev/null && exit $r"
    ))?;
    s.ok(&format!("cd {dir}; printf x >u; ! shoal mon export u 2>why; grep -q 'no trace' why; rm -r {dir}"))?;
    Ok(End::Passed)
}

/// An ordinary user reads all, and disturbs nobody: with what is no question, without an end, with answers not taken, with many connections.
fn mon_strangers(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "mon_strangers", 1)?;
    s.until("shoal mon sample load.load1 | grep -q load1")?;
    let user = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    s.prints(&format!("{user} shoal mon sample load.load1 | cut -d' ' -f1,2"), "n0 load.load1")?;
    s.prints(&format!("{user} shoal mon sample --here uptime.up | cut -d' ' -f1,2"), "front uptime.up")?;
    let bad = "import socket, sys
def to(line, end=b\"\\n\"):
    s = socket.create_connection((\"10.77.1.1\", 7708)); s.sendall(line + end); return s
def answer(s):
    return s.makefile(\"rb\").readline()
for line in [b\"(\", b\"\\xff\\x00\", b\"{\", b\"[]\", b\"(sample (x))\", b\"(sample \" + b\"a \" * 100 + b\")\"]:
    assert b\"error\" in answer(to(line)), line
try:
    # It may be closed before all of this is sent.
    s = to(b\"(\" * 100000, b\"\"); s.settimeout(5)
    assert s.recv(1) == b\"\"
except (ConnectionResetError, BrokenPipeError):
    pass
idle = [to(b\"\", b\"\") for i in range(700)]
slow = to(b\"S\\n\" * 5000)
assert answer(to(b\"S\")).startswith(b\"(sample (node n0)\")
print(\"held\")";
    s.prints(&format!("{user} /usr/bin/python3 -c '{bad}'"), "held")?;
    s.prints(&format!("{user} /usr/bin/python3 -c '{GREEDY}'"), "held")?;
    s.prints("shoal mon sample load.load1 | cut -d' ' -f1,2", "n0 load.load1")?;
    s.prints("shoal run -n 0 hostname", "n0")?;
    Ok(End::Passed)
}

/// One that asks without a pause, and takes all answers: others have theirs at once, and the monitor does not grow.
const GREEDY: &str = "import os, socket, sys, threading, time
def connect():
    s = socket.socket(socket.AF_UNIX); s.connect(\"/run/shoal/mon\"); return s
def size():
    for pid in filter(str.isdigit, os.listdir(\"/proc\")):
        try:
            text = open(\"/proc/\" + pid + \"/status\").read()
        except OSError:
            continue
        if text.startswith(\"Name:\\tshoal:mon\\n\"):
            return int(text.split(\"VmRSS:\")[1].split()[0])
def says(s):
    while True: s.sendall(b\"x\\n\" * 8192)
def takes(s):
    while s.recv(1 << 20): pass
before = size()
for one in [connect() for i in range(4)]:
    for does in [says, takes]: threading.Thread(target=does, args=[one], daemon=True).start()
s = connect(); f = s.makefile(\"rw\"); slowest = 0
for i in range(100):
    start = time.monotonic()
    f.write(\"(sample load.load1)\\n\"); f.flush()
    assert f.readline().startswith(\"(sample (node front)\")
    slowest = max(slowest, time.monotonic() - start)
    time.sleep(0.02)
grown = size() - before
print(\"held\" if slowest < 1 and grown < 16384 else (slowest, grown)); sys.stdout.flush(); os._exit(0)";

/// However a daemon ends: its monitor ends too, and that of the next one serves in its place.
fn mon_ends_with_its_daemon(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "mon_ends_with_its_daemon", 1)?;
    s.until("shoal mon sample load.load1 | grep -q load1")?;
    let before = monitor(&s, "n0")?;
    s.kill(s.daemon("n0")?)?;
    wait_for("the monitor ends", || s.all().iter().all(|p| p.pid != before || p.state == 'Z'))?;
    s.restart("n0")?;
    wait_for("another monitor", || monitor(&s, "n0").is_ok())?;
    s.until("shoal mon sample load.load1 | grep -q load1")?;
    Ok(End::Passed)
}
