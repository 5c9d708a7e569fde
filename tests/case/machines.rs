//! Nodes on machines that change: file systems come and go, daemons restart, keys differ, a firewall stands between.

use super::daemons::{join, Machine};
use super::scene::{holds, outside, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("mounts_follow_the_machine", mounts_follow_the_machine),
    ("a_node_keeps_its_number", a_node_keeps_its_number),
    ("a_node_is_forgotten", a_node_is_forgotten),
    ("channels_keep_to_their_ports", channels_keep_to_their_ports),
    ("a_wrong_key_is_counted", a_wrong_key_is_counted),
];

/// Runs a shell command on a machine of the sandbox, outside of the node's programs.
pub(super) fn on_machine(s: &Sandbox, host: &str, script: &str) -> Res {
    let target = s.machine(host)?.to_string();
    outside(&["nsenter", "-t", &target, "-m", "-p", "--", "sh", "-c", script])
}

/// A file system is mounted on the machine after its daemon began, and unmounted again.
fn mounts_follow_the_machine(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "mounts_follow_the_machine", 1)?;
    on_machine(&s, "n0", "mkdir /run/later")?;
    let before =
        s.start("shoal run -n 0 sh -c 'for i in $(seq 200); do test -e /run/later/word && break; sleep 0.05; done; cat /run/later/word'");
    s.until("shoal ps | grep -q /run/later/word")?;
    on_machine(&s, "n0", "mount -t tmpfs later /run/later && echo here >/run/later/word")?;
    let seen = before.end()?;
    holds("a program that ran before sees the file system", seen.out.trim_end() == "here")?;
    s.prints("shoal run -n 0 cat /run/later/word", "here")?;

    let user = s.start("shoal run -n 0 sh -c 'cd /run/later && exec sleep 1201'");
    s.until("shoal ps | grep -q 'sleep 1201'")?;
    let busy = on_machine(&s, "n0", "umount /run/later").err().unwrap_or_default();
    holds(&format!("a program's directory keeps the file system busy: {busy:?}"), busy.contains("busy"))?;
    s.ok("pkill -fx 'sleep 1201'")?;
    user.end()?;
    on_machine(&s, "n0", "umount /run/later")?;
    s.prints("shoal run -n 0 ls /run/later", "")?;

    // The other way round nothing follows, and the programs' /proc stays theirs whatever the machine mounts there.
    s.ok("shoal run -n 0 mount -t tmpfs inner /run/later")?;
    s.prints("shoal run -n 0 grep -c ' /run/later ' /proc/self/mounts", "1")?;
    on_machine(&s, "n0", "! grep ' /run/later ' /proc/self/mounts")?;
    let proc = "shoal run -n 0 sh -c 'cat /proc/$$/comm'";
    on_machine(&s, "n0", "mount -t proc proc /proc")?;
    s.prints(proc, "sh")?;
    on_machine(&s, "n0", "umount /proc")?;
    s.prints(proc, "sh")?;
    Ok(End::Passed)
}

const NODES: &str = "shoal nodes | awk 'NR > 1 {print $1, $2, $3}' | xargs";

/// Machines of one cluster with the same configuration file; the first is the front end, whose daemon runs.
fn cluster<const N: usize>(place: &Place, names: [&str; N], settings: &str) -> Res<[Machine; N]> {
    let machines = names.into_iter().map(|name| Machine::start(place, name)).collect::<Res<Vec<_>>>()?;
    join(&machines)?;
    let front = &machines[0];
    front.prints("mkdir -p /etc/shoal && shoal key", "")?;
    let key = front.read("/etc/shoal/key")?;
    for machine in &machines {
        machine.write("/etc/shoal/key", &key, 0o600)?;
        machine.write("/etc/shoal/shoal.toml", &format!("{settings}\n[node]\nfront = \"10.78.0.1\"\n"), 0o644)?;
    }
    front.daemon("front")?;
    machines.try_into().map_err(|_| "as many machines as names".into())
}

/// Begins a node's daemon; until there are so many nodes up.
fn node(machine: &Machine, front: &Machine, up: u32) -> Res {
    machine.daemon("node")?;
    front.until(&format!("test $(shoal nodes 2>/dev/null | grep -cw up) = {up}"))
}

/// Ends a node's daemon in its order.
fn end(machine: &Machine) -> Res {
    machine.prints("pkill -TERM -o -x shoal; while pgrep -x shoal >/dev/null; do sleep 0.1; done", "")
}

const LOST_SOON: &str = "[front]\nlost_after = 1.0";

/// Daemons that restart at once, in another order, and beside a new machine.
fn a_node_keeps_its_number(place: &Place) -> Res<End> {
    let machines = cluster(place, ["front", "one", "two", "three"], LOST_SOON)?;
    let [front, one, two, three] = &machines;
    node(one, front, 1)?;
    node(two, front, 2)?;
    let both = "n0 up 10.78.0.11 n1 up 10.78.0.12";
    front.prints(NODES, both)?;
    for _ in 0..3 {
        one.prints("pkill -KILL -o -x shoal", "")?;
        node(one, front, 2)?;
        front.prints(NODES, both)?;
        front.until("test \"$(shoal run -n 0 hostname)\" = one")?;
    }
    [one, two].into_iter().try_for_each(end)?;
    front.until("test $(shoal nodes | grep -cw down) = 2")?;
    node(three, front, 1)?;
    node(two, front, 2)?;
    node(one, front, 3)?;
    front.prints(NODES, &format!("{both} n2 up 10.78.0.13"))?;
    // Another daemon on a machine is another node, whatever the first one does.
    let other = "setsid shoal node --run-dir /run/other >/run/other.log 2>&1 &";
    one.sh(other)?;
    front.until("test $(shoal nodes | grep -cw up) = 4")?;
    front.prints(NODES, &format!("{both} n2 up 10.78.0.13 n3 up 10.78.0.11"))?;
    Ok(End::Passed)
}

/// Nodes that are down for good, by somebody who may say so.
fn a_node_is_forgotten(place: &Place) -> Res<End> {
    let machines = cluster(place, ["front", "one", "two", "three"], LOST_SOON)?;
    let [front, one, two, three] = &machines;
    node(one, front, 1)?;
    node(two, front, 2)?;
    front.fails("shoal nodes --forget 0", "node n0 is up: only one that is down can be forgotten")?;
    end(one)?;
    front.until("shoal nodes | grep -w n0 | grep -qw down")?;
    front.fails("shoal nodes --forget 0-1", "node n1 is up")?;
    front.fails("shoal nodes --forget 0,7", "unknown node n7")?;
    front.prints("shoal nodes | wc -l", "3")?;
    let user = "setpriv --reuid 1234 --regid 1234 --clear-groups";
    front.fails(&format!("{user} shoal nodes --forget 0"), "forget a node: that is for root")?;
    two.prints("shoal nodes --forget 0", "")?;
    front.prints(NODES, "n1 up 10.78.0.12")?;
    // The number is free for a new machine, and the one that had it gets another one.
    node(three, front, 2)?;
    node(one, front, 3)?;
    front.prints(NODES, "n0 up 10.78.0.13 n1 up 10.78.0.12 n2 up 10.78.0.11")?;
    Ok(End::Passed)
}

/// The ports at which a machine listens, for others than itself; all that are seen until `/run/over` is there.
const LISTENS: &str = "while :; do test -e /run/over; over=$?; awk '$4 == \"0A\" && $2 !~ /0100007F:/ {sub(/.*:/, \"\", $2); print $2}' /proc/net/tcp /proc/net/tcp6; test $over = 0 && break; done | sort -u | while read -r port; do echo $((0x$port)); done | xargs";

/// A node that runs programs for the front end and for another node, and processes that move to a node and to the front end.
fn channels_keep_to_their_ports(place: &Place) -> Res<End> {
    let machines = cluster(place, ["front", "one", "two"], "channel_ports = \"7100-7101\"")?;
    let [front, one, two] = &machines;
    node(one, front, 1)?;
    node(two, front, 2)?;
    let looks = std::thread::scope(|scope| {
        let looks: Vec<_> = machines.iter().map(|machine| scope.spawn(|| machine.sh(LISTENS))).collect();
        let used = use_channels(front);
        let over = machines.iter().try_for_each(|machine| machine.prints("touch /run/over", ""));
        let looks = looks.into_iter().map(|look| look.join().map_err(|_| "a look has panicked".to_string()));
        let looks = looks.map(|look| Ok(look??.1)).collect::<Res<Vec<String>>>();
        used.and(over).and(looks)
    })?;
    let allowed = ["7706", "7100", "7101"];
    for (machine, look) in ["front", "one", "two"].iter().zip(&looks) {
        let strange: Vec<&str> = look.split(' ').filter(|port| !allowed.contains(port)).collect();
        holds(&format!("{machine} listens at {look}: {strange:?} is none of its ports"), strange.is_empty())?;
    }
    holds("the nodes take channels", looks[1].contains("7100") && looks[2].contains("7100"))?;

    // Where all are used, that is said.
    end(two)?;
    two.prints("sed -i 's/7100-7101/7100/' /etc/shoal/shoal.toml", "")?;
    front.until("shoal nodes | grep -w n1 | grep -qw down")?;
    node(two, front, 2)?;
    let moves = "shoal run -n 0 sleep 1203 & until shoal ps | grep -q 'sleep 1203'; do sleep 0.05; done; \
                 shoal move $! 1; status=$?; kill $!; exit $status";
    front.fails(moves, "take a channel at a port of channel_ports (7100): Address already in use")?;
    two.fails("shoal node --channel-ports 7-6; exit $(($? == 2))", "as 7100 or 7100-7199")?;
    two.prints("sed -i 's/\"7100\"/\"x\"/' /etc/shoal/shoal.toml", "")?;
    two.fails("shoal node", "channel_ports in the configuration file: \"x\" is no port")?;
    Ok(End::Passed)
}

fn use_channels(front: &Machine) -> Res {
    front.prints("echo abc | shoal run -n 0 shoal run -n 1 tr a-z A-Z", "ABC")?;
    let moves = "shoal run -n 0 sleep 1202 & until shoal ps | grep -q 'sleep 1202'; do sleep 0.05; done; \
                 for to in 1 0 front 1 front; do shoal move $! $to && shoal where $! || exit 1; done | xargs; kill $!";
    front.prints(moves, "n1 n0 front n1 front")
}

/// How often a machine has dialled (tcp(7), /proc/net/snmp).
fn dialled(machine: &Machine) -> Res<u32> {
    let (_, text, _) = machine.sh("awk '/^Tcp:/ {opens = $6} END {print opens}' /proc/net/snmp")?;
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

/// A node with another key, and one with the right key, whose front end restarts.
fn a_wrong_key_is_counted(place: &Place) -> Res<End> {
    let machines = cluster(place, ["front", "one", "two"], "")?;
    let [front, one, two] = &machines;
    one.prints("rm /etc/shoal/key; shoal key", "")?;
    let before = dialled(one)?;
    one.daemon("node")?;
    node(two, front, 1)?;
    one.until("grep -q 'refuses this node, most likely because its key is another' /run/node.log")?;
    one.prints("sleep 4", "")?;
    let attempts = dialled(one)? - before;
    holds(&format!("it dials ever less: {attempts} times in 4 s"), (3..=8).contains(&attempts))?;
    front.prints("grep -c 'refused: handshake: the peer has another key' /run/front.log", "1")?;
    for _ in 0..3 {
        front.prints("pkill -KILL -o -x shoal; sleep 0.2", "")?;
        front.daemon("front")?;
        front.until("test $(shoal nodes 2>/dev/null | grep -cw up) = 1")?;
    }
    two.prints("grep -c 'key is another' /run/node.log || true", "0")?;
    end(one)?;
    one.write("/etc/shoal/key", &front.read("/etc/shoal/key")?, 0o600)?;
    node(one, front, 2)?;
    Ok(End::Passed)
}
