//! /proc of the front end: what the tools of every day say of processes elsewhere is what they say there.

use super::scene::{holds, same, wait_for, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::session::Plan;
use crate::lab::{Doing, Res};
use rustix::process::Signal;

pub(crate) const SCENES: &[Scene] = &[
    ("proc_for_tools", proc_for_tools),
    ("proc_is_the_bodys", proc_is_the_bodys),
    ("proc_of_many", proc_of_many),
    ("proc_once_a_second", proc_once_a_second),
    ("proc_is_known_before_anybody_looks", proc_is_known_before_anybody_looks),
    ("proc_of_threads_and_descriptors", proc_of_threads_and_descriptors),
    ("proc_of_one_that_has_ended", proc_of_one_that_has_ended),
    ("proc_of_long_arguments", proc_of_long_arguments),
    ("proc_of_a_silent_node", proc_of_a_silent_node),
    ("proc_when_its_server_is_killed", proc_when_its_server_is_killed),
    ("proc_when_its_server_is_stopped", proc_when_its_server_is_stopped),
    ("proc_when_the_daemon_is_killed", proc_when_the_daemon_is_killed),
    ("proc_follows_moves", proc_follows_moves),
    ("proc_can_be_left_out", proc_can_be_left_out),
];

/// A program with threads, a file, and a name of its own.
const PROGRAM: &str = "import ctypes, signal, sys, threading, time
ctypes.CDLL(None).prctl(15, b'looked-at')
file = open('/etc/hostname')
for _ in range(3): threading.Thread(target=time.sleep, args=(900,), daemon=True).start()
signal.pause()";

/// Starts it on node 1, and waits until it is all there; what follows finds its PID in `$p`.
pub(super) fn begin(s: &Sandbox) -> Res<(super::scene::Going, String)> {
    let going = s.start(&format!(
        "cat >/tmp/looked.$$ <<'E'\n{PROGRAM}\nE\nmv /tmp/looked.$$ /tmp/looked.py; shoal run -n 1 /usr/bin/python3 /tmp/looked.py one 'two  three'"
    ));
    s.until("p=$(pgrep -x looked-at) && test $(ls /proc/$p/task | wc -l) = 4")?;
    let pid = s.ok("pgrep -x looked-at")?;
    Ok((going, pid))
}

pub(super) fn end(s: &Sandbox, going: super::scene::Going) -> Res {
    s.ok("pkill -KILL -x looked-at")?;
    going.end()?;
    wait_for("its end", || s.count("/usr/bin/python3 /tmp/looked.py one two  three") == 0)
}

pub(super) fn has(command: &str) -> bool {
    std::process::Command::new("sh")
        .args(["-c", &format!("command -v {command}")])
        .output()
        .is_ok_and(|o| o.status.success())
}

/// Each tool says on the front end what it says on the node.
fn proc_for_tools(place: &Place) -> Res<End> {
    const NEEDED: [&str; 10] = ["ps", "top", "pgrep", "pidof", "pstree", "lsof", "fuser", "htop", "vmstat", "glances"];
    if let Some(missing) = NEEDED.iter().find(|tool| !has(tool)) {
        return Ok(End::Missing((*missing).into()));
    }
    let s = Sandbox::new(place, "proc_for_tools", 2)?;
    let (going, p) = begin(&s)?;
    for tool in [
        format!("ps -o pid,uid,gid,stat,nlwp,ni,vsz,rss,comm,args -p {p} ww"),
        format!("ps -L -o lwp,comm -p {p} | sort"),
        format!("ps -o wchan= -p {p}"),
        format!("ps eww -o args= -p {p} | grep -o PATH=.*"),
        format!("top -b -n 1 -p {p} | awk '$1 == {p} {{print $1, $2, $5, $8, $NF}}'"),
        "pgrep looked-at".into(),
        "pgrep -f '^/usr/bin/python3 /tmp/looked.py'".into(),
        "pgrep -a looked-at".into(),
        format!("pstree -t {p} | tr -d ' \\n'"),
        format!("lsof -p {p} | awk '$4 ~ /cwd|rtd|txt|3r/ {{print $4, $5, $NF}}'"),
        format!("lsof -t /etc/hostname | grep -x {p}"),
        format!("fuser /etc/hostname 2>/dev/null | tr ' ' '\\n' | grep -x {p}"),
        format!("pwdx {p}"),
        format!("pmap {p} | tail -1"),
    ] {
        // The first comes from here, the other from there.
        let there = s.ok(&format!("shoal run -n 1 sh -c \"$(cat <<'E'\n{tool}\nE\n)\""))?;
        holds(&format!("{tool} says something"), !there.is_empty())?;
        same(&tool, s.ok(&tool)?.as_str(), there.as_str())?;
    }
    let psutil = format!(
        "/usr/bin/python3 -c \"import psutil; p = psutil.Process({p})
print(p.name(), p.exe(), p.cwd(), p.cmdline(), p.num_threads(), p.open_files(), p.username(), p.status(), p.environ()['PATH'], len(p.memory_maps()), p.memory_info().vms)\""
    );
    match s.sh("/usr/bin/python3 -c 'import psutil'")?.code() {
        Some(0) => {
            let there = s.ok(&format!("shoal run -n 1 sh -c \"$(cat <<'E'\n{psutil}\nE\n)\""))?;
            same("psutil", s.ok(&psutil)?.as_str(), there.as_str())?;
        }
        _ => return Ok(End::Missing("python3-psutil".into())),
    }
    let screen = "(sleep 2; echo q) | TERM=xterm timeout 20 script -qc 'stty rows 90 cols 160; htop' /dev/null | grep -aq looked.py";
    s.ok(screen)?;
    s.prints("pidof python3", &p)?;
    // Its fields come in any order.
    let listed = "timeout 20 glances --stdout-csv processlist --stop-after 2 | tr ',' '\\n' | grep -x looked-at | uniq";
    s.prints(listed, "looked-at")?;
    s.ok("pkill -CONT -x looked-at")?;
    // It wants the kernel's own directory of a process to signal that (pidfd_send_signal(2)).
    s.prints("killall -CONT looked-at 2>&1 | head -1", &format!("looked-at({p}): Bad file descriptor"))?;
    // These are of the machine.
    for tool in ["uptime", "free", "vmstat"] {
        s.ok(tool)?;
    }
    end(&s, going)?;
    Ok(End::Passed)
}

/// Its name, arguments and state are the body's, its kin the ghost's; and one that has ended is gone.
fn proc_is_the_bodys(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_is_the_bodys", 2)?;
    let (going, p) = begin(&s)?;
    s.prints(&format!("tr '\\0' '|' </proc/{p}/cmdline"), "/usr/bin/python3|/tmp/looked.py|one|two  three|")?;
    s.prints(&format!("cat /proc/{p}/comm; grep BProcNode /proc/{p}/status"), "looked-at\nBProcNode:\t1")?;
    let kin = |of: &str| {
        format!("awk '/^(Pid|PPid|NSpgid|NSsid):/ {{print $2}}' {of}/{p}/status | tr '\\n' ' '; sed 's/.*) . //' {of}/{p}/stat | cut -d ' ' -f 1-5,19")
    };
    s.ok("mkdir -p /run/native && mount -t proc proc /run/native")?;
    same("kin", s.ok(&kin("/proc"))?.as_str(), s.ok(&kin("/run/native"))?.as_str())?;
    let there = |name: &str| format!("shoal run -n 1 cat /proc/{p}/{name}");
    for name in ["statm", "limits", "wchan", "cgroup", "oom_score_adj", "maps", "environ", "auxv"] {
        same(name, s.ok(&format!("cat /proc/{p}/{name} | md5sum"))?, s.ok(&format!("{} | md5sum", there(name)))?)?;
    }
    for link in ["exe", "cwd", "root", "fd/3"] {
        same(
            link,
            s.ok(&format!("readlink /proc/{p}/{link}"))?,
            s.ok(&format!("shoal run -n 1 readlink /proc/{p}/{link}"))?,
        )?;
    }
    // What has a size is as long as that, and says the same when it is read in pieces; it may become another between two looks, as the kernel takes memory of who sleeps.
    let whole = format!("test $(stat -c %s /proc/{p}/status) = $(wc -c </proc/{p}/status)");
    let pieces = format!("test \"$(dd bs=7 if=/proc/{p}/status 2>/dev/null)\" = \"$(cat /proc/{p}/status)\"");
    s.ok(&format!("for i in 1 2 3 4; do {whole} && {pieces} && exit; done; exit 1"))?;
    s.ok(&format!("! test -e /proc/{p}/ctty && ! test -e /proc/{p}/fd/77 && ! cat /proc/{p}/task/1/comm 2>/dev/null"))?;
    s.ok(&format!("kill -STOP {p}"))?;
    s.until(&format!("ps -o stat= -p {p} | grep -q T"))?;
    s.ok(&format!("kill -CONT {p}"))?;
    s.until(&format!("ps -o stat= -p {p} | grep -q S"))?;
    end(&s, going)?;
    s.until(&format!("! test -e /proc/{p} && ! grep -q ' /proc/{p} ' /proc/self/mountinfo"))?;
    // A child of the body's too.
    let forks = s.start("shoal run -n 0 sh -c 'sleep 1071 & wait'");
    s.until("test \"$(ps -o args= -C sleep)\" = 'sleep 1071'")?;
    s.ok("pkill -x sleep")?;
    forks.end()?;
    Ok(End::Passed)
}

/// Who goes through many has things learnt ahead of him, and sees all as it is.
fn proc_of_many(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_of_many", 2)?;
    let many = "for n in $(seq 150); do sleep 1234 & done; wait";
    let going = s.start(&format!("shoal run -n 0-1 sh -c '{many}'"));
    let bound = |count| format!("test $(grep -c ' /proc/[0-9]* ' /proc/self/mountinfo) = {count}");
    s.until(&bound(302))?;
    let states = "ps -eo stat=,args= | grep 'sleep 1234$' | sort | uniq -c | awk '{print $1, substr($2, 1, 1)}'";
    // Some have yet to execute.
    s.until(&format!("test \"$({states})\" = '300 S'"))?;
    s.ok("test $(ls /proc/$(pgrep -x shoal:ahead)/fd | wc -l) -gt 100")?;
    s.ok("sleep 1.1")?;
    for round in 0..4 {
        s.prints(states, "300 S")?;
        let one = s.ok(&format!("pgrep -f 'sleep 1234' | sed -n {}p", 40 + 60 * round))?;
        s.ok(&format!("kill -STOP {one}"))?;
        s.until(&format!("grep -q '^State:.T' /proc/{one}/status"))?;
        s.prints(states, "299 S\n1 T")?;
        s.ok(&format!("kill -CONT {one}"))?;
        s.until(&format!("grep -q '^State:.S' /proc/{one}/status"))?;
    }
    // Several at once, while others look at single ones, and some end.
    let texts = "for f in stat status cmdline environ; do cat /proc/[0-9]*/$f; done >/dev/null 2>&1";
    s.ok(&format!("for n in 1 2 3; do ps -e >/dev/null & {texts} & done; pkill -o -f 'sleep 1234$'; wait"))?;
    s.until(&bound(301))?;
    s.prints(states, "299 S")?;
    let native = "awk '{print $1}' /proc/$p/stat; tr '\\0' ' ' </proc/$p/cmdline; awk '/^(Name|Pid):/ {print $2}' /proc/$p/status";
    s.ok(&format!(
        "for p in $(pgrep -x sleep); do test \"$({native})\" = \"$(printf '%s\\n%s%s\\n%s' $p 'sleep 1234 ' sleep $p)\" || exit 1; done"
    ))?;
    s.ok("pkill -x sleep")?;
    going.end()?;
    Ok(End::Passed)
}

/// Who looks once a second, or a little sooner than that, finds what has become of it each time, and in a view of all machines as one.
fn proc_once_a_second(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_once_a_second", 1)?;
    let going = s.start("shoal run -n 0 sh -c 'while :; do :; done'");
    let busy = "pgrep -x -r R sh";
    s.until(busy)?;
    let path = place.fresh("looks");
    let looks = "import sys, time
def used():
    line = open(sys.argv[1]).read().split(') ')[-1]
    return sum(map(int, line.split()[int(sys.argv[2]):int(sys.argv[2]) + 2]))
seen = []
for _ in range(7):
    seen.append(used())
    time.sleep(0.98)
print([one for one in zip(seen, seen[1:]) if one[0] == one[1]])
";
    std::fs::write(&path, looks).doing("write a program")?;
    let path = path.display();
    s.prints(&format!("python3 {path} /proc/$({busy})/stat 11"), "[]")?;
    s.prints(&format!("shoal shell --whole python3 {path} /proc/stat 1"), "[]")?;
    s.ok(&format!("kill $({busy})"))?;
    going.end()?;
    Ok(End::Passed)
}

/// Of ghosts that stand for a while the kernel knows the names before anybody looks, without a word to their nodes; and whoever looks first need not ask for them.
fn proc_is_known_before_anybody_looks(place: &Place) -> Res<End> {
    let log = Some("info,procfs=debug");
    let s = Sandbox::with(place, "proc_is_known_before", 2, Plan { log, ..Plan::default() })?;
    let many = "for n in $(seq 150); do sleep 1235 & done; wait";
    let going = s.start(&format!("shoal run -n 0-1 sh -c '{many}'"));
    let bound = |count| format!("test $(grep -c ' /proc/[0-9]* ' /proc/self/mountinfo) = {count}");
    s.until(&bound(302))?;
    wait_for("the names are learnt", || s.logs().contains("ghosts=302"))?;
    let asked = |s: &Sandbox| s.logs().lines().rev().find_map(Asked::of).unwrap_or_default();
    wait_for("what was asked for that", || asked(&s).opened >= 302)?;
    let before = asked(&s);
    same("what was read of nodes before anybody looked", before.reads, 0)?;
    s.prints("ps -eo args= | grep -cx 'sleep 1235'", "300")?;
    wait_for("what was asked for by who looked", || asked(&s).attributes > before.attributes)?;
    let after = asked(&s);
    same("directories that had to be opened", after.opened, before.opened)?;
    // Of what is guarded the name is asked for again, once for each of the 302 ahead of whom nobody went (under load that may be most of them);
    // without having learnt it would be nearly a thousand.
    holds("few names had to be looked up", after.names - before.names < 400)?;
    s.ok("pkill -x sleep")?;
    going.end()?;
    s.until("test $(ls /proc/$(pgrep -x shoal:ahead)/fd | wc -l) -lt 50")?;
    Ok(End::Passed)
}

/// What has been asked of who shows /proc, as it has logged last.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    names: u64,
    attributes: u64,
    opened: u64,
    reads: u64,
}

impl Asked {
    fn of(line: &str) -> Option<Asked> {
        let count = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.parse().ok());
        line.contains("was asked").then_some(())?;
        let (names, attributes) = (count("names=")?, count("attributes=")?);
        Some(Asked { names, attributes, opened: count("opened=")?, reads: count("reads=")? })
    }
}

fn proc_of_threads_and_descriptors(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_of_threads_and_descriptors", 2)?;
    let (going, p) = begin(&s)?;
    for list in [format!("/proc/{p}/task"), format!("/proc/{p}/fd"), format!("/proc/{p}/fdinfo")] {
        let names = format!("ls {list} | sort -n");
        same(&names, s.ok(&names)?, s.ok(&format!("shoal run -n 1 sh -c '{names}'"))?)?;
    }
    let of_threads = format!("for t in /proc/{p}/task/*; do cat $t/comm $t/wchan; echo; ls -l $t/fd | wc -l; done");
    same("threads", s.ok(&of_threads)?, s.ok(&format!("shoal run -n 1 sh -c '{of_threads}'"))?)?;
    let file = format!("ls -l /proc/{p}/fd/3 | cut -d ' ' -f 1,9-; cat /proc/{p}/fdinfo/3 | head -2");
    same("a file", s.ok(&file)?, s.ok(&format!("shoal run -n 1 sh -c \"{file}\""))?)?;
    end(&s, going)?;
    Ok(End::Passed)
}

/// Its directory and its files, if somebody has them open, show no other process of its number.
fn proc_of_one_that_has_ended(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_of_one_that_has_ended", 1)?;
    let going = s.start("shoal run -n 0 sleep 1080");
    s.until("pgrep -f -x 'sleep 1080' && grep BProcNode /proc/$(pgrep -f -x 'sleep 1080')/status")?;
    let p = s.ok("pgrep -f -x 'sleep 1080'")?;
    s.ok(&format!(
        "cd /proc/{p} && exec 3<status 4<cmdline && kill {p} && for i in $(seq 100); do cat limits >/dev/null 2>&1 || break; sleep 0.1; done; sleep 1.2; ! cat <&3 2>/dev/null && ! cat <&4 2>/dev/null && ! cat stat status limits environ 2>/dev/null && ! ls fd task 2>/dev/null"
    ))?;
    going.end()?;
    Ok(End::Passed)
}

/// They are shown whole, to whoever reads them, and do not keep others waiting.
fn proc_of_long_arguments(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_of_long_arguments", 1)?;
    let going =
        s.start("shoal run -n 0 sh -c 'for i in $(seq 100); do sh -c \"sleep 1081 & wait\" $(seq 11000) & done; wait'");
    s.until("test $(pgrep -c -x sleep) = 100")?;
    let long = "p=$(pgrep -o -f 'sh -c sleep 1081')";
    s.until(&format!("{long} && test $(wc -c </proc/$p/cmdline) -gt 50000"))?;
    s.prints(
        &format!("{long}; tr '\\0' '\\n' </proc/$p/cmdline | tail -1; ps -o args= ww -p $p | wc -w"),
        "11000\n11006",
    )?;
    s.prints("ps -e -o comm= | grep -cx sleep", "100")?;
    s.ok("pkill -x sleep")?;
    going.end()?;
    Ok(End::Passed)
}

/// What was known of its processes is shown, and said to be old.
fn proc_of_a_silent_node(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_of_a_silent_node", 2)?;
    let going = s.start("shoal run -n 0-1 sleep 1073");
    // Who executes has a name before it has arguments.
    s.until("test $(ps -e -o args | grep -c '^sleep 1073') = 2")?;
    let agent = s.agent("n1")?;
    s.signal(agent, Signal::STOP)?;
    let silent = "for p in $(pgrep -x sleep); do grep BProcNode /proc/$p/status; done | sort";
    let told = s.until(&format!("sleep 1; test \"$({silent} | tail -1)\" = \"$(printf 'BProcNode:\\t1 (silent)')\""));
    let still = s.sh("ps -e -o args | grep -c '^sleep 1073'");
    s.signal(agent, Signal::CONT)?;
    told?;
    same("both are still shown", still?.out.trim(), "2")?;
    s.until(&format!("test \"$({silent} | tr -d '\\t\\n')\" = BProcNode:0BProcNode:1"))?;
    s.ok("pkill -x sleep")?;
    going.end()?;
    Ok(End::Passed)
}

const FAULTLESS: &str = "test -z \"$(ps -ef 2>&1 >/dev/null)\" && ls /proc/[0-9]* >/dev/null";

/// Nobody hangs, and in a moment all is as it was.
fn proc_when_its_server_is_killed(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_when_its_server_is_killed", 2)?;
    let (going, p) = begin(&s)?;
    for _ in 0..3 {
        s.ok("pkill -KILL -x shoal:procfs")?;
        s.until(&format!("ps -o comm= -p {p} | grep -qx looked-at && {FAULTLESS}"))?;
        // What was bound by the one before has gone by then, or is about to go.
        s.until(&format!("test $(grep -c ' /proc/{p} ' /proc/self/mountinfo) = 1"))?;
    }
    // Started later.
    let later = s.start("shoal run -n 0 sleep 1074");
    s.until("pgrep -f -x 'sleep 1074'")?;
    s.ok("pkill -x sleep")?;
    later.end()?;
    end(&s, going)?;
    Ok(End::Passed)
}

/// It is replaced, and whoever waited for it goes on.
fn proc_when_its_server_is_stopped(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_when_its_server_is_stopped", 2)?;
    let (going, p) = begin(&s)?;
    s.ok("pkill -STOP -x shoal:procfs")?;
    s.sh("timeout 20 ps -ef >/dev/null 2>&1")?;
    s.until(&format!("timeout 5 ps -o comm= -p {p} | grep -qx looked-at && {FAULTLESS}"))?;
    s.prints(&format!("grep -c ' /proc/{p} ' /proc/self/mountinfo; pgrep -c -x shoal:procfs"), "1\n1")?;
    // Also one whose daemon is not there any more.
    s.ok("pkill -STOP -x shoal:procfs && shoal fault front kill-daemon && shoal fault front start-daemon")?;
    s.until(&format!("timeout 5 ps -o comm= -p {p} | grep -qx looked-at"))?;
    end(&s, going)?;
    Ok(End::Passed)
}

fn proc_when_the_daemon_is_killed(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_when_the_daemon_is_killed", 2)?;
    let (going, p) = begin(&s)?;
    s.ok("shoal fault front kill-daemon")?;
    // Who shows it takes it away; the ghosts are there.
    s.until(&format!(
        "! grep -q shoal-proc /proc/self/mountinfo && ps -o args= -p {p} | grep -q '^shoal run' && {FAULTLESS}"
    ))?;
    s.ok("shoal fault front start-daemon")?;
    s.until(&format!("ps -o comm= -p {p} | grep -qx looked-at && {FAULTLESS}"))?;
    s.until("test $(shoal nodes | grep -cw up) = 2")?;
    end(&s, going)?;
    Ok(End::Passed)
}

/// On another node it is what it is there; and at home it is a process like others.
fn proc_follows_moves(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_follows_moves", 2)?;
    let going = s.start("shoal run -n 0 sleep 1075");
    s.until("pgrep -f -x 'sleep 1075'")?;
    let p = s.ok("pgrep -f -x 'sleep 1075'")?;
    s.ok(&format!("shoal move {p} 1"))?;
    s.until(&format!("test \"$(grep BProcNode /proc/{p}/status)\" = \"$(printf 'BProcNode:\\t1')\""))?;
    s.prints(&format!("tr '\\0' ' ' </proc/{p}/cmdline"), "sleep 1075")?;
    s.ok(&format!("shoal move {p} front"))?;
    s.until(&format!("! grep -q ' /proc/{p} ' /proc/self/mountinfo"))?;
    s.ok(&format!("! grep BProcNode /proc/{p}/status && test /proc/{p}/exe -ef $(command -v sleep)"))?;
    s.ok(&format!("shoal move {p} 0"))?;
    s.until(&format!("test \"$(grep BProcNode /proc/{p}/status)\" = \"$(printf 'BProcNode:\\t0')\""))?;
    s.ok(&format!("kill {p}"))?;
    going.end()?;
    wait_for("nothing is left", || s.count("sleep 1075") == 0)?;
    Ok(End::Passed)
}

fn proc_can_be_left_out(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "proc_can_be_left_out", 1)?;
    s.ok("shoal fault front kill-daemon && sed -i 's/^.front.$/&\\nproc = false/' /run/shoal/shoal.toml && shoal fault front start-daemon")?;
    s.until("test $(shoal nodes | grep -cw up) = 1")?;
    let going = s.start("shoal run -n 0 sleep 1076");
    s.until("pgrep -f -x 'shoal run -n 0 sleep 1076'")?;
    s.ok("! grep -q shoal-proc /proc/self/mountinfo && ! pgrep -x shoal:procfs")?;
    s.ok("pkill -x sleep")?;
    going.end()?;
    Ok(End::Passed)
}
