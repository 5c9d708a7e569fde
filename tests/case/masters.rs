//! Several front ends and one machine: a node of two, and two that are nodes of each other.

use super::daemons::{join, Machine};
use super::scene::{comes_home, holds, same};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("masters_of_one_node", masters_of_one_node),
    ("masters_end_alone", masters_end_alone),
    ("masters_of_each_other", masters_of_each_other),
    ("masters_and_users", masters_and_users),
    ("masters_clash", masters_clash),
    ("masters_share_processors", masters_share_processors),
];

/// The configuration of a node daemon whose files are those of the space `name`.
fn node_file(name: &str, front: &str, head: &str, node: &str) -> String {
    let dir = run_dir(name);
    format!(
        "key = \"/etc/shoal/{name}.key\"\nrun_dir = \"{dir}\"\nmon_listen = \"none\"\n{head}\n\
         [node]\nfront = \"{front}\"\n{node}\n"
    )
}

/// Of a node's daemon: the first space has the usual one, since that may be anybody's.
fn run_dir(name: &str) -> &'static str {
    if name == "x" {
        "/run/shoal"
    } else {
        "/run/shoal-y"
    }
}

/// Begins a front end that gives up a lost node early; its key.
fn front(machine: &Machine) -> Res<String> {
    machine.prints("mkdir -p /etc/shoal && shoal key", "")?;
    machine.write("/etc/shoal/shoal.toml", "mon_listen = \"none\"\n[front]\nlost_after = 1.5\n", 0o644)?;
    machine.daemon("front")?;
    machine.read("/etc/shoal/key")
}

fn up(front: &Machine, nodes: u32) -> Res {
    front.until(&format!("test $(shoal nodes 2>/dev/null | grep -cw up) = {nodes}"))
}

/// Two front ends, x and y, and the machine m, which has the files of a node of both.
fn spaces(place: &Place, heads: [&str; 2], nodes: [&str; 2]) -> Res<[Machine; 3]> {
    let machines = ["x", "y", "m"].map(|name| Machine::start(place, name));
    let machines = machines.into_iter().collect::<Res<Vec<_>>>()?;
    join(&machines)?;
    let machines: [Machine; 3] = machines.try_into().map_err(|_| "three were made".to_string())?;
    let [x, y, m] = &machines;
    for (i, (name, address, of)) in [("x", "10.78.0.1", x), ("y", "10.78.0.11", y)].into_iter().enumerate() {
        m.write(&format!("/etc/shoal/{name}.key"), &front(of)?, 0o600)?;
        m.write(&format!("/etc/shoal/{name}.toml"), &node_file(name, address, heads[i], nodes[i]), 0o644)?;
    }
    Ok(machines)
}

/// The same, with the node's daemons.
fn served(place: &Place) -> Res<[Machine; 3]> {
    let machines = spaces(place, [""; 2], [""; 2])?;
    let [x, y, m] = &machines;
    m.daemon("node --config /etc/shoal/x.toml")?;
    m.daemon("node --config /etc/shoal/y.toml")?;
    [x, y].into_iter().try_for_each(|front| up(front, 1))?;
    Ok(machines)
}

/// Starts what goes on, and waits until it is seen; its number is in a file.
fn begin(front: &Machine, node: u32, command: &str) -> Res {
    let begin = format!(
        "shoal run -n {node} {command} </dev/null >/dev/null 2>&1 & echo $! >/run/pid; \
         until shoal ps | grep -q '{command}'; do sleep 0.05; done"
    );
    front.prints(&begin, "")
}

/// What sleeps, in a list of processes.
const SLEEPERS: &str = "grep -oE 'sleep [0-9]+' | sort -u | xargs";

/// A program that has a child with a certain number.
fn begin_numbered(front: &Machine, command: &str) -> Res {
    let child = format!("echo 1048999 >/proc/sys/kernel/ns_last_pid; {command} & wait");
    let begin = format!("shoal run -n 0 sh -c '{child}' </dev/null >/dev/null 2>&1 &");
    front.prints(&format!("{begin} until test \"$(shoal where 1049000 2>&1)\" = n0; do sleep 0.05; done"), "")
}

/// Programs of both, under the same numbers: each space sees, signals and moves its own.
fn masters_of_one_node(place: &Place) -> Res<End> {
    let machines = served(place)?;
    let [x, y, m] = &machines;
    for (front, [one, two]) in [(x, ["sleep 2201", "sleep 2202"]), (y, ["sleep 3301", "sleep 3302"])] {
        begin(front, 0, one)?;
        begin_numbered(front, two)?;
        let own = format!("{one} {two}");
        front.prints(&format!("shoal ps | {SLEEPERS}"), &own)?;
        front.prints(&format!("shoal run -n 0 shoal ps | {SLEEPERS}"), &own)?;
        front.prints(&format!("shoal run -n 0 ps -eo args | grep '^sleep' | {SLEEPERS}"), &own)?;
        front.prints("shoal run -n 0 shoal where 1049000", "n0")?;
    }
    // Outside of both it is said which is asked.
    m.prints(&format!("shoal ps | {SLEEPERS}"), "sleep 2201 sleep 2202")?;
    for y_is_asked in ["shoal --run-dir /run/shoal-y ps", "SHOAL_SOCKET=/run/shoal-y/shoal.sock shoal ps"] {
        m.prints(&format!("{y_is_asked} | {SLEEPERS}"), "sleep 3301 sleep 3302")?;
    }
    // The environment of whoever starts a program says nothing there, nor does that of its front end.
    let elsewhere = "SHOAL_SOCKET=/run/shoal/shoal.sock shoal run -n 0 sh -c 'echo $SHOAL_SOCKET; shoal ps'";
    y.prints(&format!("{elsewhere} | {SLEEPERS}"), "sleep 3301 sleep 3302")?;

    y.prints("shoal run -n 0 kill 1049000; until ! shoal where 1049000 >/dev/null 2>&1; do sleep 0.05; done", "")?;
    x.prints(&format!("shoal ps | {SLEEPERS}"), "sleep 2201 sleep 2202")?;
    begin_numbered(y, "sleep 3303")?;
    x.prints("kill -9 1049000; while kill -0 1049000 2>/dev/null; do sleep 0.05; done", "")?;
    y.prints(&format!("shoal ps | {SLEEPERS}"), "sleep 3301 sleep 3303")?;
    x.prints("shoal run -n 0 python3 -c 'import os; os.kill(-1, 15)'; echo $?", "0")?;
    x.until("test $(shoal ps | grep -c sleep) = 0")?;
    y.prints(&format!("shoal ps | {SLEEPERS}"), "sleep 3301 sleep 3303")?;
    m.prints(
        &format!("ps -eo args | grep '^sleep [0-9]\\{{4\\}}$' | grep -v 1000 | {SLEEPERS}"),
        "sleep 3301 sleep 3303",
    )?;

    if comes_home() {
        begin(x, 0, "sleep 2204")?;
        for front in [x, y] {
            front.prints("shoal move $(cat /run/pid) front >/dev/null; shoal where $(cat /run/pid)", "front")?;
            front.prints("shoal move $(cat /run/pid) n0 >/dev/null; shoal where $(cat /run/pid)", "n0")?;
        }
        x.prints(&format!("shoal ps | {SLEEPERS}"), "sleep 2204")?;
        y.prints(&format!("shoal ps | {SLEEPERS}"), "sleep 3301 sleep 3303")?;
    }
    Ok(End::Passed)
}

/// One of the front ends, and one of the node's daemons, is killed: what is of the other space notices nothing.
fn masters_end_alone(place: &Place) -> Res<End> {
    let machines = served(place)?;
    let [x, y, m] = &machines;
    let both = |of_x: &str| -> Res {
        begin(x, 0, of_x)?;
        y.prints(&format!("shoal ps | {SLEEPERS}"), "sleep 3301")
    };
    let x_has_ended = |of_x: &str| m.until(&format!("! pgrep -fx '{of_x}'"));
    let y_goes_on = || {
        y.prints("shoal run -n 0 hostname", "m")?;
        y.prints("shoal nodes | grep -cw up; kill -0 $(cat /run/pid) && shoal where $(cat /run/pid)", "1\nn0")
    };
    begin(y, 0, "sleep 3301")?;
    both("sleep 2201")?;
    x.prints("pkill -KILL -x shoal; pkill -KILL -x shoal:holder; true", "")?;
    x_has_ended("sleep 2201")?;
    y_goes_on()?;
    x.daemon("front")?;
    up(x, 1)?;
    both("sleep 2202")?;
    m.prints("pkill -KILL -o -f '^shoal node --config /etc/shoal/x.toml'", "")?;
    x_has_ended("sleep 2202")?;
    y_goes_on()?;
    x.until("shoal nodes | grep -qw down")?;
    m.daemon("node --config /etc/shoal/x.toml")?;
    up(x, 1)?;
    both("sleep 2203")?;
    m.prints("pkill -TERM -o -f '^shoal node --config /etc/shoal/y.toml'", "")?;
    m.until("! pgrep -fx 'sleep 3301'")?;
    x.prints(&format!("shoal ps | {SLEEPERS}"), "sleep 2203")?;
    Ok(End::Passed)
}

/// Two front ends, each a node of the other.
fn each_other(place: &Place) -> Res<[Machine; 2]> {
    let machines = [Machine::start(place, "a")?, Machine::start(place, "b")?];
    join(&machines)?;
    let [a, b] = &machines;
    for (of, other, address) in [(a, b, "10.78.0.1"), (b, a, "10.78.0.11")] {
        other.write("/etc/shoal/y.key", &front(of)?, 0o600)?;
        other.write("/etc/shoal/y.toml", &node_file("y", address, "", ""), 0o644)?;
    }
    for machine in &machines {
        machine.daemon("node --config /etc/shoal/y.toml")?;
    }
    machines.iter().try_for_each(|front| up(front, 1))?;
    Ok(machines)
}

/// The number that the machine has for the one process of this command line, and its group.
fn outer(machine: &Machine, command: &str) -> Res<[String; 2]> {
    let pid = machine.sh(&format!("pgrep -fx '{command}'"))?.1;
    let group = machine.sh(&format!("ps -o pgid= -p {pid}"))?.1.trim().to_string();
    let numbers = [pid, group];
    match numbers.iter().all(|number| number.parse::<i32>().is_ok()) {
        true => Ok(numbers),
        false => Err(format!("{command}: {numbers:?}")),
    }
}

/// What runs on a front end for another space has a number there among the machine's own: nobody of this space reaches it by that.
fn masters_of_each_other(place: &Place) -> Res<End> {
    let machines = each_other(place)?;
    let [a, b] = &machines;
    a.prints("shoal run -n 0 hostname", "b")?;
    b.prints("shoal run -n 0 hostname", "a")?;
    // A space is known by where its node is.
    let node = "shoal nodes | awk 'NR > 1 {print $3}'";
    for (front, at) in [(a, "10.78.0.11"), (b, "10.78.0.1")] {
        front.prints(node, at)?;
        front.prints("shoal run -n 0 shoal nodes | awk 'NR > 1 {print $3}'", at)?;
        front.prints("shoal run -n 0 sh -c 'shoal run -n 0 echo here; shoal where $$'", "here\nn0")?;
    }
    begin(b, 0, "sleep 3301")?;
    a.prints("shoal ps | wc -l", "1")?;
    let [pid, group] = outer(a, "sleep 3301")?;
    let none = |script: String, word: &str| -> Res {
        let (code, out, errors) = a.sh(&script)?;
        holds(&format!("$ {script}: {code:?} {out} {errors}"), code != Some(0) && errors.contains(word))
    };
    for sig in [0, 9] {
        none(format!("shoal run -n 0 kill -{sig} {pid}"), "No such process")?;
        let kill = format!("import os; os.killpg({group}, {sig})");
        none(format!("shoal run -n 0 python3 -c '{kill}'"), "ProcessLookupError")?;
    }
    none(format!("shoal where {pid}"), "no process of the space")?;
    none(format!("shoal move {pid} n0"), "is a process of another space")?;
    none(format!("shoal move --explain {pid} n0"), "is a process of another space")?;
    // What is the front end's own, is reached.
    a.prints("sleep 100 & shoal run -n 0 kill $!; wait $!; echo $?", "143")?;
    let asks = "shoal run -n 0 sh -c 'SHOAL_SOCKET=/run/shoal/shoal.sock shoal run -n 0 true 2>&1; echo $?'";
    let refused = "shoal: run a program from here: the caller is a process of another space\n125";
    b.prints(asks, refused)?;
    b.prints("shoal where $(cat /run/pid)", "n0")?;

    if comes_home() {
        b.prints("shoal move $(cat /run/pid) front >/dev/null; shoal where $(cat /run/pid)", "front")?;
        b.prints("shoal move $(cat /run/pid) n0 >/dev/null; shoal where $(cat /run/pid)", "n0")?;
    }
    // One daemon of three on a machine is killed and comes again.
    begin(a, 0, "sleep 2201")?;
    a.prints("pkill -KILL -o -f '^shoal front'", "")?;
    a.daemon("front")?;
    up(a, 1)?;
    a.prints(&format!("shoal ps | {SLEEPERS}"), "sleep 2201")?;
    b.prints(&format!("shoal ps | {SLEEPERS}"), "sleep 3301")?;
    Ok(End::Passed)
}

/// A copy of the program that users may call, on a machine.
fn for_users(machine: &Machine) -> Res<String> {
    let give = "import os, struct; os.setxattr(\"/run/bin/shoal\", \"security.capability\", struct.pack(\"<5I\", 0x02000001, 0, 0, 256, 0))";
    machine.prints(&format!("mkdir -p /run/bin; cp $(command -v shoal) /run/bin/; python3 -c '{give}'"), "")?;
    Ok("PATH=/run/bin:$PATH setpriv --reuid 61001 --regid 61001 --clear-groups ".to_string())
}

/// A user has in each space what that gives, and nothing in one by way of the other.
fn masters_and_users(place: &Place) -> Res<End> {
    let machines = each_other(place)?;
    let [a, b] = &machines;
    let (user, _) = (for_users(a)?, for_users(b)?);
    for (front, at) in [(a, "b"), (b, "a")] {
        front.prints(
            &format!("{user} shoal run -n 0 sh -c 'hostname; id -u; shoal run -n 0 echo here'"),
            &format!("{at}\n61001\nhere"),
        )?;
    }
    let begun = format!("{user} shoal run -n 0 sleep 3301 </dev/null >/dev/null 2>&1 & echo $! >/run/pid; until shoal ps | grep -q 'sleep 3301'; do sleep 0.05; done");
    b.prints(&begun, "")?;
    let [pid, group] = outer(a, "sleep 3301")?;
    let none = |script: String, word: &str| -> Res {
        let (code, out, errors) = a.sh(&script)?;
        holds(&format!("$ {script}: {code:?} {out} {errors}"), code != Some(0) && errors.contains(word))
    };
    none(format!("{user} shoal run -n 0 kill -9 {pid}"), "No such process")?;
    none(format!("{user} shoal run -n 0 python3 -c 'import os; os.killpg({group}, 9)'"), "ProcessLookupError")?;
    none(format!("{user} shoal move {pid} n0"), "is a process of another space")?;
    // The user asks the other space's daemon: it is the user's own there, and root's is not.
    let own = b.sh("cat /run/pid")?.1;
    a.prints(&format!("{user} shoal --run-dir /run/shoal-y where {own}"), "n0")?;
    begin(b, 0, "sleep 3302")?;
    let roots = b.sh("cat /run/pid")?.1;
    none(format!("{user} shoal --run-dir /run/shoal-y move {roots} n0"), "is another user's")?;
    none(format!("{user} shoal --run-dir /run/shoal-y run -n 0 true"), "the caller is no process of the space")?;
    // Nobody but root puts anything where commands look for their daemon.
    let fakes = "mkdir /run/shoal-space/x || mount --bind /tmp /run/shoal-space || rm /run/shoal-space/shoal.sock";
    let faked = b.sh(&format!("{user} shoal run -n 0 sh -c '{fakes}; ls -ld /run/shoal-space | cut -c1-10'"))?;
    holds(&format!("{faked:?}"), faked.1.starts_with("drwxr-xr-x") && faked.2.contains("ermission denied"))?;
    b.prints(&format!("{user} shoal run -n 0 shoal where {own}"), "n0")?;
    // A node that is closed to a user in one space is open in the other.
    a.prints("shoal node-set 0 --mode 0100", "")?;
    none(format!("{user} shoal run -n 0 true"), "n0")?;
    b.prints(&format!("{user} shoal run -n 0 hostname"), "a")?;
    Ok(End::Passed)
}

/// What two daemons of a machine cannot both have is refused to the second, by name, and the first goes on.
fn masters_clash(place: &Place) -> Res<End> {
    let heads = ["bpfs = \"/run/bpfs\"", "bpfs = \"/run/bpfs\""];
    let machines = spaces(place, heads, ["", "cpu_weight = 10001"])?;
    let [x, y, m] = &machines;
    // As on a machine with systemd.
    m.prints("mount --make-rshared /", "")?;
    m.daemon("node --config /etc/shoal/x.toml")?;
    up(x, 1)?;
    x.fails("shoal front --run-dir /run/other --listen 10.78.0.1:7707", "a machine is the front end of one space")?;
    x.fails("shoal front --listen 10.78.0.1:7707", "serve a run_dir of another daemon")?;
    x.fails("shoal node --front 10.78.0.11", "another daemon serves /run/shoal/shoal.sock already")?;
    m.fails("shoal node --config /etc/shoal/x.toml", "another daemon serves /run/shoal/shoal.sock already")?;
    m.fails("shoal --run-dir /run/nobody nodes", "no shoal daemon runs on this machine")?;
    m.fails("shoal node --config /etc/shoal/y.toml", "0 to 10000 are possible")?;

    let files = "cat /run/bpfs/status | wc -l";
    m.until(&format!("test $({files}) -ge 1"))?;
    m.write("/etc/shoal/y.toml", &node_file("y", "10.78.0.11", heads[1], ""), 0o644)?;
    m.daemon("node --config /etc/shoal/y.toml")?;
    up(y, 1)?;
    m.until("grep -q 'mount node files at /run/bpfs: those of the daemon of /run/shoal are there' /run/node.log")?;
    m.prints("grep -c ' /run/bpfs ' /proc/self/mounts", "1")?;
    m.prints(&format!("test $({files}) -ge 1"), "")?;
    m.prints("pkill -TERM -o -f '^shoal node --config /etc/shoal/y.toml'", "")?;
    m.until("! pgrep -f '[s]hoal[-/]y'")?;
    m.write("/etc/shoal/y.toml", &node_file("y", "10.78.0.11", "bpfs = \"/run/bpfs-y\"", ""), 0o644)?;
    m.daemon("node --config /etc/shoal/y.toml")?;
    up(y, 1)?;
    m.until("test -e /run/bpfs-y/status")?;
    x.prints(
        "BPFS_PATH=/nowhere shoal run -n 0 sh -c 'echo $BPFS_PATH; test -e $BPFS_PATH/0 && echo there'",
        "/run/bpfs\nthere",
    )?;
    y.prints(
        "BPFS_PATH=/nowhere shoal run -n 0 sh -c 'echo $BPFS_PATH; test -e $BPFS_PATH/0 && echo there'",
        "/run/bpfs-y\nthere",
    )?;
    Ok(End::Passed)
}

/// So many processes that compute until they are told to end, each in a session of its own.
const BURN: &str = "
import os, sys
many = int(sys.argv[1])
for i in range(many):
    if os.fork() == 0:
        os.setsid()
        while not os.path.exists(sys.argv[2]): sum(range(10000))
        os._exit(0)
for i in range(many): os.wait()
";

/// What the processes of each of these command lines use in three seconds, once all are there, in ticks of the clock; the fairest of
/// at most four times, since what else runs on the machine takes its part of either.
const USED: &str = "
import os, sys, time
def of(word):
    found = {}
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if word in open(f'/proc/{pid}/cmdline').read().replace('\\0', ' ') and open(f'/proc/{pid}/comm').read() == 'python3\\n':
                fields = open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()
                found[pid] = int(fields[11]) + int(fields[12])
        except OSError: pass
    return found
words = ['burn.py 100 ', 'burn.py 1 ']
while [len(of(word)) for word in words] != [101, 2]: time.sleep(0.1)
used = []
for _ in range(4):
    before = [of(word) for word in words]
    time.sleep(3)
    after = [of(word) for word in words]
    used.append([sum(now[pid] - then.get(pid, 0) for pid in now) for then, now in zip(before, after)])
    if 4 * used[-1][1] >= used[-1][0]: break
print(*max(used, key=lambda both: both[1] / max(both[0], 1)))
";

/// Eight processes that fork without a pause, for so many seconds.
const STORM: &str = "
import os, sys, time
end = time.time() + float(sys.argv[1])
for i in range(8):
    if os.fork() == 0:
        while time.time() < end:
            pid = os.fork()
            if pid == 0: os._exit(0)
            os.waitpid(pid, 0)
        os._exit(0)
for i in range(8): os.wait()
";

/// A space that keeps the machine busy, with computing and with forks, leaves the other one its part.
fn masters_share_processors(place: &Place) -> Res<End> {
    let machines = served(place)?;
    let [x, y, m] = &machines;
    m.write("/run/burn.py", BURN, 0o644)?;
    m.write("/run/storm.py", STORM, 0o644)?;
    m.write("/run/used.py", USED, 0o644)?;
    if m.sh("grep -q 'not among its spaces' /run/node.log")?.0 == Some(0) {
        return Ok(End::Missing("a cpu controller for cgroups".into()));
    }
    // Of one program beside 100 that want both processors: it would have 1 of 100 parts.
    let burn = |many| format!("shoal run -n 0 python3 /run/burn.py {many} /run/over </dev/null >/dev/null 2>&1 &");
    x.prints(&burn(100), "")?;
    y.prints(&burn(1), "")?;
    let used = m.sh("timeout 120 python3 /run/used.py; touch /run/over")?.1;
    let numbers: Vec<u32> = used.split(' ').filter_map(|number| number.parse().ok()).collect();
    let [all, one] = numbers[..] else { return Err(format!("two numbers: {used:?}")) };
    holds(&format!("one program has used {one}, beside it {all} in all (ticks)"), 4 * one >= all)?;
    x.until("! shoal ps | grep -q burn.py")?;

    std::thread::scope(|scope| {
        let storm = scope.spawn(|| x.sh("shoal run -n 0 python3 /run/storm.py 6"));
        x.until("shoal ps | grep -q storm.py")?;
        let short = "timeout 60 sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do shoal run -n 0 echo $i; done' | xargs";
        let done = y.prints(short, "1 2 3 4 5 6 7 8 9 10");
        let stormed = storm.join().map_err(|_| "a scene's thread has panicked".to_string())??;
        done?;
        same("the storm", stormed, (Some(0), String::new(), String::new()))
    })?;
    [x, y].into_iter().try_for_each(|front| front.prints("shoal nodes | grep -cw up", "1"))?;
    Ok(End::Passed)
}
