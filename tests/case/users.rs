//! Ordinary users: what they start is theirs, what others started is not.

use super::scene::{holds, outside, same, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};

pub(crate) const SCENES: &[Scene] = &[
    ("user_runs", user_runs),
    ("user_opens_its_streams_by_name", user_opens_its_streams_by_name),
    ("user_unknown_on_a_node", user_unknown_on_a_node),
    ("user_kills", user_kills),
    ("user_dumps_core", user_dumps_core),
    ("user_at_a_limit", user_at_a_limit),
    ("user_cannot_use_our_files", user_cannot_use_our_files),
    ("user_is_not_given_what_is_roots", user_is_not_given_what_is_roots),
    ("user_cannot_look_into_a_stand_in", user_cannot_look_into_a_stand_in),
    ("user_is_not_given_the_programs_right", user_is_not_given_the_programs_right),
];

/// Before a command: as this user, in two further groups.
const ANN: &str = "setpriv --reuid 61001 --regid 61001 --groups 61001,61005";
const BOB: &str = "setpriv --reuid 61002 --regid 61002 --clear-groups";

fn user_runs(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "user_runs", 2)?;
    s.prints(&format!("{ANN} shoal run -n 0 id -u"), "61001")?;
    s.prints(&format!("{ANN} shoal run -n 0 id -G"), "61001 61005")?;
    s.prints(&format!("{BOB} shoal run -n 0 id -G"), "61002")?;
    s.prints(&format!("{ANN} shoal run -n 0 cat /etc/shadow 2>/dev/null; echo $?"), "1")?;
    s.prints(&format!("{ANN} shoal run -n 0 sh -c 'grep CapEff /proc/self/status'"), "CapEff:\t0000000000000000")?;
    s.prints(&format!("{ANN} shoal run -n 0 shoal run -n 1 id -u"), "61001")?;
    s.prints(&format!("{ANN} shoal run -n 0 -t sh -c 'echo well > $(tty)'"), "well")?;
    // What the C library takes from a process that has got rights by its file.
    let vars = "LD_LIBRARY_PATH=/nowhere TMPDIR=/nowhere GLIBC_TUNABLES=glibc.malloc.perturb=0";
    for to in [
        "shoal run -n 0",
        "shoal run -n 0 shoal run -n 1",
        "shoal run -n 0-1",
        "shoal run -n 0 sh -c 'shoal run -n 0 $0'",
    ] {
        let all = format!("{ANN} env {vars} {to} env | grep -E '^(LD_LIBRARY_PATH|TMPDIR|GLIBC_TUNABLES)=' | sort -u");
        s.prints(&all, "GLIBC_TUNABLES=glibc.malloc.perturb=0\nLD_LIBRARY_PATH=/nowhere\nTMPDIR=/nowhere")?;
    }
    // What the kernel does to such a process.
    for (limit, to) in [
        ("unlimited", "shoal run -n 0"),
        ("100000", "shoal run -n 0"),
        ("4096", "shoal run -n 0-1"),
        ("unlimited", "shoal run -n 0-1"),
    ] {
        s.prints(&format!("{ANN} bash -c 'ulimit -Ss {limit}; {to} bash -c \"ulimit -s\" | sort -u; true'"), limit)?;
    }
    let going = s.start(&format!("{ANN} shoal run -n 0 sh -c 'sleep 1004 & sleep 1004; wait'; echo $?"));
    s.until("test $(ps -eo uid,comm | grep -c '^ *61001 sleep') = 2")?;
    s.ok(&format!("{ANN} pkill -u 61001 -x sleep"))?;
    going.end()?;
    wait_for("no body is left", || s.count("sleep 1004") == 0)?;
    // What this one's programs start could not be shown, and would be killed.
    let plain = "cd $(mktemp -d) && chmod 755 . && cp $(command -v shoal) plain";
    let said = s.fails(&format!("{plain} && {ANN} ./plain run -n 0 true"), 125)?;
    holds(&format!("it says what it lacks: {said}"), said.contains("lacks cap_checkpoint_restore"))?;
    Ok(End::Passed)
}

/// As without `shoal run`, where the pipes are the user's own.
fn user_opens_its_streams_by_name(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "user_opens_its_streams_by_name", 2)?;
    let opens = "cat /dev/stdin; echo out >/dev/stdout; echo err >/dev/stderr; stat -L -c %u:%g /dev/stdin";
    for run in ["shoal run -n 0", "shoal run -n 0 shoal run -n 1"] {
        let all = format!("echo in | {ANN} {run} sh -c '{opens}' 2>&1 | sort");
        s.prints(&all, "61001:61001\nerr\nin\nout")?;
    }
    // The pipes of a program that goes on elsewhere are others.
    let dir = place.fresh("streams").display().to_string();
    let waits = "until [ -e DIR/go ]; do :; done; uname -n; echo out >/dev/stdout; cat /dev/stdin".replace("DIR", &dir);
    let program =
        s.start(&format!("mkdir {dir}; echo in >{dir}/in; {ANN} shoal run -n 0 bash -c '{waits}' <{dir}/in | cat"));
    s.until("shoal move $(pgrep -n -u 61001 -x bash) 1")?;
    s.ok(&format!("touch {dir}/go"))?;
    same("what it has written", program.end()?.out.trim(), "n1\nout\nin")?;
    s.prints(&format!("echo in | {ANN} shoal run -n 0-1 sh -c 'cat /dev/stdin >/dev/stdout' | cat"), "in\nin")?;
    Ok(End::Passed)
}

/// The program runs, and the first one says so; the node that knows the user says nothing.
fn user_unknown_on_a_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "user_unknown_on_a_node", 2)?;
    let (front, n1) = (place.fresh("front"), place.fresh("n1"));
    let passwd = std::fs::read_to_string("/etc/passwd").doing("read /etc/passwd")?;
    for (at, file, more) in [("front", &front, "ann:x:61001:61001:::\n"), ("n0", &front, ""), ("n1", &n1, "")] {
        if !more.is_empty() || at == "n1" {
            std::fs::write(file, format!("{passwd}{more}")).doing("write a list of users")?;
        }
        let daemon = if at == "front" { s.machine("front")? } else { s.agent(at)? };
        let file = file.display().to_string();
        outside(&["nsenter", "-m", "-t", &daemon.to_string(), "mount", "--bind", &file, "/etc/passwd"])?;
    }
    s.prints(&format!("{ANN} shoal run -n 0 id -un 2>&1"), "ann")?;
    let said = "shoal: n1 does not know user ann: programs run there as the bare number 61001";
    s.prints(&format!("{ANN} shoal run -n 1 id -u 2>&1 | sort"), &format!("61001\n{said}"))?;
    s.prints(&format!("{ANN} shoal run -n 1 id -u 2>&1"), "61001")?;
    Ok(End::Passed)
}

fn user_kills(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "user_kills", 2)?;
    let ann = s.start(&format!("{ANN} shoal run -n 0 sleep 1005; echo $?"));
    let root = s.start("shoal run -n 0 sleep 1006; echo $?");
    s.until("test $(ps -eo comm | grep -c '^sleep$') = 2 || test $(shoal ps | grep -c 'sleep 100[56]') = 2")?;
    let pid = |number: i32| {
        s.ok(&format!("shoal ps --json | python3 -c 'import json, sys; print([p[\"pid\"] for p in json.load(sys.stdin) if p[\"command\"] == \"sleep {number}\"][0])'"))
    };
    let (of_ann, of_root) = (pid(1005)?, pid(1006)?);
    for from in ["", "shoal run -n 0 ", "shoal run -n 1 "] {
        for target in [&of_ann, &of_root] {
            let err = s.sh(&format!("{BOB} {from}bash -c 'kill -KILL {target}'"))?.err;
            holds(&format!("{from}kill by another user is refused: {err}"), err.contains("not permitted"))?;
        }
        let err = s.sh(&format!("{ANN} {from}bash -c 'kill -KILL {of_root}'"))?.err;
        holds(&format!("{from}kill of root's is refused: {err}"), err.contains("not permitted"))?;
    }
    holds("both live", ann.is_going() && root.is_going())?;
    s.ok(&format!("{ANN} shoal run -n 1 bash -c 'kill -TERM {of_ann}'"))?;
    same("ann's own kill", ann.end()?.out.trim(), "143")?;
    s.ok(&format!("kill -KILL {of_root}"))?;
    same("root's kill", root.end()?.out.trim(), "137")?;
    Ok(End::Passed)
}

/// A program that has more processes than its user may have on the front end: those too many are killed, and the log says why.
fn user_at_a_limit(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "user_at_a_limit", 1)?;
    // Natively all 200 would be sleeping when they are told to end.
    let forks = "my %n; for (1..200) { my $p = fork // die; if (!$p) { sleep 100; exit } push @p, $p } \
        sleep 1; kill TERM => @p; $n{$? & 127}++ while wait > 0; print $n{9} > 100 ? qq(well\n) : %n";
    let command = "bash -c 'ulimit -Su 60; shoal run -n 0 bash -c \"ulimit -Su 1000; exec perl -e \\\"\\$FORKS\\\"\"'";
    s.prints(&format!("export FORKS='{forks}'; {ANN} {command}"), "well")?;
    holds("the log says why", s.logs().contains("no ghost could be made: killed, errno 11 (a limit of its user's"))?;
    holds("it says so seldom", s.logs().matches("no ghost could be made").count() < 20)?;
    s.prints("shoal nodes | grep -cw up", "1")?;
    s.until("test -z \"$(shoal ps | tail -n +2)\"; ! ps -e | grep -q defunct")?;
    Ok(End::Passed)
}

/// The shell says so, and there is one core: the program's.
fn user_dumps_core(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "user_dumps_core", 1)?;
    let pattern = s.ok("cat /proc/sys/kernel/core_pattern")?;
    if pattern.starts_with(['|', '@']) || pattern.contains('/') {
        return Ok(End::Missing("cores that are files in the working directory (core_pattern)".into()));
    }
    let dir = place.fresh("cores").display().to_string();
    s.ok(&format!("mkdir {dir}; chmod 777 {dir}"))?;
    for (user, signal, says) in
        [(ANN, "SEGV", "(core dumped)"), ("", "ABRT", "(core dumped)"), (ANN, "TERM", "Terminated")]
    {
        let dies =
            format!("ulimit -c $(ulimit -Hc); cd {dir}; shoal run -n 0 sh -c \"kill -{signal} \\$\\$\"; ls; rm -f *");
        let end = s.sh(&format!("{user} bash -c '{dies}'"))?;
        holds(&format!("bash says {says}: {}", end.err), end.err.contains(says))?;
        same("cores", end.out.lines().count(), usize::from(signal != "TERM"))?;
    }
    Ok(End::Passed)
}

/// The hold files and sockets: opening them, reading and writing, gives an ordinary user nothing and hangs nobody.
fn user_cannot_use_our_files(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "user_cannot_use_our_files", 2)?;
    let going = s.start("shoal run -n 0 sleep 1007; echo $?");
    s.until("shoal ps | grep -q 'sleep 1007'")?;
    let files = "awk '$3 ~ /^fuse/ {print $2}' /proc/mounts | while read dir; do echo $dir; echo $dir/hold; done";
    let tries = format!(
        "export -n PS1; {files} > /run/files; chmod 644 /run/files; \
         {BOB} bash -c 'while read f; do timeout 5 cat \"$f\"; test $? = 124 && echo hung \"$f\"; \
         timeout 5 bash -c \"echo x > \\\"$f\\\"\"; test $? = 124 && echo hung \"$f\"; done < /run/files' 2>/dev/null; echo end"
    );
    s.prints(&tries, "end")?;
    s.prints(&format!("{BOB} timeout 5 bash -c 'echo x > /run/shoal/ghosts/core' 2>/dev/null; echo $?"), "1")?;
    s.prints(
        &format!("{BOB} bash -c 'for f in /run/shoal/key /run/shoal/*.key; do cat $f; done' 2>/dev/null; echo end"),
        "end",
    )?;
    // Not python: it may be root's own.
    let sockets =
        "use IO::Socket::UNIX; use File::Find; $SIG{PIPE} = q(IGNORE); $SIG{ALRM} = sub { print qq(hung\n); exit }; \
        alarm 10; find(sub { return unless -S $_; my $c = IO::Socket::UNIX->new(Peer => $File::Find::name) or return; \
        print $c qq(\\xff) x 4096; $c->flush; sysread($c, my $b, 4096) }, q(/run/shoal)); print qq(end\n)";
    s.prints(&format!("{BOB} perl -e '{sockets}'"), "end")?;
    holds("the program lives", going.is_going())?;
    s.prints("shoal run -n 0 echo well", "well")?;
    s.ok("pkill -KILL -f '^(shoal run -n 0 )?sleep 1007'")?;
    going.end()?;
    Ok(End::Passed)
}

/// A stand-in on a node is its user's process with the agent's memory: nothing of that may be seen or changed.
fn user_cannot_look_into_a_stand_in(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "user_cannot_look_into_a_stand_in", 1)?;
    let look = "stat -c %u /proc/$PPID; for f in mem maps environ auxv smaps pagemap; do head -c 1 /proc/$PPID/$f && echo read $f; done; \
                for f in cwd root exe fd/0 ns/pid; do readlink /proc/$PPID/$f && echo read $f; done; ls /proc/$PPID/fd && echo listed; \
                echo x > /proc/$PPID/mem && echo wrote; echo x > /proc/$PPID/comm && echo named";
    // ptrace(PTRACE_ATTACH), ptrace(PTRACE_SEIZE), process_vm_readv, pidfd_getfd.
    let call = "my $p = getppid; my $fd = syscall(434, $p, 0); my $b = q(x) x 8; my $l = pack(q(PQ), $b, 8); my $r = pack(q(QQ), 65536, 8); \
                for ([101, 16, $p, 0, 0], [101, 0x4206, $p, 0, 0], [310, $p, $l, 1, $r, 1, 0], [438, $fd, 0, 0]) \
                { my ($n, @a) = @$_; my $got = syscall($n, @a); print qq(did $n: $got, $!\\n) if $got != -1 || $! != 1 }";
    let looked = format!("{ANN} bash -c \"shoal run -n 0 -- sh -c '{}' 2>/dev/null; true\"", look.replace('$', "\\$"));
    s.prints(&looked, "61001")?;
    let called = format!("{ANN} bash -c \"shoal run -n 0 -- perl -e '{}'; echo done\"", call.replace('$', "\\$"));
    s.prints(&called, "done")?;
    Ok(End::Passed)
}

/// A program of ann's on node 1, whose `shoal run` stands on node 0, becomes root and starts one on node 0: not by ann's process there.
fn user_is_not_given_what_is_roots(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "user_is_not_given_what_is_roots", 2)?;
    let bash = place.fresh("rootbash").display().to_string();
    s.ok(&format!("cp /bin/bash {bash}; chmod 4755 {bash}"))?;
    let show = "perl -e \\\"open F, q(/proc/).getppid.q(/status); print qq($> ), grep { /^Uid/ } <F>\\\"";
    let as_whom = |options: &str| format!("{ANN} shoal run -n 1 {bash} {options} -c \"shoal run -n 0 {show}; true\"");
    s.prints(&format!("shoal run -n 0 bash -c '{}; true'", as_whom("-p")), "0 Uid:\t0\t0\t0\t0")?;
    // As ann's, it is the child of what stands there for its parent.
    let of_ann = "61001 Uid:\t61001\t61001\t61001\t61001";
    s.prints(&format!("shoal run -n 0 bash -c '{}; true'", as_whom("")), of_ann)?;
    Ok(End::Passed)
}

/// The program's file gives everybody who calls it the right to choose the numbers of processes; it uses that only where a daemon of root's says so.
fn user_is_not_given_the_programs_right(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "user_is_not_given_the_programs_right", 1)?;
    let dir = place.fresh("right").display().to_string();
    s.ok(&format!("mkdir -m 777 {dir}"))?;
    for from in ["", "shoal run -n 0 "] {
        let at = format!("{dir}/{}", from.len());
        let asleep = format!("{ANN} {from}sh -c 'sleep 1061 </dev/null >/dev/null 2>&1 & echo $! > {at}.pid; wait'");
        let going = s.start(&format!("{asleep}; echo $?"));
        s.until(&format!("test -s {at}.pid"))?;
        if from.is_empty() {
            s.ok(&format!("{ANN} shoal checkpoint $(cat {at}.pid) --stop -o {at}.image"))?;
            going.end()?;
            let line = s.fails(&format!("{ANN} shoal restore --detach {at}.image"), 1)?;
            holds(&format!("{line} is refused"), line.contains("not permitted"))?;
        } else {
            s.ok(&format!("kill $(cat {at}.pid)"))?;
            going.end()?;
        }
        // What is only for daemons to start.
        let has = "sleep 0.3; grep CapPrm /proc/$!/status; kill -9 $!";
        s.prints(&format!("{ANN} {from}bash -c 'shoal vessel & {has}' 2>/dev/null"), "CapPrm:\t0000000000000000")?;
        let listens = "use IO::Socket::UNIX; my $l = IO::Socket::UNIX->new(Local => shift, Listen => 1); $l->accept";
        let fake = format!("perl -e \"{listens}\" {at}.sock & until test -S {at}.sock; do sleep 0.1; done");
        let asks = format!("{fake}; SHOAL_SOCKET={at}.sock shoal run -n 0 true; echo $?; kill %1");
        let seen = s.sh(&format!("{ANN} {from}bash -c '{}'", asks.replace('$', "\\$").replace("\\$?", "$?")))?;
        let refused = seen.out.trim() == "125" && seen.err.contains("user 61001 runs it");
        holds(&format!("a daemon of their own is not obeyed: {}", seen.text()), refused)?;
    }
    Ok(End::Passed)
}
